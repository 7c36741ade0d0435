//! Demos of memory that host and kernels use at once.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use cuda_std::launch::LaunchConfig;
use kernels_gpu::persistent::messages::{Divide, Quotient};
use kernels_gpu::persistent::ring::{SAXPY_LEN, SaxpyReply, SaxpyRequest, saxpy_reply};
use kernels_gpu::persistent::{answer_words, ring_messages, ring_saxpy, route_add, route_parity};

use super::arrays::floats;
use super::{Check, Outcome, Scale, timed};
use ferrowarp::completion::block_on;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::{MappedAtomics, MappedBuffer};
use ferrowarp::ring::{Bridge, Caller, PersistentKernel, Receiver, Ring, Router, Sender};
use ferrowarp::{Gpu, Grid1, ops};

/// A kernel updates arrays in the host's memory; then it answers words that the host writes while it
/// runs.
pub(super) fn zero_copy(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, y) = (floats(n, 11), floats(n, 12));
    let (on_x, mut on_y) = (MappedBuffer::from_slice(gpu, &x)?, MappedBuffer::from_slice(gpu, &y)?);
    ops::saxpy(gpu, 0.25, &on_x, &mut on_y)?;
    let expected = reference::saxpy::saxpy(0.25, &x, &y);
    let pairs = on_y.as_slice()?.iter().zip(&expected).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    // One rounding of at most 1.25, and the reference's own.
    let check = Check::within(3.0 / f64::from(1 << 24), pairs).provided(words_are_answered(gpu)?);
    let time = timed(gpu, || ops::saxpy(gpu, 0.25, &on_x, &mut on_y))?;
    Ok(Outcome { size: format!("{n} elements"), time, bytes: 12 * n, check, picture: None })
}

/// Whether each of some words comes back squared.
fn words_are_answered(gpu: &Gpu) -> GpuResult<bool> {
    const ROUNDS: u32 = 8;
    const PATIENCE: Duration = Duration::from_secs(5);
    let questions = MappedAtomics::<u32>::zeroed(gpu, 1)?;
    let answers = MappedAtomics::<u32>::zeroed(gpu, 1)?;
    answer_words::launch(gpu, LaunchConfig::for_num_elems(1), ROUNDS, &questions, &answers)?;
    let mut answered = true;
    for asked in 1..=ROUNDS {
        questions[0].store(asked, Release);
        let begin = Instant::now();
        while answers[0].load(Acquire) != asked * asked && begin.elapsed() < PATIENCE {
            thread::yield_now();
        }
        answered &= answers[0].load(Acquire) == asked * asked;
    }
    Ok(answered)
}

/// A kernel that stays on the device answers messages: each a small vector update.
pub(super) fn ring(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    const SLOTS: usize = 1024;
    let count = (n / 64).max(1);
    let values = floats(count + SAXPY_LEN, 13);
    let requests: Vec<_> = (0..count).map(|id| request(id, &values)).collect();
    let (sender, to_device) = Ring::to_device(gpu, SLOTS, Bridge::Mapped)?;
    let (to_host, receiver) = Ring::to_host(gpu, SLOTS)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_saxpy::launch(launcher, Grid1::new(1), &to_device, &to_host)
    })?;
    let begin = Instant::now();
    let mut replies = exchange(&sender, &receiver, &requests)?;
    let time = begin.elapsed();
    kernel.shut_down()?;
    // Of several warps, each answers what it took.
    replies.sort_by_key(|reply| reply.id);
    let expected: Vec<_> = requests.iter().map(saxpy_reply).collect();
    let check =
        Check::within(3.0 / f64::from(1 << 24), differences(&replies, &expected).into_iter());
    let bytes = count * (size_of::<SaxpyRequest>() + size_of::<SaxpyReply>());
    Ok(Outcome { size: format!("{count} messages"), time, bytes, check, picture: None })
}

fn request(id: usize, values: &[f32]) -> SaxpyRequest {
    let part = |from: usize| std::array::from_fn(|i| values[from + i]);
    let (alpha, y) = (values[id], [values[id]; SAXPY_LEN]);
    SaxpyRequest { id: id as u64, alpha, reserved: 0, x: part(id), y }
}

/// Sends all requests while another thread takes the answers.
fn exchange(
    sender: &Sender<SaxpyRequest>,
    receiver: &Receiver<SaxpyReply>,
    requests: &[SaxpyRequest],
) -> GpuResult<Vec<SaxpyReply>> {
    thread::scope(|scope| {
        let sending = scope.spawn(|| sender.send_all(requests));
        let mut replies = Vec::with_capacity(requests.len());
        while replies.len() < requests.len()
            && let Some(reply) = receiver.recv()?
        {
            replies.push(reply);
        }
        sending.join().expect("sending does not panic").map(|()| replies)
    })
}

