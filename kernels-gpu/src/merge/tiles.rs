//! Two sorted arrays as one.
//!
//! * [`merge_plain`](struct@merge_plain): each thread finds by a binary search in the other array where its element goes.
//! * [`merge_tiles`](struct@merge_tiles), [`merge_tile_pairs`](struct@merge_tile_pairs): each block makes one tile of the result. The
//!   elements that it needs are two stretches, which go to shared memory, where each thread finds its own stretches by a
//!   [`merge_path`](super::path) and merges them one by one, without a branch. Where the tiles' stretches begin,
//!   [`merge_splits`](struct@merge_splits) has found before: a search is as many loads, one after the other, as
//!   the arrays' lengths have bits, and so those of all tiles go on at once, a thread for each.
//!
//! Keys are compared in their total order (see [`search`](crate::search)). The merge is stable: of equal keys those
//! of the first array come first.

use crate::prelude::*;
use bytemuck::Zeroable;
use cuda_std::access::{self, Access, ReadOnlyHint, StoreHint};
use cuda_std::atomic::AtomicElement;
use cuda_std::dependent;
use cuda_std::unroll::each_below;

use super::path::{merge_path_by, merge_path_near, merge_path_short};
use crate::search::Key;

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Elements of the result that each thread makes, at most: odd, so that the threads of a warp meet different banks.
const MOST_ITEMS: usize = 15;
/// Splits that a block of [`merge_splits`](struct@merge_splits) finds.
pub const SPLITS: usize = BLOCK;
/// How far from where it is expected a split is looked for first: of random keys nine in ten are that near.
const REACH: usize = 512;

/// Elements of the result that each thread makes of keys of type `K`.
const fn items<K>() -> usize {
    if size_of::<K>() > 4 { MOST_ITEMS / 2 } else { MOST_ITEMS }
}

/// Elements of the result that a block makes of keys of type `K`.
#[must_use]
pub const fn tile_len<K>() -> usize {
    BLOCK * items::<K>()
}

/// Whether `a` of the first array goes before `b` of the second.
#[inline(always)]
fn goes_first<K: Key>(a: K, b: K) -> bool {
    a.to_ordered() <= b.to_ordered()
}

/// The plain form. `a: [n]`, `b: [m]`, both sorted; `out: [n + m]` are atomics, since threads write everywhere.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_plain<K: Key + AtomicElement>(
    index: ThreadIndex,
    a: &[K],
    b: &[K],
    out: AtomicSlice<K>,
) {
    for own in index.grid_stride(a.len() + b.len()) {
        let i = own.get();
        let (key, place) = match (a.get(i), b.get(i.wrapping_sub(a.len()))) {
            (Some(&key), _) => (key, i + b.partition_point(|&b| !goes_first(key, b))),
            (_, Some(&key)) => (key, i - a.len() + a.partition_point(|&a| goes_first(a, key))),
            _ => return,
        };
        out.store(place, key, Relaxed);
    }
}

/// How many of the first `i` tiles of a merge of `a: [n]` and `b: [m]` come from `a`, for each `i`;
/// `splits: [tiles + 1]`. A block for each [`SPLITS`] of them.
///
/// A whole warp looks for the first one of a block, and another one for that behind its last. The others lie between, and a
/// thread looks for each, first where it would be if both arrays were alike: every step of a search is a sector of
/// device memory that no other thread asks for.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_splits<K: Key>(mut block: Block<BLOCK>, a: &[K], b: &[K], splits: AtomicSlice<u64>) {
    let goes = |i: usize, j: usize| {
        // SAFETY: below the lengths.
        unsafe { goes_first(*a.get_unchecked(i), *b.get_unchecked(j)) }
    };
    let steps_to = |tile: usize| (tile * tile_len::<K>()).min(a.len() + b.len());
    // The merge's blocks may come as soon as the searches are under way.
    dependent::let_next_start();
    let first = thread::block_in_grid() * SPLITS;
    let (start, end) = (steps_to(first), steps_to(first + SPLITS));
    let is_end = block.warp() == 1;
    let mut found = 0;
    if block.warp() < 2 {
        let steps = if is_end { end } else { start };
        let range = (steps.saturating_sub(b.len()), steps.min(a.len()));
        found = merge_path_by(block.whole_warp(), steps, range, goes);
    }
    // Each in the range of its own steps, where `goes` may look: what arrives is anything where a thread has ended early.
    let within = |found: usize, steps: usize| {
        found.max(steps.saturating_sub(b.len())).min(steps.min(a.len()))
    };
    let low = within(block.broadcast(found, 0), start);
    let high = within(block.broadcast(found, 32), end);

    let own = first + block.thread();
    let steps = steps_to(own);
    // Of either array come at least as many as of the first split's, and at most as many as of the last one's.
    let range = (low.max(steps.saturating_sub(end - high)), high.min(steps - (start - low)));
    if own < splits.len() {
        // Splits of arrays that are alike are about evenly far from one another.
        let guess = low + high.saturating_sub(low) * (steps - start) / (end - start).max(1);
        let near = (guess.max(range.0).min(range.1), REACH);
        splits.store(own, merge_path_near(steps, range, near, goes) as u64, Relaxed);
    }
}

