//! Check-once views of memory that a kernel reads: matrices, their rows and their columns.
//!
//! An index into a slice costs a comparison, and in a loop one comparison a step. Three forms pay once:
//!
//! - a slice of the slice: `for value in &x[first..end]`;
//! - a [`Matrix`]: its rows are slices, its columns are [`Strided`], and both are walked without a
//!   comparison of their own;
//! - [`Strided::zip`]: two lines side by side, with one count.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// `c = a * b` for `a: [m, k]`, `b: [k, n]`, `c: [m, n]`, row-major: one thread an element.
//! #[kernel(block = (32, 8))]
//! pub fn gemm(index: ThreadIndex2, a: &[f32], b: &[f32], k: usize, mut c: DisjointGrid<f32>) {
//!     let (m, n) = (c.height(), c.width());
//!     let Some(c) = c.get_mut(index) else { return };
//!     let (a, b) = (Matrix::new(a, m, k), Matrix::new(b, k, n));
//!     let mut sum = 0.0;
//!     for (b, a) in b.column(index.x()).zip(a.row(index.y())) {
//!         sum += a * b;
//!     }
//!     *c = sum;
//! }
//! # fn main() {}
//! ```
//!
//! # Why the loops may go without checks
//!
//! 1. A [`Matrix`] is made by one comparison: the last element of its last row lies in the slice. Every
//!    element at a row and a column below its numbers of them therefore does.
//! 2. A [`Strided`] is made from a matrix and a column below its width, or from a slice: all of its
//!    `len` elements lie in the slice.
//! 3. An iterator counts up to that `len`, or to the shorter of two, and its fields are private.

use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::Index;

/// A row-major matrix in a slice: `rows` rows of `cols` elements, each row `pitch` elements after the
/// one before.
#[derive(Debug)]
pub struct Matrix<'a, T> {
    ptr: *const T,
    rows: usize,
    cols: usize,
    pitch: usize,
    borrow: PhantomData<&'a [T]>,
}

impl<T> Clone for Matrix<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<'_, T> {}

impl<'a, T> Matrix<'a, T> {
    /// The first `rows * cols` elements of `values`, without gaps between the rows.
    ///
    /// # Panics
    /// If `values` has fewer.
    #[inline(always)]
    pub fn new(values: &'a [T], rows: usize, cols: usize) -> Self {
        Self::with_pitch(values, rows, cols, cols)
    }

    /// A matrix of a shape whose number of elements is known to be a number: one comparison.
    ///
    /// # Panics
    /// If `values` has fewer elements.
    #[inline(always)]
    pub fn of_shape(values: &'a [T], shape: Shape) -> Self {
        assert!(shape.len() <= values.len(), "a matrix is larger than its slice");
        let Shape { rows, cols } = shape;
        Self { ptr: values.as_ptr(), rows, cols, pitch: cols, borrow: PhantomData }
    }

    /// Rows that begin `pitch` elements apart.
    ///
    /// # Panics
    /// If `pitch < cols`, or `values` ends before the last row does.
    #[inline(always)]
    pub fn with_pitch(values: &'a [T], rows: usize, cols: usize, pitch: usize) -> Self {
        assert!(cols <= pitch, "the rows of a matrix overlap");
        assert!(fits(values.len(), rows, cols, pitch), "a matrix is larger than its slice");
        Self { ptr: values.as_ptr(), rows, cols, pitch, borrow: PhantomData }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// A row, as a slice of `cols` elements.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [T] {
        assert!(row < self.rows, "a row past the last one");
        // SAFETY: the row is inside the slice, which lives for `'a`.
        unsafe { core::slice::from_raw_parts(self.ptr.add(row * self.pitch), self.cols) }
    }

