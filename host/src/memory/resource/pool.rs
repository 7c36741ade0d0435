//! A pool of our own: freed blocks are kept by size and stream, and a block that fits is handed out
//! without a call of the driver.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::kind::{self, ResourceKind};
use super::{
    AllocationRequest, ManagedMemory, MemoryResource, PinnedHostMemory, StreamRef,
    SynchronousMemory,
};
use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::host_callback::{defer_drop, in_host_callback};
use crate::lock::lock;
use crate::stream::{AsStream, StreamInner};

/// Sizes of blocks, as powers of two: 256 bytes, to which all memory is aligned, to 1 GiB. What is
/// larger is not kept: rounding it up would waste too much.
const SMALLEST_LOG2: u32 = 8;
const LARGEST_LOG2: u32 = 30;
const CLASSES: usize = (LARGEST_LOG2 - SMALLEST_LOG2 + 1) as usize;

/// A pool of memory of one kind that keeps freed blocks, in sizes that are powers of two.
///
/// A block that was freed on a stream is handed out again on that stream at once: the stream's order
/// is enough. On another stream it is handed out too, and that stream waits, by an event, for the
/// work that the first one has at that moment; the host waits for nothing. Do not share a pool with
/// a stream on which a kernel runs that ends only when other streams get on. Pinned memory is free of all this: nothing
/// uses it when it is freed, so that every stream gets it without a wait.
///
/// When memory runs out, all that is kept goes back to the device, and the allocation is tried once
/// more. Any thread may use the pool.
///
/// ```no_run
/// use ferrowarp::memory::resource::MemoryPool;
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let pool = MemoryPool::new(&gpu);
/// for _ in 0..1000 {
///     let _scratch = DeviceBuffer::<f32>::zeroed_in(&pool, &gpu, 5000)?;
/// }
/// let counts = pool.statistics();
/// assert_eq!((counts.misses, counts.hits, counts.returns), (1, 999, 1000));
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct MemoryPool<K: ResourceKind = kind::Device> {
    context: Arc<Context>,
    upstream: Arc<dyn MemoryResource<Kind = K>>,
    classes: [Class; CLASSES],
    counts: Counts,
}

/// What a [`MemoryPool`] has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Allocations that a kept block served.
    pub hits: u64,
    /// Hits for which a stream had to wait for another one.
    pub waits: u64,
    /// Allocations that needed new memory, and got it or not.
    pub misses: u64,
    /// Blocks that came back.
    pub returns: u64,
    /// Times that all kept blocks went back to the device.
    pub trims: u64,
    /// Bytes handed out now, as the sizes of their blocks.
    pub current_bytes: usize,
    /// Bytes handed out at most at one time.
    pub peak_bytes: usize,
    /// Bytes kept for later.
    pub kept_bytes: usize,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    waits: AtomicU64,
    misses: AtomicU64,
    returns: AtomicU64,
    trims: AtomicU64,
    current_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    kept_bytes: AtomicUsize,
}

impl Counts {
    fn handed_out(&self, bytes: usize) {
        let now = self.current_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(now, Ordering::Relaxed);
    }

    fn one_more(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The free blocks of one size.
#[derive(Default)]
struct Class(Mutex<Vec<Shelf>>);

/// Those of them that were freed on one stream.
struct Shelf {
    stream: Arc<StreamInner>,
    blocks: Vec<u64>,
}

/// A free block, and the stream whose work it may still be in use by.
enum Taken {
    /// The stream that it is for.
    Own(u64),
    Foreign(u64, Arc<StreamInner>),
}

impl Class {
    fn lock(&self) -> MutexGuard<'_, Vec<Shelf>> {
        lock(&self.0)
    }

    /// A block, of this stream if there is one.
    fn take(&self, stream: &Arc<StreamInner>) -> Option<Taken> {
        let mut shelves = self.lock();
        let own = shelves.iter_mut().find(|shelf| Arc::ptr_eq(&shelf.stream, stream));
        if let Some(block) = own.and_then(|shelf| shelf.blocks.pop()) {
            return Some(Taken::Own(block));
        }
        let at = shelves.iter().position(|shelf| !shelf.blocks.is_empty())?;
        let block = shelves[at].blocks.pop()?;
        Some(Taken::Foreign(block, shelves[at].stream.clone()))
    }

    fn put(&self, stream: &Arc<StreamInner>, block: u64) {
        let mut shelves = self.lock();
        if let Some(own) = shelves.iter_mut().find(|shelf| Arc::ptr_eq(&shelf.stream, stream)) {
            return own.blocks.push(block);
        }
        // Streams that only an empty shelf holds are at their end.
        let over =
            |shelf: &mut Shelf| shelf.blocks.is_empty() && Arc::strong_count(&shelf.stream) == 1;
        let gone: Vec<Shelf> = shelves.extract_if(.., over).collect();
        shelves.push(Shelf { stream: stream.clone(), blocks: vec![block] });
        drop(shelves);
        drop(gone);
    }

    fn take_all(&self) -> Vec<Shelf> {
        std::mem::take(&mut self.lock())
    }
}

/// The size class for `bytes`, and its size; `None` beyond the largest.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let log2 = bytes.checked_next_power_of_two()?.trailing_zeros().max(SMALLEST_LOG2);
    (log2 <= LARGEST_LOG2).then_some(((log2 - SMALLEST_LOG2) as usize, 1 << log2))
}