/// Futures on one thread call a kernel, each for the quotient and the remainder of two numbers.
pub(super) fn calls(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    const SLOTS: usize = 64;
    let count = (n / 1024).max(1) as u32;
    let (sender, requests) = Ring::to_device(gpu, SLOTS, Bridge::Mapped)?;
    let (answers, receiver) = Ring::to_host(gpu, SLOTS)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_messages::launch(launcher, Grid1::new(1), &requests, &answers)
    })?;
    let caller = Caller::new(sender, receiver);
    let request = |i: u32| Divide { dividend: i.wrapping_mul(0x9e37_79b9), divisor: i % 97 + 1 };
    let begin = Instant::now();
    let calls: Vec<_> = (0..count).map(|i| caller.call(&request(i))).collect();
    let found = block_on(async {
        let mut found = Vec::with_capacity(calls.len());
        for call in calls {
            found.push(call.await?);
        }
        GpuResult::Ok(found)
    })?;
    let time = begin.elapsed();
    kernel.shut_down()?;
    let expected: Vec<_> = (0..count).map(request).map(quotient).collect();
    let bytes = count as usize * (size_of::<Divide>() + size_of::<Quotient>());
    let check = Check::exact(&found, &expected);
    Ok(Outcome { size: format!("{count} calls"), time, bytes, check, picture: None })
}

fn quotient(Divide { dividend, divisor }: Divide) -> Quotient {
    Quotient { quotient: dividend / divisor, remainder: dividend % divisor }
}

const ROUTED: [&str; 3] = ["parity", "even", "odd"];

/// Numbers go through three kernels: by their parity to one of two, which add to them.
pub(super) fn router(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    const SLOTS: usize = 256;
    let count = (n / 256).max(1) as u32;
    // None can be loaded beside a persistent kernel, so each one starts alone first, and ends.
    for start in [parity as StartKernel, odd] {
        let (mut router, _) = Router::new(gpu, &ROUTED, 1, Bridge::Mapped)?;
        start(&mut router)?;
        router.shut_down()?;
    }
    let (mut router, receiver) = Router::new(gpu, &ROUTED, SLOTS, Bridge::Mapped)?;
    [parity as StartKernel, even, odd].iter().try_for_each(|start| start(&mut router))?;
    let begin = Instant::now();
    let mut found = thread::scope(|scope| {
        let receiving = scope.spawn(|| -> GpuResult<Vec<u32>> {
            std::iter::from_fn(|| receiver.recv().transpose()).collect()
        });
        (0..count).try_for_each(|number| router.send("parity", &number))?;
        // The kernels send on what they have before they end.
        router.shut_down()?;
        receiving.join().expect("receiving does not panic")
    })?;
    let time = begin.elapsed();
    // Those of one parity overtake the others.
    found.sort_unstable();
    let mut expected: Vec<_> = (0..count).map(|i| i + [EVEN, ODD][i as usize % 2]).collect();
    expected.sort_unstable();
    let check = Check::exact(&found, &expected);
    let bytes = 8 * count as usize;
    Ok(Outcome { size: format!("{count} messages"), time, bytes, check, picture: None })
}

const EVEN: u32 = 1 << 20;
const ODD: u32 = 1 << 21;

/// Starts a kernel of the router.
type StartKernel = fn(&mut Router<u32>) -> GpuResult<()>;

fn parity(router: &mut Router<u32>) -> GpuResult<()> {
    router.start("parity", |launcher, mail| {
        let (even, odd) = (mail.to("even")?, mail.to("odd")?);
        route_parity::launch(launcher, Grid1::new(1), mail.from_host(), even, odd)
    })
}

fn even(router: &mut Router<u32>) -> GpuResult<()> {
    adder(router, "even", EVEN)
}

fn odd(router: &mut Router<u32>) -> GpuResult<()> {
    adder(router, "odd", ODD)
}

fn adder(router: &mut Router<u32>, name: &str, addend: u32) -> GpuResult<()> {
    router.start(name, |launcher, mail| {
        route_add::launch(launcher, Grid1::new(1), addend, mail.inbox(), mail.to_host())
    })
}

/// The numbers of both, side by side; where a reply is missing or is another one's, an infinite
/// difference.
fn differences(found: &[SaxpyReply], expected: &[SaxpyReply]) -> Vec<(f64, f64)> {
    let same = found.iter().map(|own| own.id).eq(expected.iter().map(|own| own.id));
    if !same {
        return vec![(f64::INFINITY, 0.0)];
    }
    let numbers = |own: &SaxpyReply| own.y.map(f64::from);
    let pairs = found.iter().zip(expected);
    pairs.flat_map(|(a, b)| numbers(a).into_iter().zip(numbers(b))).collect()
}
