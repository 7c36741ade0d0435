//! Which element belongs to which thread: [`ThreadIndex`], [`ThreadIndex2`] and [`ThreadIndex3`].

use core::iter::FusedIterator;
use core::marker::PhantomData;

/// An index that belongs to one thread of a one-dimensional grid, and to no other.
///
/// It exists so that [`DisjointSlice::get_mut`](crate::disjoint::DisjointSlice::get_mut) is safe. A
/// kernel receives it as a parameter; it may be copied, and it steps to other indices of the same
/// thread with [`stride`](Self::stride) and [`grid_stride`](Self::grid_stride).
///
/// # Why two threads never hold the same index
///
/// Let `total` be the number of threads in the grid and `own` the thread's number in it.
///
/// 1. A `ThreadIndex` starts in the entry that `#[kernel]` writes, through the unsafe
///    `from_hardware`, as `own = ctaid.x * ntid.x + tid.x`, in 64 bits: it does not wrap, since
///    `total` is at most 2^31 * 2^10.
/// 2. The launcher of a kernel with a `ThreadIndex` accepts only a configuration with one dimension,
///    so every thread of the grid has another `own`, and `own < total`.
/// 3. Steps add a multiple of `total`, exact or clamped to `usize::MAX`, which is the index of no
///    element that has a size. So the remainder modulo `total` of every index that a thread can
///    reach is its `own`.
/// 4. The type is neither `Send` nor `Sync`, and not plain data: safe code cannot pass it to another
///    thread through a static, through shared memory or through a buffer.
///
/// ```compile_fail,E0277
/// fn share<T: Send>(_: T) {}
/// fn to_another_thread(index: cuda_std::index::ThreadIndex) {
///     share(index);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadIndex {
    index: usize,
    total: usize,
    not_send: PhantomData<*const ()>,
}

impl ThreadIndex {
    /// Makes an index by hand, for tests on the host.
    ///
    /// # Safety
    /// - `index < total`, or the index is past every slice it is used with.
    /// - No other thread that shares a [`DisjointSlice`](crate::disjoint::DisjointSlice) with this
    ///   one holds an index with the same remainder modulo `total`.
    #[inline(always)]
    pub unsafe fn new(index: usize, total: usize) -> Self {
        Self { index, total, not_send: PhantomData }
    }

    /// The index of this thread in a one-dimensional grid.
    ///
    /// # Safety
    /// The grid and its blocks extend along x only.
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_hardware() -> Self {
        use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
        let wide = |blocks: u32| blocks as usize * block_dim_x() as usize;
        // SAFETY: the hardware gives each thread its own pair of block and thread index.
        unsafe { Self::new(wide(block_idx_x()) + thread_idx_x() as usize, wide(grid_dim_x())) }
    }

    /// The index as a number, for reading.
    #[inline(always)]
    pub fn get(self) -> usize {
        self.index
    }

    /// The number of threads in the grid.
    #[inline(always)]
    pub fn total(self) -> usize {
        self.total
    }

    /// The thread's index `k` grids further on: `get() + k * total()`.
    #[inline(always)]
    pub fn stride(self, k: usize) -> Self {
        let index = self.index.saturating_add(k.saturating_mul(self.total));
        Self { index, ..self }
    }

    /// This index and every further one of the thread below `len`: `get()`, `get() + total()`, …
    ///
    /// With it a grid of any size covers a slice of any length.
    #[inline(always)]
    pub fn grid_stride(self, len: usize) -> GridStride {
        GridStride { next: self, len: len.min(isize::MAX as usize) }
    }
}

/// The indices of one thread in a slice. See [`ThreadIndex::grid_stride`].
#[derive(Clone, Debug)]
pub struct GridStride {
    next: ThreadIndex,
    /// At most `isize::MAX`, so that one step past it does not wrap.
    len: usize,
}

impl Iterator for GridStride {
    type Item = ThreadIndex;

    #[inline(always)]
    fn next(&mut self) -> Option<ThreadIndex> {
        let current = self.next;
        if current.index >= self.len {
            return None;
        }
        self.next.index = current.index.wrapping_add(current.total);
        Some(current)
    }
}

impl FusedIterator for GridStride {}

/// A position that belongs to one thread of a two-dimensional grid, and to no other.
///
/// # Why two threads never hold the same position
///
/// 1. A `ThreadIndex2` comes only from the entry that `#[kernel]` writes, through the unsafe
///    `from_hardware`, as `x = ctaid.x * ntid.x + tid.x` and `y` likewise, in 64 bits.
/// 2. The launcher of a kernel with a `ThreadIndex2` accepts only a configuration with two
///    dimensions, so two threads differ in x or in y.
/// 3. Nothing changes a position.
/// 4. The type is neither `Send` nor `Sync`, and not plain data, as [`ThreadIndex`] is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadIndex2 {
    x: usize,
    y: usize,
    not_send: PhantomData<*const ()>,
}

