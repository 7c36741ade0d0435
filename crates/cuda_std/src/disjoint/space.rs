//! Grids with gaps between their rows, and volumes.

use crate::index::{ThreadIndex2, ThreadIndex3};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// `height` rows of `width` elements, of which each begins `pitch` elements behind the one before, and
/// of which each thread reaches only the element at its own [`ThreadIndex2`].
///
/// The pitch is chosen at the launch: `buffer.pitched_mut(width, height, pitch)`.
///
/// # Why `get_mut` is safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from memory that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. Width, height and pitch are parameters of the launch: the same numbers in every thread. (Were
///    they chosen in the kernel, two threads could cut the memory differently, and overlap.)
/// 3. `width <= pitch`, and the memory ends no earlier than the last row: the launcher checked both.
///    So each position inside has an element of its own, `y * pitch + x`.
/// 4. Two threads never hold the same [`ThreadIndex2`], and within a thread `get_mut` borrows the view
///    mutably, which is not `Clone`: one `&mut` at a time.
#[derive(Debug)]
pub struct DisjointPitched<'a, T> {
    ptr: *mut T,
    width: usize,
    height: usize,
    pitch: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> DisjointPitched<'a, T> {
    /// Makes the view from a pointer, a width, a height and a pitch in elements.
    ///
    /// # Safety
    /// - `width <= pitch`, and `pitch * height` does not overflow.
    /// - `ptr` is aligned and not null, and the elements of all rows are initialised, and valid for
    ///   reads and writes during `'a`.
    /// - Nothing else reaches them during `'a` but other views of this kind, of the same width, height
    ///   and pitch, each in another thread.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize, pitch: usize) -> Self {
        Self { ptr, width, height, pitch, borrow: PhantomData }
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

    /// Elements from the beginning of a row to that of the next.
    #[inline(always)]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The thread's own element at `index`, or `None` outside the rows.
    #[inline(always)]
    pub fn get(&self, index: ThreadIndex2) -> Option<&T> {
        // SAFETY: inside, and no other thread holds `index`.
        self.place(index).map(|place| unsafe { place.as_ref() })
    }

    /// The thread's own element at `index`, to write, or `None` outside the rows.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex2) -> Option<&mut T> {
        // SAFETY: inside, no other thread holds `index`, and `self` is borrowed mutably.
        self.place(index).map(|mut place| unsafe { place.as_mut() })
    }

    /// The element in column `x` of row `y`, to write, without a [`ThreadIndex2`] and without a comparison.
    ///
    /// # Safety
    /// The rules of [`DisjointSlice::get_unchecked_mut`](super::DisjointSlice::get_unchecked_mut), the fourth being
    /// `x < self.width()` and `y < self.height()`.
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, x: usize, y: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.ptr.add(y * self.pitch + x) }
    }

    #[inline(always)]
    fn place(&self, index: ThreadIndex2) -> Option<NonNull<T>> {
        let inside = index.x() < self.width && index.y() < self.height;
        let offset = index.y().wrapping_mul(self.pitch).wrapping_add(index.x());
        // SAFETY: a position inside has an element, which is not at null.
        inside.then(|| unsafe { NonNull::new_unchecked(self.ptr.add(offset)) })
    }
}

