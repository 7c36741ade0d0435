//! Block-wide scans: each thread scans its items, each warp its threads by shuffles, then the warps' totals are
//! scanned.

use super::item::Item;
use super::lanes;
use super::scratch::Slots;
use super::token::Block;
use crate::unroll::each;

/// Up to this many warps, every thread combines the warps' totals itself; with more, each warp scans them by
/// shuffles.
const SERIAL_WARPS: usize = 8;

/// The combined items before a thread's own, and those of the whole block.
struct ScanPrefix<T> {
    /// The items of the threads before, combined; any value in thread 0.
    prefix: T,
    /// All items, combined.
    total: T,
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// For each item of the blocked tile, the item combined with all before it; and the whole tile combined.
    ///
    /// *Cost:* `2 K` applications of `op` for a thread's items; 6 shuffles of each warp; one barrier; a value for
    /// each warp in the token's shared memory. Then, up to 8 warps, each thread reads the warps' totals and
    /// combines them; with more, 7 shuffles.
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

    /// For each item of the blocked tile, `initial` combined with all items before it; and the whole
    /// tile combined, without `initial`. *Cost:* as [`inclusive_scan`](Self::inclusive_scan).
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
    /// the whole tile combined, and what its call in thread 0 returns is used by all threads. *Cost:* that
    /// of an [`exclusive_scan`](Self::exclusive_scan) and of a [`broadcast`](Self::broadcast), two barriers.
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

    /// Scans one value of each thread.
    #[inline(always)]
    fn before<T: Item>(&mut self, own: T, op: &impl Fn(T, T) -> T) -> ScanPrefix<T> {
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
        // Every warp's total is written.
        self.sync(());
        let (warps, total) = Self::warps_before(slots, lane, warp, op);
        let prefix = match (warp, lane) {
            (0, _) => in_warp,
            (_, 0) => warps,
            _ => op(warps, in_warp),
        };
        ScanPrefix { prefix, total }
    }

    /// The combined totals of the warps before this one (any value in the first warp), and of all warps.
    #[inline(always)]
    fn warps_before<T: Item>(
        slots: Slots<T>,
        lane: usize,
        warp: usize,
        op: &impl Fn(T, T) -> T,
    ) -> (T, T) {
        if Self::WARPS <= SERIAL_WARPS {
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

/// All items combined.
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
