//! Views of device memory of which every thread writes its own part.

mod brackets;
mod runs;
mod space;

pub use runs::{DisjointChunks, DisjointVectors};
pub use space::{DisjointPitched, DisjointVolume};

use crate::index::{ThreadIndex, ThreadIndex2};
use core::marker::PhantomData;

/// A slice that all threads of a grid share, of which each reaches only the elements at its own
/// [`ThreadIndex`].
///
/// # Why `get_mut` is safe
///
/// 1. The slice is made by the entry that `#[kernel]` writes, from a buffer that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. An element is reached only through a [`ThreadIndex`], and two threads never hold the same one
///    (see there), so no two threads reach the same element.
/// 3. Within a thread, `get_mut` borrows the `DisjointSlice` mutably, and the type is not `Clone`:
///    one `&mut` at a time.
/// 4. The index is compared with the length.
#[derive(Debug)]
pub struct DisjointSlice<'a, T> {
    ptr: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> DisjointSlice<'a, T> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// - `ptr` is aligned and not null, and valid for reads and writes of `len` initialised elements
    ///   during `'a`.
    /// - Nothing else reaches these elements during `'a` but other views of this kind, each in
    ///   another thread.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        Self { ptr, len, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The thread's own element at `index`, or `None` past the end.
    #[inline(always)]
    pub fn get(&self, index: ThreadIndex) -> Option<&T> {
        if index.get() < self.len {
            // SAFETY: in bounds, and no other thread holds `index`.
            Some(unsafe { &*self.ptr.add(index.get()) })
        } else {
            None
        }
    }

    /// The thread's own element at `index`, to write, or `None` past the end.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex) -> Option<&mut T> {
        if index.get() < self.len {
            // SAFETY: in bounds, no other thread holds `index`, and `self` is borrowed mutably.
            Some(unsafe { &mut *self.ptr.add(index.get()) })
        } else {
            None
        }
    }

    /// The element at `index`, to write, without a [`ThreadIndex`] and without a comparison with the length: for a
    /// pattern of which the compiler cannot see that it is disjoint, such as a permutation.
    ///
    /// # Safety
    /// What [`get_mut`](Self::get_mut) proves is the caller's to prove:
    /// 1. Memory that overlaps the slice is not reached by another way while the kernel runs. The launcher sees to it,
    ///    unless a pointer from [`as_mut_ptr`](Self::as_mut_ptr) does so.
    /// 2. No two threads of the grid reach the same element, or a barrier or an atomic operation orders them.
    /// 3. Within a thread there is one reference to an element at a time.
    /// 4. `index < self.len()`.
    ///
    /// On the emulator a breach of the second or fourth is an error of the launch (checks `race` and `memory`).
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.ptr.add(index) }
    }

    /// The pointer to the first element, for what the type cannot express. Following it is unsafe:
    /// other threads write their elements meanwhile.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

/// A row-major grid of `width * height` elements that all threads share, of which each reaches only
/// the element at its own [`ThreadIndex2`].
///
/// # Why `get_mut` is safe
///
/// 1. The grid is made by the entry that `#[kernel]` writes, from memory that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. An element is reached only through a [`ThreadIndex2`], and two threads never hold the same one
///    (see there).
/// 3. A position inside the width and the height has an element of its own, `y * width + x`; others
///    have none.
/// 4. Within a thread, `get_mut` borrows the `DisjointGrid` mutably, and the type is not `Clone`:
///    one `&mut` at a time.
#[derive(Debug)]
pub struct DisjointGrid<'a, T> {
    ptr: *mut T,
    width: usize,
    height: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> DisjointGrid<'a, T> {
    /// Makes the view from a pointer, a width and a height in elements.
    ///
    /// # Safety
    /// As [`DisjointSlice::from_raw_parts`], with `len = width * height`, which does not overflow.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize) -> Self {
        Self { ptr, width, height, borrow: PhantomData }
    }

    /// Elements in a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The thread's own element at `index`, or `None` outside the grid.
    #[inline(always)]
    pub fn get(&self, index: ThreadIndex2) -> Option<&T> {
        if self.contains(index) {
            // SAFETY: in bounds, and no other thread holds `index`.
            Some(unsafe { &*self.ptr.add(self.offset(index)) })
        } else {
            None
        }
    }

    /// The thread's own element at `index`, to write, or `None` outside the grid.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex2) -> Option<&mut T> {
        if self.contains(index) {
            // SAFETY: in bounds, no other thread holds `index`, and `self` is borrowed mutably.
            Some(unsafe { &mut *self.ptr.add(self.offset(index)) })
        } else {
            None
        }
    }

    /// The element in column `x` of row `y`, to write, without a [`ThreadIndex2`] and without a comparison.
    ///
    /// # Safety
    /// The rules of [`DisjointSlice::get_unchecked_mut`], the fourth being `x < self.width()` and `y < self.height()`.
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, x: usize, y: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.ptr.add(y * self.width + x) }
    }

    /// The pointer to the first element, for what the type cannot express. Following it is unsafe:
    /// other threads write their elements meanwhile.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    #[inline(always)]
    fn contains(&self, index: ThreadIndex2) -> bool {
        index.x() < self.width && index.y() < self.height
    }

    #[inline(always)]
    fn offset(&self, index: ThreadIndex2) -> usize {
        index.y().wrapping_mul(self.width).wrapping_add(index.x())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disjoint_slice_ends_at_its_length() {
        let mut data = [1, 2, 3];
        // SAFETY: `data` is borrowed for as long as the view lives.
        let mut slice = unsafe { DisjointSlice::from_raw_parts(data.as_mut_ptr(), 3) };
        // SAFETY: one thread.
        let [last, past, far] = [2, 3, usize::MAX].map(|i| unsafe { ThreadIndex::new(i, 1) });
        *slice.get_mut(last).unwrap() += 10;
        assert_eq!(slice.get(last), Some(&13));
        assert_eq!(slice.get_mut(past), None);
        assert_eq!(slice.get(far), None);
        assert_eq!((slice.len(), slice.is_empty()), (3, false));
        // SAFETY: in bounds, and one thread.
        unsafe { *slice.get_unchecked_mut(1) += 20 };
        assert_eq!(data, [1, 22, 13]);
    }

    #[test]
    fn a_disjoint_grid_ends_at_its_width_and_height() {
        let mut data = [0; 6];
        // SAFETY: `data` is borrowed for as long as the view lives.
        let mut grid = unsafe { DisjointGrid::from_raw_parts(data.as_mut_ptr(), 3, 2) };
        // SAFETY: one thread.
        let at = |x, y| unsafe { ThreadIndex2::new(x, y) };
        *grid.get_mut(at(2, 1)).unwrap() = 7;
        *grid.get_mut(at(0, 1)).unwrap() = 5;
        assert_eq!(grid.get(at(3, 0)), None);
        assert_eq!(grid.get_mut(at(0, 2)), None);
        assert_eq!(grid.get_mut(at(usize::MAX, usize::MAX)), None);
        assert_eq!((grid.width(), grid.height()), (3, 2));
        // SAFETY: in bounds, and one thread.
        unsafe { *grid.get_unchecked_mut(2, 0) = 3 };
        assert_eq!(data, [0, 0, 3, 5, 0, 7]);
    }
}
