//! Several kinds of message in one ring, and calls: each gets the answer to its own request.

use std::pin::Pin;
use std::thread;

use bytemuck::{Pod, Zeroable};
use ferrowarp::completion::block_on;
use ferrowarp::ring::{Call, Envelope, MessageError, RingMessage, RingRequest, ToDevice, ToHost};
use ferrowarp::{
    Bridge, Caller, Gpu, GpuError, GpuResult, Grid1, PersistentKernel, Receiver, Ring, Sender,
};
use kernels_gpu::persistent::messages::{
    Divide, Dot, MESSAGE_WORDS, Quotient, Scalar, VectorMessage, ring_messages,
};

use super::futures::is_pending;
use super::support::{bridges, gpu};

/// The rings of a kernel that was not started yet.
struct Rings {
    sender: Sender<VectorMessage>,
    requests: Ring<VectorMessage, ToDevice>,
    answers: Ring<VectorMessage, ToHost>,
    receiver: Receiver<VectorMessage>,
}

impl Rings {
    fn new(gpu: &Gpu, slots: [usize; 2], bridge: Bridge) -> GpuResult<Self> {
        let (sender, requests) = Ring::to_device(gpu, slots[0], bridge)?;
        let (answers, receiver) = Ring::to_host(gpu, slots[1])?;
        Ok(Self { sender, requests, answers, receiver })
    }

    /// The caller, and what starts the kernel.
    fn caller(
        self,
        gpu: &Gpu,
    ) -> (Caller<MESSAGE_WORDS>, impl FnOnce() -> GpuResult<PersistentKernel>) {
        let Self { sender, requests, answers, receiver } = self;
        let start = move || start(gpu, &requests, &answers);
        (Caller::new(sender, receiver), start)
    }
}

fn start(
    gpu: &Gpu,
    requests: &Ring<VectorMessage, ToDevice>,
    answers: &Ring<VectorMessage, ToHost>,
) -> GpuResult<PersistentKernel> {
    PersistentKernel::start(gpu, |launcher| {
        ring_messages::launch(launcher, Grid1::new(1), requests, answers)
    })
}

/// A request whose numbers are whole, so that all sums are exact.
fn dot(i: u32) -> (Dot, Scalar) {
    let i = (i % 1000) as f32;
    (Dot { x: [i, 1.0, 2.0, 3.0], y: [2.0, i, 5.0, 7.0] }, Scalar(2.0 * i + i + 10.0 + 21.0))
}

fn divide(i: u32) -> (Divide, Quotient) {
    let (dividend, divisor) = (i.wrapping_mul(2_654_435_761), i % 97 + 1);
    let quotient = Quotient { quotient: dividend / divisor, remainder: dividend % divisor };
    (Divide { dividend, divisor }, quotient)
}

#[test]
fn calls_of_several_kinds_get_their_answers() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, _) in bridges(&gpu) {
        for slots in [[1, 1], [4, 2], [64, 64]] {
            let (caller, start) = Rings::new(&gpu, slots, bridge)?.caller(&gpu);
            let kernel = start()?;
            for i in 0..20 {
                let ((dot, scalar), (divide, quotient)) = (dot(i), divide(i));
                assert_eq!(caller.call(&dot).wait()?, scalar, "{bridge:?}, {slots:?}");
                assert_eq!(block_on(caller.call(&divide))?, quotient, "{bridge:?}, {slots:?}");
            }
            assert_eq!(caller.unclaimed(), 0);
            kernel.shut_down()?;
        }
    }
    Ok(())
}

/// The kernel answers one kind after the other: what is asked last is answered first.
#[test]
fn answers_out_of_order_reach_their_callers() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let rings = Rings::new(&gpu, [64, 64], Bridge::Mapped)?;
    for i in 0..8 {
        rings.sender.send(&Envelope::request(i + 1, &divide(i as u32).0))?;
        rings.sender.send(&Envelope::request(i + 101, &dot(i as u32).0))?;
    }
    let kernel = start(&gpu, &rings.requests, &rings.answers)?;
    let next = || rings.receiver.recv().map(|answer| answer.expect("an answer"));
    let order = (0..16).map(|_| Ok(next()?.correlation())).collect::<GpuResult<Vec<_>>>()?;
    assert!(order.iter().copied().eq((101..109).chain(1..9)), "{order:?}");
    kernel.shut_down()?;

    let (caller, start) = Rings::new(&gpu, [64, 64], Bridge::Mapped)?.caller(&gpu);
    let quotients: Vec<_> = (0..8).map(|i| caller.call(&divide(i).0)).collect();
    let scalars: Vec<_> = (0..8).map(|i| caller.call(&dot(i).0)).collect();
    let kernel = start()?;
    // The first wait takes out the answers to all others.
    for (i, call) in (0..).zip(quotients) {
        assert_eq!(call.wait()?, divide(i).1);
    }
    for (i, call) in (0..).zip(scalars) {
        assert_eq!(block_on(call)?, dot(i).1);
    }
    kernel.shut_down()
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Unknown(u32);

impl RingMessage for Unknown {
    const KIND: u32 = 99;
}

impl RingRequest for Unknown {
    type Answer = Scalar;
}

/// Bears the number of `Dot` and its size, and expects another answer.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Mistaken([f32; 8]);

