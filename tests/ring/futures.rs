//! The host's ends of rings as futures, and the ways to wait.

use std::env;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::completion::block_on;
use ferrowarp::ring::{ToDevice, ToHost};
use ferrowarp::{
    Backend, Bridge, Gpu, GpuError, GpuResult, Grid1, PersistentKernel, Receiver, Ring, Sender,
    WaitStrategy,
};
use kernels_gpu::persistent::ring::{SAXPY_LEN, SaxpyRequest};
use kernels_gpu::persistent::{ring_echo, ring_saxpy};

use super::support::{bridges, gpu, overrun};

pub type Word = [u32; 1];

fn start(
    gpu: &Gpu,
    requests: &Ring<Word, ToDevice>,
    replies: &Ring<Word, ToHost>,
) -> GpuResult<PersistentKernel> {
    PersistentKernel::start(gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), requests, replies)
    })
}

fn echo(
    gpu: &Gpu,
    slots: [usize; 2],
) -> GpuResult<(Sender<Word>, Receiver<Word>, PersistentKernel)> {
    let (sender, requests) = Ring::to_device(gpu, slots[0], Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(gpu, slots[1])?;
    let kernel = start(gpu, &requests, &replies)?;
    Ok((sender, receiver, kernel))
}

/// Both outputs, when both futures are ready.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |task| {
        if of_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(task)
        {
            of_a = Some(output);
        }
        if of_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(task)
        {
            of_b = Some(output);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (of_a, of_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Whether the future is not ready; the wake-up goes to no task.
pub fn is_pending(future: Pin<&mut (impl Future + ?Sized)>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn messages_go_there_and_back_as_futures() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let wrap = u64::from(u32::MAX) - 20;
    for (bridge, _) in bridges(&gpu) {
        for (slots, first) in [([1, 1], 0), ([2, 1], wrap), ([1, 64], 5), ([64, 64], wrap)] {
            let (sender, requests) = Ring::to_device_from(&gpu, slots[0], bridge, first)?;
            let (replies, receiver) = Ring::to_host_from(&gpu, slots[1], first)?;
            let kernel = start(&gpu, &requests, &replies)?;
            let sending = async {
                for i in 0..100 {
                    sender.send_async([i]).await?;
                }
                GpuResult::Ok(())
            };
            let receiving = async {
                for i in 0..100 {
                    assert_eq!(receiver.recv_async().await?, Some([i]), "{bridge:?}, {slots:?}");
                }
                GpuResult::Ok(())
            };
            let (sent, received) = block_on(both(sending, receiving));
            sent.and(received)?;
            kernel.shut_down()?;
            assert_eq!(block_on(receiver.recv_async())?, None);
        }
    }
    Ok(())
}

/// Threads of this process, where the system says it.
fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn hundreds_of_futures_wait_on_one_thread() -> GpuResult<()> {
    const FUTURES: u32 = 300;
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    let receiver = Arc::new(receiver);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    let before = threads();
    let mut found = runtime.block_on(async {
        let receive = || {
            let receiver = receiver.clone();
            tokio::spawn(async move { receiver.recv_async().await.unwrap().expect("a message") })
        };
        let receiving: Vec<_> = (0..FUTURES).map(|_| receive()).collect();
        tokio::task::yield_now().await;
        // Other tests start and end threads meanwhile, but not hundreds.
        assert!(threads() < before + 100, "a thread for each future");
        for i in 0..FUTURES {
            let sender = sender.clone();
            tokio::spawn(async move { sender.send_async([i]).await.unwrap() });
        }
        let mut found = Vec::new();
        for receiving in receiving {
            found.push(receiving.await.expect("no panic")[0]);
        }
        found
    });
    found.sort_unstable();
    assert!(found.into_iter().eq(0..FUTURES), "lost or doubled");
    kernel.shut_down()
}

#[test]
fn a_dropped_receiving_future_loses_no_message() -> GpuResult<()> {
    const FUTURES: u32 = 60;
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [64, 64])?;
    for round in 0..3 {
        let mut waiting: Vec<_> = (0..FUTURES).map(|_| Box::pin(receiver.recv_async())).collect();
        assert!(waiting.iter_mut().all(|future| is_pending(future.as_mut())));
        for i in 0..FUTURES {
            sender.send(&[i])?;
        }
        // Some are dropped before they are woken, some after it, and none of these is polled again.
        if round > 0 {
            thread::sleep(Duration::from_millis(5 * round));
        }
        let mut dropped = 0;
        waiting.retain(|_| {
            dropped += 1;
            dropped % 3 == 0
        });
        let mut found = Vec::new();
        for future in waiting {
            found.push(block_on(future)?.expect("a message")[0]);
        }
        while found.len() < FUTURES as usize {
            found.push(block_on(receiver.recv_async())?.expect("a message")[0]);
        }
        found.sort_unstable();
        assert!(found.into_iter().eq(0..FUTURES), "lost or doubled");
    }
    assert_eq!(receiver.try_recv(), None);
    kernel.shut_down()
}

/// Futures that are woken and do not take the message do not keep it from those that wait after them.
#[test]
fn a_message_that_a_woken_future_leaves_wakes_the_next_one() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    let mut idle: Vec<_> = (0..20).map(|_| Box::pin(receiver.recv_async())).collect();
    assert!(idle.iter_mut().all(|future| is_pending(future.as_mut())));
    let sending = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            thread::sleep(Duration::from_millis(10));
            sender.send(&[3])
        });
        assert_eq!(block_on(receiver.recv_async())?, Some([3]));
        Ok::<_, GpuError>(sending.join().expect("no panic"))
    });
    sending??;
    drop(idle);
    kernel.shut_down()
}

