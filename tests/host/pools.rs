//! The pool of our own, and the adaptors that stand on any source of memory.

use std::sync::Arc;
use std::thread;

use cuda_driver::Backend;
use ferrowarp::memory::resource::{
    AllocationLog, AllocationRequest, DeviceMemoryResource, FailureAdaptor, LimitAdaptor,
    LogAdaptor, MemoryPool, MemoryResource, PoisonAdaptor, PoolStatistics, StatisticsAdaptor,
    StreamOrderedMemory, StreamRef, SynchronousMemory, TrackingAdaptor, kind,
};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuError, GpuResult};

use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const LEN: usize = 1000;
/// The block of so many words.
const BLOCK: usize = 4096;

fn synchronous() -> Arc<SynchronousMemory> {
    Arc::new(SynchronousMemory)
}

fn address(buffer: &DeviceBuffer<u32>) -> u64 {
    buffer.as_device_ptr().address()
}

#[test]
fn a_freed_block_is_handed_out_again() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    let mut buffer = DeviceBuffer::zeroed_in(&pool, gpu(), LEN)?;
    let first = address(&buffer);
    for round in 1..100 {
        fill(gpu(), &mut buffer, round)?;
        drop(buffer);
        // Any length of the same class.
        buffer = DeviceBuffer::zeroed_in(&pool, gpu(), LEN - round as usize)?;
        assert_eq!(address(&buffer), first);
    }
    assert_eq!(buffer.to_vec()?, [0; LEN - 99]);
    let counts = pool.statistics();
    assert_eq!((counts.hits, counts.misses, counts.returns, counts.waits), (99, 1, 99, 0));
    assert_eq!((counts.current_bytes, counts.peak_bytes, counts.kept_bytes), (BLOCK, BLOCK, 0));
    Ok(())
}

#[test]
fn classes_are_apart_and_aligned() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    let sizes = [0, 1, 31, 32, 256, 257, 4096, 4097, 1 << 20];
    let make = || sizes.map(|len| DeviceBuffer::<u8>::zeroed_in(&pool, gpu(), len).unwrap());
    for buffer in make() {
        assert!(buffer.as_device_ptr().address().is_multiple_of(256));
        assert_eq!(buffer.to_vec()?, vec![0; buffer.len()]);
    }
    let bytes = 4 * 256 + 512 + 4096 + 8192 + (1 << 20);
    let held = make();
    let counts = pool.statistics();
    assert_eq!((counts.hits, counts.misses, counts.kept_bytes), (8, 8, 0), "none for 0 bytes");
    assert_eq!((counts.current_bytes, counts.peak_bytes), (bytes, bytes));
    drop(held);
    assert_eq!(pool.statistics().kept_bytes, bytes);
    pool.trim()?;
    let counts = pool.statistics();
    assert_eq!((counts.kept_bytes, counts.current_bytes, counts.trims), (0, 0, 1));
    Ok(())
}

#[test]
fn another_stream_waits_by_event_and_the_host_does_not() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let pool = MemoryPool::new(gpu());
    for round in 0..4 {
        let mut gone = DeviceBuffer::zeroed_in(&pool, &a, LEN)?;
        fill(&b, &mut gone, round)?;
        gpu().synchronize()?;
        let gate = Gate::on(&a);
        fill(&a, &mut gone, 1)?;
        let block = address(&gone);
        drop(gone);
        // SAFETY: all of it is written before it is read.
        let mut taken = unsafe { DeviceBuffer::uninitialized_in(&pool, &b, LEN)? };
        assert_eq!(address(&taken), block);
        fill(&b, &mut taken, 2)?;
        assert!(!b.is_idle()?, "what is behind the gate could overwrite the block's new content");
        gate.open();
        assert_eq!(taken.to_vec()?, [2; LEN]);
        a.synchronize()?;
        assert_eq!(taken.to_vec()?, [2; LEN]);
    }
    assert_eq!(pool.statistics().waits, 7, "back and forth, but for the first");
    Ok(())
}

#[test]
fn the_own_streams_blocks_come_first_and_need_no_wait() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let pool = MemoryPool::new(gpu());
    let (on_a, on_b) =
        (DeviceBuffer::zeroed_in(&pool, &a, LEN)?, DeviceBuffer::zeroed_in(&pool, &b, LEN)?);
    let (at_a, at_b) = (address(&on_a), address(&on_b));
    drop((on_a, on_b));
    for _ in 0..10 {
        let (on_b, on_a) =
            (DeviceBuffer::zeroed_in(&pool, &b, LEN)?, DeviceBuffer::zeroed_in(&pool, &a, LEN)?);
        assert_eq!((address(&on_a), address(&on_b)), (at_a, at_b));
    }
    assert_eq!(pool.statistics().waits, 0);
    Ok(())
}

