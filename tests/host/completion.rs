//! Futures: the end of a stream's work, awaited by whatever executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use ferrowarp::completion::block_on;
use ferrowarp::{Backend, Completion, DeviceBuffer, GpuError, GpuResult, Linear, Stream};

use crate::child::{child, end_after, lines};
use crate::gate::{Gate, PATIENCE};
use crate::kernels::{WILD, churn, churned, fill, gpu, launch};

const LEN: usize = 256;
const ROUNDS: u32 = 20_000;

fn is_pending(future: &mut Completion) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn a_stream_is_awaited() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    churn(&stream, &mut words, ROUNDS)?;
    block_on(stream.completed())?;
    assert!(stream.is_idle()?);
    assert_eq!(words.to_vec()?, [churned(3, ROUNDS); LEN]);
    block_on(stream.completed())
}

#[test]
fn a_future_is_pending_until_its_work_is_done_and_wakes_once() -> GpuResult<()> {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let stream = gpu().create_stream()?;
    block_on(stream.completed())?;
    let gate = Gate::on(&stream);
    let mut completed = stream.completed();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let poll = Pin::new(&mut completed).poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending() && count.0.load(Ordering::SeqCst) == 0);
    gate.open();
    // Behind it on the same bell, so what rings for the first has run.
    block_on(stream.record_event()?.completed())?;
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(!is_pending(&mut completed) && !is_pending(&mut completed));
    Ok(())
}

#[test]
fn events_are_awaited_in_any_order() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    churn(&stream, &mut words, ROUNDS)?;
    let early = stream.record_event()?;
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, ROUNDS)?;
    let late = stream.record_event()?;
    // The bell of the stream is taken by the later one, which is not to come yet.
    let mut late = late.completed();
    block_on(early.completed())?;
    assert!(early.is_complete()? && is_pending(&mut late));
    gate.open();
    block_on(late)
}

async fn steps(stream: &Stream, words: &mut DeviceBuffer<u32>) -> GpuResult<u32> {
    for rounds in 1..=4 {
        churn(stream, words, 100 * rounds)?;
        stream.completed().await?;
        stream.record_event()?.completed().await?;
    }
    stream.launch_host_func(|| 1000)?.await
}

type Execute<'a> = &'a dyn Fn(Pin<&mut dyn Future<Output = GpuResult<u32>>>) -> GpuResult<u32>;

/// A bare loop, `pollster`, and `tokio` with tasks on several threads.
#[test]
fn any_executor_will_do() -> GpuResult<()> {
    let run = |execute: Execute| {
        let stream = gpu().create_stream()?;
        let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
        let rounds = execute(pin!(steps(&stream, &mut words)))?;
        assert_eq!(words.to_vec()?, [churned(3, rounds); LEN]);
        GpuResult::Ok(())
    };
    run(&|future| block_on(future))?;
    run(&|future| pollster::block_on(future))?;
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    run(&|future| tokio.block_on(future))?;
    let task = async || {
        let stream = gpu().create_stream()?;
        let mut words = DeviceBuffer::from_slice(&stream, &[5u32; LEN])?;
        let rounds = steps(&stream, &mut words).await?;
        GpuResult::Ok(words.to_vec()? == [churned(5, rounds); LEN])
    };
    tokio.block_on(async {
        let tasks: Vec<_> = (0..8).map(|_| tokio.spawn(task())).collect();
        for task in tasks {
            assert!(task.await.expect("no panic")?);
        }
        Ok(())
    })
}

#[test]
fn ten_thousand_futures_are_pending_at_once() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    // The gate's stream is one that others than the crate know, so that each future has a moment of its own;
    // and a real driver lets the caller wait when some thousand entries are queued.
    let gate = (gpu().backend() == Backend::Emulator).then(|| Gate::on(&stream));
    churn(&stream, &mut words, ROUNDS)?;
    let mut all: Vec<_> = (0..10_000).map(|_| stream.completed()).collect();
    assert!(gate.is_none() || all.iter_mut().all(is_pending));
    // Half of them are not wanted any more.
    let half = all.split_off(5_000);
    drop(half);
    drop(gate);
    block_on(async {
        for future in all {
            future.await?;
        }
        GpuResult::Ok(())
    })?;
    assert_eq!(words.to_vec()?, [churned(3, ROUNDS); LEN]);
    Ok(())
}

/// A stream that stands still, and that nobody but the crate queues anything on.
fn behind_a_gate() -> GpuResult<(Gate, Stream, DeviceBuffer<u32>)> {
    let (closed, stream) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    // A driver may load a kernel's code at its first use, which may wait for the device.
    churn(&stream, &mut words, 1)?;
    block_on(stream.completed())?;
    let gate = Gate::on(&closed);
    stream.wait_event(&closed.record_event()?)?;
    Ok((gate, stream, words))
}

