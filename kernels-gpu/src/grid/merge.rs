//! Two sorted arrays as one.
//!
//! * [`merge_plain`](struct@merge_plain): each thread finds by a binary search in the other array where its element goes.
//! * [`merge_tiles`](struct@merge_tiles), [`merge_tile_pairs`](struct@merge_tile_pairs): each block makes one tile of the result. The
//!   elements that it needs are two stretches, which go to shared memory, where each thread finds its own stretches by a
//!   [`merge_path`] and merges them one by one. Where the tiles' stretches begin, [`merge_splits`](struct@merge_splits) has found in the
//!   same way before: a search is twenty loads one after the other, and so those of all tiles go on at once.
//!
//! Keys are compared in their total order (see [`search`](super::search)). The merge is stable: of equal keys those
//! of the first array come first.

use cuda_std::atomic::AtomicElement;
use cuda_std::block::{Bytes, DisjointTiles, exchange_bytes};
use cuda_std::prelude::*;

use super::merge_path::merge_path;
use super::search::Key;

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Elements of the result that each thread makes: odd, so that the threads of a warp meet different banks.
pub const ITEMS: usize = 11;
/// Elements of the result that a block makes.
pub const TILE: usize = BLOCK * ITEMS;

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

/// How many of the first `i` [`TILE`]s of a merge of `a: [n]` and `b: [m]` come from `a`, for each `i`;
/// `splits: [tiles + 1]`.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_splits<K: Key>(index: ThreadIndex, a: &[K], b: &[K], mut splits: DisjointSlice<u64>) {
    for own in index.grid_stride(splits.len()) {
        let steps = (own.get() * TILE).min(a.len() + b.len());
        if let Some(split) = splits.get_mut(own) {
            *split = merge_path(steps, (a.len(), b.len()), |i, j| {
                // SAFETY: below the lengths.
                unsafe { goes_first(*a.get_unchecked(i), *b.get_unchecked(j)) }
            }) as u64;
        }
    }
}

/// The fast form. `a: [n]`, `b: [m]`, both sorted; `splits:` those of [`merge_splits`](struct@merge_splits);
/// `out: [n + m]`; a block for each [`TILE`] of `out`.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_tiles<K: Key>(
    mut block: Block<BLOCK>,
    tile: Shared<[K; TILE]>,
    scratch: Shared<Bytes<{ exchange_bytes::<u64>(TILE) }>, 1>,
    splits: &[u64],
    a: &[K],
    b: &[K],
    mut out: DisjointTiles<K, TILE>,
) {
    let Some(share) = Share::of_block(splits, a.len(), b.len()) else { return };
    // Behind the end of the last tile nobody looks.
    let Some(&fallback) = a.first().or(b.first()) else { return };
    let tile = tile.fill(&block, |i| share.pick(a, b, i).unwrap_or(fallback));
    // All keys of the tile are there.
    let tile = block.sync(tile);
    let (keys, _) = share.merge_of_thread(&tile, block.thread());
    out.store_transposed(&mut block, 0, keys, scratch);
}

/// The same with a value at each key, which goes where the key goes.
#[expect(clippy::too_many_arguments, reason = "two arrays in, one out, each of keys and values")]
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn merge_tile_pairs<K: Key>(
    mut block: Block<BLOCK>,
    tile: Shared<[K; TILE]>,
    scratch: Shared<Bytes<{ exchange_bytes::<u64>(TILE) }>, 1>,
    splits: &[u64],
    a: &[K],
    a_values: &[u32],
    b: &[K],
    b_values: &[u32],
    mut out: DisjointTiles<K, TILE>,
    mut out_values: DisjointTiles<u32, TILE>,
) {
    let Some(share) = Share::of_block(splits, a.len(), b.len()) else { return };
    // Behind the end of the last tile nobody looks.
    let Some(&fallback) = a.first().or(b.first()) else { return };
    let tile = tile.fill(&block, |i| share.pick(a, b, i).unwrap_or(fallback));
    // All keys of the tile are there.
    let tile = block.sync(tile);
    let (keys, sources) = share.merge_of_thread(&tile, block.thread());
    let used = out.store_transposed(&mut block, 0, keys, scratch);
    // The keys have been read from the scratch memory.
    let scratch = block.sync(used);
    let (sources, _) = block.blocked_to_striped(sources, scratch);
    let value = |source| share.pick(a_values, b_values, source as usize).unwrap_or(0);
    out_values.store_striped(&mut block, 0, sources.map(value));
}

/// The stretches of both arrays that a block merges.
#[derive(Clone, Copy)]
struct Share {
    /// Where its stretch of the first array begins, and its length.
    a: (usize, usize),
    /// The same of the second.
    b: (usize, usize),
}

impl Share {
    /// What the block's tile is made of: nothing past the ends of arrays of these lengths, whatever the splits say.
    #[inline(always)]
    fn of_block(splits: &[u64], a_len: usize, b_len: usize) -> Option<Self> {
        let tile = thread::block_idx_x() as usize;
        let (first, last) = (*splits.get(tile)? as usize, *splits.get(tile + 1)? as usize);
        let total = a_len + b_len;
        let (start, end) = ((tile * TILE).min(total), ((tile + 1) * TILE).min(total));
        let a = last.saturating_sub(first).min(end - start);
        Some(Self { a: (first, a), b: (start.saturating_sub(first), end - start - a) })
    }

    /// The element of number `i`, those of the first stretch before those of the second.
    #[inline(always)]
    fn pick<T: Copy>(&self, a: &[T], b: &[T], i: usize) -> Option<T> {
        if i < self.a.1 {
            return a.get(self.a.0 + i).copied();
        }
        if i < self.a.1 + self.b.1 { b.get(self.b.0 + i - self.a.1).copied() } else { None }
    }

    /// The thread's [`ITEMS`] keys of the block's tile in order, and which elements of the tile they were.
    #[inline(always)]
    fn merge_of_thread<K: Key>(
        &self,
        tile: &[K; TILE],
        thread: usize,
    ) -> ([K; ITEMS], [u32; ITEMS]) {
        let (a_len, b_len) = (self.a.1, self.b.1);
        // SAFETY: callers stay below `a_len + b_len`, which is at most `TILE`.
        let at = |i: usize| unsafe { *tile.get_unchecked(i) };
        let steps = (thread * ITEMS).min(a_len + b_len);
        let mut i = merge_path(steps, (a_len, b_len), |i, j| goes_first(at(i), at(a_len + j)));
        let mut j = a_len + steps - i;
        let (mut keys, mut sources) = ([at(0); ITEMS], [0; ITEMS]);
        for k in 0..ITEMS {
            let takes_first = i < a_len && (j >= a_len + b_len || goes_first(at(i), at(j)));
            let source = if takes_first { i } else { j };
            (keys[k], sources[k]) = (at(source.min(TILE - 1)), source as u32);
            i += usize::from(takes_first);
            j += usize::from(!takes_first);
        }
        (keys, sources)
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
