//! Scans: each thread its items, each warp by shuffles, then the warps' totals.

use super::item::Item;
use super::lanes;
use super::scratch::Slots;
use super::token::Block;
use crate::unroll::each;

/// Up to so many warps every thread joins the warps' totals itself; beyond it, by shuffles.
const FEW: usize = 8;

/// What comes before a thread's items, and all items of the block.
struct Before<T> {
    /// The items of the threads before; any value in thread 0.
    prefix: T,
    /// All items.
    total: T,
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// Each item of the blocked tile joined with all before it, and the whole tile joined.
    #[inline(always)]
    pub fn inclusive_scan<T: Item, const K: usize>(
        &mut self,
        items: [T; K],
        op: impl Fn(T, T) -> T,
    ) -> ([T; K], T) {
        let own = join(&items, &op);
        let before = self.before(own, &op);
        let start = (self.thread() > 0).then_some(before.prefix);
        (inclusive(items, start, op), before.total)
    }

    /// For each item of the blocked tile `initial` joined with all items before it; and the whole
    /// tile joined, without `initial`.
    #[inline(always)]
    pub fn exclusive_scan<T: Item, const K: usize>(
        &mut self,
        items: [T; K],
        initial: T,
        op: impl Fn(T, T) -> T,
    ) -> ([T; K], T) {
        let own = join(&items, &op);
        let before = self.before(own, &op);
        let start = if self.thread() > 0 { op(initial, before.prefix) } else { initial };
        (exclusive(items, start, op), before.total)
    }

    /// [`exclusive_scan`](Self::exclusive_scan) whose initial value depends on the tile: `prefix` gets
    /// the whole tile joined, and what its call in thread 0 returns is used by all threads.
    ///
    /// All 32 threads of the first warp call `prefix`, so that they may look back together. Tiles that
    /// follow one another are scanned with a running total:
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// `out[i]` becomes the sum of the elements of `x` before `i`. Launched with one block.
    /// #[kernel]
    /// pub fn scan(mut block: Block<128>, index: ThreadIndex, x: &[u32], mut out: DisjointSlice<u32>) {
    ///     let mut running = 0;
    ///     for tile in 0..x.len().div_ceil(128) {
    ///         let own = index.stride(tile);
    ///         let item = x.get(own.get()).copied().unwrap_or(0);
    ///         let add = |a: u32, b: u32| a.wrapping_add(b);
    ///         let ([sum], _) = block.scan_with_prefix([item], add, |total| {
    ///             let before = running;
    ///             running += total;
    ///             before
    ///         });
    ///         if let Some(out) = out.get_mut(own) {
    ///             *out = sum;
    ///         }
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    #[inline(always)]
    pub fn scan_with_prefix<T: Item, const K: usize>(
        &mut self,
        items: [T; K],
        op: impl Fn(T, T) -> T,
        prefix: impl FnOnce(T) -> T,
    ) -> ([T; K], T) {
        let own = join(&items, &op);
        let before = self.before(own, &op);
        let initial = if self.warp() == 0 { prefix(before.total) } else { before.total };
        let initial = self.broadcast(initial, 0);
        let start = if self.thread() > 0 { op(initial, before.prefix) } else { initial };
        (exclusive(items, start, op), before.total)
    }

    /// Joins one value of each thread with those of the threads before.
    #[inline(always)]
    fn before<T: Item>(&mut self, own: T, op: &impl Fn(T, T) -> T) -> Before<T> {
        let (lane, warp) = (self.lane(), self.warp());
        let slots = self.slots::<T>();
        // SAFETY: whole warps.
        let (upto, in_warp) = unsafe {
            let upto = lanes::scan(own, lane, op);
            (upto, lanes::up(upto, 1))
        };
        if lane == 31 {
            // SAFETY: a slot for each warp.
            unsafe { slots.write(warp, upto) };
        }
        // The warps' totals are there.
        self.sync(());
        let (warps, total) = Self::warps_before(slots, lane, warp, op);
        let prefix = match (warp, lane) {
            (0, _) => in_warp,
            (_, 0) => warps,
            _ => op(warps, in_warp),
        };
        Before { prefix, total }
    }

    /// The totals of the warps before this one joined (any value in the first), and those of all warps.
    #[inline(always)]
    fn warps_before<T: Item>(
        slots: Slots<T>,
        lane: usize,
        warp: usize,
        op: &impl Fn(T, T) -> T,
    ) -> (T, T) {
        if Self::WARPS <= FEW {
            // SAFETY: written before the barrier.
            let mut total = unsafe { slots.read(0) };
            let mut before = total;
            for w in 1..Self::WARPS {
                if w == warp {
                    before = total;
                }
                // SAFETY: written before the barrier.
                total = op(total, unsafe { slots.read(w) });
            }
            return (before, total);
        }
        // SAFETY: written before the barrier; whole warps.
        unsafe {
            let upto = lanes::scan(slots.read(lane.min(Self::WARPS - 1)), lane, op);
            let before = lanes::of(upto, warp.saturating_sub(1) as u32);
            (before, lanes::of(upto, Self::WARPS as u32 - 1))
        }
    }
}

/// All items joined.
#[inline(always)]
fn join<T: Copy, const K: usize>(items: &[T; K], op: impl Fn(T, T) -> T) -> T {
    const { assert!(K > 0, "a thread has at least one item") };
    let mut all = items[0];
    each::<K>(|k| {
        if k == 0 {
            return;
        }
        all = op(all, items[k]);
    });
    all
}

#[inline(always)]
fn inclusive<T: Copy, const K: usize>(
    mut items: [T; K],
    start: Option<T>,
    op: impl Fn(T, T) -> T,
) -> [T; K] {
    if let Some(start) = start {
        items[0] = op(start, items[0]);
    }
    each::<K>(|k| {
        if k == 0 {
            return;
        }
        items[k] = op(items[k - 1], items[k]);
    });
    items
}

#[inline(always)]
fn exclusive<T: Copy, const K: usize>(
    mut items: [T; K],
    start: T,
    op: impl Fn(T, T) -> T,
) -> [T; K] {
    let mut sum = start;
    each::<K>(|k| {
        let next = op(sum, items[k]);
        items[k] = sum;
        sum = next;
    });
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_joined_in_order() {
        let op = |a: u64, b: u64| a * 10 + b;
        assert_eq!(join(&[1, 2, 3], op), 123);
        assert_eq!(inclusive([1, 2, 3], None, op), [1, 12, 123]);
        assert_eq!(inclusive([1, 2, 3], Some(7), op), [71, 712, 7123]);
        assert_eq!(exclusive([1, 2, 3], 7, op), [7, 71, 712]);
        assert_eq!(inclusive([5], Some(4), op), [45]);
    }
}
