//! Views of device memory as matrices.

use std::fmt;
use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::RawSlice;
use cuda_std::matrix::Tf32;
use kernels_gpu::matmul::{Factor, Strides};

use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceSlice, DeviceSliceMut};

const OPERATION: &str = "describing a matrix";

/// Which elements of a matrix are neighbours in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Those of a row: element (i, j) is at `i * leading + j`, as in C, NumPy and PyTorch.
    RowMajor,
    /// Those of a column: element (i, j) is at `i + j * leading`, as in Fortran and BLAS.
    ColumnMajor,
}

impl Order {
    /// The other one.
    #[must_use]
    pub const fn transposed(self) -> Self {
        match self {
            Self::RowMajor => Self::ColumnMajor,
            Self::ColumnMajor => Self::RowMajor,
        }
    }
}

/// The sizes of a batch of matrices, and where their elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixLayout {
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns of each matrix.
    pub columns: usize,
    /// Which elements are neighbours.
    pub order: Order,
    /// The leading dimension, in elements: from a row to the next (row-major), or from a column to the next.
    pub leading: usize,
    /// Matrices.
    pub batches: usize,
    /// From a matrix to the next, in elements; 0 repeats one matrix.
    pub batch_stride: usize,
}

impl fmt::Display for MatrixLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, columns, batches, .. } = self;
        match batches {
            1 => write!(f, "{rows} × {columns}"),
            _ => write!(f, "{batches} × ({rows} × {columns})"),
        }
    }
}

impl MatrixLayout {
    /// One matrix without gaps.
    #[must_use]
    pub const fn new(order: Order, rows: usize, columns: usize) -> Self {
        let leading = match order {
            Order::RowMajor => columns,
            Order::ColumnMajor => rows,
        };
        Self { rows, columns, order, leading, batches: 1, batch_stride: 0 }
    }

    /// The number of vectors of neighbours, and the elements of each: rows and columns of a row-major matrix.
    const fn extents(&self) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (self.rows, self.columns),
            Order::ColumnMajor => (self.columns, self.rows),
        }
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0 || self.batches == 0
    }

    /// From the first element to the last one, in elements; `usize::MAX` where that is more than can be counted.
    fn span(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let (vectors, len) = self.extents();
        let matrix = (vectors - 1).saturating_mul(self.leading).saturating_add(len);
        (self.batches - 1).saturating_mul(self.batch_stride).saturating_add(matrix)
    }

    /// Checks the layout for memory of `len` elements.
    fn check(&self, len: usize) -> GpuResult<()> {
        let (_, neighbours) = self.extents();
        if self.leading < neighbours {
            let what = if self.order == Order::RowMajor { "row" } else { "column" };
            let reason = format!(
                "a matrix of {self} has {neighbours} elements in a {what}, and a leading dimension of {}",
                self.leading
            );
            return Err(GpuError::InvalidArgument { operation: OPERATION, reason });
        }
        let expected = self.span();
        if expected > len {
            return Err(GpuError::SizeMismatch { operation: OPERATION, expected, found: len });
        }
        Ok(())
    }

    /// The same elements with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, order: self.order.transposed(), ..self }
    }

    /// These rows of each matrix, and where the first of their elements is in the memory of all.
    fn rows_of(self, rows: &Range<usize>) -> (Self, usize) {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {self}");
        let of_row = if self.order == Order::RowMajor { self.leading } else { 1 };
        (Self { rows: rows.len(), ..self }, rows.start * of_row)
    }

    /// Where the elements are, as kernels take it.
    pub(super) const fn strides(&self) -> Strides {
        let (leading, batch) = (self.leading as u64, self.batch_stride as u64);
        match self.order {
            Order::RowMajor => Strides { row: leading, column: 1, batch },
            Order::ColumnMajor => Strides { row: 1, column: leading, batch },
        }
    }
}

/// What both views have.
macro_rules! views {
    ($($(#[$doc:meta])* $name:ident $slice:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name<'a, T: Pod> {
            pub(super) memory: $slice<'a, T>,
            pub(super) layout: MatrixLayout,
        }

        impl<'a, T: Pod> $name<'a, T> {
            /// A matrix of this layout at the beginning of `memory`.
            ///
            /// # Errors
            /// [`InvalidArgument`](GpuError::InvalidArgument) for a leading dimension that is less than a row (or a column, of
            /// a column-major matrix); [`SizeMismatch`](GpuError::SizeMismatch) if `memory` is too short.
            pub fn new(memory: impl Into<$slice<'a, T>>, layout: MatrixLayout) -> GpuResult<Self> {
                let memory = memory.into();
                layout.check(memory.len())?;
                Ok(Self { memory, layout })
            }

            /// A row-major matrix without gaps at the beginning of `memory`.
            ///
            /// # Errors
            /// [`SizeMismatch`](GpuError::SizeMismatch) if `memory` is too short.
            pub fn row_major(
                memory: impl Into<$slice<'a, T>>,
                rows: usize,
                columns: usize,
            ) -> GpuResult<Self> {
                Self::new(memory, MatrixLayout::new(Order::RowMajor, rows, columns))
            }

            /// A column-major matrix without gaps at the beginning of `memory`.
            ///
            /// # Errors
            /// [`SizeMismatch`](GpuError::SizeMismatch) if `memory` is too short.
            pub fn column_major(
                memory: impl Into<$slice<'a, T>>,
                rows: usize,
                columns: usize,
            ) -> GpuResult<Self> {
                Self::new(memory, MatrixLayout::new(Order::ColumnMajor, rows, columns))
            }

            /// The same matrix with another leading dimension, in elements.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn with_leading_dimension(self, leading: usize) -> GpuResult<Self> {
                let layout = MatrixLayout { leading, ..self.layout };
                Self::new(self.memory, layout)
            }

            /// `batches` such matrices, `stride` elements from one to the next.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn batched(self, batches: usize, stride: usize) -> GpuResult<Self> {
                let layout = MatrixLayout { batches, batch_stride: stride, ..self.layout };
                Self::new(self.memory, layout)
            }

            /// The transpose: the same memory in the other order.
            #[must_use]
            pub fn transposed(self) -> Self {
                Self { layout: self.layout.transposed(), ..self }
            }

            /// The sizes, and where the elements are.
            #[must_use]
            pub fn layout(&self) -> MatrixLayout {
                self.layout
            }

            /// Where the elements are in device memory.
            pub(super) fn raw(&self) -> RawSlice<'_> {
                cuda_std::launch::DeviceRead::raw(&self.memory)
            }
        }

        impl<T: Pod> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("layout", &self.layout).finish_non_exhaustive()
            }
        }
    )*};
}