#[test]
fn a_sending_future_waits_for_room_and_has_sent_nothing_before() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for bridge in [Bridge::Mapped, Bridge::Copied] {
        let (sender, requests) = Ring::to_device(&gpu, 2, bridge)?;
        let (replies, receiver) = Ring::to_host(&gpu, 8)?;
        block_on(async {
            sender.send_async([0]).await?;
            sender.send_async([1]).await
        })?;
        // No kernel takes anything out yet.
        let mut dropped = Box::pin(sender.send_async([100]));
        let mut kept = Box::pin(sender.send_async([2]));
        for _ in 0..3 {
            assert!(is_pending(dropped.as_mut()) && is_pending(kept.as_mut()), "{bridge:?}");
        }
        drop((dropped, sender.send_async([101])));
        let kernel = start(&gpu, &requests, &replies)?;
        block_on(kept)?;
        for i in 0..3 {
            assert_eq!(receiver.recv()?, Some([i]), "{bridge:?}");
        }
        assert_eq!((sender.telemetry()?.sent, sender.telemetry()?.full_waits), (3, 2));
        kernel.shut_down()?;
        assert_eq!(receiver.recv()?, None);
    }
    Ok(())
}

#[test]
fn a_flush_is_ready_when_the_messages_are_on_the_device() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, _) in bridges(&gpu) {
        let (sender, requests) = Ring::to_device(&gpu, 64, bridge)?;
        let (replies, receiver) = Ring::to_host(&gpu, 64)?;
        // Before the first message, too.
        block_on(sender.flush_to_device())?;
        let kernel = start(&gpu, &requests, &replies)?;
        let (mut sent, mut waits) = (0, false);
        while sent < 40 || (!waits && sent < 60) {
            sender.send(&[sent])?;
            sent += 1;
            if sent < 40 {
                continue;
            }
            let mut flushed = pin!(sender.flush_to_device());
            // An emulated copy takes a millisecond: if this thread is late, the next one waits.
            waits = is_pending(flushed.as_mut());
            if waits {
                block_on(flushed)?;
            }
        }
        assert!(waits == (bridge == Bridge::Copied) || gpu.backend() != Backend::Emulator);
        for i in 0..sent {
            assert_eq!(receiver.recv()?, Some([i]), "{bridge:?}");
        }
        kernel.shut_down()?;
    }
    Ok(())
}

#[test]
fn the_end_of_a_kernel_wakes_the_futures() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    // By its shutdown.
    let (sender, receiver, mut kernel) = echo(&gpu, [1, 1])?;
    kernel.set_shutdown_timeout(Duration::from_millis(100));
    let (sent, left) = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            block_on(async {
                loop {
                    if let Err(error) = sender.send_async([5]).await {
                        return error;
                    }
                }
            })
        });
        thread::sleep(Duration::from_millis(20));
        let ended = kernel.shut_down();
        (sending.join().expect("no panic"), ended)
    });
    left?;
    assert!(matches!(sent, GpuError::RingClosed { .. }), "{sent}");
    while let Some(answer) = block_on(receiver.recv_async())? {
        assert_eq!(answer, [5]);
    }
    // By its last sender, and in the midst of a wait.
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(receiver.recv_async()));
        thread::sleep(Duration::from_millis(20));
        drop(sender);
        assert_eq!(waiting.join().expect("no panic")?, None);
        GpuResult::Ok(())
    })?;
    kernel.shut_down()
}