/// `depth` planes of `height` rows of `width` elements, without gaps, of which each thread reaches
/// only the element at its own [`ThreadIndex3`].
///
/// # Why `get_mut` is safe
///
/// 1. The volume is made by the entry that `#[kernel]` writes, from memory that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. Width, height and depth are parameters of the launch: the same numbers in every thread.
/// 3. A position inside has an element of its own, `(z * height + y) * width + x`; others have none.
/// 4. Two threads never hold the same [`ThreadIndex3`], and within a thread `get_mut` borrows the
///    volume mutably, which is not `Clone`: one `&mut` at a time.
#[derive(Debug)]
pub struct DisjointVolume<'a, T> {
    ptr: *mut T,
    width: usize,
    height: usize,
    depth: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> DisjointVolume<'a, T> {
    /// Makes the view from a pointer, a width, a height and a depth in elements.
    ///
    /// # Safety
    /// As [`DisjointSlice::from_raw_parts`](super::DisjointSlice::from_raw_parts), with
    /// `len = width * height * depth`, which does not overflow.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize, depth: usize) -> Self {
        Self { ptr, width, height, depth, borrow: PhantomData }
    }

    /// Elements in a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows in a plane.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of planes.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The thread's own element at `index`, or `None` outside the volume.
    #[inline(always)]
    pub fn get(&self, index: ThreadIndex3) -> Option<&T> {
        // SAFETY: inside, and no other thread holds `index`.
        self.place(index).map(|place| unsafe { place.as_ref() })
    }

    /// The thread's own element at `index`, to write, or `None` outside the volume.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex3) -> Option<&mut T> {
        // SAFETY: inside, no other thread holds `index`, and `self` is borrowed mutably.
        self.place(index).map(|mut place| unsafe { place.as_mut() })
    }

    /// The element in column `x` of row `y` of plane `z`, to write, without a [`ThreadIndex3`] and without a comparison.
    ///
    /// # Safety
    /// The rules of [`DisjointSlice::get_unchecked_mut`](super::DisjointSlice::get_unchecked_mut), the fourth being
    /// `x < self.width()`, `y < self.height()` and `z < self.depth()`.
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, x: usize, y: usize, z: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.ptr.add((z * self.height + y) * self.width + x) }
    }

    #[inline(always)]
    fn place(&self, index: ThreadIndex3) -> Option<NonNull<T>> {
        let inside = index.x() < self.width && index.y() < self.height && index.z() < self.depth;
        let row = index.z().wrapping_mul(self.height).wrapping_add(index.y());
        let offset = row.wrapping_mul(self.width).wrapping_add(index.x());
        // SAFETY: a position inside has an element, which is not at null.
        inside.then(|| unsafe { NonNull::new_unchecked(self.ptr.add(offset)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitched_rows_leave_their_gaps_alone() {
        let mut data = [0; 11];
        // SAFETY: `data` is borrowed for as long as the view lives, and holds 2 * 4 + 3 elements.
        let mut rows = unsafe { DisjointPitched::from_raw_parts(data.as_mut_ptr(), 3, 3, 4) };
        for (x, y) in (0..5).flat_map(|y| (0..5).map(move |x| (x, y))) {
            // SAFETY: one thread.
            let index = unsafe { ThreadIndex2::new(x, y) };
            let inside = x < 3 && y < 3;
            assert_eq!(rows.get(index).is_some(), inside, "({x}, {y})");
            if let Some(value) = rows.get_mut(index) {
                *value = 10 * y + x + 1;
            }
        }
        assert_eq!((rows.width(), rows.height(), rows.pitch()), (3, 3, 4));
        // SAFETY: inside, and one thread.
        unsafe { *rows.get_unchecked_mut(1, 2) += 70 };
        assert_eq!(data, [1, 2, 3, 0, 11, 12, 13, 0, 21, 92, 23]);
    }

    #[test]
    fn a_volume_ends_at_its_extents() {
        let mut data = [0; 24];
        // SAFETY: `data` is borrowed for as long as the view lives.
        let mut volume = unsafe { DisjointVolume::from_raw_parts(data.as_mut_ptr(), 4, 3, 2) };
        // SAFETY: one thread.
        let at = |x, y, z| unsafe { ThreadIndex3::new(x, y, z) };
        *volume.get_mut(at(3, 2, 1)).unwrap() = 7;
        *volume.get_mut(at(0, 1, 0)).unwrap() = 5;
        for outside in [at(4, 0, 0), at(0, 3, 0), at(0, 0, 2), at(usize::MAX, 0, 0)] {
            assert_eq!(volume.get(outside), None);
            assert_eq!(volume.get_mut(outside), None);
        }
        assert_eq!((volume.width(), volume.height(), volume.depth()), (4, 3, 2));
        // SAFETY: inside, and one thread.
        unsafe { *volume.get_unchecked_mut(0, 1, 0) += 4 };
        assert_eq!((data[4], data[23], data.iter().sum::<usize>()), (9, 7, 16));
    }
}