impl MemoryPool {
    /// An empty pool of the device of `on`, over `cuMemAlloc`.
    pub fn new(on: &impl AsStream) -> Arc<Self> {
        Self::with_upstream(on, Arc::new(SynchronousMemory))
    }
}

impl MemoryPool<kind::Pinned> {
    /// An empty pool of page-locked memory, over `cuMemHostAlloc`.
    ///
    /// ```no_run
    /// use ferrowarp::memory::resource::MemoryPool;
    /// use ferrowarp::{Gpu, PinnedBuffer};
    ///
    /// let gpu = Gpu::new()?;
    /// let pool = MemoryPool::pinned(&gpu);
    /// let frame = PinnedBuffer::<u8>::zeroed_in(&pool, &gpu, 1 << 20)?;
    /// drop(frame); // the next frame gets its memory, and calls no driver
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    pub fn pinned(on: &impl AsStream) -> Arc<Self> {
        Self::with_upstream(on, Arc::new(PinnedHostMemory::new()))
    }
}

impl MemoryPool<kind::Unified> {
    /// An empty pool of managed memory, over `cuMemAllocManaged`.
    pub fn unified(on: &impl AsStream) -> Arc<Self> {
        Self::with_upstream(on, Arc::new(ManagedMemory))
    }
}

impl<K: ResourceKind> MemoryPool<K> {
    /// An empty pool of the device of `on`, which gets its blocks from `upstream`.
    pub fn with_upstream(
        on: &impl AsStream,
        upstream: Arc<dyn MemoryResource<Kind = K>>,
    ) -> Arc<Self> {
        let context = on.as_stream().inner().context().clone();
        let (classes, counts) = (std::array::from_fn(|_| Class::default()), Counts::default());
        Arc::new(Self { context, upstream, classes, counts })
    }

    /// What the pool has done and holds.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let bytes = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        PoolStatistics {
            hits: count(&counts.hits),
            waits: count(&counts.waits),
            misses: count(&counts.misses),
            returns: count(&counts.returns),
            trims: count(&counts.trims),
            current_bytes: bytes(&counts.current_bytes),
            peak_bytes: bytes(&counts.peak_bytes),
            kept_bytes: bytes(&counts.kept_bytes),
        }
    }

    /// A kept block of the class, if there is one, in the order of the stream.
    fn kept(&self, stream: &Arc<StreamInner>, class: usize, size: usize) -> GpuResult<Option<u64>> {
        let block = match self.classes[class].take(stream) {
            None => return Ok(None),
            Some(Taken::Own(block)) => block,
            Some(Taken::Foreign(block, _)) if !K::IN_STREAM_ORDER => block,
            Some(Taken::Foreign(block, other)) => {
                stream.wait_stream_for_order(&other).inspect_err(|_| {
                    self.classes[class].put(&other, block);
                })?;
                Counts::one_more(&self.counts.waits);
                block
            }
        };
        Counts::one_more(&self.counts.hits);
        self.counts.kept_bytes.fetch_sub(size, Ordering::Relaxed);
        Ok(Some(block))
    }

    /// A new block; if there is no memory, once more after a trim.
    fn fresh(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        Counts::one_more(&self.counts.misses);
        match self.upstream.allocate(request) {
            Err(error) if is_exhausted(&error) => {
                // Where the upstream can give nothing back, what was kept here may be enough.
                let _ = self.trim();
                self.upstream.allocate(request)
            }
            result => result,
        }
    }

    /// Returns all kept blocks to the upstream: now, or after the host callback that this runs in.
    fn empty(&self) {
        let mut leaving = Leaving { upstream: self.upstream.clone(), shelves: Vec::new() };
        for (at, class) in self.classes.iter().enumerate() {
            let size = 1 << (at as u32 + SMALLEST_LOG2);
            for shelf in class.take_all() {
                self.counts.kept_bytes.fetch_sub(size * shelf.blocks.len(), Ordering::Relaxed);
                leaving.shelves.push((size, shelf));
            }
        }
        if in_host_callback() {
            defer_drop(Box::new(leaving));
        }
    }
}

