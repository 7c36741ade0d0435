//! Loads and stores of a block's tiles in device memory.

use super::scratch::Used;
use super::token::Block;
use crate::shared::{Element, Shared};
use crate::unroll::{build, each};
use crate::vector::{self, Vec4};
use core::marker::PhantomData;

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The blocked items of the tile that begins at `input[start]`; `fallback` past the end. Each thread
    /// reads `K` elements in a row, so a warp touches much memory at a time if `K` is large. No barrier.
    #[inline(always)]
    pub fn load_blocked<T: Copy, const K: usize>(
        &self,
        input: &[T],
        start: usize,
        fallback: T,
    ) -> [T; K] {
        self.load(input, start, fallback, Self::blocked::<K>)
    }

    /// The striped items of the tile that begins at `input[start]`; `fallback` past the end. The threads
    /// of a warp read neighbours. No barrier.
    #[inline(always)]
    pub fn load_striped<T: Copy, const K: usize>(
        &self,
        input: &[T],
        start: usize,
        fallback: T,
    ) -> [T; K] {
        self.load(input, start, fallback, Self::striped)
    }

    /// As [`load_blocked`](Self::load_blocked), by vectors of four elements where the tile is whole and
    /// begins at a multiple of a vector's alignment. `K` is a multiple of 4. No barrier.
    #[inline(always)]
    pub fn load_vectors<T: vector::Element, const K: usize>(
        &self,
        input: &[T],
        start: usize,
        fallback: T,
    ) -> [T; K] {
        const { assert!(K.is_multiple_of(4), "vectors hold four items") };
        let first = input.as_ptr().wrapping_add(start).cast::<Vec4<T>>();
        if !Self::is_whole::<K>(input.len(), start) || !first.is_aligned() {
            return self.load_blocked(input, start, fallback);
        }
        let mut four = Vec4::splat(fallback);
        build(|k| {
            if k.is_multiple_of(4) {
                // SAFETY: aligned, and inside the tile, which is inside the input.
                four = unsafe { first.add((self.thread() * K + k) / 4).read() };
            }
            four[k % 4]
        })
    }

    /// As [`load_blocked`](Self::load_blocked), but read striped and exchanged through shared memory:
    /// see [`striped_to_blocked`](Self::striped_to_blocked). One barrier.
    #[inline(always)]
    pub fn load_transposed<T: Element, L, const K: usize, const ID: u32>(
        &mut self,
        input: &[T],
        start: usize,
        fallback: T,
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        let items = self.load_striped::<T, K>(input, start, fallback);
        self.striped_to_blocked(items, scratch)
    }

    /// Whether a tile of `K` items a thread that begins at `start` ends within `len` elements.
    #[inline(always)]
    fn is_whole<const K: usize>(len: usize, start: usize) -> bool {
        start <= len && len - start >= Self::THREADS * K
    }

    #[inline(always)]
    fn load<T: Copy, const K: usize>(
        &self,
        input: &[T],
        start: usize,
        fallback: T,
        at: impl Fn(usize, usize) -> usize,
    ) -> [T; K] {
        let thread = self.thread();
        if Self::is_whole::<K>(input.len(), start) {
            // SAFETY: inside the tile, which is inside the input.
            return build(|k| unsafe { *input.get_unchecked(start + at(thread, k)) });
        }
        build(|k| input.get(start.saturating_add(at(thread, k))).copied().unwrap_or(fallback))
    }
}

/// The arrangement of [`DisjointTiles`] in which thread `t` owns the items `t * K` to `t * K + K - 1` of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Blocked;

/// The arrangement of [`DisjointTiles`] in which thread `t` owns the items `t`, `t + THREADS`, … of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Striped;

/// A slice in device memory, of which each block writes tiles of `N` elements: a kernel parameter.
///
/// A block's tiles are numbered by rounds: in round `r` block `b` of `B` has the tile `b + r * B`. What lies
/// past the end of the slice is not written, so the last tile may be ragged. `A` says which items of a tile
/// a thread stores:
///
/// | type | stores |
/// |---|---|
/// | `DisjointTiles<T, N>` ([`Blocked`]) | [`store_blocked`](Self::store_blocked), [`store_vectors`](Self::store_vectors) |
/// | `DisjointTiles<T, N, Striped>` | [`store_striped`](Self::store_striped), [`store_transposed`](Self::store_transposed) |
///
/// ```
/// use cuda_std::block::{DisjointTiles, Striped, exchange_bytes, Bytes};
/// use cuda_std::prelude::*;
///
/// const BLOCK: usize = 128;
/// const ITEMS: usize = 5;
/// const TILE: usize = BLOCK * ITEMS;
///
/// /// Sums up to each element within its tile, read and written in a coalesced way.
/// #[kernel]
/// pub fn tile_sums(
///     mut block: Block<BLOCK>,
///     scratch: Shared<Bytes<{ exchange_bytes::<u32>(TILE) }>>,
///     x: &[u32],
///     mut out: DisjointTiles<u32, TILE, Striped>,
/// ) {
///     let start = out.start(0);
///     let (items, used) = block.load_transposed::<_, _, ITEMS, _>(x, start, 0, scratch);
///     let (sums, _) = block.inclusive_scan(items, u32::wrapping_add);
///     let scratch = block.sync(used);
///     out.store_transposed(&mut block, 0, sums, scratch);
/// }
/// # fn main() {}
/// ```
///
/// # Why its stores are safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from a buffer that the host borrowed
///    mutably for the launch.
/// 2. A block has a number of its own below the number of blocks, so two blocks never have the same tile.
/// 3. Which elements of a tile a thread owns depends on types alone: the arrangement, the length and the
///    shape of the block, of which a kernel has one. So no two threads ever write the same element, in
///    whatever branches they store, and stores need no barrier between them.
/// 4. Every element is compared with the length.
#[derive(Debug)]
pub struct DisjointTiles<'a, T, const N: usize, A = Blocked> {
    ptr: *mut T,
    len: usize,
    borrow: PhantomData<(&'a mut [T], A)>,
}

