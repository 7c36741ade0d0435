//! Page-locked and unified memory from pools, adaptors and allocators of one's own.

use std::fmt;
use std::mem;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ferrowarp::memory::resource::{
    AllocationLog, AllocationRequest, FailureAdaptor, LimitAdaptor, LogAdaptor, ManagedMemory,
    MemoryPool, MemoryResource, PinnedHostMemory, PinnedMemoryResource, PoisonAdaptor,
    StatisticsAdaptor, StreamRef, TrackingAdaptor, UnifiedMemoryResource,
};
use ferrowarp::{
    DeviceBuffer, GpuError, GpuResult, PinnedBox, PinnedBuffer, Stream, UnifiedBox, UnifiedBuffer,
};

use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const LEN: usize = 1000;
/// The block of so many words.
const BLOCK: usize = 4096;
const SIZES: [usize; 9] = [1, 31, 32, 33, 255, 256, 257, 1009, 65_537];

fn pinned() -> Arc<PinnedHostMemory> {
    Arc::new(PinnedHostMemory::new())
}

fn counted(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

#[test]
fn pinned_memory_comes_from_a_pool_and_goes_back() -> GpuResult<()> {
    let pool = MemoryPool::pinned(gpu());
    for len in SIZES {
        let first = PinnedBuffer::from_slice_in(&pool, gpu(), &counted(len))?;
        assert_eq!(first[..], counted(len));
        let block = first.as_ptr();
        assert_eq!(block.addr() % 256, 0);
        let mut device = DeviceBuffer::zeroed(gpu(), len)?;
        let mut first = device.copy_from_pinned_async(gpu(), first)?.wait()?;
        first.fill(9);
        drop(first);
        let again = PinnedBuffer::<u32>::zeroed_in(&pool, gpu(), len)?;
        assert_eq!((again.as_ptr(), &again[..]), (block, &vec![0; len][..]));
        assert_eq!(device.copy_to_pinned_async(gpu(), again)?.wait()?[..], counted(len));
    }
    let counts = pool.statistics();
    // Lengths up to 256 bytes are one class, and so are those of 1 KiB.
    assert_eq!((counts.hits + counts.misses, counts.returns), (18, 18));
    assert!(counts.hits >= 9 && counts.current_bytes == 0, "{counts:?}");
    pool.trim()?;
    assert_eq!(pool.statistics().kept_bytes, 0);
    Ok(())
}

#[test]
fn one_value_is_pinned_in_a_pool() -> GpuResult<()> {
    let pool = MemoryPool::pinned(gpu());
    let value = PinnedBox::new_in(&pool, gpu(), &[1.5f32, 2.5])?;
    let mut device = DeviceBuffer::zeroed(gpu(), 1)?;
    let value = device.copy_from_pinned_async(gpu(), value)?.wait()?;
    assert_eq!((*value, device.to_vec()?), ([1.5, 2.5], vec![[1.5, 2.5]]));
    drop(value);
    assert_eq!(pool.statistics().returns, 1);
    Ok(())
}

#[test]
fn no_bytes_ask_no_resource() -> GpuResult<()> {
    let memory = StatisticsAdaptor::new(pinned());
    assert!(PinnedBuffer::<u32>::zeroed_in(&memory, gpu(), 0)?.is_empty());
    assert_eq!(PinnedBuffer::from_slice_in(&memory, gpu(), &[(); 3])?[..], [(); 3]);
    assert_eq!(memory.statistics().allocations, 0);
    let memory = StatisticsAdaptor::new(Arc::new(ManagedMemory));
    assert!(UnifiedBuffer::<u32>::zeroed_in(&memory, gpu(), 0)?.is_empty());
    assert_eq!(UnifiedBuffer::from_slice_in(&memory, gpu(), &[(); 3])?.as_slice()?, [(); 3]);
    assert_eq!(memory.statistics().allocations, 0);
    Ok(())
}

#[test]
fn more_than_can_be_counted_is_an_error() {
    let memory = StatisticsAdaptor::new(pinned());
    for len in [usize::MAX, isize::MAX as usize / 8 + 1] {
        let error = PinnedBuffer::<u64>::zeroed_in(&memory, gpu(), len).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { .. }), "{error}");
        let unified = Arc::new(ManagedMemory);
        let error = UnifiedBuffer::<u64>::zeroed_in(&unified, gpu(), len).unwrap_err();
        assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    }
    assert_eq!(memory.statistics().allocations, 0);
}

