//! Persistent kernels that answer messages, and one that panics.

use std::thread;

use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ring::{Bridge, PersistentKernel, Receiver, Ring, Sender, ToDevice};
use ferrowarp::{Gpu, Grid1, ops};
use kernels_gpu::persistent::ring::{SAXPY_LEN, SaxpyReply, SaxpyRequest};
use kernels_gpu::persistent::{ring_echo, ring_saxpy};

use super::super::counts::Flow;
use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;
use super::faults::expect;

const SLOTS: usize = 64;
const MESSAGES: usize = 500;

type Word = [u32; 1];

pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    if random.once_in(4) { panicking(site) } else { echoed(site, random) }
}

/// All messages come back in order, while other kernels run beside; a kernel that has ended takes no more.
fn echoed(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let count = random.len(MESSAGES);
    let messages: Vec<Word> = random.words(count).into_iter().map(|word| [word]).collect();
    let n = random.len(1000);
    let x = random.wholes(n);
    let on_x = DeviceBuffer::from_slice_in(&site.memory, &site.gpu, &x)?;
    let mut sum = DeviceBuffer::zeroed_in(&site.memory, &site.gpu, n)?;
    // The kernel is loaded before the persistent one starts.
    ops::vecadd(&site.gpu, &on_x, &on_x, &mut sum)?;
    sum.clear()?;
    let (sender, to_device) = to_device(&site.gpu, random)?;
    let (to_host, receiver) = Ring::to_host(&site.gpu, SLOTS)?;
    let kernel = PersistentKernel::start(&site.gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &to_device, &to_host)
    })?;
    site.counts.begin(Flow::Messages, count);
    ops::vecadd(&site.gpu, &on_x, &on_x, &mut sum)?;
    let replies = exchange(&sender, &receiver, &messages)?;
    site.counts.end(Flow::Messages, replies.len());
    let found = sum.to_vec()?;
    kernel.shut_down()?;
    site.counts.same("messages", &replies, &messages)?;
    site.counts.same(
        "a sum beside a persistent kernel",
        &found,
        &reference::vecadd::vecadd(&x, &x),
    )?;
    site.counts.begin(Flow::Faults, 1);
    let closed = |error: &GpuError| matches!(error, GpuError::RingClosed { .. });
    expect(site, "a message to a kernel that has ended", sender.send(&[0]), closed)
}

fn to_device(gpu: &Gpu, random: &mut Random) -> GpuResult<(Sender<Word>, Ring<Word, ToDevice>)> {
    let bridge = [Bridge::Mapped, Bridge::Copied, Bridge::Unified][random.below(3)];
    match Ring::to_device(gpu, SLOTS, bridge) {
        Err(error) if matches!(error.root(), GpuError::Unsupported { .. }) => {
            Ring::to_device(gpu, SLOTS, Bridge::Mapped)
        }
        made => made,
    }
}

/// Sends on another thread, and receives as many on this one.
fn exchange(
    sender: &Sender<Word>,
    receiver: &Receiver<Word>,
    messages: &[Word],
) -> GpuResult<Vec<Word>> {
    thread::scope(|scope| {
        let sending = scope.spawn(|| sender.send_all(messages));
        let mut replies = Vec::with_capacity(messages.len());
        while replies.len() < messages.len()
            && let Some(reply) = receiver.recv()?
        {
            replies.push(reply);
        }
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(|()| replies)
    })
}

/// A panic in a kernel reaches the thread that waits for its answer, and the device goes on.
fn panicking(site: &Site) -> Result<(), SoakError> {
    let (sender, to_device) = Ring::to_device(&site.gpu, SLOTS, Bridge::Mapped)?;
    let (to_host, receiver) = Ring::<SaxpyReply, _>::to_host(&site.gpu, SLOTS)?;
    let kernel = PersistentKernel::start(&site.gpu, |launcher| {
        ring_saxpy::launch(launcher, Grid1::new(1), &to_device, &to_host)
    })?;
    site.counts.begin(Flow::Faults, 1);
    let (x, y) = ([1.0; SAXPY_LEN], [2.0; SAXPY_LEN]);
    sender.send(&SaxpyRequest { id: 7, alpha: 1.0, reserved: 1, x, y })?;
    let answer = receiver.recv().map(drop);
    let ended = kernel.shut_down();
    let panicked = |error: &GpuError| {
        let panic = error.panic();
        panic.is_some_and(|panic| panic.message.contains("reserved word"))
    };
    expect(site, "a panic in a kernel", answer.and(ended), panicked)
}