#[test]
fn streams_end_while_their_blocks_are_kept() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    for round in 0..50 {
        let stream = gpu().create_stream()?;
        let mut buffer = DeviceBuffer::zeroed_in(&pool, &stream, LEN)?;
        churn(&stream, &mut buffer, 50 + round)?;
        assert_eq!(buffer.to_vec()?, [churned(0, 50 + round); LEN]);
    }
    let counts = pool.statistics();
    assert_eq!((counts.misses, counts.hits, counts.waits), (1, 49, 49));
    Ok(())
}

/// A pool whose upstream allows `limit` bytes.
fn limited(limit: usize) -> Arc<MemoryPool> {
    MemoryPool::with_upstream(gpu(), LimitAdaptor::new(synchronous(), limit))
}

#[test]
fn out_of_memory_trims_and_tries_once_more() -> GpuResult<()> {
    let pool = limited(3 * BLOCK);
    drop(DeviceBuffer::<u32>::zeroed_in(&pool, gpu(), LEN)?);
    let held = DeviceBuffer::<u8>::zeroed_in(&pool, gpu(), BLOCK / 2)?;
    // 2.5 blocks are left, of which one is kept: without it there is no room for 2.
    let large = DeviceBuffer::<u8>::zeroed_in(&pool, gpu(), 2 * BLOCK)?;
    let counts = pool.statistics();
    assert_eq!((counts.trims, counts.kept_bytes), (1, 0));
    let error = DeviceBuffer::<u32>::zeroed_in(&pool, gpu(), LEN).unwrap_err();
    let GpuError::OutOfMemory { requested, free, total, peak } = error else { panic!("{error}") };
    assert_eq!((requested, free, total, peak), (BLOCK, BLOCK / 2, 3 * BLOCK, 5 * BLOCK / 2));
    assert_eq!(pool.statistics().trims, 2, "it was tried once more, and once only");
    drop((held, large));
    DeviceBuffer::<u8>::zeroed_in(&pool, gpu(), 2 * BLOCK)?;
    Ok(())
}

#[test]
fn what_is_larger_than_a_block_is_not_kept() -> GpuResult<()> {
    let (free, _) = gpu().memory_info()?;
    let large = (1 << 30) + 1;
    if free < 2 * large {
        let error = DeviceBuffer::<u8>::zeroed_in(&limited(large - 1), gpu(), large).unwrap_err();
        assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
        return Ok(());
    }
    let pool = MemoryPool::new(gpu());
    // SAFETY: it is never read.
    drop(unsafe { DeviceBuffer::<u8>::uninitialized_in(&pool, gpu(), large)? });
    let counts = pool.statistics();
    assert_eq!((counts.kept_bytes, counts.returns, counts.current_bytes), (0, 1, 0));
    assert_eq!(counts.peak_bytes, large);
    Ok(())
}

#[test]
fn a_pool_stands_on_the_drivers_too() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let driver = StreamOrderedMemory::new(&a, 1 << 20)?;
    let pool = MemoryPool::with_upstream(gpu(), driver.clone());
    let mut buffer = DeviceBuffer::zeroed_in(&pool, &a, LEN)?;
    fill(&b, &mut buffer, 3)?;
    assert_eq!(buffer.to_vec()?, [3; LEN]);
    assert!(driver.usage()?.used_bytes >= BLOCK as u64);
    drop(buffer);
    pool.trim()?;
    assert_eq!(driver.usage()?.used_bytes, 0);
    Ok(())
}