#[test]
fn a_thousand_futures_of_one_moment_wait_behind_a_gate() -> GpuResult<()> {
    let (gate, stream, mut words) = behind_a_gate()?;
    churn(&stream, &mut words, 10)?;
    let mut all: Vec<_> = (0..1000).map(|_| stream.completed()).collect();
    let event = stream.record_event()?;
    all.extend((0..1000).map(|_| event.completed()));
    assert!(all.iter_mut().all(is_pending));
    gate.open();
    all.into_iter().try_for_each(block_on)?;
    assert_eq!(words.to_vec()?, [churned(3, 11); LEN]);
    Ok(())
}

/// More moments than a driver has room for callbacks, and each resolves after its own work.
#[test]
fn futures_of_many_moments_wait_behind_a_gate() -> GpuResult<()> {
    let (gate, stream, mut words) = behind_a_gate()?;
    let mut all = Vec::new();
    for moment in 0..150 {
        churn(&stream, &mut words, 1)?;
        all.push((stream.completed(), stream.record_event()?));
        if moment % 3 == 0 {
            let event = &all[moment / 2].1;
            let again = event.completed();
            all.push((again, stream.record_event()?));
        }
    }
    assert!(all.iter_mut().all(|(future, _)| is_pending(future)));
    gate.open();
    for (future, event) in all {
        block_on(future)?;
        block_on(event.completed())?;
        assert!(event.is_complete()?);
    }
    assert_eq!(words.to_vec()?, [churned(3, 151); LEN]);
    Ok(())
}

/// Behind a closed gate that the driver was given past the crate: the second future waits for it too.
#[test]
fn a_future_waits_for_what_others_queue_by_the_drivers_handle() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    churn(&stream, &mut words, 1)?;
    block_on(stream.completed())?;
    let early = stream.completed();
    let gate = Gate::on(&stream);
    let mut late = stream.completed();
    block_on(early)?;
    assert!(is_pending(&mut late));
    gate.open();
    block_on(late)
}

#[test]
fn a_future_waits_for_what_was_queued_after_the_last_one() -> GpuResult<()> {
    let (closed, stream) = (gpu().create_stream()?, gpu().create_stream()?);
    block_on(stream.completed())?;
    let early = stream.completed();
    let gate = Gate::on(&closed);
    stream.wait_event(&closed.record_event()?)?;
    let mut late = stream.completed();
    block_on(early)?;
    assert!(is_pending(&mut late));
    gate.open();
    block_on(late)
}

#[test]
fn what_is_dropped_while_it_waits_disturbs_nobody() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    let event = stream.record_event()?;
    churn(&stream, &mut words, ROUNDS)?;
    drop((stream.completed(), event.completed(), event, stream));
    assert_eq!(words.to_vec()?, [churned(3, ROUNDS); LEN]);
    Ok(())
}

#[test]
fn branches_begin_after_the_fork_and_end_before_the_join() -> GpuResult<()> {
    let (trunk, count) = (gpu().create_stream()?, Arc::new(AtomicUsize::new(0)));
    let note = |stream: &Stream, expected: std::ops::Range<usize>| {
        let count = count.clone();
        stream.launch_host_func(move || expected.contains(&count.fetch_add(1, Ordering::SeqCst)))
    };
    let mut right = vec![note(&trunk, 0..1)?, note(&trunk, 1..2)?];
    let branches = trunk.fork(3)?;
    for branch in &branches {
        right.push(note(branch, 2..8)?);
        right.push(note(branch, 2..8)?);
    }
    trunk.join(&branches)?;
    right.push(note(&trunk, 8..9)?);
    assert!(right.into_iter().all(|call| call.wait().unwrap()));
    trunk.join(&[])?;
    trunk.join(std::slice::from_ref(&trunk))?;
    assert!(trunk.fork(0)?.is_empty());
    trunk.synchronize()
}

#[test]
fn streams_have_priorities() -> GpuResult<()> {
    let range = gpu().stream_priorities()?;
    assert!(range.contains(&0), "{range:?}");
    for priority in range.clone() {
        let stream = gpu().create_stream_with_priority(priority)?;
        assert_eq!(stream.priority()?, priority);
        assert_eq!(stream.fork(1)?[0].priority()?, priority);
        let mut words = DeviceBuffer::zeroed(&stream, LEN)?;
        fill(&stream, &mut words, 2)?;
        assert_eq!(words.to_vec()?, [2; LEN]);
    }
    let error = gpu().create_stream_with_priority(range.end() + 1).unwrap_err();
    assert!(error.to_string().contains("the priority is 1, and may be"), "{error}");
    assert!(gpu().create_stream_with_priority(range.start() - 1).is_err());
    Ok(())
}

