//! Matrices of `faer`.

use bytemuck::Pod;
use faer::{Mat, MatRef};

use super::check_shape;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

impl<T: Pod> DeviceBuffer<T> {
    /// A copy of a matrix of `faer` on the device, column-major and without gaps, whatever its strides are (feature `faer`):
    /// `Matrix::column_major(&buffer, rows, columns)` is its view for [`matmul`](mod@crate::ops::matmul). A matrix in that order goes to the device
    /// from where it is; of another one the elements are put in order on the host first.
    ///
    /// The matrix is `matrix.as_ref()` of one that owns its elements, or a view, as a [`PinnedBuffer`](crate::PinnedBuffer) lends it:
    /// `MatRef::from_column_major_slice(&pinned, rows, columns)`.
    ///
    /// ```no_run
    /// use faer::mat;
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// let gpu = Gpu::new()?;
    /// let x = DeviceBuffer::from_faer(&gpu, mat![[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]].as_ref())?;
    /// assert_eq!(x.to_vec()?, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    /// assert_eq!(x.to_faer(3, 2)?[(2, 0)], 5.0);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn from_faer(on: &impl AsStream, matrix: MatRef<'_, T>) -> GpuResult<Self> {
        let (rows, columns) = matrix.shape();
        let is_packed = columns < 2 || matrix.col_stride() == rows as isize;
        match matrix.try_as_col_major() {
            Some(packed) if is_packed && rows > 0 && columns > 0 => {
                // SAFETY: the elements of the first column are neighbours, and each further column follows the one before.
                let elements =
                    unsafe { std::slice::from_raw_parts(packed.as_ptr(), rows * columns) };
                Self::from_slice(on, elements)
            }
            _ => {
                let columns = matrix.col_iter().flat_map(|column| column.iter().copied());
                Self::from_slice(on, &columns.collect::<Vec<_>>())
            }
        }
    }

    /// The elements, copied to the host, as a matrix whose columns they are, one after the other (feature `faer`).
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) for sizes with another number of elements; the fault of a kernel before.
    pub fn to_faer(&self, rows: usize, columns: usize) -> GpuResult<Mat<T>> {
        check_shape(self, &[rows, columns])?;
        let elements = self.to_vec()?;
        Ok(Mat::from_fn(rows, columns, |row, column| elements[column * rows + row]))
    }
}
