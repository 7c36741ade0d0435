//! Radix sort of a tile in shared memory, four bits at a time, the lowest first.

use super::exchange::{StagedTile, exchange_bytes};
use super::radix::{DIGIT_BITS, SortKey, rank_bytes};
use super::scratch::{ScratchArray, Used};
use super::token::Block;
use crate::shared::{Element, Shared};
use crate::unroll::{build, each, map};

/// The bytes that a sort of `n` keys needs in a block of `threads`; for pairs, the larger of this and
/// [`exchange_bytes`] of the values. What lies in shared memory are the keys' [`SortKey::Bits`].
pub const fn sort_bytes<T: SortKey>(threads: usize, n: usize) -> usize {
    let (ranks, keys) = (rank_bytes(threads), exchange_bytes::<T::Bits>(n));
    if ranks > keys { ranks } else { keys }
}

/// The bits `BEGIN..END` of a key, from the lowest: those that a sort looks at (CUB's `begin_bit` and
/// `end_bit`). Fewer bits take fewer steps, one for each four. Of signed numbers and floats they are the bits of
/// [`SortKey::to_ordered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits<const BEGIN: usize, const END: usize>;

/// Some of a key's bits.
trait Range {
    const BEGIN: usize;
    const END: usize;
}

impl<const BEGIN: usize, const END: usize> Range for Bits<BEGIN, END> {
    const BEGIN: usize = BEGIN;
    const END: usize = END;
}

/// All bits, of whatever key.
struct All;

