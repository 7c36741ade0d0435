//! Operations: what is composed runs in order, on a stream, on a pool and as a graph. On the emulator the race check judges
//! the order of branches.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread::yield_now;
use std::time::Instant;

use ferrowarp::completion::block_on;
use ferrowarp::graph::GraphError;
use ferrowarp::operation::{
    DeviceOperation, clear, copy, download, fill, host, join_all, operation, upload, value,
};
use ferrowarp::{DeviceBox, DeviceBuffer, Event, GpuError, GpuResult, Stream, StreamPool};

use crate::gate::{Gate, PATIENCE};
use crate::kernels::{add, churn, churned, fill as fill_kernel, gpu};

/// One of a branch's steps.
type Step<'a> = Box<dyn FnOnce(&Stream) -> GpuResult<()> + 'a>;

const LENS: [usize; 12] = [0, 1, 31, 32, 33, 255, 256, 257, 1009, 4099, 65_537, 1 << 20];
const LEN: usize = 1009;

fn zeros(len: usize) -> GpuResult<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(gpu(), len)
}

/// Steps a buffer that the operation has.
fn churning(
    mut words: DeviceBuffer<u32>,
    rounds: u32,
) -> impl DeviceOperation<Output = DeviceBuffer<u32>, Outcome: ferrowarp::operation::Immediate> {
    operation(move |on: &Stream| {
        churn(on, &mut words, rounds)?;
        Ok(words)
    })
}

#[test]
fn an_operation_does_nothing_until_it_is_run() -> GpuResult<()> {
    let ran = Cell::new(0);
    let made = || {
        operation(|_: &Stream| {
            ran.set(ran.get() + 1);
            Ok(7)
        })
    };
    let _ = made();
    let _ = made().then(value).zip(made());
    drop(made().async_on(gpu()));
    assert_eq!(ran.get(), 0);
    assert_eq!(made().sync_on(gpu())?, 7);
    assert_eq!(made().enqueue_on(gpu())?, 7);
    assert_eq!(block_on(made().async_on(gpu()))?, 7);
    assert_eq!(ran.get(), 3);
    Ok(())
}

#[test]
fn chains_of_all_sizes_run_in_order_wherever_they_run() -> GpuResult<()> {
    let (stream, pool) = (gpu().create_stream()?, StreamPool::new(gpu(), 2)?);
    for len in LENS {
        let values: Vec<u32> = (0..len as u32).collect();
        let expected: Vec<u32> = values.iter().map(|&value| churned(value, 3)).collect();
        let chain = || -> GpuResult<_> {
            let (from, to) = (zeros(len)?, zeros(len)?);
            let chain = upload(&values, from).then(|words| churning(words, 3));
            Ok(chain.then(move |words| copy(words, to)).then(|(_, copied)| download(copied)))
        };
        assert_eq!(chain()?.sync_on(gpu())?, expected);
        assert_eq!(block_on(chain()?.async_on(&stream))?, expected);
        assert_eq!(pollster::block_on(chain()?.async_on(&pool))?, expected);
    }
    Ok(())
}

#[test]
fn borrowed_memory_and_parts_of_it_are_written() -> GpuResult<()> {
    let mut words = DeviceBuffer::from_slice(gpu(), &[5u32; LEN])?;
    let (low, high) = words.as_mut_slice().split_at_mut(33);
    let (_, high) = fill(low, 7).zip(clear(high)).sync_on(gpu())?;
    upload([1u32, 2, 3], { high }.slice_mut(..3)).enqueue_on(gpu())?;
    let found = download(&words).sync_on(gpu())?;
    assert_eq!((&found[..33], &found[33..37]), (&[7; 33][..], &[1, 2, 3, 0][..]));
    assert!(found[36..].iter().all(|&word| word == 0));
    let shared = Arc::new(words);
    let twice = download(shared.clone()).zip(download(shared.slice(..34))).sync_on(gpu())?;
    assert_eq!((twice.0, &twice.1[..]), (found.clone(), &found[..34]));
    let mut bytes = DeviceBuffer::from_slice(gpu(), &[0u8; 5])?;
    bytes.slice_mut(1..4).fill_on(&gpu().create_stream()?, 9)?;
    assert_eq!(bytes.to_vec()?, [0, 9, 9, 9, 0]);
    Ok(())
}