    /// A column, as `rows` elements `pitch` apart.
    ///
    /// # Panics
    /// If there is no such column.
    #[inline(always)]
    pub fn column(&self, column: usize) -> Strided<'a, T> {
        assert!(column < self.cols, "a column past the last one");
        // `wrapping_add`: without a row, there may be no such element.
        let ptr = self.ptr.wrapping_add(column);
        Strided { ptr, len: self.rows, stride: self.pitch, borrow: PhantomData }
    }

    /// The element at `row` and `column`, or `None` outside.
    #[inline(always)]
    pub fn get(&self, row: usize, column: usize) -> Option<&'a T> {
        let inside = row < self.rows && column < self.cols;
        // SAFETY: inside the slice, which lives for `'a`.
        inside.then(|| unsafe { &*self.ptr.add(row * self.pitch + column) })
    }

    /// The tile of `ROWS` by `COLS` that begins at `row` and `column`, or `None` if it is not wholly inside.
    #[inline(always)]
    pub fn tile<const ROWS: usize, const COLS: usize>(
        &self,
        row: usize,
        column: usize,
    ) -> Option<MatrixTile<'a, T, ROWS, COLS>> {
        let ends_inside = |first: usize, len: usize, end: usize| {
            let last = first.wrapping_add(len);
            (first <= last) & (last <= end)
        };
        // `&`, not `&&`: one branch for both.
        let is_whole = ends_inside(row, ROWS, self.rows) & ends_inside(column, COLS, self.cols);
        let first = self.ptr.wrapping_add(row.wrapping_mul(self.pitch).wrapping_add(column));
        is_whole.then_some(MatrixTile { first, pitch: self.pitch, borrow: PhantomData })
    }
}

/// A tile of `ROWS` by `COLS` that lies wholly in a [`Matrix`], read as `tile[(row, column)]`.
///
/// Where it lies was compared once. An element costs a comparison only where the compiler does not know that
/// its place is in the tile; of the places that a [`Block`](crate::block::Block) hands out it knows.
#[derive(Debug)]
pub struct MatrixTile<'a, T, const ROWS: usize, const COLS: usize> {
    first: *const T,
    pitch: usize,
    borrow: PhantomData<&'a [T]>,
}

impl<T, const ROWS: usize, const COLS: usize> Index<(usize, usize)>
    for MatrixTile<'_, T, ROWS, COLS>
{
    type Output = T;

    #[inline(always)]
    fn index(&self, (row, column): (usize, usize)) -> &T {
        assert!(row < ROWS && column < COLS, "an element outside its tile");
        // SAFETY: inside the tile, which is inside the slice that lives for `'a`.
        unsafe { &*self.first.add(row * self.pitch + column) }
    }
}

impl<T: Copy> Matrix<'_, T> {
    /// The element at `row` and `column`, or `outside`: what a tile past the edge is padded with.
    #[inline(always)]
    pub fn get_or(&self, row: usize, column: usize, outside: T) -> T {
        if row < self.rows && column < self.cols {
            // SAFETY: inside the slice.
            unsafe { *self.ptr.add(row * self.pitch + column) }
        } else {
            outside
        }
    }
}

impl<T> Index<(usize, usize)> for Matrix<'_, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, (row, column): (usize, usize)) -> &T {
        self.get(row, column).expect("an element outside its matrix")
    }
}

/// Rows and columns whose product does not overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    rows: usize,
    cols: usize,
}

impl Shape {
    /// `rows` of `cols` elements, or `None` if they are more than can be counted.
    #[inline(always)]
    pub fn new(rows: usize, cols: usize) -> Option<Self> {
        rows.checked_mul(cols).map(|_| Self { rows, cols })
    }

    /// The shape of a matrix that lies in memory.
    ///
    /// # Safety
    /// `rows * cols` does not overflow.
    #[inline(always)]
    pub(crate) const unsafe fn new_unchecked(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// The number of rows.
    #[inline(always)]
    pub fn rows(self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[inline(always)]
    pub fn cols(self) -> usize {
        self.cols
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        // SAFETY: the type's promise.
        unsafe { self.rows.unchecked_mul(self.cols) }
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Columns for rows.
    #[inline(always)]
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows }
    }
}

/// Whether the last row of a matrix ends inside `len` elements.
#[inline(always)]
fn fits(len: usize, rows: usize, cols: usize, pitch: usize) -> bool {
    if rows == 0 {
        return true;
    }
    let last = (rows - 1).checked_mul(pitch);
    last.and_then(|last| last.checked_add(cols)).is_some_and(|end| end <= len)
}

/// Elements at equal distances: a column of a matrix, or a whole slice.
#[derive(Debug)]
pub struct Strided<'a, T> {
    ptr: *const T,
    len: usize,
    stride: usize,
    borrow: PhantomData<&'a [T]>,
}

impl<T> Clone for Strided<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<'_, T> {}