/// Nothing uses pinned memory when it is freed, whatever its stream still has to do.
#[test]
fn pinned_memory_moves_between_streams_without_a_wait() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let pool = MemoryPool::pinned(gpu());
    let buffer = PinnedBuffer::<u32>::zeroed_in(&pool, &a, LEN)?;
    let (block, gate) = (buffer.as_ptr(), Gate::on(&a));
    drop(buffer);
    let mut buffer = PinnedBuffer::<u32>::zeroed_in(&pool, &b, LEN)?;
    buffer.fill(3);
    assert_eq!(buffer.as_ptr(), block);
    assert!(b.is_idle()? && !a.is_idle()?);
    assert_eq!(pool.statistics().waits, 0);
    gate.open();
    a.synchronize()
}

#[test]
fn a_copy_under_way_keeps_its_block() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let pool = MemoryPool::pinned(gpu());
    for round in 0..4 {
        let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
        let source = PinnedBuffer::from_slice_in(&pool, gpu(), &counted(LEN))?;
        churn(&stream, &mut device, 20_000)?;
        let pending = device.copy_from_pinned_async(&stream, source)?;
        assert_eq!(pool.statistics().returns, 2 * round);
        drop(pending); // waits
        assert_eq!(pool.statistics().returns, 2 * round + 1);
        let mut next = PinnedBuffer::<u32>::zeroed_in(&pool, gpu(), LEN)?;
        next.fill(9);
        assert_eq!(device.to_vec()?, counted(LEN));
    }
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let source = PinnedBuffer::from_slice_in(&pool, gpu(), &counted(LEN))?;
    let block = source.as_ptr();
    let gate = Gate::on(&stream);
    mem::forget(device.copy_from_pinned_async(&stream, source)?);
    let next = PinnedBuffer::<u32>::zeroed_in(&pool, gpu(), LEN)?;
    assert_ne!(next.as_ptr(), block, "the copy still reads it");
    gate.open();
    assert_eq!(device.to_vec()?, counted(LEN));
    Ok(())
}

/// A host callback must not call the driver; the memory goes back after it.
#[test]
fn pinned_memory_may_end_in_a_host_callback() -> GpuResult<()> {
    let counts = StatisticsAdaptor::new(pinned());
    let buffer = PinnedBuffer::<u32>::zeroed_in(&counts, gpu(), LEN)?;
    gpu().stream().launch_host_func(move || drop(buffer))?.wait()?;
    gpu().synchronize()?;
    PinnedBuffer::<u32>::zeroed_in(&counts, gpu(), 1)?;
    assert_eq!(counts.statistics().current_bytes, 0);
    Ok(())
}

#[test]
fn a_limit_of_pinned_memory_limits_and_says_so() -> GpuResult<()> {
    let limit = LimitAdaptor::new(pinned(), 3 * BLOCK);
    let pool = MemoryPool::with_upstream(gpu(), limit.clone());
    drop(PinnedBuffer::<u32>::zeroed_in(&pool, gpu(), LEN)?);
    let held = PinnedBuffer::<u8>::zeroed_in(&pool, gpu(), BLOCK / 2)?;
    // 2.5 blocks are left, of which one is kept: without it there is no room for 2.
    let large = PinnedBuffer::<u8>::zeroed_in(&pool, gpu(), 2 * BLOCK)?;
    assert_eq!((pool.statistics().trims, pool.statistics().kept_bytes), (1, 0));
    let error = PinnedBuffer::<u32>::zeroed_in(&pool, gpu(), LEN).unwrap_err();
    let GpuError::OutOfPinnedMemory { requested, free } = error else { panic!("{error}") };
    assert_eq!((requested, free), (BLOCK, Some(BLOCK / 2)));
    let told = error.to_string();
    assert!(told.contains("4.0 KiB requested, 2.0 KiB of the limit left; drop"), "{told}");
    assert_eq!(pool.statistics().trims, 2, "it was tried once more, and once only");
    drop((held, large));
    pool.trim()?;
    assert_eq!(limit.used_bytes(), 0);
    Ok(())
}

