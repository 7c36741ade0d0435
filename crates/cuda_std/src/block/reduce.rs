//! Block-wide reductions: each warp reduces by shuffles, then the warps' results are combined.

use super::item::Item;
use super::lanes;
use super::token::Block;
use crate::warp::Number;

/// Up to this many warps, every thread combines the warps' results itself; with more, each warp combines them
/// by shuffles.
const SERIAL_WARPS: usize = 8;

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The values of all threads, combined in the order of the threads; every thread gets the result.
    ///
    /// *Cost:* 5 shuffles of each warp; one barrier; a value for each warp in the token's shared memory. Then, up
    /// to 8 warps, each thread reads the warps' values and combines them; with more, 5 shuffles at most and a
    /// broadcast.
    #[inline(always)]
    pub fn reduce<T: Item>(&mut self, value: T, op: impl Fn(T, T) -> T) -> T {
        // SAFETY: whole warps, which `slots` asserts.
        let of_warp = unsafe { lanes::reduce(value, self.lane(), 32, &op) };
        self.join_warps(of_warp, op)
    }

    /// The sum of the values of all threads, in every thread. Integers wrap.
    ///
    /// *Cost:* as [`reduce`](Self::reduce); on `sm_80` and later an integer of at most 32 bits takes one
    /// instruction in each warp (`redux`) instead of 5 shuffles.
    #[inline(always)]
    pub fn sum<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().sum(value);
        self.join_warps(of_warp, T::plus)
    }

    /// The smallest of the values of all threads, in every thread; of floats, the smallest that is not NaN.
    /// *Cost:* as [`sum`](Self::sum).
    #[inline(always)]
    pub fn min<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().min(value);
        self.join_warps(of_warp, T::smaller)
    }

    /// The largest of the values of all threads, in every thread; of floats, the largest that is not NaN.
    /// *Cost:* as [`sum`](Self::sum).
    #[inline(always)]
    pub fn max<T: Item + Number>(&mut self, value: T) -> T {
        let of_warp = self.whole_warp().max(value);
        self.join_warps(of_warp, T::larger)
    }

    /// Combines the values of the warps' first lanes; every thread gets the result.
    #[inline(always)]
    fn join_warps<T: Item>(&mut self, of_warp: T, op: impl Fn(T, T) -> T) -> T {
        let slots = self.slots::<T>();
        if self.lane() == 0 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(self.warp(), of_warp) };
        }
        // Every warp's result is written.
        self.sync(());
        if Self::WARPS <= SERIAL_WARPS {
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

    /// The values of all threads, combined in the order of the threads: `Some` in thread 0.
    ///
    /// *Cost:* 5 shuffles of each warp; one barrier; a value for each warp in the token's shared memory. Only the
    /// first warp combines the warps' values, by 5 shuffles at most; the others go on after the barrier.
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
        // Every warp's result is written.
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
    ///
    /// *Cost:* one barrier; one value in the token's shared memory, one read by each thread.
    #[inline(always)]
    pub fn broadcast<T: Item>(&mut self, value: T, from: usize) -> T {
        assert!(from < Self::THREADS, "the block has no such thread");
        let slots = self.slots::<T>();
        if self.thread() == from {
            // SAFETY: one thread writes.
            unsafe { slots.write(0, value) };
        }
        // The value is written.
        self.sync(());
        // SAFETY: written before the barrier.
        unsafe { slots.read(0) }
    }
}