#[test]
fn branches_give_the_same_on_a_stream_and_on_a_pool() -> GpuResult<()> {
    let one = &DeviceBox::new(gpu(), &1)?;
    for streams in 1..5 {
        let pool = StreamPool::new(gpu(), streams)?;
        for count in [0, 1, 2, 3, 7] {
            let all = || -> GpuResult<_> {
                let steps = (0..count as u32).map(move |i| {
                    let stepped = fill(zeros(LEN)?, i).then(move |words| churning(words, 10 + i));
                    GpuResult::Ok(stepped.then(move |words| {
                        operation(move |on: &Stream| {
                            let mut sum = DeviceBuffer::zeroed(on, LEN)?;
                            add(on, one, &words, &mut sum)?;
                            Ok(sum)
                        })
                    }))
                });
                let steps = steps.collect::<GpuResult<Vec<_>>>()?;
                Ok(join_all(steps).then(|sums| join_all(sums.into_iter().map(download))))
            };
            let expected: Vec<_> =
                (0..count as u32).map(|i| vec![churned(i, 10 + i).wrapping_add(1); LEN]).collect();
            assert_eq!(all()?.sync_on(gpu())?, expected);
            assert_eq!(all()?.sync_on(&pool)?, expected);
            assert_eq!(block_on(all()?.async_on(&pool))?, expected);
        }
    }
    Ok(())
}

/// Whether the event comes, in less time than a gate stays closed.
fn comes(event: &Event) -> GpuResult<bool> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE / 2 {
        if event.is_complete()? {
            return Ok(true);
        }
        yield_now();
    }
    Ok(false)
}

/// Launches and copies of two branches, on buffers of one home, with an input that both read. The first branch stands still.
#[test]
fn branches_of_a_pool_overlap_where_they_share_nothing_that_is_written() -> GpuResult<()> {
    let (home, pool) = (gpu().create_stream()?, StreamPool::new(gpu(), 2)?);
    let input = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    let [mut a, mut b] = [DeviceBuffer::zeroed(&home, LEN)?, DeviceBuffer::zeroed(&home, LEN)?];
    // So that nothing is loaded or allocated behind the closed gate.
    churn(&home, &mut a, 1)?;
    pool.acquire()?.synchronize()?;
    home.synchronize()?;
    let stands = operation(|on: &Stream| Ok(Gate::on(on)));
    let first = stands.zip(copy(&input, &mut a)).then(|(gate, (_, a))| {
        operation(move |on: &Stream| {
            churn(on, a, 5)?;
            Ok(gate)
        })
    });
    let second = copy(&input, &mut b).then(|(_, b)| {
        operation(move |on: &Stream| {
            churn(on, b, 7)?;
            on.record_event()
        })
    });
    let (gate, event) = first.zip(second).enqueue_on(&pool)?;
    assert!(comes(&event)?, "the second branch waits for the first one");
    assert!(!home.is_idle()?, "the home does not wait for the first branch");
    gate.open();
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![churned(3, 5); LEN], vec![churned(3, 7); LEN]));
    Ok(())
}

