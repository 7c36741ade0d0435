//! Pools of devices and streams.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuPool, GpuResult, Linear, StreamPool, devices};

use crate::child::{child, lines};
use crate::kernels::{IMAGES, WILD, churn, churned, fill, gpu, launch};

const LEN: usize = 256;

#[test]
fn what_is_taken_is_nobody_elses_until_it_comes_back() -> GpuResult<()> {
    let pool = StreamPool::new(gpu(), 2)?;
    let (a, b) = (pool.acquire()?, pool.acquire()?);
    assert!(pool.try_acquire()?.is_none());
    drop(a);
    let again = pool.try_acquire()?.expect("one came back");
    assert!(pool.clone().try_acquire()?.is_none());
    drop((b, again));
    assert!(pool.try_acquire()?.is_some());
    Ok(())
}

#[test]
fn a_panic_gives_back_what_was_taken() -> GpuResult<()> {
    let pool = GpuPool::of([gpu().clone()])?;
    let task = || {
        let _taken = pool.acquire().unwrap();
        panic!("on purpose");
    };
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(task)).is_err());
    }
    assert!(thread::scope(|scope| scope.spawn(task).join()).is_err());
    assert!(pool.try_acquire()?.is_some() && pool.len() == 1);
    Ok(())
}

#[test]
fn many_threads_share_few_streams() -> GpuResult<()> {
    let pool = StreamPool::new(gpu(), 3)?;
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |seed: u32| -> GpuResult<()> {
        for round in 0..10 {
            let stream = pool.acquire()?;
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let mut words = DeviceBuffer::from_slice(&stream, &[seed; LEN])?;
            churn(&stream, &mut words, 10 + round)?;
            assert_eq!(words.to_vec()?, [churned(seed, 10 + round); LEN]);
            inside.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || work(seed))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    assert!(most.into_inner() <= 3);
    Ok(())
}

/// Threads come one after the other, and are served in that order; who only tries does not push in.
#[test]
fn who_comes_first_is_served_first() -> GpuResult<()> {
    let pool = StreamPool::new(gpu(), 1)?;
    let served = Mutex::new(Vec::new());
    let held = pool.acquire()?;
    thread::scope(|scope| -> GpuResult<()> {
        for number in 0..4 {
            let (pool, served) = (&pool, &served);
            scope.spawn(move || {
                let _taken = pool.acquire().unwrap();
                served.lock().unwrap().push(number);
            });
            // Until it waits.
            let start = Instant::now();
            while pool.waiting() <= number {
                assert!(start.elapsed() < Duration::from_secs(20));
                thread::yield_now();
            }
        }
        assert!(pool.try_acquire()?.is_none());
        drop(held);
        Ok(())
    })?;
    assert_eq!(served.into_inner().unwrap(), [0, 1, 2, 3]);
    Ok(())
}

#[test]
fn a_pool_of_nothing_is_refused() {
    for error in [GpuPool::of([]).unwrap_err(), StreamPool::new(gpu(), 0).unwrap_err()] {
        assert!(matches!(error.root(), GpuError::InvalidArgument { .. }), "{error}");
    }
}

#[test]
fn a_pool_has_all_devices() -> GpuResult<()> {
    let pool = GpuPool::with_images(IMAGES)?;
    assert_eq!(pool.len(), devices()?.len());
    let all: Vec<_> = (0..pool.len()).map(|_| pool.acquire()).collect::<GpuResult<_>>()?;
    let mut ordinals: Vec<_> = all.iter().map(|gpu| gpu.info().ordinal).collect();
    ordinals.sort_unstable();
    assert!(ordinals.into_iter().eq(0..pool.len() as u32));
    Ok(())
}

#[test]
fn a_lost_device_is_not_handed_out_any_more() {
    let variables = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_DEVICES", "2")];
    let told = lines(&child("gpu_pools::lose_one_of_two", &variables), "pool: ");
    assert_eq!(told, ["2", "1 left, device 1", "all lost to 700"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn lose_one_of_two() {
    let pool = GpuPool::of([0, 1].map(|n| Gpu::on_with_images(n, IMAGES).unwrap())).unwrap();
    println!("pool: {}", pool.len());
    let lose = || {
        let gpu = pool.acquire().unwrap();
        let mut words = DeviceBuffer::<u32>::zeroed(&gpu, 4).unwrap();
        let fault = launch(&gpu, &WILD, Linear::new(3, 1), &mut words, 1);
        assert!(fault.and_then(|()| gpu.synchronize()).is_err());
    };
    lose();
    let left: Vec<_> = (0..3)
        .map(|_| {
            let gpu = pool.acquire().unwrap();
            let mut words = DeviceBuffer::<u32>::zeroed(&gpu, 4).unwrap();
            fill(&gpu, &mut words, 7).unwrap();
            assert_eq!(words.to_vec().unwrap(), [7; 4]);
            gpu.info().ordinal
        })
        .collect();
    assert_eq!(left, [1; 3]);
    println!("pool: {} left, device {}", pool.len(), left[0]);
    lose();
    let error = pool.acquire().unwrap_err();
    let GpuError::DeviceLost { cause } = error.root() else { panic!("{error}") };
    println!("pool: all lost to {}", cause.driver().expect("a driver error").code());
    assert!(pool.try_acquire().is_err() && pool.is_empty());
}