impl RingMessage for Mistaken {
    const KIND: u32 = Dot::KIND;
}

impl RingRequest for Mistaken {
    type Answer = Quotient;
}

#[test]
fn a_kind_that_the_kernel_does_not_know_is_an_error() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [8, 8], Bridge::Mapped)?.caller(&gpu);
    let kernel = start()?;
    let error = caller.call(&Unknown(1)).wait().unwrap_err();
    assert!(matches!(error, GpuError::Message(MessageError::Refused { kind: 99 })), "{error}");
    assert!(error.to_string().contains("kind 99"), "{error}");
    let error = block_on(caller.call(&Mistaken([0.0; 8]))).unwrap_err();
    let other = MessageError::OtherKind { expected: Quotient::KIND, found: Scalar::KIND };
    assert!(matches!(error, GpuError::Message(error) if error == other), "{error}");
    assert_eq!(caller.call(&dot(3).0).wait()?, dot(3).1, "the kernel answers on");
    kernel.shut_down()
}

#[test]
fn hundreds_of_calls_wait_on_one_thread() -> GpuResult<()> {
    const CALLS: u32 = 300;
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [4, 4], Bridge::Mapped)?.caller(&gpu);
    let kernel = start()?;
    let caller = std::sync::Arc::new(caller);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    runtime.block_on(async {
        let call = |i: u32| {
            let caller = caller.clone();
            tokio::spawn(async move {
                match i % 2 {
                    0 => assert_eq!(caller.call(&dot(i).0).await.unwrap(), dot(i).1),
                    _ => assert_eq!(caller.call(&divide(i).0).await.unwrap(), divide(i).1),
                }
            })
        };
        for call in (0..CALLS).map(call).collect::<Vec<_>>() {
            call.await.expect("the right answer");
        }
    });
    assert_eq!(caller.unclaimed(), 0);
    kernel.shut_down()
}

#[test]
fn calls_of_several_threads_and_futures_do_not_mix() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [8, 8], Bridge::Mapped)?.caller(&gpu);
    let kernel = start()?;
    thread::scope(|scope| {
        for own in 0..4 {
            let caller = &caller;
            scope.spawn(move || {
                for i in own * 1000..own * 1000 + 50 {
                    let (request, answer) = divide(i);
                    let call = caller.call(&request);
                    let found = if own % 2 == 0 { call.wait() } else { block_on(call) };
                    assert_eq!(found.unwrap(), answer);
                }
            });
        }
    });
    kernel.shut_down()
}

/// Calls are dropped before and after they were sent; neither rings nor later calls are disturbed.
#[test]
fn calls_may_be_dropped_at_any_time() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [1, 1], Bridge::Mapped)?.caller(&gpu);
    let mut early: Vec<_> = (0..40).map(|i| Box::pin(caller.call(&dot(i).0))).collect();
    assert!(early.iter_mut().all(|call| is_pending(call.as_mut())));
    let kernel = start()?;
    // With nothing but dropped calls in flight, a new one finds both rings full.
    drop(early);
    assert_eq!(block_on(caller.call(&divide(5).0))?, divide(5).1);
    for round in 0..20 {
        let mut calls: Vec<Pin<Box<Call<'_, Divide, MESSAGE_WORDS>>>> =
            (0..6).map(|i| Box::pin(caller.call(&divide(round * 6 + i).0))).collect();
        let _ = is_pending(calls[1].as_mut());
        drop(calls.remove(2));
        drop(calls.remove(0));
        let last = calls.pop().expect("six calls");
        drop(calls);
        assert_eq!(block_on(last)?, divide(round * 6 + 5).1);
    }
    kernel.shut_down()?;
    // One of the calls of the beginning found a slot.
    assert!((1..=1 + 20 * 5).contains(&caller.unclaimed()), "{}", caller.unclaimed());
    Ok(())
}

#[test]
fn the_end_of_a_kernel_is_the_error_of_its_calls() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [8, 8], Bridge::Mapped)?.caller(&gpu);
    let sent = caller.call(&dot(7).0);
    let kernel = start()?;
    kernel.shut_down()?;
    assert_eq!(sent.wait()?, dot(7).1, "what was sent is answered before the end");
    for error in [caller.call(&dot(1).0).wait(), block_on(caller.call(&dot(1).0))] {
        let error = error.unwrap_err();
        assert!(matches!(error, GpuError::RingClosed { .. }), "{error}");
    }
    Ok(())
}

#[test]
fn a_panic_is_the_error_of_all_calls_that_wait() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (caller, start) = Rings::new(&gpu, [1, 8], Bridge::Mapped)?.caller(&gpu);
    let mut wrong = Box::pin(caller.call(&Divide { dividend: 1, divisor: 0 }));
    let mut behind = Box::pin(caller.call(&dot(1).0));
    assert!(is_pending(wrong.as_mut()) && is_pending(behind.as_mut()));
    let kernel = start()?;
    let waiting = caller.call(&dot(2).0);
    for error in [block_on(wrong).unwrap_err(), waiting.wait().unwrap_err()] {
        let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
        assert!(panic.message.contains("divided by zero"), "{panic}");
        assert_eq!(panic.kernel, "ring_messages");
    }
    assert!(block_on(behind).unwrap_err().panic().is_some());
    assert!(kernel.shut_down().unwrap_err().panic().is_some());
    Ok(())
}
