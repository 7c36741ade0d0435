//! What every group of lanes has: a [`Tile`](super::Tile), a [`Coalesced`](super::Coalesced) group.

/// The functions of a group of lanes that has `mask`, `shuffle`, `shuffle_up`, `inclusive_scan`, `is_first`,
/// `from_last` and `join(value, instruction, operation)`, which combines the values of all lanes.
///
/// A macro rather than a trait, so that a kernel calls them without an import.
macro_rules! group_functions {
    () => {
        /// Waits for all lanes of the group, and makes what each wrote to memory visible to the others.
        #[gpu_only]
        #[inline(always)]
        pub fn sync(self) {
            // SAFETY: the mask is the group's; see the type.
            unsafe { raw::bar_warp_sync(self.mask()) }
        }

        /// The value of the lane with number `rank`, which is the same `rank` in all lanes.
        #[gpu_only]
        #[inline(always)]
        pub fn broadcast<T: Plain>(self, value: T, rank: u32) -> T {
            self.shuffle(value, rank)
        }

        /// Whether `predicate` holds in all lanes.
        #[gpu_only]
        #[inline(always)]
        pub fn all(self, predicate: bool) -> bool {
            // SAFETY: the mask is the group's; see the type.
            unsafe { raw::vote_all(self.mask(), predicate) }
        }

        /// Whether `predicate` holds in any lane.
        #[gpu_only]
        #[inline(always)]
        pub fn any(self, predicate: bool) -> bool {
            // SAFETY: the mask is the group's; see the type.
            unsafe { raw::vote_any(self.mask(), predicate) }
        }

        /// Whether `predicate` is equal in all lanes.
        #[gpu_only]
        #[inline(always)]
        pub fn uni(self, predicate: bool) -> bool {
            // SAFETY: the mask is the group's; see the type.
            unsafe { raw::vote_uni(self.mask(), predicate) }
        }

        /// Whether `value` has the same bits in all lanes.
        #[gpu_only]
        #[inline(always)]
        pub fn match_all<T: Plain>(self, value: T) -> bool {
            // SAFETY: the mask is the group's; see the type.
            unsafe { words::match_all(self.mask(), value) }
        }

        /// `initial` and the values of the lanes before this one, combined in order by the associative
        /// `op`. The lane of rank 0 gets `initial`.
        #[gpu_only]
        #[inline(always)]
        pub fn exclusive_scan<T: Plain>(self, value: T, initial: T, op: impl Fn(T, T) -> T) -> T {
            let before = self.shuffle_up(self.inclusive_scan(value, &op), 1);
            if self.is_first() { initial } else { op(initial, before) }
        }

        /// The sum of the lanes up to this one. Integers wrap.
        #[gpu_only]
        #[inline(always)]
        pub fn inclusive_sum<T: Number>(self, value: T) -> T {
            self.inclusive_scan(value, T::plus)
        }

        /// The sum of the lanes before this one, and of all. Integers wrap.
        #[gpu_only]
        #[inline(always)]
        pub fn exclusive_sum<T: Number>(self, value: T) -> (T, T) {
            let inclusive = self.inclusive_sum(value);
            let before = self.shuffle_up(inclusive, 1);
            let before = if self.is_first() { T::zeroed() } else { before };
            (before, self.from_last(inclusive))
        }

        /// The sum over all lanes, in every one of them. Integers wrap.
        #[gpu_only]
        #[inline(always)]
        pub fn sum<T: Number>(self, value: T) -> T {
            self.join(value, WarpReductionOp::Add, T::plus)
        }

        /// The smallest value of all lanes, in every one of them. NaN is left out.
        #[gpu_only]
        #[inline(always)]
        pub fn min<T: Number>(self, value: T) -> T {
            self.join(value, WarpReductionOp::Min, T::smaller)
        }

        /// The largest value of all lanes, in every one of them. NaN is left out.
        #[gpu_only]
        #[inline(always)]
        pub fn max<T: Number>(self, value: T) -> T {
            self.join(value, WarpReductionOp::Max, T::larger)
        }

        /// The bits that all lanes have, in every one of them.
        #[gpu_only]
        #[inline(always)]
        pub fn bit_and<T: Bits>(self, value: T) -> T {
            self.join(value, WarpReductionOp::And, T::both)
        }

        /// The bits that any lane has, in every one of them.
        #[gpu_only]
        #[inline(always)]
        pub fn bit_or<T: Bits>(self, value: T) -> T {
            self.join(value, WarpReductionOp::Or, T::either)
        }

        /// The bits that an odd number of lanes has, in every one of them.
        #[gpu_only]
        #[inline(always)]
        pub fn bit_xor<T: Bits>(self, value: T) -> T {
            self.join(value, WarpReductionOp::Xor, T::differing)
        }
    };
}
pub(super) use group_functions;