views! {
    /// Matrices in device memory that a product reads.
    Matrix DeviceSlice;
    /// Matrices in device memory that a product writes.
    MatrixMut DeviceSliceMut;
}

impl<'a, T: Pod> Matrix<'a, T> {
    /// The memory, which begins with the first element.
    #[must_use]
    pub fn memory(&self) -> DeviceSlice<'a, T> {
        self.memory
    }

    /// Some of its rows, of each matrix of a batch.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        let (layout, start) = self.layout.rows_of(&rows);
        let len = layout.span();
        // No rows, or columns, are nowhere: the last one may end before the next would begin.
        let memory = self.memory.slice(if len == 0 { 0..0 } else { start..start + len });
        Self { memory, layout }
    }
}

impl<T: Pod> MatrixMut<'_, T> {
    /// The memory, which begins with the first element.
    #[must_use]
    pub fn memory_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.memory.slice_mut(..)
    }

    /// Some of its rows, of each matrix of a batch.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn rows_mut(&mut self, rows: Range<usize>) -> MatrixMut<'_, T> {
        let (layout, start) = self.layout.rows_of(&rows);
        let len = layout.span();
        let memory = self.memory.slice_mut(if len == 0 { 0..0 } else { start..start + len });
        MatrixMut { memory, layout }
    }
}

impl<T: Pod> Clone for Matrix<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for Matrix<'_, T> {}

impl<'a, T: Factor> Matrix<'a, T> {
    /// The matrix of numbers of 8 bits as one of bytes.
    ///
    /// # Panics
    /// For elements of other sizes.
    pub(super) fn bytes(&self) -> Matrix<'a, u8> {
        assert_eq!(size_of::<T>(), 1, "products with scales are of 8-bit floats");
        let memory = self.memory.cast().expect("both types have the same size and alignment");
        Matrix { memory, layout: self.layout }
    }
}

impl<'a> Matrix<'a, f32> {
    /// The matrix as one of [`Tf32`]: [`matmul_into`](super::matmul_into) rounds its elements to 11 bits, to nearest, as it loads them. Ties go to
    /// even where the copy engine rounds (Hopper), else away from zero.
    #[must_use]
    pub fn as_tf32(self) -> Matrix<'a, Tf32> {
        let memory = self.memory.cast().expect("both types have the same size and alignment");
        Matrix { memory, layout: self.layout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(order: Order, leading: usize) -> MatrixLayout {
        MatrixLayout { leading, ..MatrixLayout::new(order, 3, 5) }
    }

    #[test]
    fn a_layout_fits_its_memory() {
        let tight = MatrixLayout::new(Order::RowMajor, 3, 5);
        assert!(tight.check(15).is_ok() && tight.check(14).is_err());
        assert!(layout(Order::RowMajor, 8).check(21).is_ok());
        assert!(layout(Order::ColumnMajor, 4).check(18).is_err());
        let batch = MatrixLayout { batches: 4, batch_stride: 100, ..tight };
        assert_eq!((batch.span(), MatrixLayout { batches: 0, ..batch }.span()), (315, 0));
        let endless = MatrixLayout { leading: usize::MAX, ..tight };
        assert!(endless.check(usize::MAX - 1).is_err());
    }

    #[test]
    fn errors_name_the_matrix() {
        let text = |layout: MatrixLayout| layout.check(1 << 20).unwrap_err().to_string();
        assert_eq!(
            text(layout(Order::RowMajor, 4)),
            "describing a matrix: a matrix of 3 × 5 has 5 elements in a row, and a leading dimension of 4"
        );
        assert!(text(layout(Order::ColumnMajor, 2)).contains("3 elements in a column"));
    }

    #[test]
    fn rows_begin_where_the_order_says() {
        let of = |order, leading, rows: Range<usize>| {
            let (rows, start) = layout(order, leading).rows_of(&rows);
            (rows.rows, start, rows.span())
        };
        assert_eq!(of(Order::RowMajor, 8, 1..3), (2, 8, 13));
        assert_eq!(of(Order::ColumnMajor, 4, 1..3), (2, 1, 18));
        assert_eq!(of(Order::RowMajor, 8, 3..3).2, 0);
    }

    #[test]
    fn a_transpose_has_the_same_elements() {
        let one = layout(Order::RowMajor, 8);
        let other = one.transposed();
        assert_eq!((other.rows, other.columns, other.order), (5, 3, Order::ColumnMajor));
        assert_eq!(one.strides().index(0, 2, 4), other.strides().index(0, 4, 2));
    }
}