/// The fast form. `a: [n]`, `b: [m]`, both sorted; `splits:` those of [`merge_splits`](struct@merge_splits);
/// `out: [n + m]`; a block for each tile of `out`.
#[kernel(u32, i32, f32, u64, i64, f64, dependent, max_registers = 32)]
pub fn merge_tiles<K: Key + Access>(
    mut block: Block<BLOCK>,
    splits: &[u64],
    a: &[K],
    b: &[K],
    mut out: DisjointSlice<K>,
) {
    let Some(share) = Share::of_block::<K>(splits, a.len(), b.len()) else { return };
    let tile = Tile::<K>::new(&block);
    tile.fill(&share, a, b);
    // All keys of the tile are there.
    block.sync(());
    let (keys, _) = tile.merge(&share, false);
    tile.store(&mut block, &share, &keys, &mut out);
}

/// Merges pairs: each value goes where its key goes.
#[expect(clippy::too_many_arguments, reason = "two arrays in, one out, each of keys and values")]
#[kernel(u32, i32, f32, u64, i64, f64, dependent, max_registers = 40)]
pub fn merge_tile_pairs<K: Key + Access>(
    mut block: Block<BLOCK>,
    splits: &[u64],
    a: &[K],
    a_values: &[u32],
    b: &[K],
    b_values: &[u32],
    mut out: DisjointSlice<K>,
    mut out_values: DisjointSlice<u32>,
) {
    let Some(share) = Share::of_block::<K>(splits, a.len(), b.len()) else { return };
    let tile = Tile::<K>::new(&block);
    tile.fill(&share, a, b);
    // All keys of the tile are there.
    block.sync(());
    let (keys, sources) = tile.merge(&share, true);
    tile.store(&mut block, &share, &keys, &mut out);
    let sources = tile.exchange(&mut block, &sources);
    let len = share.len_in(out_values.len());
    let out_values = out_values.as_mut_ptr();
    each_below::<MOST_ITEMS>(items::<K>(), |k| {
        let i = block.thread() + k * BLOCK;
        if i < len {
            // SAFETY: inside the tile, whose items the exchange wrote; `pick` compares what it is given.
            let source = unsafe { sources.add(i).read() } as usize;
            let value = share.pick(a_values, b_values, source).unwrap_or(0);
            // SAFETY: inside the values; the tile is the block's own.
            unsafe { out_values.add(share.start + i).write(value) };
        }
    });
}

/// The stretches of both arrays that a block merges, as they lie in its tile: the first from the front on, the second
/// from the back on, turned round. Between them is nothing, but in the last tile.
///
/// So a thread that comes to the end of one stretch sees the largest keys of the other, which go behind all that is
/// left, and a merge compares nothing but keys.
#[derive(Clone, Copy)]
struct Share {
    /// The length of a whole tile.
    tile: usize,
    /// Where the tile begins in the result.
    start: usize,
    /// Where its stretch of the first array begins, and its length.
    a: (usize, u32),
    /// The same of the second.
    b: (usize, u32),
}