#[test]
fn threads_share_a_pool() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    let one = DeviceBox::new(gpu(), &1)?;
    let work = |thread: u32| -> GpuResult<()> {
        let stream = gpu().create_stream()?;
        for i in 0..25 {
            let len = 200 + 30 * i as usize;
            let mut own = DeviceBuffer::from_slice_in(&pool, &stream, &vec![thread; len])?;
            churn(&stream, &mut own, 10 + i)?;
            let mut sum = DeviceBuffer::zeroed_in(&pool, gpu(), len)?;
            add(&stream, &one, &own, &mut sum)?;
            drop(own);
            assert_eq!(sum.to_vec()?, vec![churned(thread, 10 + i).wrapping_add(1); len]);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let PoolStatistics { hits, misses, returns, current_bytes, kept_bytes, peak_bytes, .. } =
        pool.statistics();
    assert_eq!((hits + misses, returns, current_bytes), (200, 200, 0));
    // Three sizes of blocks, and two of a size in each thread.
    assert!(misses <= 24 && peak_bytes <= kept_bytes, "{:?}", pool.statistics());
    Ok(())
}

#[test]
fn statistics_count() -> GpuResult<()> {
    let memory = StatisticsAdaptor::new(LimitAdaptor::new(synchronous(), 1000));
    let buffers =
        [100, 300, 200].map(|len| DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), len).unwrap());
    assert!(DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 500).is_err());
    assert!(DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 0)?.is_empty());
    drop(buffers);
    drop(DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 50)?);
    let counts = memory.statistics();
    assert_eq!((counts.allocations, counts.failures, counts.frees), (4, 1, 4));
    assert_eq!((counts.current_bytes, counts.peak_bytes, counts.total_bytes), (0, 600, 650));
    assert_eq!(counts.largest_bytes, 300);
    Ok(())
}

#[test]
fn tracking_names_the_line() -> GpuResult<()> {
    let memory = TrackingAdaptor::new(MemoryPool::new(gpu()));
    let here = line!() + 1;
    let words = DeviceBuffer::<u32>::zeroed_in(&memory, gpu(), 10)?;
    let bytes = DeviceBuffer::<u8>::from_slice_in(&memory, gpu(), &[1; 300])?;
    let mut live = memory.live();
    live.sort_by_key(|allocation| allocation.caller.line());
    let told: Vec<_> = live.iter().map(|own| (own.bytes, own.caller.line())).collect();
    assert_eq!(told, [(40, here), (300, here + 1)]);
    assert!(live.iter().all(|allocation| allocation.caller.file() == file!()));
    let within = memory.find(bytes.as_device_ptr().address() + 299).expect("it is live");
    assert_eq!(within.bytes, 300);
    assert_eq!(memory.find(bytes.as_device_ptr().address() + 300), None);
    drop(words);
    let report = memory.report();
    assert!(report.contains(&format!("{}:{}:", file!(), here + 1)), "{report}");
    assert_eq!(report.lines().count(), 1);
    drop(bytes);
    assert!(memory.live().is_empty());
    Ok(())
}

/// The example of the book's chapter.
#[test]
fn the_chapters_resources() -> GpuResult<()> {
    let gpu = gpu();
    let pool = MemoryPool::new(gpu);
    let memory = TrackingAdaptor::new(LimitAdaptor::new(pool.clone(), 1 << 30));
    let scratch = DeviceBuffer::<f32>::zeroed_in(&memory, gpu, 5000)?;
    assert!(memory.report().starts_with("20000 bytes at 0x"), "{}", memory.report());
    drop(scratch);
    assert_eq!(pool.statistics().returns, 1);
    Ok(())
}

#[test]
fn a_limit_limits_and_says_so() -> GpuResult<()> {
    let memory = LimitAdaptor::new(synchronous(), 1000);
    let held = DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 600)?;
    let error = DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 401).unwrap_err();
    let GpuError::OutOfMemory { requested, free, total, peak } = error else { panic!("{error}") };
    assert_eq!((requested, free, total, peak), (401, 400, 1000, 600));
    drop(DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 400)?);
    drop(held);
    assert_eq!(memory.used_bytes(), 0);
    // What the upstream refuses is not used.
    let (_, total) = gpu().memory_info()?;
    let memory = LimitAdaptor::new(synchronous(), usize::MAX);
    assert!(DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 2 * total).is_err());
    assert_eq!(memory.used_bytes(), 0);
    Ok(())
}

/// What a program does with memory that may be refused.
fn scenario(memory: &Arc<impl DeviceMemoryResource + 'static>) -> GpuResult<Vec<u32>> {
    let one = DeviceBox::new(gpu(), &1)?;
    let source = DeviceBuffer::from_slice_in(memory, gpu(), &[5; LEN])?;
    let mut target = DeviceBuffer::zeroed_in(memory, gpu(), LEN)?;
    add(gpu(), &one, &source, &mut target)?;
    drop(source);
    let mut more = DeviceBuffer::zeroed_in(memory, gpu(), LEN)?;
    add(gpu(), &one, &target, &mut more)?;
    more.to_vec()
}