/// What a program does with page-locked memory that may be refused.
fn round_trip(memory: &Arc<impl PinnedMemoryResource + 'static>) -> GpuResult<Vec<u32>> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let source = PinnedBuffer::from_slice_in(memory, gpu(), &[5; LEN])?;
    let up = device.copy_from_pinned_async(gpu(), source)?;
    let target = PinnedBuffer::zeroed_in(memory, gpu(), LEN)?;
    let down = device.copy_to_pinned_async(gpu(), target)?;
    drop(up.wait()?);
    let scale = PinnedBox::new_in(memory, gpu(), &2u32)?;
    Ok(down.wait()?.iter().map(|word| word * *scale).collect())
}

/// The same with unified memory.
fn sum(memory: &Arc<impl UnifiedMemoryResource + 'static>) -> GpuResult<Vec<u32>> {
    let one = UnifiedBox::new_in(memory, gpu(), &5u32)?;
    let source = UnifiedBuffer::from_slice_in(memory, gpu(), &[5; LEN])?;
    let mut target = UnifiedBuffer::zeroed_in(memory, gpu(), LEN)?;
    add(gpu(), &one, &source, &mut target)?;
    Ok(target.as_slice()?.to_vec())
}

/// Lets each of a program's three allocations fail, and then none.
macro_rules! each_allocation_fails {
    ($memory:expr, $program:ident, $refused:pat) => {{
        let counts = StatisticsAdaptor::new($memory);
        let memory = FailureAdaptor::new(counts.clone());
        for n in 0..3 {
            memory.fail_after(n);
            let error = $program(&memory).unwrap_err();
            assert!(matches!(error.root(), $refused), "{n}: {error}");
            assert!(!memory.is_pending());
            assert_eq!(counts.statistics().current_bytes, 0, "{n}");
        }
        memory.fail_after(3);
        assert_eq!($program(&memory)?, [10; LEN]);
        assert!(memory.is_pending(), "there are three");
        let told = counts.statistics();
        assert_eq!((told.current_bytes, told.allocations, told.frees), (0, 6, 6));
        assert_eq!((told.largest_bytes, told.peak_bytes > 4 * LEN), (4 * LEN, true));
    }};
}

#[test]
fn the_nth_allocation_fails_and_nothing_leaks() -> GpuResult<()> {
    each_allocation_fails!(
        MemoryPool::pinned(gpu()),
        round_trip,
        GpuError::OutOfPinnedMemory { free: None, .. }
    );
    each_allocation_fails!(MemoryPool::unified(gpu()), sum, GpuError::OutOfMemory { .. });
    Ok(())
}

#[test]
fn adaptors_of_every_kind_stand_on_one_another() -> GpuResult<()> {
    let pool = MemoryPool::pinned(gpu());
    let memory = LogAdaptor::new(TrackingAdaptor::new(PoisonAdaptor::new(pool)));
    assert_eq!(round_trip(&memory)?, [10; LEN]);
    let pool = MemoryPool::unified(gpu());
    let memory = LogAdaptor::new(TrackingAdaptor::new(PoisonAdaptor::new(pool)));
    assert_eq!(sum(&memory)?, [10; LEN]);
    let upstream: Arc<dyn PinnedMemoryResource> = Arc::new(PinnedHostMemory::new().portable(true));
    let pool = MemoryPool::with_upstream(gpu(), StatisticsAdaptor::new(upstream));
    assert_eq!(round_trip(&pool)?, [10; LEN]);
    Ok(())
}