impl<T: Copy, const N: usize, A> DisjointTiles<'_, T, N, A> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// As [`DisjointSlice::from_raw_parts`](crate::disjoint::DisjointSlice::from_raw_parts); the other views
    /// are of the same `N` and `A`.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        const { assert!(N > 0, "a tile has at least one element") };
        Self { ptr, len, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The index in the slice at which the block's tile of a round begins; past the end, if it has none.
    #[inline(always)]
    pub fn start(&self, round: usize) -> usize {
        let blocks = crate::thread::blocks_in_grid();
        let tile = round.saturating_mul(blocks).saturating_add(crate::thread::block_in_grid());
        tile.saturating_mul(N)
    }

    #[inline(always)]
    fn is_whole(&self, start: usize) -> bool {
        start <= self.len && self.len - start >= N
    }

    /// `at` gives each pair of a thread and an item an index of its own in the tile: that of the arrangement.
    #[inline(always)]
    fn store<const X: usize, const Y: usize, const Z: usize, const K: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        round: usize,
        items: [T; K],
        at: impl Fn(usize, usize) -> usize,
    ) {
        const { assert_items(N, K * Block::<X, Y, Z>::THREADS) };
        let (start, thread) = (self.start(round), block.thread());
        let is_whole = self.is_whole(start);
        each::<K>(|k| {
            let i = start.saturating_add(at(thread, k));
            if is_whole || i < self.len {
                // SAFETY: inside the slice, in the block's own tile, at an index of the thread's own.
                unsafe { self.ptr.add(i).write(items[k]) };
            }
        });
    }
}

impl<T: Copy, const N: usize> DisjointTiles<'_, T, N, Blocked> {
    /// Writes the blocked items of the block's tile of a round. `N` is `THREADS * K`, else the kernel does
    /// not compile. No barrier.
    #[inline(always)]
    pub fn store_blocked<const X: usize, const Y: usize, const Z: usize, const K: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        round: usize,
        items: [T; K],
    ) {
        self.store(block, round, items, Block::<X, Y, Z>::blocked::<K>);
    }

    /// As [`store_blocked`](Self::store_blocked), by vectors of four elements where the tile is whole and
    /// begins at a multiple of a vector's alignment. `K` is a multiple of 4. No barrier.
    #[inline(always)]
    pub fn store_vectors<const X: usize, const Y: usize, const Z: usize, const K: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        round: usize,
        items: [T; K],
    ) where
        T: vector::Element,
    {
        const { assert_items(N, K * Block::<X, Y, Z>::THREADS) };
        const { assert!(K.is_multiple_of(4), "vectors hold four items") };
        let start = self.start(round);
        let first = self.ptr.wrapping_add(start).cast::<Vec4<T>>();
        if !self.is_whole(start) || !first.is_aligned() {
            return self.store_blocked(block, round, items);
        }
        each::<K>(|k| {
            if k.is_multiple_of(4) {
                let four = Vec4::new(items[k], items[k + 1], items[k + 2], items[k + 3]);
                // SAFETY: aligned, inside the tile, which is the block's and inside the slice, and the
                // thread's own.
                unsafe { first.add((block.thread() * K + k) / 4).write(four) };
            }
        });
    }
}

impl<T: Copy, const N: usize> DisjointTiles<'_, T, N, Striped> {
    /// Writes the striped items of the block's tile of a round. `N` is `THREADS * K`, else the kernel does
    /// not compile. No barrier.
    #[inline(always)]
    pub fn store_striped<const X: usize, const Y: usize, const Z: usize, const K: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        round: usize,
        items: [T; K],
    ) {
        self.store(block, round, items, Block::<X, Y, Z>::striped);
    }

    /// Writes the blocked items of the block's tile of a round, exchanged through shared memory and
    /// written striped: see [`Block::blocked_to_striped`].
    #[inline(always)]
    pub fn store_transposed<
        L,
        const X: usize,
        const Y: usize,
        const Z: usize,
        const K: usize,
        const ID: u32,
    >(
        &mut self,
        block: &mut Block<X, Y, Z>,
        round: usize,
        items: [T; K],
        scratch: Shared<L, ID>,
    ) -> Used<L, ID>
    where
        T: Element,
    {
        let (items, used) = block.blocked_to_striped(items, scratch);
        self.store_striped(block, round, items);
        used
    }
}

/// Asserts that a tile has an element for each item.
const fn assert_items(tile: usize, items: usize) {
    assert!(tile == items, "a tile has as many elements as the block's threads have items");
}
