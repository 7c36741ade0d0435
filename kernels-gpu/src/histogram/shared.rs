//! The fast histograms: bins in shared memory, several times.
//!
//! What each step buys over [`histogram`](fn@super::histogram):
//! 1. 16-byte loads, four in flight a thread: the memory's bandwidth instead of the latency of single bytes.
//! 2. A copy of the bins for each lane of a warp, in that lane's own bank: 32 additions in one pass, whatever the
//!    data. With one copy, random bytes meet three and a half at a time in a bank. Where the bins are too many for 32 copies, there
//!    are as many as fit.
//! 3. Bytes are counted as bytes, whatever the bins: their 256 counts are put into bins once, at the end.
//!
//! The bodies are generic: [`count`] takes any rule as a closure, for a kernel of one's own.

use crate::prelude::*;
use bytemuck::pod_align_to;
use core::sync::atomic::{AtomicU32, Ordering};
use cuda_std::shared::{dynamic_shared_bytes, dynamic_shared_mem};

use super::bins::{Binning, Even, EvenFloats, Ranges, Sample};

/// Threads in a block.
pub const BLOCK: usize = 512;
/// Blocks that a multiprocessor holds at once, by registers.
pub const MIN_BLOCKS: u32 = 3;
/// 16-byte loads that a thread has in flight.
pub const VECTORS_PER_THREAD: usize = 4;
/// Vectors that a block takes at a time.
const TILE: usize = BLOCK * VECTORS_PER_THREAD;
/// Copies of the bins in a block: at most one for each lane.
const MAX_COPIES_LOG2: u32 = 5;
/// What the copies of a block take at most, in bytes, so that a multiprocessor holds several blocks.
pub const COPIES_BYTES: usize = 48 << 10;
/// Most shared memory of a block on any device, in bytes.
pub const MAX_SHARED_BYTES: usize = 227 << 10;

/// The binary logarithm of the number of copies of `n_bins` bins: 32 copies for few, one for many.
#[must_use]
pub const fn copies_log2(n_bins: usize) -> u32 {
    let mut log2 = MAX_COPIES_LOG2;
    while log2 > 0 && (n_bins * size_of::<u32>()) << log2 > COPIES_BYTES {
        log2 -= 1;
    }
    log2
}

/// Dynamic shared memory for `n_bins` bins and a table of `buckets` (0 without one), in bytes.
#[must_use]
pub const fn shared_bytes(n_bins: usize, buckets: usize) -> usize {
    buckets * size_of::<Vec2<u32>>() + ((n_bins * size_of::<u32>()) << copies_log2(n_bins))
}

/// The block's copies of the bins.
///
/// Copy `c` of bin `b` is word `b * copies + c`. With 32 copies each lane has a bank for itself.
#[derive(Clone, Copy)]
pub struct Counters {
    /// The calling lane's copy of bin 0.
    own: *mut u32,
    first: *mut u32,
    n_bins: u32,
    copies_log2: u32,
}

impl Counters {
    /// The counters in dynamic shared memory, behind `before` bytes, set to 0. All threads of the block call
    /// it together, once; a barrier is inside. Panics if the launch gave too little memory.
    #[inline(always)]
    pub fn zeroed(n_bins: usize, before: usize) -> Self {
        let copies_log2 = copies_log2(n_bins);
        let len = n_bins << copies_log2;
        assert!(
            before + len * size_of::<u32>() <= dynamic_shared_bytes(),
            "the launch gave too little shared memory for the bins"
        );
        // SAFETY: the dynamic shared memory has as many bytes, by the assertion.
        let first = unsafe { dynamic_shared_mem::<u8>().add(before).cast::<u32>() };
        let mut i = thread::thread_idx_x() as usize;
        while i < len {
            // SAFETY: below `len`; the memory is not used otherwise, and before the barrier only by this thread.
            unsafe { first.add(i).write(0) };
            i += BLOCK;
        }
        // Nobody counts before all counters are 0.
        thread::sync_threads();
        let lane = thread::thread_idx_x() & ((1 << copies_log2) - 1);
        // SAFETY: a copy's number is below the number of copies.
        let own = unsafe { first.add(lane as usize) };
        Self { own, first, n_bins: n_bins as u32, copies_log2 }
    }