fn is_exhausted(error: &GpuError) -> bool {
    matches!(error.root(), GpuError::OutOfMemory { .. } | GpuError::OutOfPinnedMemory { .. })
}

/// Blocks on their way to the upstream.
struct Leaving<K: ResourceKind> {
    upstream: Arc<dyn MemoryResource<Kind = K>>,
    shelves: Vec<(usize, Shelf)>,
}

impl<K: ResourceKind> Drop for Leaving<K> {
    fn drop(&mut self) {
        for (size, Shelf { stream, blocks }) in &self.shelves {
            for block in blocks {
                // SAFETY: the block came from the upstream with this size, nobody has it, and all
                // its uses are ordered before the end of the stream that it was freed on.
                unsafe { self.upstream.deallocate(StreamRef::new(stream), *block, *size) };
            }
        }
    }
}

// SAFETY: a block comes from the upstream, which gives each to one owner, or from a shelf, where it
// was put by `deallocate` and from where it is taken once. Its earlier uses are ordered before the
// end of the shelf's stream: on that stream new work is behind them, and another one waits for that
// end first. Pinned memory has no uses left when it is freed.
unsafe impl<K: ResourceKind> MemoryResource for MemoryPool<K> {
    type Kind = K;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let stream = request.stream.inner();
        stream.check_device(&self.context, "the stream")?;
        let (block, size) = match class_of(request.bytes) {
            None => (self.fresh(request)?, request.bytes),
            Some((class, size)) => match self.kept(stream, class, size)? {
                Some(block) => (block, size),
                None => (self.fresh(&AllocationRequest { bytes: size, ..*request })?, size),
            },
        };
        self.counts.handed_out(size);
        Ok(block)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        Counts::one_more(&self.counts.returns);
        let Some((class, size)) = class_of(bytes) else {
            self.counts.current_bytes.fetch_sub(bytes, Ordering::Relaxed);
            // SAFETY: the caller's promise; the upstream gave exactly so many bytes.
            return unsafe { self.upstream.deallocate(stream, address, bytes) };
        };
        self.counts.current_bytes.fetch_sub(size, Ordering::Relaxed);
        self.counts.kept_bytes.fetch_add(size, Ordering::Relaxed);
        self.classes[class].put(stream.inner(), address);
    }

    fn trim(&self) -> GpuResult<()> {
        Counts::one_more(&self.counts.trims);
        self.empty();
        self.upstream.trim()
    }

    fn open_to(&self, peer: u32) -> GpuResult<()> {
        self.upstream.open_to(peer)
    }
}

impl<K: ResourceKind> Drop for MemoryPool<K> {
    /// What is handed out holds the pool, so all of it is here.
    fn drop(&mut self) {
        self.empty();
    }
}

impl<K: ResourceKind> fmt::Debug for MemoryPool<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("MemoryPool");
        debug.field("upstream", &self.upstream).field("statistics", &self.statistics()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_powers_of_two() {
        assert_eq!(class_of(1), Some((0, 256)));
        assert_eq!(class_of(256), Some((0, 256)));
        assert_eq!(class_of(257), Some((1, 512)));
        assert_eq!(class_of(1 << 30), Some((CLASSES - 1, 1 << 30)));
        assert_eq!(class_of((1 << 30) + 1), None);
        assert_eq!(class_of(usize::MAX), None);
    }
}
