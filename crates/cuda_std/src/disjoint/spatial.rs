//! Rows, rows with gaps between them, and planes of rows: one element for each thread.

use super::view::{Disjoint, Rows, Shape};
use crate::index::{ThreadIndex2, ThreadIndex3};

/// A row-major grid of `width * height` elements that all threads share, of which each reaches only
/// the element at its own [`ThreadIndex2`].
pub type DisjointGrid<'a, T> = Disjoint<'a, T, Grid>;

/// The shape of a [`DisjointGrid`]: rows of equal width, without gaps.
#[derive(Debug)]
pub struct Grid {
    width: usize,
    height: usize,
}

// SAFETY: a position inside the width and the height has an element of its own, `y * width + x`.
unsafe impl<T> Shape<T> for Grid {
    type Index = ThreadIndex2;
    type Item = T;

    #[inline(always)]
    fn extents(&self) -> [usize; 3] {
        [self.width, self.height, 1]
    }

    #[inline(always)]
    fn offset(&self, index: ThreadIndex2) -> Option<usize> {
        let inside = index.x() < self.width && index.y() < self.height;
        inside.then(|| index.y().wrapping_mul(self.width).wrapping_add(index.x()))
    }
}

impl Rows for Grid {}

impl<T> DisjointGrid<'_, T> {
    /// Makes the view from a pointer, a width and a height in elements.
    ///
    /// # Safety
    /// As [`Disjoint::new`]; `width * height` does not overflow.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(ptr, Grid { width, height }) }
    }
}

/// `height` rows of `width` elements, of which each begins `pitch` elements after the one before, and
/// of which each thread reaches only the element at its own [`ThreadIndex2`].
///
/// The pitch is chosen at the launch: `buffer.pitched_mut(width, height, pitch)`.
pub type DisjointPitched<'a, T> = Disjoint<'a, T, Pitched>;

/// The shape of a [`DisjointPitched`]: rows of equal width, at equal distances.
#[derive(Debug)]
pub struct Pitched {
    width: usize,
    height: usize,
    pitch: usize,
}

// SAFETY: a position inside the width and the height has an element of its own, `y * pitch + x`, since
// `width <= pitch`; the gaps have none.
unsafe impl<T> Shape<T> for Pitched {
    type Index = ThreadIndex2;
    type Item = T;

    #[inline(always)]
    fn extents(&self) -> [usize; 3] {
        [self.width, self.height, 1]
    }

    #[inline(always)]
    fn offset(&self, index: ThreadIndex2) -> Option<usize> {
        let inside = index.x() < self.width && index.y() < self.height;
        inside.then(|| index.y().wrapping_mul(self.pitch).wrapping_add(index.x()))
    }
}

impl Rows for Pitched {}

impl<T> DisjointPitched<'_, T> {
    /// Makes the view from a pointer, a width, a height and a pitch in elements.
    ///
    /// # Safety
    /// As [`Disjoint::new`], of the elements of all rows; `width <= pitch`, and `pitch * height` does not
    /// overflow.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize, pitch: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(ptr, Pitched { width, height, pitch }) }
    }

    /// Elements from the beginning of a row to that of the next.
    #[inline(always)]
    pub fn pitch(&self) -> usize {
        self.shape.pitch
    }
}

/// `depth` planes of `height` rows of `width` elements, without gaps, of which each thread reaches
/// only the element at its own [`ThreadIndex3`].
pub type DisjointVolume<'a, T> = Disjoint<'a, T, Volume>;

/// The shape of a [`DisjointVolume`]: planes of rows, without gaps.
#[derive(Debug)]
pub struct Volume {
    width: usize,
    height: usize,
    depth: usize,
}

// SAFETY: a position inside has an element of its own, `(z * height + y) * width + x`.
unsafe impl<T> Shape<T> for Volume {
    type Index = ThreadIndex3;
    type Item = T;

    #[inline(always)]
    fn extents(&self) -> [usize; 3] {
        [self.width, self.height, self.depth]
    }

    #[inline(always)]
    fn offset(&self, index: ThreadIndex3) -> Option<usize> {
        let inside = index.x() < self.width && index.y() < self.height && index.z() < self.depth;
        let row = index.z().wrapping_mul(self.height).wrapping_add(index.y());
        inside.then(|| row.wrapping_mul(self.width).wrapping_add(index.x()))
    }
}

impl Rows for Volume {}

impl<T> DisjointVolume<'_, T> {
    /// Makes the view from a pointer, a width, a height and a depth in elements.
    ///
    /// # Safety
    /// As [`Disjoint::new`]; `width * height * depth` does not overflow.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize, depth: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(ptr, Volume { width, height, depth }) }
    }

    /// The number of planes.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        self.shape.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(data, [0, 0, 0, 5, 0, 7]);
    }

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
        assert_eq!(data, [1, 2, 3, 0, 11, 12, 13, 0, 21, 22, 23]);
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
        assert_eq!((data[4], data[23], data.iter().sum::<usize>()), (5, 7, 12));
    }
}
