//! What these tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bytemuck::Pod;
use cuda_std::launch::{DeviceWrite, LaunchConfig, RawSlice};
use ferrowarp::{Backend, Bridge, DeviceBuffer, Gpu, GpuError, GpuResult, Receiver, Sender};
use kernels_gpu::elementwise::vecadd;

static TURN: Mutex<()> = Mutex::new(());
/// The device whose kernels are loaded: once, since the emulator reads all their PTX for it, which takes seconds.
static LOADED: Mutex<Option<Gpu>> = Mutex::new(None);

/// The device whose kernels are loaded, and the turn, which lasts as long as the guard.
pub fn gpu() -> (Gpu, MutexGuard<'static, ()>) {
    let (mut loaded, turn) = turn();
    let gpu = loaded.get_or_insert_with(|| {
        let gpu = open();
        gpu.load_kernels().unwrap();
        gpu
    });
    (gpu.clone(), turn)
}

/// A device without its kernels, which a GPU's driver takes half a minute to compile for the first time: for
/// a test that launches nothing beside a kernel that stays.
pub fn bare_gpu() -> (Gpu, MutexGuard<'static, ()>) {
    let (loaded, turn) = turn();
    drop(loaded);
    (open(), turn)
}

/// The turn, and the device whose kernels are loaded, unless an earlier test has left a fault there.
fn turn() -> (MutexGuard<'static, Option<Gpu>>, MutexGuard<'static, ()>) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.take_if(|gpu| gpu.synchronize().is_err());
    (loaded, turn)
}

fn open() -> Gpu {
    Gpu::new().unwrap_or_else(|error| panic!("no device to test on: {error}"))
}

/// How many messages a long test sends: an emulated warp takes its time.
pub fn many(gpu: &Gpu) -> u32 {
    match std::env::var("FERROWARP_RING_MESSAGES") {
        Ok(text) => text.parse().expect("FERROWARP_RING_MESSAGES is not a number"),
        Err(_) if gpu.backend() == Backend::Emulator => 10_000,
        Err(_) => 1_000_000,
    }
}

/// The bridges that the device has, and how many messages are many for each: on the emulator each copy
/// from pinned memory takes a millisecond, to see whether the host spoils it.
pub fn bridges(gpu: &Gpu) -> Vec<(Bridge, u32)> {
    let many = many(gpu);
    let few = if gpu.backend() == Backend::Emulator { many.min(200) } else { many };
    let mut bridges = vec![(Bridge::Mapped, many), (Bridge::Copied, few)];
    if gpu.info().concurrent_managed_access {
        bridges.push((Bridge::Unified, many));
    }
    bridges
}

/// Sends `message(0)`, `message(1)`, …, in runs of changing length, while another thread receives as
/// many. Returns what came back.
pub fn exchange<T: Pod + Send, U: Pod + Send>(
    sender: &Sender<T>,
    receiver: &Receiver<U>,
    count: u32,
    message: impl Fn(u32) -> T + Sync,
) -> GpuResult<Vec<U>> {
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while sent < count {
                let run = (sent % 97 + 1).min(count - sent);
                let messages: Vec<T> = (sent..sent + run).map(&message).collect();
                sender.send_all(&messages)?;
                sent += run;
            }
            Ok(())
        });
        let mut received = Vec::with_capacity(count as usize);
        while received.len() < count as usize {
            received.push(receiver.recv()?.expect("the kernel ended too early"));
        }
        sending.join().expect("no panic").map(|()| received)
    })
}

/// One element more than there is: further ones may be in the memory of the ring, and would close it.
const OVERSTATED: usize = 65;

/// A buffer that says it is longer than it is.
struct Overstated<'a>(&'a mut DeviceBuffer<f32>);

// SAFETY: deliberately false, on the emulator, which catches what comes of it.
unsafe impl DeviceWrite<f32> for Overstated<'_> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        RawSlice { len: OVERSTATED, ..self.0.raw_mut() }
    }

    fn len(&self) -> usize {
        OVERSTATED
    }
}

/// Ends the device by a kernel that writes past its memory, beside what runs. On the emulator.
pub fn overrun(gpu: &Gpu) {
    let x = DeviceBuffer::from_slice(gpu, &[1.0; OVERSTATED]).unwrap();
    let mut short = DeviceBuffer::zeroed(gpu, OVERSTATED - 1).unwrap();
    let other = gpu.create_stream().unwrap();
    let config = LaunchConfig::for_num_elems(OVERSTATED);
    let launched = vecadd::launch(&other, config, &x, &x, &mut Overstated(&mut short));
    // The kernel may have ended the device before the launch has returned.
    let is_lost = |error: &GpuError| matches!(error.root(), GpuError::DeviceLost { .. });
    assert!(launched.as_ref().err().is_none_or(is_lost), "{launched:?}");
    let _ = other.synchronize();
}