impl Share {
    /// What the block's tile is made of: nothing where the splits are none of arrays of these lengths.
    #[inline(always)]
    fn of_block<K>(splits: &[u64], a_len: usize, b_len: usize) -> Option<Self> {
        let (number, tile) = (thread::block_idx_x() as usize, tile_len::<K>());
        let (first, last) = (*splits.get(number)? as usize, *splits.get(number + 1)? as usize);
        let (start, end) = (number * tile, ((number + 1) * tile).min(a_len + b_len));
        let is_of_a = first <= last && last <= a_len;
        let is_of_b = first <= start && last <= end && end - last <= b_len;
        if !is_of_a || !is_of_b || last - first > end - start || start > end {
            return None;
        }
        let a = (last - first) as u32;
        Some(Self { tile, start, a: (first, a), b: (start - first, (end - start) as u32 - a) })
    }

    /// The number of elements.
    #[inline(always)]
    fn len(&self) -> usize {
        (self.a.1 + self.b.1) as usize
    }

    /// How many of them are in a result of this length.
    #[inline(always)]
    fn len_in(&self, out_len: usize) -> usize {
        self.len().min(out_len.saturating_sub(self.start))
    }

    /// The element at place `i` of the tile, of keys or of values.
    #[inline(always)]
    fn pick<T: Copy>(&self, a: &[T], b: &[T], i: usize) -> Option<T> {
        if (i as u32) < self.a.1 {
            return a.get(self.a.0 + i).copied();
        }
        let behind = self.tile - 1 - i;
        if behind < self.b.1 as usize { b.get(self.b.0 + behind).copied() } else { None }
    }
}

/// The block's tile of keys in shared memory.
#[derive(Clone, Copy)]
struct Tile<K: Key> {
    bits: *mut K::Bits,
    thread: usize,
}

impl<K: Key + Access> Tile<K> {
    const ITEMS: usize = items::<K>();
    /// The last place.
    const LAST: usize = tile_len::<K>() - 1;

    #[inline(always)]
    fn new(block: &Block<BLOCK>) -> Self {
        const { assert!(tile_len::<K>() * size_of::<K::Bits>() <= 4 * BLOCK * MOST_ITEMS) };
        let words = shared_array![u32; BLOCK * MOST_ITEMS].as_mut_ptr();
        Self { bits: words.cast(), thread: block.thread() }
    }

    /// Fills the tile with the ordered bits of the block's share. Between the stretches come the largest bits.
    #[inline(always)]
    fn fill(self, share: &Share, a: &[K], b: &[K]) {
        if share.len() > Self::LAST {
            let a = a.as_ptr().wrapping_add(share.a.0);
            let b = b.as_ptr().wrapping_add(share.b.0 + Self::LAST);
            each_below::<MOST_ITEMS>(Self::ITEMS, |k| {
                let i = self.thread + k * BLOCK;
                let is_first = (i as u32) < share.a.1;
                let from = if is_first { a.wrapping_add(i) } else { b.wrapping_sub(i) };
                // Stretches begin anywhere: a line that a warp reads the beginning of, the next one finds in L1.
                // SAFETY: in one of the stretches, which fill the tile and are inside the arrays; the place is the
                // thread's own.
                unsafe {
                    let key = access::load_read_only(&*from, ReadOnlyHint::AllLevels);
                    self.bits.add(i).write(key.to_ordered());
                }
            });
            return;
        }
        let mut i = self.thread;
        while i <= Self::LAST {
            let largest = K::reversed(K::Bits::zeroed());
            let bits = share.pick(a, b, i).map_or(largest, K::to_ordered);
            // SAFETY: the place is the thread's own.
            unsafe { self.bits.add(i).write(bits) };
            i += BLOCK;
        }
    }

