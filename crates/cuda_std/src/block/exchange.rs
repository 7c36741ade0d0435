//! From a blocked to a striped arrangement and back, through shared memory.

use super::scratch::{ScratchArray, Used};
use super::token::Block;
use crate::shared::{Element, Shared};
use crate::unroll::{build, each};
use core::ptr::NonNull;

/// The bytes that an exchange of `n` items needs: the items, and one in 33 against bank conflicts.
pub const fn exchange_bytes<T>(n: usize) -> usize {
    (n + n / 32) * size_of::<T>()
}

/// The slot of item `i` of the tile: one slot is left out after every 32 items, so that items at an even
/// distance from one another are in different banks.
#[inline(always)]
pub(super) fn place(i: usize) -> usize {
    i + i / 32
}

/// The items of a tile in shared memory.
#[derive(Clone, Copy)]
pub(super) struct StagedTile<T>(pub NonNull<T>);

impl<T: Element> StagedTile<T> {
    /// # Safety
    /// `i` is inside the tile, and no other thread uses it until a barrier.
    #[inline(always)]
    pub unsafe fn write(self, i: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(place(i)).write(value) }
    }

    /// Item `i`: any bits, where the thread that was to write it has ended.
    ///
    /// # Safety
    /// `i` is inside the tile, and a barrier lies after the last write.
    #[inline(always)]
    pub unsafe fn read(self, i: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(place(i)).read() }
    }
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// Gives each thread the striped items of a tile of which it had the blocked ones.
    ///
    /// `scratch` has [`exchange_bytes::<T>`](exchange_bytes)`(THREADS * K)` bytes or more, else the kernel
    /// does not compile.
    ///
    /// *Cost:* one barrier; each thread writes and reads `K` items of shared memory.
    #[inline(always)]
    pub fn blocked_to_striped<T: Element, L, const K: usize, const ID: u32>(
        &mut self,
        items: [T; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        self.exchange(items, scratch, Self::blocked::<K>, Self::striped)
    }

    /// Gives each thread the blocked items of a tile of which it had the striped ones. Scratch memory and cost as
    /// for [`blocked_to_striped`](Self::blocked_to_striped).
    #[inline(always)]
    pub fn striped_to_blocked<T: Element, L, const K: usize, const ID: u32>(
        &mut self,
        items: [T; K],
        scratch: Shared<L, ID>,
    ) -> ([T; K], Used<L, ID>) {
        self.exchange(items, scratch, Self::striped, Self::blocked::<K>)
    }

    /// The index in the tile of blocked item `k` of thread `thread`.
    #[inline(always)]
    pub(super) fn blocked<const K: usize>(thread: usize, k: usize) -> usize {
        thread * K + k
    }

    /// The index in the tile of striped item `k` of thread `thread`.
    #[inline(always)]
    pub(super) fn striped(thread: usize, k: usize) -> usize {
        k * Self::THREADS + thread
    }

    /// Both `from` and `to` are bijections of the pairs of threads and `0..K` to `0..THREADS * K`.
    #[inline(always)]
    fn exchange<T: Element, L, const K: usize, const ID: u32>(
        &mut self,
        items: [T; K],
        scratch: Shared<L, ID>,
        from: impl Fn(usize, usize) -> usize,
        to: impl Fn(usize, usize) -> usize,
    ) -> ([T; K], Used<L, ID>) {
        const {
            assert!(
                size_of::<L>() >= exchange_bytes::<T>(Self::THREADS * K),
                "the shared memory is too small: an exchange takes `exchange_bytes` of the tile"
            );
        }
        let scratch = ScratchArray::new(scratch);
        let staged = StagedTile(scratch.array::<T>());
        let thread = self.thread();
        each::<K>(|k| {
            // SAFETY: inside the tile, and no two threads have the same index.
            unsafe { staged.write(from(thread, k), items[k]) };
        });
        // Every item is written.
        self.sync(());
        // SAFETY: inside the tile, after the barrier.
        let items = build(|k| unsafe { staged.read(to(thread, k)) });
        (items, scratch.used())
    }
}
