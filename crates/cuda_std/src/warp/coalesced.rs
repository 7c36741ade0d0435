//! [`Coalesced`]: a group of any lanes of a warp.

use super::{Bits, Number, Plain};
use core::marker::PhantomData;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{WarpReductionOp, lane_id, raw, words};

/// Some lanes of a warp that do everything here together, numbered in the order of the lanes.
///
/// [`Coalesced::current`] takes those that run together just now, as in a branch; [`partition`] of
/// a [`Tile`] or of another group those that have a key in common.
///
/// **All lanes of the group call the same function together**; see [`Tile`] for what happens
/// otherwise.
///
/// # Why the functions are safe
///
/// 1. A group is made from the lanes that the hardware says run with the caller, or that have the
///    caller's key: the calling lane is always in its own mask. The type is not `Send` and not
///    plain, so a lane never holds the group of another.
/// 2. Lanes that have ended are no longer waited for.
/// 3. The values that travel are [`Plain`], as in a [`Tile`]; a wrong use gives a wrong value or no
///    end.
///
/// [`partition`]: super::Tile::partition
/// [`Tile`]: super::Tile
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced {
    mask: u32,
    not_send: PhantomData<*const ()>,
}

impl Coalesced {
    /// The lanes of the warp that run together here: at least this one.
    ///
    /// How many of the lanes that took a branch are in it depends on the compiler and the hardware.
    /// The result of a program must not depend on it.
    #[gpu_only]
    #[inline(always)]
    pub fn current() -> Self {
        // SAFETY: the lanes that are active together see the same mask, and each is in it.
        unsafe { Self::from_mask(super::activemask()) }
    }

    /// The group of the lanes in `mask`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and every lane in `mask` makes the same group.
    #[inline(always)]
    pub const unsafe fn from_mask(mask: u32) -> Self {
        Self { mask, not_send: PhantomData }
    }

    /// The group's lanes: bit `i` stands for lane `i` of the warp.
    #[inline(always)]
    pub const fn mask(self) -> u32 {
        self.mask
    }