#[test]
fn a_panic_wakes_the_futures() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, requests) = Ring::to_device(&gpu, 2, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 2)?;
    let kernel = PersistentKernel::start(&gpu, |launcher| {
        ring_saxpy::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    let wrong =
        |id| SaxpyRequest { id, alpha: 1.0, reserved: 1, x: [0.0; SAXPY_LEN], y: [0.0; SAXPY_LEN] };
    let sending = async {
        for id in 0.. {
            if let Err(error) = sender.send_async(wrong(id)).await {
                return error;
            }
        }
        unreachable!("the ring fills up");
    };
    let receiving = async { receiver.recv_async().await.expect_err("a panic") };
    let (sent, received) = block_on(both(sending, receiving));
    for error in [sent, received] {
        let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
        assert!(panic.message.contains("reserved word is zero"), "{panic}");
    }
    assert!(kernel.shut_down().unwrap_err().panic().is_some());
    Ok(())
}

#[test]
fn a_fault_wakes_the_futures() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "futures::fault_beside_futures"])
        .env("FERROWARP_DEVICE", "emulator")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("lost: the device is lost after a fault").count(), 2, "{text}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fault_beside_futures() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(receiver.recv_async()).unwrap_err());
        thread::sleep(Duration::from_millis(20));
        overrun(&gpu);
        println!("lost: {}", waiting.join().expect("no panic"));
    });
    let sending = async {
        loop {
            if let Err(error) = sender.send_async([1]).await {
                return error;
            }
        }
    };
    println!("lost: {}", block_on(sending));
    drop(kernel);
    Ok(())
}

/// A way to receive.
type Receive<'a> = &'a (dyn Fn() -> GpuResult<Option<Word>> + Sync);

#[test]
fn the_host_looks_at_the_interval_that_it_was_given() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    for interval in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(2)] {
        let strategy = WaitStrategy::Polled { interval };
        sender.set_wait_strategy(strategy);
        receiver.set_wait_strategy(strategy);
        for i in 0..10 {
            sender.send(&[i])?;
            assert_eq!(receiver.recv()?, Some([i]));
            let exchange = async {
                sender.send_async([i + 100]).await?;
                receiver.recv_async().await
            };
            assert_eq!(block_on(exchange)?, Some([i + 100]));
        }
    }
    // A message that comes early is seen at the next look, and not sooner.
    let interval = Duration::from_millis(150);
    receiver.set_wait_strategy(WaitStrategy::Polled { interval });
    let late = |receive: Receive<'_>| {
        thread::scope(|scope| {
            let begin = Instant::now();
            let receiving = scope.spawn(move || receive().map(|word| (word, begin.elapsed())));
            thread::sleep(Duration::from_millis(30));
            sender.send(&[7])?;
            receiving.join().expect("no panic")
        })
    };
    let ways: [Receive<'_>; 2] = [&|| receiver.recv(), &|| block_on(receiver.recv_async())];
    for receive in ways {
        let (word, time) = late(receive)?;
        assert!(word == Some([7]) && time >= Duration::from_millis(100), "{word:?} after {time:?}");
    }
    // A limit ends a wait within an interval.
    receiver.set_wait_strategy(WaitStrategy::Polled { interval: Duration::from_secs(3600) });
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5))?, None);
    kernel.shut_down()
}

#[test]
fn dropping_everything_with_futures_that_wait_ends_the_kernel() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for order in 0..3 {
        let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
        let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(receiver.recv_async())).collect();
        assert!(waiting.iter_mut().all(|future| is_pending(future.as_mut())));
        let kernel = match order {
            0 => Some(kernel),
            _ => kernel.shut_down().map(|()| None)?,
        };
        if order == 2 {
            for future in waiting.drain(..) {
                assert_eq!(block_on(future)?, None);
            }
        }
        drop(waiting);
        drop((receiver, sender, kernel));
        gpu.synchronize()?;
        // The polling thread holds no ring.
        assert_eq!(gpu.deferred_frees().pending, 0);
    }
    Ok(())
}