#[test]
fn the_nth_allocation_fails_and_nothing_leaks() -> GpuResult<()> {
    let counts = StatisticsAdaptor::new(MemoryPool::new(gpu()));
    let memory = FailureAdaptor::new(counts.clone());
    for n in 0..3 {
        memory.fail_after(n);
        let error = scenario(&memory).unwrap_err();
        assert!(matches!(error, GpuError::OutOfMemory { requested: 4000, .. }), "{n}: {error}");
        assert!(!memory.is_pending());
        assert_eq!(counts.statistics().current_bytes, 0, "{n}");
    }
    memory.fail_after(3);
    assert_eq!(scenario(&memory)?, [7; LEN]);
    assert!(memory.is_pending(), "there are three");
    Ok(())
}

#[test]
fn a_log_is_replayed_to_the_same_log() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let memory = LogAdaptor::new(MemoryPool::with_upstream(
        gpu(),
        LimitAdaptor::new(synchronous(), 16 * BLOCK),
    ));
    let kept = DeviceBuffer::<u8>::zeroed_in(&memory, &b, 10)?;
    for len in [LEN, 1, 2 * LEN] {
        let first = DeviceBuffer::<u32>::zeroed_in(&memory, &a, len)?;
        let second = DeviceBuffer::<u32>::zeroed_in(&memory, &b, len)?;
        drop(first);
        assert!(DeviceBuffer::<u8>::zeroed_in(&memory, &b, 17 * BLOCK).is_err());
        drop(second);
    }
    drop(kept);
    let text = memory.log().to_string();
    assert!(
        text.starts_with("allocate 0 10 on 0\nallocate 1 4000 on 1\nallocate 2 4000 on 0\nfree 1")
    );
    assert!(text.contains(&format!("fail {} on 0\n", 17 * BLOCK)), "{text}");
    let log: AllocationLog = text.parse().unwrap_or_else(|error| panic!("{error}"));

    let counts = StatisticsAdaptor::new(LimitAdaptor::new(synchronous(), 16 * BLOCK));
    let again = LogAdaptor::new(MemoryPool::with_upstream(gpu(), counts.clone()));
    log.replay(&again, gpu())?;
    assert_eq!(again.log().to_string(), text);
    drop(again);
    assert_eq!(counts.statistics().current_bytes, 0);
    Ok(())
}

#[test]
fn a_replay_frees_what_its_log_does_not() -> GpuResult<()> {
    let counts = StatisticsAdaptor::new(synchronous());
    let log: AllocationLog =
        "allocate 0 100 on 0\nallocate 1 100 on 1\nfree 0 on 1".parse().unwrap();
    log.replay(&counts, gpu())?;
    let told = counts.statistics();
    assert_eq!((told.allocations, told.frees, told.current_bytes), (2, 2, 0));
    Ok(())
}

/// Remembers the last address, so that a test can look at memory after its end.
#[derive(Debug)]
struct Keep(Arc<MemoryPool>);

// SAFETY: memory is the pool's.
unsafe impl MemoryResource for Keep {
    type Kind = kind::Device;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        self.0.allocate(request)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.deallocate(stream, address, bytes) };
    }
}

#[test]
fn poison_fills_new_and_freed_memory() -> GpuResult<()> {
    let pool = Arc::new(Keep(MemoryPool::new(gpu())));
    let memory = PoisonAdaptor::new(pool.clone());
    // SAFETY: the adaptor has filled it.
    let new = unsafe { DeviceBuffer::<u8>::uninitialized_in(&memory, gpu(), 700)? };
    assert_eq!(new.to_vec()?, [PoisonAdaptor::<Keep>::ALLOCATED; 700]);
    drop(new);
    // SAFETY: the same block, which the adaptor has filled at its end.
    let stale = unsafe { DeviceBuffer::<u8>::uninitialized_in(&pool, gpu(), 700)? };
    assert_eq!(stale.to_vec()?, [PoisonAdaptor::<Keep>::FREED; 700]);
    Ok(())
}

#[test]
fn resources_stand_on_one_another() -> GpuResult<()> {
    let upstream: Arc<dyn DeviceMemoryResource> = if gpu().backend() == Backend::Cuda {
        StreamOrderedMemory::new(gpu(), 0)?
    } else {
        synchronous()
    };
    let pool = MemoryPool::with_upstream(gpu(), StatisticsAdaptor::new(upstream));
    let memory = LogAdaptor::new(TrackingAdaptor::new(PoisonAdaptor::new(pool)));
    assert_eq!(scenario(&memory)?, [7; LEN]);
    Ok(())
}