impl<'a, T> From<&'a [T]> for Strided<'a, T> {
    #[inline(always)]
    fn from(values: &'a [T]) -> Self {
        Self { ptr: values.as_ptr(), len: values.len(), stride: 1, borrow: PhantomData }
    }
}

impl<'a, T> Strided<'a, T> {
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

    /// The element at `index`, or `None` past the end.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'a T> {
        // SAFETY: below the length.
        (index < self.len).then(|| unsafe { self.at(index) })
    }

    /// All elements, in order.
    #[inline(always)]
    pub fn iter(&self) -> StridedIter<'a, T> {
        StridedIter { values: *self, next: 0 }
    }

    /// Pairs with the elements of `other`, up to the shorter of the two.
    #[inline(always)]
    pub fn zip<U>(self, other: impl Into<Strided<'a, U>>) -> Pairs<'a, T, U> {
        let other = other.into();
        let len = if self.len < other.len { self.len } else { other.len };
        Pairs { left: self, right: other, next: 0, len }
    }

    /// # Safety
    /// `index < len`.
    #[inline(always)]
    unsafe fn at(&self, index: usize) -> &'a T {
        // SAFETY: inside the slice, which lives for `'a`.
        unsafe { &*self.ptr.add(index * self.stride) }
    }
}

impl<'a, T> IntoIterator for Strided<'a, T> {
    type Item = &'a T;
    type IntoIter = StridedIter<'a, T>;

    #[inline(always)]
    fn into_iter(self) -> StridedIter<'a, T> {
        self.iter()
    }
}

/// The elements of a [`Strided`].
#[derive(Clone, Debug)]
pub struct StridedIter<'a, T> {
    values: Strided<'a, T>,
    next: usize,
}

impl<'a, T> Iterator for StridedIter<'a, T> {
    type Item = &'a T;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a T> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        Some(value)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let rest = self.values.len - self.next;
        (rest, Some(rest))
    }
}

impl<T> ExactSizeIterator for StridedIter<'_, T> {}
impl<T> FusedIterator for StridedIter<'_, T> {}

/// Pairs of elements of two [`Strided`]. See [`Strided::zip`].
#[derive(Clone, Debug)]
pub struct Pairs<'a, T, U> {
    left: Strided<'a, T>,
    right: Strided<'a, U>,
    next: usize,
    /// At most the length of either.
    len: usize,
}

impl<'a, T, U> Iterator for Pairs<'a, T, U> {
    type Item = (&'a T, &'a U);