#[test]
fn tracking_names_the_line() -> GpuResult<()> {
    let memory = TrackingAdaptor::new(MemoryPool::pinned(gpu()));
    let here = line!() + 1;
    let words = PinnedBuffer::<u32>::zeroed_in(&memory, gpu(), 10)?;
    let value = PinnedBox::new_in(&memory, gpu(), &7u64)?;
    let mut lines: Vec<_> =
        memory.live().iter().map(|own| (own.bytes, own.caller.line())).collect();
    lines.sort();
    assert_eq!(lines, [(8, here + 1), (40, here)]);
    assert_eq!(memory.find(words.as_ptr().addr() as u64 + 39).map(|own| own.bytes), Some(40));
    drop((words, value));
    let memory = TrackingAdaptor::new(MemoryPool::unified(gpu()));
    let here = line!() + 1;
    let value = UnifiedBox::<u32>::zeroed_in(&memory, gpu())?;
    let report = memory.report();
    assert!(report.starts_with("4 bytes at 0x"), "{report}");
    assert!(report.contains(&format!("{}:{here}:", file!())), "{report}");
    drop(value);
    assert!(memory.live().is_empty());
    Ok(())
}

#[test]
fn a_log_of_pinned_memory_is_replayed() -> GpuResult<()> {
    let memory = LogAdaptor::new(LimitAdaptor::new(pinned(), 16 * BLOCK));
    let held = PinnedBuffer::<u8>::zeroed_in(&memory, gpu(), 10)?;
    assert!(PinnedBuffer::<u8>::zeroed_in(&memory, gpu(), 17 * BLOCK).is_err());
    drop(PinnedBuffer::<u32>::zeroed_in(&memory, gpu(), LEN)?);
    drop(held);
    let text = memory.log().to_string();
    assert_eq!(
        text,
        "allocate 0 10 on 0\nfail 69632 on 0\nallocate 1 4000 on 0\nfree 1 on 0\nfree 0 on 0\n"
    );
    let log: AllocationLog = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let counts = StatisticsAdaptor::new(MemoryPool::pinned(gpu()));
    log.replay(&counts, gpu())?;
    let told = counts.statistics();
    assert_eq!((told.allocations, told.frees, told.largest_bytes), (3, 3, 69_632));
    Ok(())
}

/// The bytes of a fresh allocation, and of the same memory after its end.
fn patterns(memory: &impl MemoryResource, stream: &Stream, bytes: usize) -> GpuResult<[u8; 2]> {
    let (on, caller) = (StreamRef::of(stream), Location::caller());
    let address = memory.allocate(&AllocationRequest { stream: on, bytes, caller })?;
    stream.synchronize()?;
    let look = || {
        let start = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: the memory is the host's, in a pool that lives, and nothing uses it now.
        let all = unsafe { std::slice::from_raw_parts(start, bytes) };
        assert!(all.iter().all(|byte| *byte == all[0]));
        all[0]
    };
    let new = look();
    // SAFETY: it came from there, and nothing uses it. The pool keeps it.
    unsafe { memory.deallocate(on, address, bytes) };
    stream.synchronize()?;
    Ok([new, look()])
}

#[test]
fn poison_fills_new_and_freed_memory() -> GpuResult<()> {
    type Poison = PoisonAdaptor<MemoryPool>;
    let expected = [Poison::ALLOCATED, Poison::FREED];
    let stream = gpu().create_stream()?;
    for bytes in [1, 700] {
        let pool = MemoryPool::pinned(gpu());
        // It is the host's at once, whatever the stream still has to do.
        assert_eq!(patterns(&*PoisonAdaptor::new(pool.clone()), &stream, bytes)?, expected);
        let pool = MemoryPool::unified(gpu());
        assert_eq!(patterns(&*PoisonAdaptor::new(pool.clone()), &stream, bytes)?, expected);
    }
    Ok(())
}

/// An allocator as a user may write one: parts of one chunk of another resource, one after the other.
struct Arena<R: MemoryResource> {
    upstream: R,
    stream: Stream,
    chunk: Mutex<Option<u64>>,
    used: AtomicUsize,
    live: AtomicUsize,
}

impl<R: MemoryResource> Arena<R> {
    const BYTES: usize = 1 << 16;

    fn of(upstream: R) -> GpuResult<Arc<Self>> {
        let stream = gpu().create_stream()?;
        let (used, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Arc::new(Self { upstream, stream, chunk: Mutex::default(), used, live }))
    }

