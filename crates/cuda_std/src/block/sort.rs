//! Radix sort of a tile in shared memory, four bits at a time from the lowest.

use super::exchange::{Staged, exchange_bytes};
use super::item::{build, each, map};
use super::radix::{DIGIT_BITS, SortKey, rank_bytes};
use super::scratch::{Lent, Used};
use super::token::Block;
use crate::shared::{Element, Shared};

/// The bytes that a sort of `n` keys needs in a block of `threads`; for pairs, the larger of this and
/// [`exchange_bytes`] of the values.
pub const fn sort_bytes<T>(threads: usize, n: usize) -> usize {
    let (ranks, keys) = (rank_bytes(threads), exchange_bytes::<T>(n));
    if ranks > keys { ranks } else { keys }
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// Sorts the keys of a blocked tile, the smallest first.
    ///
    /// `scratch` has [`sort_bytes::<T>`](sort_bytes)`(THREADS, THREADS * K)` bytes or more, else the
    /// kernel does not compile. A tile has fewer than 65536 keys.
    #[inline(always)]
    pub fn sort<T: SortKey, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        let (bits, _, used) =
            self.sort_bits::<T, (), L, K, ID>(map(keys, T::to_ordered), [(); K], scratch);
        (map(bits, T::from_ordered), used)
    }

    /// [`sort`](Self::sort) with the largest key first.
    #[inline(always)]
    pub fn sort_descending<T: SortKey, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        let bits = map(keys, |key| T::reversed(key.to_ordered()));
        let (bits, _, used) = self.sort_bits::<T, (), L, K, ID>(bits, [(); K], scratch);
        (map(bits, |bits| T::from_ordered(T::reversed(bits))), used)
    }

    /// Sorts the keys of a blocked tile, the smallest first, and its values with them. Pairs of equal keys
    /// keep their order.
    ///
    /// `scratch` is as large as [`sort`](Self::sort) asks, and has room for an exchange of the values.
    #[inline(always)]
    pub fn sort_pairs<T: SortKey, V: Element, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        values: [V; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], [V; K], Used<L, ID>) {
        let (bits, values, used) =
            self.sort_bits::<T, V, L, K, ID>(map(keys, T::to_ordered), values, scratch);
        (map(bits, T::from_ordered), values, used)
    }

    /// [`sort_pairs`](Self::sort_pairs) with the largest key first. Pairs of equal keys keep their
    /// order.
    #[inline(always)]
    pub fn sort_pairs_descending<T: SortKey, V: Element, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        values: [V; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], [V; K], Used<L, ID>) {
        let bits = map(keys, |key| T::reversed(key.to_ordered()));
        let (bits, values, used) = self.sort_bits::<T, V, L, K, ID>(bits, values, scratch);
        (map(bits, |bits| T::from_ordered(T::reversed(bits))), values, used)
    }

    #[inline(always)]
    fn sort_bits<T: SortKey, V: Element, L, const K: usize, const ID: u32>(
        &mut self,
        mut bits: [T::Bits; K],
        mut values: [V; K],
        scratch: Shared<L, ID>,
    ) -> ([T::Bits; K], [V; K], Used<L, ID>) {
        const {
            assert!(
                size_of::<L>() >= sort_bytes::<T>(Self::THREADS, Self::THREADS * K)
                    && size_of::<L>() >= exchange_bytes::<V>(Self::THREADS * K),
                "the shared memory is too small: a sort takes `sort_bytes` of the tile"
            );
        }
        let scratch = Lent::new(scratch);
        let mut shift = 0;
        loop {
            let digits = map(bits, |bits| T::digit(bits, shift));
            // SAFETY: large enough, and behind a barrier after its last use.
            let ranks = unsafe { self.rank(digits, scratch.array().as_ptr()) };
            // The counters are read, and items take their place.
            self.sync(());
            // SAFETY: the ranks are a permutation.
            bits = unsafe { self.scatter(bits, ranks, Staged(scratch.array())) };
            if const { size_of::<V>() > 0 } {
                self.sync(());
                // SAFETY: the ranks are a permutation.
                values = unsafe { self.scatter(values, ranks, Staged(scratch.array())) };
            }
            shift += DIGIT_BITS;
            if shift >= T::BITS {
                return (bits, values, scratch.used());
            }
            // All items are read, and counters take their place.
            self.sync(());
        }
    }

    /// Moves each item to its rank in the tile; gives the blocked items there. One barrier.
    ///
    /// # Safety
    /// The ranks of the block are a permutation of `0..THREADS * K`, and `staged` has room for the
    /// tile and is not used by another thread.
    #[inline(always)]
    unsafe fn scatter<T: Element, const K: usize>(
        &mut self,
        items: [T; K],
        ranks: [u32; K],
        staged: Staged<T>,
    ) -> [T; K] {
        each::<K>(|k| {
            // SAFETY: inside the tile, and no two items have the same rank.
            unsafe { staged.write(ranks[k] as usize, items[k]) };
        });
        // Every item is in its place.
        self.sync(());
        let thread = self.thread();
        // SAFETY: every place was written.
        build(|k| unsafe { staged.read(Self::blocked::<K>(thread, k)) })
    }
}