    /// Counts a sample of `bin`; none past the last bin.
    #[inline(always)]
    pub fn add(self, bin: u32) {
        if bin < self.n_bins {
            // SAFETY: the lane's copy of a bin, inside; between two barriers every access is atomic.
            let counter =
                unsafe { AtomicU32::from_ptr(self.own.add((bin << self.copies_log2) as usize)) };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The count of a bin, which is below the number of bins, over all copies.
    ///
    /// # Safety
    /// Nobody counts any more.
    #[inline(always)]
    unsafe fn sum(self, bin: usize) -> u32 {
        let copies = 1usize << self.copies_log2;
        let mut count = 0u32;
        for k in 0..copies {
            // Lanes begin with different copies, which lie in different banks.
            let at = (bin << self.copies_log2) + ((k + bin) & (copies - 1));
            // SAFETY: a copy of a bin, inside; nobody writes any more.
            count = count.wrapping_add(unsafe { self.first.add(at).read() });
        }
        count
    }

    /// Adds the counts to `bins`: the counts of bin `b` to `bins[to(b)]`, if there is one. Neighbouring threads have neighbouring
    /// bins, so that an addition of a warp is one access. All threads of the block call it together; a barrier is inside.
    #[inline(always)]
    pub fn merge_into(self, bins: AtomicSlice<u32>, to: impl Fn(usize) -> usize) {
        // Every count of this block is in.
        thread::sync_threads();
        let mut bin = thread::thread_idx_x() as usize;
        while bin < self.n_bins as usize {
            // SAFETY: below the number of bins, and behind the barrier.
            let count = unsafe { self.sum(bin) };
            let to = to(bin);
            if count > 0 && to < bins.len() {
                bins.fetch_add(to, count, Relaxed);
            }
            bin += BLOCK;
        }
    }
}

/// Calls `f` with each sample of a vector, in order.
#[inline(always)]
fn each_in<T: Sample>(vector: Vec4<u32>, f: &mut impl FnMut(T)) {
    let mut each_of_word = |word| {
        for k in 0..T::PER_WORD {
            f(T::of_word(word, k));
        }
    };
    each_of_word(vector.x);
    each_of_word(vector.y);
    each_of_word(vector.z);
    each_of_word(vector.w);
}

/// Calls `f` with each sample that is the calling thread's: over the threads of the grid, each sample of the slice once.
/// Blocks have [`BLOCK`] threads: of larger ones, the threads from there on repeat what the first ones do.
#[inline(always)]
pub fn each_sample<T: Sample>(samples: &[T], mut f: impl FnMut(T)) {
    let thread = thread::thread_idx_x() as usize % BLOCK;
    let (block, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let (head, body, tail) = pod_align_to::<T, Vec4<u32>>(samples);
    // With less than a tile for each block, all blocks take of what there is.
    let in_tiles = if body.len() / TILE < blocks { 0 } else { body.len() - body.len() % TILE };
    let (tiles, rest) = body.split_at(in_tiles);
    let (tiles, _) = tiles.as_chunks::<TILE>();

    let mut i = block;
    while let Some(tile) = tiles.get(i) {
        // SAFETY: `thread < BLOCK`, and `k < VECTORS_PER_THREAD`.
        let at = |k| unsafe { *tile.get_unchecked(k * BLOCK + thread) };
        // All loads are under way before the first count.
        let (a, b, c, d) = (at(0), at(1), at(2), at(3));
        each_in(a, &mut f);
        each_in(b, &mut f);
        each_in(c, &mut f);
        each_in(d, &mut f);
        i += blocks;
    }
    let first = block * BLOCK + thread;
    let mut i = first;
    while let Some(vector) = rest.get(i) {
        each_in(*vector, &mut f);
        i += blocks * BLOCK;
    }
    // Both have fewer samples than a vector.
    if let Some(sample) = head.get(first) {
        f(*sample);
    }
    if let Some(sample) = tail.get(first) {
        f(*sample);
    }
}

/// The whole of a histogram by a rule: adds to `bins` how many of `samples` it puts into each. Blocks have
/// [`BLOCK`] threads and [`shared_bytes`]`(bins, 0)` of dynamic shared memory.
#[inline(always)]
pub fn count<T: Sample>(samples: &[T], bins: AtomicSlice<u32>, bin: impl Fn(T) -> u32) {
    let counters = Counters::zeroed(bins.len(), 0);
    each_sample(samples, |sample| counters.add(bin(sample)));
    counters.merge_into(bins, |bin| bin);
}

/// The fast form of [`histogram_global`](fn@super::histogram_global), with its arguments, for bins that fit into shared memory:
/// [`shared_bytes`]`(bins, 0)` of it a block. Any number of blocks.
#[kernel(
    (u16, Even), (u32, Even), (f32, EvenFloats),
    block = BLOCK, min_blocks = MIN_BLOCKS, dynamic_shared = 4..=MAX_SHARED_BYTES
)]
pub fn histogram_shared<T: Sample, B: Binning<T>>(
    samples: &[T],
    binning: B,
    bins: AtomicSlice<u32>,
) {
    count(samples, bins, |sample| binning.bin(sample));
}

/// The fast form of [`histogram_search`](fn@super::histogram_search): a table instead of the search.
///
/// `table: [ranges.last_bucket + 1]` and `inner: [bins - 1]` are those of [`Ranges`]. [`shared_bytes`]`(bins, table)` of shared
/// memory a block, any number of blocks.
#[kernel(u16, u32, f32, block = BLOCK, min_blocks = MIN_BLOCKS, dynamic_shared = 4..=MAX_SHARED_BYTES)]
pub fn histogram_ranges<T: Sample>(
    samples: &[T],
    ranges: Ranges,
    table: &[Vec2<u32>],
    inner: &[u32],
    bins: AtomicSlice<u32>,
) {
    let table_bytes = size_of_val(table);
    assert!(ranges.last_bucket as usize + 1 == table.len(), "the table is another one's");
    assert!(table_bytes <= dynamic_shared_bytes(), "the launch gave too little shared memory");
    let shared = dynamic_shared_mem::<Vec2<u32>>();
    let mut i = thread::thread_idx_x() as usize;
    while i < table.len() {
        // SAFETY: the shared memory begins with as many entries, by the assertion; before the barrier in `zeroed`, entry
        // `i` is this thread's alone.
        unsafe { shared.add(i).write(Vec2::new(table[i].x, table[i].y)) };
        i += BLOCK;
    }
    let counters = Counters::zeroed(bins.len(), table_bytes);
    // SAFETY: a bucket is at most the last one; written before the barrier in `zeroed`, and not since.
    let entry = |bucket: u32| unsafe { shared.add(bucket as usize).read() };
    if ranges.is_simple() {
        let last_bin = inner.len() as u32;
        each_sample(samples, |x: T| counters.add(ranges.simple_bin(x, entry, last_bin)));
    } else {
        each_sample(samples, |x: T| counters.add(ranges.bin(x, entry, inner)));
    }
    counters.merge_into(bins, |bin| bin);
}

/// Copies of 256 counters: one for each lane.
const BYTE_COUNTERS: usize = 256 * 32;

/// Counts `bytes: [n]` as bytes, and adds the count of byte `v` to `bins[map[v]]`, for those that have one.
/// The fast form of all three rules. Any number of blocks.
#[kernel(block = BLOCK, min_blocks = MIN_BLOCKS)]
pub fn histogram_bytes(bytes: &[u8], map: &[u32], bins: AtomicSlice<u32>) {
    let lane = thread::thread_idx_x() as usize & 31;
    let first = shared_array![u32; BYTE_COUNTERS].as_mut_ptr();
    let mut i = thread::thread_idx_x() as usize;
    while i < BYTE_COUNTERS {
        // SAFETY: inside, and before the barrier this thread's alone.
        unsafe { first.add(i).write(0) };
        i += BLOCK;
    }
    // Nobody counts before all counters are 0.
    thread::sync_threads();
    each_sample(bytes, |byte: u8| {
        let bytes_before = usize::from(byte) << 7 | lane << 2;
        // SAFETY: below 256 * 128, a multiple of 4; between the two barriers every access is atomic.
        let counter = unsafe { AtomicU32::from_ptr(first.byte_add(bytes_before)) };
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let counters = Counters { own: first, first, n_bins: 256, copies_log2: MAX_COPIES_LOG2 };
    counters.merge_into(bins, |byte| map.get(byte).map_or(usize::MAX, |bin| *bin as usize));
}