    fn chunk(&self, caller: &'static Location<'static>) -> GpuResult<u64> {
        let mut chunk = self.chunk.lock().unwrap();
        if let Some(address) = *chunk {
            return Ok(address);
        }
        let stream = StreamRef::of(&self.stream);
        let request = AllocationRequest { stream, bytes: Self::BYTES, caller };
        Ok(*chunk.insert(self.upstream.allocate(&request)?))
    }
}

impl<R: MemoryResource> fmt::Debug for Arena<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} bytes used)", self.used.load(Ordering::Relaxed))
    }
}

// SAFETY: each part of the chunk, of the upstream's kind and aligned to 256 bytes, is given to one owner only.
unsafe impl<R: MemoryResource> MemoryResource for Arena<R> {
    type Kind = R::Kind;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let bytes = request.bytes.next_multiple_of(256);
        let chunk = self.chunk(request.caller)?;
        let start = self.used.fetch_add(bytes, Ordering::Relaxed);
        if start + bytes > Self::BYTES {
            let free = Self::BYTES.saturating_sub(start);
            return Err(GpuError::OutOfPinnedMemory { requested: bytes, free: Some(free) });
        }
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(chunk + start as u64)
    }

    unsafe fn deallocate(&self, _stream: StreamRef<'_>, _address: u64, _bytes: usize) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R: MemoryResource> Drop for Arena<R> {
    fn drop(&mut self) {
        gpu().synchronize().unwrap();
        let chunk = self.chunk.get_mut().unwrap().take();
        // SAFETY: it came from there, and all work that used its parts is over.
        chunk.into_iter().for_each(|chunk| unsafe {
            self.upstream.deallocate(StreamRef::of(&self.stream), chunk, Self::BYTES);
        });
    }
}

#[test]
fn an_allocator_of_ones_own_gives_pinned_memory() -> GpuResult<()> {
    let arena = Arena::of(PinnedHostMemory::new())?;
    assert_eq!(round_trip(&arena)?, [10; LEN]);
    assert_eq!(arena.used.load(Ordering::Relaxed), 2 * BLOCK + 256);
    let too_much = PinnedBuffer::<u8>::zeroed_in(&arena, gpu(), Arena::<PinnedHostMemory>::BYTES);
    assert!(matches!(too_much, Err(GpuError::OutOfPinnedMemory { .. })), "{too_much:?}");
    assert_eq!(arena.live.load(Ordering::Relaxed), 0);
    let held = PinnedBuffer::<u32>::from_slice_in(&arena, gpu(), &[1; 4]);
    assert!(held.is_err(), "what was asked for is used up");
    Ok(())
}

#[test]
fn an_allocator_of_ones_own_gives_unified_memory() -> GpuResult<()> {
    let arena = Arena::of(ManagedMemory)?;
    let one = UnifiedBox::new_in(&arena, gpu(), &1u32)?;
    let many = UnifiedBuffer::from_slice_in(&arena, gpu(), &counted(31))?;
    let mut sum = UnifiedBuffer::zeroed_in(&arena, gpu(), 31)?;
    let weak = Arc::downgrade(&arena);
    drop(arena); // its buffers hold it
    add(gpu(), &one, &many, &mut sum)?;
    let expected: Vec<u32> = counted(31).iter().map(|word| word.wrapping_add(1)).collect();
    assert_eq!(sum.as_slice()?, expected);
    assert_eq!(weak.upgrade().expect("it is held").live.load(Ordering::Relaxed), 3);
    drop((one, many, sum));
    assert!(weak.upgrade().is_none());
    Ok(())
}

#[test]
fn unified_memory_comes_from_a_pool_and_goes_back() -> GpuResult<()> {
    let pool = MemoryPool::unified(gpu());
    for len in SIZES {
        let mut first = UnifiedBuffer::from_slice_in(&pool, gpu(), &counted(len))?;
        assert_eq!(first.as_slice()?, counted(len));
        let block = first.as_device_ptr().address();
        churn(gpu(), &mut first, 3)?;
        drop(first);
        let again = UnifiedBuffer::<u32>::zeroed_in(&pool, gpu(), len)?;
        assert_eq!(again.as_device_ptr().address(), block);
        assert_eq!(again.as_slice()?, vec![0; len]);
    }
    let counts = pool.statistics();
    assert_eq!((counts.hits + counts.misses, counts.returns, counts.waits), (18, 18, 0));
    Ok(())
}