#[test]
fn a_fault_resolves_all_that_waits() {
    let told = lines(&child("completion::fault_with_futures", &[]), "resolved: ");
    assert_eq!(told, ["19 of 19, 700"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fault_with_futures() {
    end_after(PATIENCE * 3);
    let stream = gpu().create_stream().unwrap();
    let other = gpu().create_stream().unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    // Looked up and made before, so that no call comes upon the fault but those of the futures, and none
    // waits for the device: a driver may load a kernel's code at its first use.
    fill(&stream, &mut words, 1).unwrap();
    gpu().occupancy(&WILD, 0).unwrap();
    block_on(stream.completed()).and(block_on(other.completed())).unwrap();
    let gate = Gate::on(&stream);
    launch(&stream, &WILD, Linear::new(3, 1), &mut words, 1).unwrap();
    other.wait_event(&stream.record_event().unwrap()).unwrap();
    let event = stream.record_event().unwrap();
    // Few, for a real driver lets the caller wait where too much stands behind a closed gate.
    let mut futures: Vec<_> = (0..8).map(|_| stream.completed()).collect();
    futures.extend((0..8).map(|_| other.completed()));
    futures.push(event.completed());
    let call = other.launch_host_func(|| panic!("it must not run after a fault")).unwrap();
    gate.open();
    let code = |result: GpuResult<()>| match result.unwrap_err().root() {
        GpuError::DeviceLost { cause } => cause.driver().expect("a driver error").code(),
        other => panic!("{other}"),
    };
    let mut codes: Vec<_> = futures.into_iter().map(|future| code(block_on(future))).collect();
    codes.push(code(call.wait()));
    codes.push(code(block_on(stream.completed())));
    let same = codes.iter().filter(|code| **code == codes[0]).count();
    println!("resolved: {same} of {}, {}", codes.len(), codes[0]);
}

struct Panic;

impl Wake for Panic {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn wakers_that_panic_end_nothing_and_are_errors_of_the_waits_for_their_stream() {
    let output = child("completion::wake_with_panics", &[]);
    assert_eq!(lines(&output, "told: "), ["41 of on purpose"]);
    assert_eq!(lines(&output, "works on: "), ["7 true"]);
}

/// Some are woken by the driver on a bell, some by the thread that watches, one in the stream itself.
#[test]
#[ignore = "run in a process of its own by the test above"]
fn wake_with_panics() {
    end_after(PATIENCE * 3);
    let (gate, stream, mut words) = behind_a_gate().unwrap();
    let mut all: Vec<_> = (1..=40)
        .map(|_| churn(&stream, &mut words, 1).map(|()| stream.completed()).unwrap())
        .collect();
    let mut call = stream.launch_host_func(|| 7).unwrap();
    let waker = Waker::from(Arc::new(Panic));
    let task = &mut Context::from_waker(&waker);
    assert!(all.iter_mut().all(|future| Pin::new(future).poll(task).is_pending()));
    assert!(Pin::new(&mut call).poll(task).is_pending());
    gate.open();
    let mut told = 0;
    while told < 41 {
        match stream.synchronize().as_ref().map_err(GpuError::root) {
            // Some wakers come after the work is done.
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(GpuError::WakerPanic { message }) if message == "on purpose" => told += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("told: {told} of on purpose");
    all.into_iter().try_for_each(block_on).unwrap();
    churn(&stream, &mut words, 1).and_then(|()| block_on(stream.completed())).unwrap();
    let right = words.to_vec().unwrap() == [churned(3, 42); LEN];
    println!("works on: {} {right}", call.wait().unwrap());
}

/// A driver that refuses to ring is an error of the future, and what it has copied is right.
#[test]
fn a_driver_that_does_not_ring_says_so() {
    let variables =
        [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", "cuStreamAddCallback:46")];
    let told = lines(&child("completion::no_ring", &variables), "error: ");
    assert_eq!(told, ["46", "46", "46", "46", "46"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn no_ring() {
    end_after(PATIENCE * 3);
    let stream = gpu().create_stream().unwrap();
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN]).unwrap();
    let told = |error: GpuError| println!("error: {}", error.driver().expect("a driver's").code());
    told(block_on(stream.completed()).unwrap_err());
    told(block_on(stream.record_event().unwrap().completed()).unwrap_err());
    told(stream.launch_host_func(|| ()).unwrap_err());
    told(block_on(words.to_vec_async()).unwrap_err());
    told(block_on(words.copy_from_vec(vec![7; LEN])).unwrap_err());
    assert_eq!(words.to_vec().unwrap(), [7; LEN]);
}