    /// The number of lanes.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        self.mask.count_ones()
    }

    /// The number of this lane in the group, 0 to `size() - 1`.
    #[gpu_only]
    #[inline(always)]
    pub fn thread_rank(self) -> u32 {
        // SAFETY: reading a special register has no precondition.
        (self.mask & unsafe { raw::read_lanemask_lt() }).count_ones()
    }

    /// True in the lane of rank 0, false in the others.
    #[gpu_only]
    #[inline(always)]
    pub fn elect(self) -> bool {
        lane_id() == self.lane_of_first()
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    const fn lane_of_first(self) -> u32 {
        self.mask.trailing_zeros()
    }

    /// The value of the lane of the warp with number `lane`, which is in the group.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn from_lane<T: Plain>(self, value: T, lane: u32) -> T {
        // SAFETY: the mask is the group's; see the type.
        words::map_words(value, |word| unsafe { raw::shfl_idx(self.mask, word, lane, 31) })
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn is_first(self) -> bool {
        self.elect()
    }

    /// The value of the group's last lane.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn from_last<T: Plain>(self, value: T) -> T {
        self.from_lane(value, 31 - self.mask.leading_zeros())
    }

    /// The value of the lane with number `rank`; past the end of the group, of its last lane.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle<T: Plain>(self, value: T, rank: u32) -> T {
        self.from_lane(value, lane_of_rank(self.mask, rank.min(self.size() - 1)))
    }

    /// The value of the lane whose rank is less by `delta`; its own where there is none.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle_up<T: Plain>(self, value: T, delta: u32) -> T {
        let rank = self.thread_rank();
        self.shuffle(value, if delta > rank { rank } else { rank - delta })
    }

    /// The value of the lane whose rank is more by `delta`; its own where there is none.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle_down<T: Plain>(self, value: T, delta: u32) -> T {
        let rank = self.thread_rank();
        let above = self.size() - 1 - rank;
        self.shuffle(value, if delta > above { rank } else { rank + delta })
    }

    /// The lanes in which `predicate` holds: bit `i` stands for lane `i` of the *warp*.
    #[gpu_only]
    #[inline(always)]
    pub fn ballot(self, predicate: bool) -> u32 {
        // SAFETY: the mask is the group's; see the type.
        unsafe { raw::vote_ballot(self.mask, predicate) }
    }

    /// The lanes of the group whose `value` has the same bits as this one's: bit `i` stands for lane
    /// `i` of the *warp*.
    #[gpu_only]
    #[inline(always)]
    pub fn match_any<T: Plain>(self, value: T) -> u32 {
        self.partition(value).mask
    }

    /// The lanes of the group whose `key` has the same bits as this one's.
    #[gpu_only]
    #[inline(always)]
    pub fn partition<T: Plain>(self, key: T) -> Self {
        // SAFETY: the mask is the group's; see the type. The lanes of the result are those that have
        // the caller's key, and get the same result.
        unsafe { Self::from_mask(words::match_any(self.mask, key)) }
    }

    /// The values of the lanes up to this one, joined in order by the associative `op`.
    ///
    /// Five steps, whatever the size: in each a lane joins its value with that of the nearest lane
    /// that it does not cover yet, and takes over what that one covers.
    #[gpu_only]
    #[inline(always)]
    pub fn inclusive_scan<T: Plain>(self, value: T, op: impl Fn(T, T) -> T) -> T {
        /// No lane.
        const NONE: u32 = 32;
        // SAFETY: reading a special register has no precondition.
        let below = self.mask & unsafe { raw::read_lanemask_lt() };
        let (mut joined, mut next) = (value, 31u32.wrapping_sub(below.leading_zeros()).min(NONE));
        for _ in 0..5 {
            let lane = if next == NONE { lane_id() } else { next };
            let (before, further) = (self.from_lane(joined, lane), self.from_lane(next, lane));
            if next != NONE {
                joined = op(before, joined);
                next = further;
            }
        }
        joined
    }

    /// Joins the values of all lanes, in order, by the associative `op`; every lane gets the result.
    #[gpu_only]
    #[inline(always)]
    pub fn reduce<T: Plain>(self, value: T, op: impl Fn(T, T) -> T) -> T {
        self.from_last(self.inclusive_scan(value, op))
    }

    /// One `redux` where it exists, else shuffles.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn join<T: Number>(self, value: T, op: WarpReductionOp, otherwise: fn(T, T) -> T) -> T {
        // SAFETY: the mask is the group's; see the type.
        match unsafe { value.redux(self.mask, op) } {
            Some(joined) => joined,
            None => self.reduce(value, otherwise),
        }
    }

    super::group::group_functions!();

    /// A slot for each lane, by one atomic operation of the whole group (warp-aggregated atomics).
    ///
    /// One lane calls `take` with the number of lanes. Its result is the first lane's slot, and the
    /// others get the ones after it, in order.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use cuda_std::warp::Coalesced;
    ///
    /// /// Writes the positive values to the front of `kept`, in any order; `count[0]` says how many.
    /// #[kernel]
    /// pub fn keep_positive(
    ///     index: ThreadIndex,
    ///     x: &[u32],
    ///     kept: AtomicSlice<u32>,
    ///     count: AtomicSlice<u32>,
    /// ) {
    ///     if let Some(&x) = x.get(index.get()).filter(|x| **x > 0) {
    ///         let slot = Coalesced::current().claim(|n| count.fetch_add(0, n, Relaxed));
    ///         kept.store(slot as usize, x, Relaxed);
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    #[gpu_only]
    #[inline(always)]
    pub fn claim(self, take: impl FnOnce(u32) -> u32) -> u32 {
        let first = if self.elect() { take(self.size()) } else { 0 };
        self.from_lane(first, self.lane_of_first()).wrapping_add(self.thread_rank())
    }

    /// `count` slots for each lane, whose counts may differ, by one atomic operation of the whole
    /// group: as [`claim`](Self::claim), the result is the lane's first slot.
    #[gpu_only]
    #[inline(always)]
    pub fn claim_many(self, count: u32, take: impl FnOnce(u32) -> u32) -> u32 {
        let up_to_here = self.inclusive_scan(count, u32::wrapping_add);
        let all = self.from_last(up_to_here);
        let first = if self.elect() { take(all) } else { 0 };
        let first = self.from_lane(first, self.lane_of_first());
        first.wrapping_add(up_to_here).wrapping_sub(count)
    }
}

/// The position of the `rank`-th set bit of `mask`, which has more bits than that.
#[cfg_attr(not(any(test, target_os = "cuda")), allow(dead_code))]
#[inline(always)]
fn lane_of_rank(mask: u32, rank: u32) -> u32 {
    let (mut lane, mut rank) = (0, rank);
    for width in [16u32, 8, 4, 2, 1] {
        let below = (mask >> lane & ((1 << width) - 1)).count_ones();
        let is_above = rank >= below;
        lane += if is_above { width } else { 0 };
        rank -= if is_above { below } else { 0 };
    }
    lane
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_the_lane_of_a_set_bit() {
        let masks = (0..1000u32).map(|i| i.wrapping_mul(0x9e37_79b9)).chain([1, 1 << 31, !0]);
        for mask in masks.filter(|mask| *mask != 0) {
            let lanes: Vec<u32> = (0..32).filter(|lane| mask >> lane & 1 == 1).collect();
            let found: Vec<u32> =
                (0..mask.count_ones()).map(|rank| lane_of_rank(mask, rank)).collect();
            assert_eq!(found, lanes, "{mask:#b}");
        }
    }
}