/// A kernel behind a gate has the block of a buffer that was dropped. `take` gets the block on another stream. Whether
/// it came back before the gate was opened.
fn takes_at_once(
    take: impl FnOnce(
        &Arc<MemoryPool<ferrowarp::memory::resource::kind::Unified>>,
        &Stream,
    ) -> GpuResult<UnifiedBuffer<u32>>,
    expected: u32,
) -> GpuResult<bool> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let pool = MemoryPool::unified(gpu());
    let mut gone = UnifiedBuffer::<u32>::zeroed_in(&pool, &a, LEN)?;
    // The kernel is loaded now, and not behind the gate.
    fill(&a, &mut gone, 1)?;
    gpu().synchronize()?;
    let (gate, opened) = (Gate::on(&a), AtomicBool::new(false));
    fill(&a, &mut gone, 7)?;
    let block = gone.as_device_ptr().address();
    drop(gone);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            opened.store(true, Ordering::Release);
            gate.open();
        });
        let taken = take(&pool, &b)?;
        let at_once = !opened.load(Ordering::Acquire);
        assert_eq!((taken.as_device_ptr().address(), pool.statistics().waits), (block, 1));
        assert_eq!(taken.as_slice()?, [expected; LEN], "the earlier owner's kernel came later");
        Ok(at_once)
    })
}

#[test]
fn the_host_waits_for_an_earlier_owner_before_it_writes() -> GpuResult<()> {
    let filled = |pool: &_, stream: &_| UnifiedBuffer::from_slice_in(pool, stream, &[5; LEN]);
    assert!(!takes_at_once(filled, 5)?, "the host has not waited");
    Ok(())
}

#[test]
fn zeros_are_written_in_the_order_of_the_stream() -> GpuResult<()> {
    let zeroed = |pool: &_, stream: &_| UnifiedBuffer::zeroed_in(pool, stream, LEN);
    assert!(takes_at_once(zeroed, 0)?, "the host has waited");
    Ok(())
}

#[test]
fn a_limit_of_unified_memory_limits() -> GpuResult<()> {
    let memory = LimitAdaptor::new(MemoryPool::unified(gpu()), 1000);
    let held = UnifiedBuffer::<u8>::zeroed_in(&memory, gpu(), 600)?;
    let error = UnifiedBuffer::<u8>::zeroed_in(&memory, gpu(), 401).unwrap_err();
    let GpuError::OutOfMemory { requested, free, total, peak } = error else { panic!("{error}") };
    assert_eq!((requested, free, total, peak), (401, 400, 1000, 600));
    drop(held);
    assert_eq!(memory.used_bytes(), 0);
    Ok(())
}

#[test]
fn threads_share_pools_of_every_kind() -> GpuResult<()> {
    let (pages, shared) = (MemoryPool::pinned(gpu()), MemoryPool::unified(gpu()));
    let work = |thread: u32| -> GpuResult<()> {
        let stream = gpu().create_stream()?;
        for i in 0..10 {
            let len = 200 + 30 * i as usize;
            let source = PinnedBuffer::from_slice_in(&pages, &stream, &vec![thread; len])?;
            let mut own = UnifiedBuffer::<u32>::zeroed_in(&shared, &stream, len)?;
            let pending = own.as_device_slice_mut().copy_from_pinned_async(&stream, source)?;
            churn(&stream, &mut own, 10 + i)?;
            drop(pending.wait()?);
            assert_eq!(own.as_slice()?, vec![churned(thread, 10 + i); len]);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for counts in [pages.statistics(), shared.statistics()] {
        assert_eq!((counts.hits + counts.misses, counts.returns), (40, 40), "{counts:?}");
        assert_eq!(counts.current_bytes, 0);
    }
    assert_eq!(pages.statistics().waits, 0);
    Ok(())
}
