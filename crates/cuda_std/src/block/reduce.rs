//! Reductions: each warp by shuffles, then the warps' results.

use super::item::Item;
use super::lanes;
use super::token::Block;
use crate::warp::Number;

/// Up to so many warps every thread joins the warps' results itself; beyond it, by shuffles.
const FEW: usize = 8;

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The values of all threads, joined in the order of the threads; every thread gets the result.
    #[inline(always)]
    pub fn reduce<T: Item>(&mut self, value: T, op: impl Fn(T, T) -> T) -> T {
        // SAFETY: whole warps, which `slots` asserts.
        let of_warp = unsafe { lanes::reduce(value, self.lane(), 32, &op) };
        self.join_warps(of_warp, op)
    }

    /// The sum of the values of all threads, in every thread. Integers wrap.
    #[inline(always)]
    pub fn sum<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().sum(value);
        self.join_warps(of_warp, T::plus)
    }

    /// The smallest of the values of all threads, in every thread; of floats, the smallest that is not NaN.
    #[inline(always)]
    pub fn min<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().min(value);
        self.join_warps(of_warp, T::smaller)
    }

    /// The largest of the values of all threads, in every thread; of floats, the largest that is not NaN.
    #[inline(always)]
    pub fn max<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().max(value);
        self.join_warps(of_warp, T::larger)
    }

    /// Joins the values of the warps' first lanes; every thread gets the result.
    #[inline(always)]
    fn join_warps<T: Item>(&mut self, of_warp: T, op: impl Fn(T, T) -> T) -> T {
        let slots = self.slots::<T>();
        if self.lane() == 0 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(self.warp(), of_warp) };
        }
        // The warps' results are there.
        self.sync(());
        if Self::WARPS <= FEW {
            // SAFETY: written before the barrier.
            return unsafe {
                (1..Self::WARPS).fold(slots.read(0), |sum, w| op(sum, slots.read(w)))
            };
        }
        let lane = self.lane();
        // SAFETY: written before the barrier; whole warps.
        unsafe {
            let of_lane = slots.read(lane.min(Self::WARPS - 1));
            lanes::of(lanes::reduce(of_lane, lane, Self::WARPS, op), 0)
        }
    }

    /// The values of all threads, joined in the order of the threads: `Some` in thread 0. The other
    /// warps go on at once.
    #[inline(always)]
    pub fn reduce_to_first<T: Item>(&mut self, value: T, op: impl Fn(T, T) -> T) -> Option<T> {
        let slots = self.slots::<T>();
        let lane = self.lane();
        // SAFETY: whole warps.
        let of_warp = unsafe { lanes::reduce(value, lane, 32, &op) };
        if lane == 0 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(self.warp(), of_warp) };
        }
        // The warps' results are there.
        self.sync(());
        if self.warp() != 0 {
            return None;
        }
        // SAFETY: written before the barrier; the whole first warp is here.
        let all = unsafe {
            let of_lane = slots.read(lane.min(Self::WARPS - 1));
            lanes::reduce(of_lane, lane, Self::WARPS, op)
        };
        (lane == 0).then_some(all)
    }

    /// The value of thread `from`, in every thread. Panics if there is no such thread.
    #[inline(always)]
    pub fn broadcast<T: Item>(&mut self, value: T, from: usize) -> T {
        assert!(from < Self::THREADS, "the block has no such thread");
        let slots = self.slots::<T>();
        if self.thread() == from {
            // SAFETY: one thread writes.
            unsafe { slots.write(0, value) };
        }
        // The value is there.
        self.sync(());
        // SAFETY: written before the barrier.
        unsafe { slots.read(0) }
    }
}