    /// The thread's items in order, and where in the tile they were: the first [`items`] of both. The tile has been filled.
    ///
    /// What is between the stretches counts as the end of the second. Where the first one has ended and equal keys
    /// alone are left, only a `stable` merge takes them from the front of the second.
    #[inline(always)]
    fn merge(self, share: &Share, is_stable: bool) -> ([K; MOST_ITEMS], [u32; MOST_ITEMS]) {
        // SAFETY: all places that a merge of so many steps looks at are in the tile.
        let at = |i: usize| unsafe { self.bits.wrapping_add(i).read() };
        let (steps, a_len) = (self.thread * Self::ITEMS, share.a.1);
        let lens = (a_len, Self::LAST as u32 + 1 - a_len);
        let goes = |i: u32, j: u32| at(i as usize) <= at(Self::LAST - j as usize);
        let mut i = merge_path_short(steps as u32, lens, goes) as usize;
        // After `k` steps the second stretch is at `i + apart - k`.
        let apart = Self::LAST - steps;
        let (mut a, mut b) = (at(i), at(i + apart));
        let (mut keys, mut sources) = ([K::from_ordered(a); MOST_ITEMS], [0; MOST_ITEMS]);
        each_below::<MOST_ITEMS>(Self::ITEMS, |k| {
            let is_first = a <= b && (!is_stable || i < a_len as usize);
            keys[k] = K::from_ordered(if is_first { a } else { b });
            sources[k] = (if is_first { i } else { i + apart - k }) as u32;
            if k + 1 < Self::ITEMS {
                let next = i + (if is_first { k + 2 } else { apart }) - (k + 1);
                i += usize::from(is_first);
                let next = at(next);
                (a, b) = if is_first { (next, b) } else { (a, next) };
            }
        });
        (keys, sources)
    }

    /// The items of all threads, in order, in the tile's memory. Others may still be reading that.
    #[inline(always)]
    fn exchange<T: Copy>(self, block: &mut Block<BLOCK>, items: &[T; MOST_ITEMS]) -> *const T {
        const { assert!(size_of::<T>() <= size_of::<K>()) };
        let all = self.bits.cast::<T>();
        // Every thread has read what it wants.
        block.sync(());
        // SAFETY: the places are the thread's own.
        each_below::<MOST_ITEMS>(Self::ITEMS, |k| unsafe {
            all.add(self.thread * Self::ITEMS + k).write(items[k])
        });
        // All items are there.
        block.sync(());
        all
    }

    /// Writes the items of all threads, in order, to the block's place in the result, through the tile's memory.
    #[inline(always)]
    fn store(
        self,
        block: &mut Block<BLOCK>,
        share: &Share,
        items: &[K; MOST_ITEMS],
        out: &mut DisjointSlice<K>,
    ) {
        let all = self.exchange(block, items);
        let len = share.len_in(out.len());
        let first = out.as_mut_ptr().wrapping_add(share.start);
        let (from, to) = (all.cast::<Vec4<u32>>(), first.cast::<Vec4<u32>>());
        if len > Self::LAST && to.is_aligned() {
            let vectors = const { tile_len::<K>() * size_of::<K>() / size_of::<Vec4<u32>>() };
            each_below::<4>(vectors.div_ceil(BLOCK), |k| {
                let i = self.thread + k * BLOCK;
                if i < vectors {
                    // SAFETY: aligned, and inside the tile, which is inside the result and the block's own. All items
                    // are there.
                    let (vector, to) = unsafe { (from.add(i).read(), &mut *to.add(i)) };
                    // In one store: the compiler copies 16 bytes by two of 8.
                    access::store(to, vector, StoreHint::WriteBack);
                }
            });
            return;
        }
        let mut i = self.thread;
        while i < len {
            // SAFETY: inside the result; the tile is the block's own.
            unsafe { first.add(i).write(all.add(i).read()) };
            i += BLOCK;
        }
    }
}

/// Which elements of a sorted array `a: [n]` have a partner in a sorted array `b: [m]`: `flags: [n]` become 1
/// for those that have if `with_partner` is 1, for those that have none if it is 0.
///
/// The `k`th of equal elements has one if `b` has at least `k` elements equal to it.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_partners<K: Key>(
    index: ThreadIndex,
    with_partner: u32,
    a: &[K],
    b: &[K],
    mut flags: DisjointSlice<u8>,
) {
    for own in index.grid_stride(a.len()) {
        if let (Some(&key), Some(flag)) = (a.get(own.get()), flags.get_mut(own)) {
            let key = key.to_ordered();
            let before = |x: &[K]| x.partition_point(|x| x.to_ordered() < key);
            let behind = b.partition_point(|b| b.to_ordered() <= key);
            let has_partner = own.get() - before(a) < behind - before(b);
            *flag = u8::from(has_partner == (with_partner != 0));
        }
    }
}
