//! Values of neighbouring threads and items.

use super::item::Item;
use super::lanes;
use super::token::Block;
use crate::unroll::build;

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The value of the thread before; `None` in the first.
    ///
    /// *Cost:* one shuffle of each warp; one barrier; a value for each warp in the token's shared memory.
    #[inline(always)]
    pub fn left<T: Item>(&mut self, value: T) -> Option<T> {
        let (lane, warp) = (self.lane(), self.warp());
        let slots = self.slots::<T>();
        // SAFETY: whole warps.
        let in_warp = unsafe { lanes::up(value, 1) };
        if lane == 31 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(warp, value) };
        }
        // Every warp's last value is written.
        self.sync(());
        match (warp, lane) {
            (0, 0) => None,
            // SAFETY: written before the barrier.
            (_, 0) => Some(unsafe { slots.read(warp - 1) }),
            _ => Some(in_warp),
        }
    }

    /// The value of the thread after; `None` in the last. *Cost:* as [`left`](Self::left).
    #[inline(always)]
    pub fn right<T: Item>(&mut self, value: T) -> Option<T> {
        let (lane, warp) = (self.lane(), self.warp());
        let slots = self.slots::<T>();
        // SAFETY: whole warps.
        let in_warp = unsafe { lanes::down(value, 1) };
        if lane == 0 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(warp, value) };
        }
        // Every warp's first value is written.
        self.sync(());
        if self.thread() == Self::THREADS - 1 {
            return None;
        }
        // SAFETY: written before the barrier; the last warp's last lane has left.
        Some(if lane == 31 { unsafe { slots.read(warp + 1) } } else { in_warp })
    }

    /// For each item of the blocked tile whether a run begins there: `differs(before, item)`, and
    /// `true` for the first. *Cost:* as [`left`](Self::left).
    #[inline(always)]
    pub fn heads<T: Item, const K: usize>(
        &mut self,
        items: [T; K],
        differs: impl Fn(T, T) -> bool,
    ) -> [bool; K] {
        let mut before = self.left(items[K - 1]);
        build(|k| {
            let head = before.is_none_or(|before| differs(before, items[k]));
            before = Some(items[k]);
            head
        })
    }

    /// `op(before, item)` for each item of the blocked tile; the first one unchanged. *Cost:* as
    /// [`left`](Self::left).
    #[inline(always)]
    pub fn differences<T: Item, const K: usize>(
        &mut self,
        items: [T; K],
        op: impl Fn(T, T) -> T,
    ) -> [T; K] {
        let mut before = self.left(items[K - 1]);
        build(|k| {
            let difference = before.map_or(items[k], |before| op(before, items[k]));
            before = Some(items[k]);
            difference
        })
    }
}