/// Random branches, some of which meet in a buffer that each of them borrows when it is enqueued.
#[test]
fn branches_that_meet_run_in_their_order() -> GpuResult<()> {
    let (home, pool) = (gpu().create_stream()?, StreamPool::new(gpu(), 3)?);
    let mut state = 0x5eed_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let buffers = (0..6).map(|i| {
        let on = if i % 2 == 0 { &home } else { gpu().stream() };
        DeviceBuffer::from_slice(on, &[i as u32; LEN]).map(RefCell::new)
    });
    let buffers = buffers.collect::<GpuResult<Vec<_>>>()?;
    let mut model: Vec<u32> = (0..6).collect();
    let one = &DeviceBox::new(&home, &1)?;
    for _ in 0..60 {
        let steps = (0..1 + random(6)).map(|_| {
            let (from, to, what) = (random(6), random(6), random(5));
            let (source, target) = (&buffers[from], &buffers[to]);
            model[to] = match what {
                0 => 77,
                1 if from != to => model[from],
                2 if from != to => model[from].wrapping_add(1),
                3 => 0,
                _ => churned(model[to], 40),
            };
            let step: Step<'_> = match what {
                0 => Box::new(move |on| fill_kernel(on, &mut *target.borrow_mut(), 77)),
                1 if from != to => Box::new(move |on| {
                    copy(&*source.borrow(), &mut *target.borrow_mut()).enqueue_on(on).map(drop)
                }),
                2 if from != to => {
                    Box::new(move |on| add(on, one, &*source.borrow(), &mut *target.borrow_mut()))
                }
                // On the home, whatever the stream.
                3 => Box::new(move |_| target.borrow_mut().clear()),
                _ => Box::new(move |on| churn(on, &mut *target.borrow_mut(), 40)),
            };
            operation(step)
        });
        let steps: Vec<_> = steps.collect();
        join_all(steps).enqueue_on(&pool)?;
    }
    for (buffer, expected) in buffers.iter().zip(model) {
        assert_eq!(buffer.borrow().to_vec()?, [expected; LEN]);
    }
    Ok(())
}

/// Memory that ends with its branch is freed after what uses it.
#[test]
fn a_branch_may_drop_what_it_uses() -> GpuResult<()> {
    let (home, pool) = (gpu().create_stream()?, StreamPool::new(gpu(), 2)?);
    for round in 0..20 {
        let step = || -> GpuResult<_> {
            let mut words = DeviceBuffer::<u32>::zeroed(&home, LEN)?;
            Ok(operation(move |on: &Stream| {
                churn(on, &mut words, 300)?;
                let mut other = DeviceBuffer::<u32>::zeroed(on, LEN)?;
                other.as_mut_slice().copy_from_device_on(on, &words)?;
                drop(words);
                Ok(other)
            }))
        };
        let (a, b) = step()?.zip(step()?).enqueue_on(&pool)?;
        drop(a);
        assert_eq!(b.to_vec()?, [churned(0, 300); LEN], "round {round}");
    }
    Ok(())
}

#[test]
fn futures_may_be_dropped_and_forgotten_at_any_time() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    // So that nothing is loaded or allocated behind the closed gate.
    churn(&stream, &mut words, 1)?;
    let copies: Vec<_> = (0..8).map(|_| words.to_vec_async()).collect();
    copies.into_iter().try_for_each(|copy| block_on(copy).map(drop))?;
    for (round, forget) in [false, true].into_iter().enumerate() {
        let gate = Gate::on(&stream);
        let mut future = Box::pin(
            upload([round as u32; LEN], &mut words)
                .then(|words| operation(move |on: &Stream| churn(on, words, 9)))
                .async_on(&stream),
        );
        let mut read = Box::pin(download(words_of(&stream)?).map(drop).async_on(&stream));
        let mut task = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut task).is_pending());
        assert!(read.as_mut().poll(&mut task).is_pending());
        if forget {
            std::mem::forget((future, read));
        } else {
            drop((future, read));
        }
        // What the copies have left is used again while they wait.
        let others: Vec<_> = (0..3).map(|_| words.to_vec_async()).collect();
        gate.open();
        for other in others {
            assert_eq!(block_on(other)?, [churned(round as u32, 9); LEN]);
        }
    }
    Ok(())
}

fn words_of(stream: &Stream) -> GpuResult<Arc<DeviceBuffer<u32>>> {
    // Freed in the order of the stream: its end does not wait for the gate.
    DeviceBuffer::zeroed_async(stream, LEN).map(Arc::new)
}