impl ThreadIndex2 {
    /// Makes a position by hand, for tests on the host.
    ///
    /// # Safety
    /// No other thread that shares a [`DisjointGrid`](crate::disjoint::DisjointGrid) with this one
    /// holds the same position.
    #[inline(always)]
    pub unsafe fn new(x: usize, y: usize) -> Self {
        Self { x, y, not_send: PhantomData }
    }

    /// The position of this thread in a two-dimensional grid.
    ///
    /// # Safety
    /// The grid and its blocks extend along x and y only.
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_hardware() -> Self {
        use crate::thread::*;
        let wide =
            |block: u32, dim: u32, thread: u32| block as usize * dim as usize + thread as usize;
        let x = wide(block_idx_x(), block_dim_x(), thread_idx_x());
        let y = wide(block_idx_y(), block_dim_y(), thread_idx_y());
        // SAFETY: the hardware gives each thread its own block and thread index.
        unsafe { Self::new(x, y) }
    }

    /// The column.
    #[inline(always)]
    pub fn x(self) -> usize {
        self.x
    }

    /// The row.
    #[inline(always)]
    pub fn y(self) -> usize {
        self.y
    }
}

/// A position that belongs to one thread of a three-dimensional grid, and to no other.
///
/// # Why two threads never hold the same position
///
/// 1. A `ThreadIndex3` comes only from the entry that `#[kernel]` writes, through the unsafe
///    `from_hardware`, as `x = ctaid.x * ntid.x + tid.x`, and `y` and `z` likewise, in 64 bits.
/// 2. Every grid has at most three dimensions, so two threads differ in x, in y or in z.
/// 3. Nothing changes a position.
/// 4. The type is neither `Send` nor `Sync`, and not plain data, as [`ThreadIndex`] is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadIndex3 {
    x: usize,
    y: usize,
    z: usize,
    not_send: PhantomData<*const ()>,
}

impl ThreadIndex3 {
    /// Makes a position by hand, for tests on the host.
    ///
    /// # Safety
    /// No other thread that shares a [`DisjointVolume`](crate::disjoint::DisjointVolume) with this one
    /// holds the same position.
    #[inline(always)]
    pub unsafe fn new(x: usize, y: usize, z: usize) -> Self {
        Self { x, y, z, not_send: PhantomData }
    }

    /// The position of this thread in its grid.
    ///
    /// # Safety
    /// None beyond that of every entry: the thread runs on a GPU.
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_hardware() -> Self {
        use crate::thread::*;
        let wide =
            |block: u32, dim: u32, thread: u32| block as usize * dim as usize + thread as usize;
        let x = wide(block_idx_x(), block_dim_x(), thread_idx_x());
        let y = wide(block_idx_y(), block_dim_y(), thread_idx_y());
        let z = wide(block_idx_z(), block_dim_z(), thread_idx_z());
        // SAFETY: the hardware gives each thread its own block and thread index.
        unsafe { Self::new(x, y, z) }
    }

    /// The column.
    #[inline(always)]
    pub fn x(self) -> usize {
        self.x
    }

    /// The row.
    #[inline(always)]
    pub fn y(self) -> usize {
        self.y
    }

    /// The plane.
    #[inline(always)]
    pub fn z(self) -> usize {
        self.z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(index: usize, total: usize) -> ThreadIndex {
        // SAFETY: one thread, no slice.
        unsafe { ThreadIndex::new(index, total) }
    }

    #[test]
    fn grid_stride_covers_every_element_once() {
        for (total, len) in [(1, 0), (1, 5), (4, 3), (4, 4), (4, 17), (32, 31)] {
            let mut seen = vec![0; len];
            for thread in 0..total {
                index(thread, total).grid_stride(len).for_each(|i| seen[i.get()] += 1);
            }
            assert_eq!(seen, vec![1; len], "{total} threads over {len} elements");
        }
    }

    #[test]
    fn grid_stride_stops_for_good() {
        let mut indices = index(1, 4).grid_stride(4);
        assert_eq!(indices.next().map(ThreadIndex::get), Some(1));
        assert!(indices.next().is_none());
        assert!(indices.next().is_none());
    }

    #[test]
    fn a_stride_never_wraps_to_another_thread() {
        assert_eq!(index(3, 8).stride(2).get(), 19);
        assert_eq!(index(3, 8).stride(usize::MAX / 8 + 1).get(), usize::MAX);
        assert_eq!(index(3, 8).stride(usize::MAX).get(), usize::MAX);
    }

    #[test]
    fn grid_stride_does_not_wrap_at_the_end_of_the_numbers() {
        let start = isize::MAX as usize - 1;
        assert_eq!(index(start, 1 << 41).grid_stride(usize::MAX).count(), 1);
    }
}