impl Range for All {
    const BEGIN: usize = 0;
    const END: usize = usize::MAX;
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// Sorts the keys of a blocked tile, the smallest first.
    ///
    /// `scratch` has [`sort_bytes::<T>`](sort_bytes)`(THREADS, THREADS * K)` bytes or more, else the
    /// kernel does not compile. A tile has fewer than 65536 keys.
    ///
    /// *Cost:* for each four bits of the key, a [`radix_rank`](Self::radix_rank) and an exchange of the keys
    /// through shared memory: six barriers, five in the last pass.
    #[inline(always)]
    pub fn sort<T: SortKey, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        let (bits, _, used) =
            self.sort_bits::<T, (), All, L, K, ID>(map(keys, T::to_ordered), [(); K], scratch);
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
        let (bits, _, used) = self.sort_bits::<T, (), All, L, K, ID>(bits, [(); K], scratch);
        (map(bits, |bits| T::from_ordered(T::reversed(bits))), used)
    }

    /// Sorts the keys of a blocked tile, the smallest first, and its values with them. Pairs of equal keys
    /// keep their order.
    ///
    /// `scratch` is as large as [`sort`](Self::sort) asks, and has room for an exchange of the values.
    ///
    /// *Cost:* that of [`sort`](Self::sort), and for each four bits an exchange of the values: two barriers.
    #[inline(always)]
    pub fn sort_pairs<T: SortKey, V: Element, L, const K: usize, const ID: u32>(
        &mut self,
        keys: [T; K],
        values: [V; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], [V; K], Used<L, ID>) {
        let (bits, values, used) =
            self.sort_bits::<T, V, All, L, K, ID>(map(keys, T::to_ordered), values, scratch);
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
        let (bits, values, used) = self.sort_bits::<T, V, All, L, K, ID>(bits, values, scratch);
        (map(bits, |bits| T::from_ordered(T::reversed(bits))), values, used)
    }

    /// [`sort_pairs`](Self::sort_pairs) by some of the keys' bits: pairs whose other bits differ keep their
    /// order. For keys alone, give `[(); K]` as the values.
    ///
    /// ```
    /// # use cuda_std::block::{Bits, Bytes, DisjointTiles, sort_bytes};
    /// # use cuda_std::prelude::*;
    /// #[kernel]
    /// pub fn by_cell(
    ///     mut block: Block<64>,
    ///     scratch: Shared<Bytes<{ sort_bytes::<u32>(64, 256) }>>,
    ///     x: &[u32],
    ///     mut sorted: DisjointTiles<u32, 256>,
    /// ) {
    ///     let keys: [u32; 4] = block.load_blocked(x, sorted.start(0), 0);
    ///     let (keys, _, _) = block.sort_pairs_by_bits(keys, [(); 4], Bits::<8, 20>, scratch);
    ///     sorted.store_blocked(&block, 0, keys);
    /// }
    /// # fn main() {}
    /// ```
    #[inline(always)]
    pub fn sort_pairs_by_bits<
        T: SortKey,
        V: Element,
        L,
        const BEGIN: usize,
        const END: usize,
        const K: usize,
        const ID: u32,
    >(
        &mut self,
        keys: [T; K],
        values: [V; K],
        bits: Bits<BEGIN, END>,
        scratch: Shared<L, ID>,
    ) -> ([T; K], [V; K], Used<L, ID>) {
        const { assert!(BEGIN < END && END <= T::BITS, "bits of the key, at least one") };
        let Bits = bits;
        let (keys, values, used) = self.sort_bits::<T, V, Bits<BEGIN, END>, L, K, ID>(
            map(keys, T::to_ordered),
            values,
            scratch,
        );
        (map(keys, T::from_ordered), values, used)
    }

    /// [`sort_pairs_by_bits`](Self::sort_pairs_by_bits) with the largest bits first.
    #[inline(always)]
    pub fn sort_pairs_descending_by_bits<
        T: SortKey,
        V: Element,
        L,
        const BEGIN: usize,
        const END: usize,
        const K: usize,
        const ID: u32,
    >(
        &mut self,
        keys: [T; K],
        values: [V; K],
        bits: Bits<BEGIN, END>,
        scratch: Shared<L, ID>,
    ) -> ([T; K], [V; K], Used<L, ID>) {
        const { assert!(BEGIN < END && END <= T::BITS, "bits of the key, at least one") };
        let Bits = bits;
        let (keys, values, used) = self.sort_bits::<T, V, Bits<BEGIN, END>, L, K, ID>(
            map(keys, |key| T::reversed(key.to_ordered())),
            values,
            scratch,
        );
        (map(keys, |bits| T::from_ordered(T::reversed(bits))), values, used)
    }

    #[inline(always)]
    fn sort_bits<T: SortKey, V: Element, R: Range, L, const K: usize, const ID: u32>(
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
        let scratch = ScratchArray::new(scratch);
        let (mut shift, end) =
            (R::BEGIN, const { if R::END < T::BITS { R::END } else { T::BITS } });
        loop {
            // The last digit may have fewer bits.
            let seen = (1 << (end - shift).min(DIGIT_BITS)) - 1;
            let digits = map(bits, |bits| T::digit(bits, shift) & seen);
            // SAFETY: large enough, and a barrier followed its last use.
            let ranks = unsafe { self.rank(digits, scratch.array().as_ptr()) };
            // The counters are read, and items take their place.
            self.sync(());
            // SAFETY: the size is asserted above.
            bits = unsafe { self.scatter(bits, ranks, StagedTile(scratch.array())) };
            if const { size_of::<V>() > 0 } {
                self.sync(());
                // SAFETY: the size is asserted above.
                values = unsafe { self.scatter(values, ranks, StagedTile(scratch.array())) };
            }
            shift += DIGIT_BITS;
            if shift >= end {
                return (bits, values, scratch.used());
            }
            // All items are read, and counters take their place.
            self.sync(());
        }
    }

    /// Moves each item to its rank in the tile; gives the blocked items there. One barrier.
    ///
    /// The ranks come from counters in shared memory. They are a permutation of the tile's places, unless a
    /// thread of the block has ended before it counted, by a panic for instance. Then they are any numbers,
    /// so each is compared with the last place; and two threads may write one item, of plain bits, by stores
    /// of one size, which leaves either.
    ///
    /// # Safety
    /// `staged` has room for the tile and is not used by another thread.
    #[inline(always)]
    unsafe fn scatter<T: Element, const K: usize>(
        &mut self,
        items: [T; K],
        ranks: [u32; K],
        staged: StagedTile<T>,
    ) -> [T; K] {
        each::<K>(|k| {
            let rank = ranks[k].min(const { (Self::THREADS * K).saturating_sub(1) as u32 });
            // SAFETY: inside the tile, at a place of this item's own; see above.
            unsafe { staged.write(rank as usize, items[k]) };
        });
        // Every item is written.
        self.sync(());
        let thread = self.thread();
        // SAFETY: inside the tile, after the barrier.
        build(|k| unsafe { staged.read(Self::blocked::<K>(thread, k)) })
    }
}