#[test]
fn host_callbacks_and_maps_see_what_came_before() -> GpuResult<()> {
    let words = DeviceBuffer::from_slice(gpu(), &[1u32; LEN])?;
    let called = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let called = called.clone();
        host(move || called.lock().unwrap().push(text))
    };
    let sum = churning(words, 5)
        .then(download)
        .map(|words| words.iter().map(|&w| u64::from(w)).sum::<u64>());
    let ((_, sum), _) = note("first").zip(sum).zip(note("second")).sync_on(gpu())?;
    assert_eq!(sum, LEN as u64 * u64::from(churned(1, 5)));
    assert_eq!(*called.lock().unwrap(), ["first", "second"]);
    assert_eq!(block_on(host(|| 7).map(|seven| seven + 1).async_on(gpu()))?, 8);
    let error =
        block_on(host(|| -> u32 { panic!("on purpose") }).async_on(&gpu().create_stream()?));
    assert!(error.unwrap_err().to_string().contains("on purpose"));
    Ok(())
}

#[test]
fn errors_say_where_the_operation_was_made() -> GpuResult<()> {
    let line = line!() + 1;
    let wrong = copy(zeros(3)?, zeros(4)?);
    let after = value(()).then(|()| wrong).then(|_| value(1));
    let error = after.sync_on(gpu()).unwrap_err();
    let place = format!("the operation of {}:{line}:", file!());
    assert!(error.to_string().starts_with(&place), "{error}");
    assert!(
        matches!(error.root(), GpuError::SizeMismatch { expected: 4, found: 3, .. }),
        "{error}"
    );
    let error = block_on(upload([1u8; 2], DeviceBuffer::zeroed(gpu(), 1)?).async_on(gpu()));
    assert!(error.unwrap_err().to_string().contains(file!()));
    let mut ready = pin!(value(1).async_on(gpu()));
    assert_eq!(block_on(ready.as_mut())?, 1);
    assert!(block_on(ready).unwrap_err().to_string().contains("taken before"));
    Ok(())
}

/// An error in one branch leaves what the others have enqueued in order.
#[test]
fn a_branch_that_fails_leaves_the_others_in_order() -> GpuResult<()> {
    let (home, pool) = (gpu().create_stream()?, StreamPool::new(gpu(), 2)?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    let first = operation(|on: &Stream| churn(on, &mut words, 500));
    let second = operation(|_: &Stream| {
        Err::<(), _>(GpuError::InvalidArgument {
            operation: "a test",
            reason: "on purpose".to_owned(),
        })
    });
    let error = first.zip(second).sync_on(&pool).unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(words.to_vec()?, [churned(3, 500); LEN]);
    Ok(())
}

#[test]
fn the_same_description_is_a_graph() -> GpuResult<()> {
    let work = |words: DeviceBuffer<u32>, other: DeviceBuffer<u32>| {
        let stepped = fill(words, 3).then(|words| churning(words, 4));
        stepped.zip(fill(other, 9)).then(|(words, other)| copy(words, other))
    };
    let pool = StreamPool::new(gpu(), 2)?;
    let (_, at_once) = work(zeros(LEN)?, zeros(LEN)?).sync_on(&pool)?;
    let (buffers, builder) = work(zeros(LEN)?, zeros(LEN)?).record(gpu())?;
    let mut graph = builder.build(buffers)?;
    assert_eq!(graph.len(), 4);
    assert_eq!(graph.buffers().1.to_vec()?, [0; LEN]);
    for _ in 0..2 {
        graph.launch(gpu())?;
    }
    assert_eq!(graph.wait()?.1.to_vec()?, at_once.to_vec()?);
    let refused = upload([0u32; LEN], zeros(LEN)?).record(gpu()).map(drop).unwrap_err();
    let GpuError::Graph(error) = refused.root() else { panic!("{refused}") };
    assert!(matches!(**error, GraphError::NotCapturable { .. }), "{refused}");
    Ok(())
}