    #[inline(always)]
    fn next(&mut self) -> Option<(&'a T, &'a U)> {
        if self.next >= self.len {
            return None;
        }
        let at = self.next;
        self.next += 1;
        // SAFETY: below the length of either.
        Some(unsafe { (self.left.at(at), self.right.at(at)) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let rest = self.len - self.next;
        (rest, Some(rest))
    }
}

impl<T, U> ExactSizeIterator for Pairs<'_, T, U> {}
impl<T, U> FusedIterator for Pairs<'_, T, U> {}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

    #[test]
    fn rows_and_columns_are_those_of_the_slice() {
        let matrix = Matrix::new(&VALUES, 3, 4);
        assert_eq!((matrix.rows(), matrix.cols()), (3, 4));
        assert_eq!(matrix.row(1), [4, 5, 6, 7]);
        assert_eq!(matrix.column(3).iter().copied().collect::<Vec<_>>(), [3, 7, 11]);
        assert_eq!((matrix[(2, 1)], matrix.get(2, 4), matrix.get(3, 0)), (9, None, None));
        let padded =
            [(2, 3), (2, 4), (3, 0), (usize::MAX, 0)].map(|(i, j)| matrix.get_or(i, j, 77));
        assert_eq!(padded, [11, 77, 77, 77]);
        let pitched = Matrix::with_pitch(&VALUES[..11], 3, 3, 4);
        assert_eq!(pitched.row(2), [8, 9, 10]);
        assert_eq!(pitched.column(2).into_iter().sum::<u32>(), 2 + 6 + 10);
    }

    #[test]
    fn a_matrix_whose_size_wraps_does_not_fit() {
        assert!(fits(12, 3, 4, 4) && fits(11, 3, 3, 4) && fits(0, 0, 9, usize::MAX));
        assert!(!fits(12, 3, 5, 4) && !fits(11, 3, 4, 4));
        // By wrapping arithmetic the last row would begin at 0 and at 2.
        assert!(!fits(12, (1 << 33) + 1, 3, 1 << 31));
        assert!(!fits(12, (1 << 63) + 2, 3, 2));
        // It begins just below 2^64, and ends behind it.
        assert!(!fits(12, 3, 3, usize::MAX / 2));
    }

    #[test]
    #[should_panic(expected = "a matrix is larger than its slice")]
    fn such_a_matrix_cannot_be_made() {
        let _ = Matrix::with_pitch(&VALUES, (1 << 33) + 1, 3, 1 << 31);
    }

    #[test]
    fn pairs_end_with_the_shorter_line() {
        let matrix = Matrix::new(&VALUES, 3, 4);
        let pairs = matrix.column(0).zip(matrix.row(0));
        assert_eq!(pairs.len(), 3);
        assert_eq!(pairs.map(|(a, b)| (*a, *b)).collect::<Vec<_>>(), [(0, 0), (4, 1), (8, 2)]);
        let mut none = matrix.column(0).zip(&VALUES[..0]);
        assert!(none.next().is_none() && none.next().is_none());
        let line = matrix.column(1);
        assert_eq!(
            (line.len(), line.is_empty(), line.get(2), line.get(3)),
            (3, false, Some(&9), None)
        );
        assert_eq!(line.iter().len(), 3);
    }

    #[test]
    fn matrices_without_elements_have_none() {
        let none: [u32; 0] = [];
        assert_eq!(Matrix::new(&none, 0, 5).column(4).iter().next(), None);
        assert_eq!(Matrix::new(&none, 5, 0).row(4), []);
        assert_eq!(Matrix::new(&VALUES, usize::MAX, 0).rows(), usize::MAX);
    }

    #[test]
    fn a_shape_can_be_counted() {
        let shape = Shape::new(3, 4).unwrap();
        assert_eq!((shape.rows(), shape.cols(), shape.len()), (3, 4, 12));
        assert_eq!(shape.transposed(), Shape::new(4, 3).unwrap());
        assert_eq!(Shape::new(usize::MAX, 2), None);
        assert!(Shape::new(0, usize::MAX).unwrap().is_empty() && !shape.is_empty());
        assert_eq!(Matrix::of_shape(&VALUES, shape)[(2, 3)], 11);
        let short = || Matrix::of_shape(&VALUES[..11], Shape::new(3, 4).unwrap()).rows();
        assert!(std::panic::catch_unwind(short).is_err());
    }

    #[test]
    fn a_tile_is_whole_or_none() {
        let matrix = Matrix::with_pitch(&VALUES, 3, 3, 4);
        let corner = matrix.tile::<2, 2>(1, 1).unwrap();
        assert_eq!([corner[(0, 0)], corner[(1, 1)]], [5, 10]);
        assert_eq!(matrix.tile::<3, 3>(0, 0).unwrap()[(2, 1)], 9);
        assert!(matrix.tile::<2, 2>(2, 1).is_none() && matrix.tile::<2, 2>(1, 2).is_none());
        assert!(matrix.tile::<1, 1>(usize::MAX, 0).is_none());
        assert!(matrix.tile::<1, 1>(0, usize::MAX).is_none());
        let panics = |place| std::panic::catch_unwind(move || corner_at(place)).is_err();
        assert!(panics((2, 0)) && panics((0, 2)) && !panics((1, 1)));
    }

    fn corner_at(place: (usize, usize)) -> u32 {
        Matrix::new(&VALUES, 3, 4).tile::<2, 2>(0, 0).unwrap()[place]
    }

    #[test]
    fn what_does_not_fit_panics() {
        let panics = |f: fn() -> usize| std::panic::catch_unwind(f).is_err();
        assert!(panics(|| Matrix::new(&VALUES, 4, 4).rows()));
        assert!(panics(|| Matrix::new(&VALUES, usize::MAX, 2).rows()));
        assert!(panics(|| Matrix::with_pitch(&VALUES, 1, 4, 3).rows()));
        assert!(panics(|| Matrix::with_pitch(&VALUES, usize::MAX, 0, 3).rows()));
        assert!(panics(|| Matrix::new(&VALUES, 3, 4).row(3).len()));
        assert!(panics(|| Matrix::new(&VALUES, 3, 4).column(4).len()));
        assert!(panics(|| Matrix::new(&VALUES, 3, 4)[(0, 4)] as usize));
    }
}
