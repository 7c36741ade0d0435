//! Arrays of `ndarray`.

use bytemuck::Pod;
use ndarray::{Array, ArrayRef, Dimension, IntoDimension};

use super::check_shape;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

impl<T: Pod> DeviceBuffer<T> {
    /// A copy of an array of `ndarray` on the device, row-major, whatever its strides are (feature `ndarray`). An array in that order goes to the
    /// device from where it is; of another one, such as a transpose, the elements are put in order on the host first.
    ///
    /// The array is one that owns its elements, or a view, as a [`PinnedBuffer`](crate::PinnedBuffer) lends it:
    /// `ArrayView::from_shape((rows, columns), &pinned)`.
    ///
    /// ```no_run
    /// use ferrowarp::{DeviceBuffer, Gpu};
    /// use ndarray::array;
    ///
    /// let gpu = Gpu::new()?;
    /// let x = DeviceBuffer::from_ndarray(&gpu, &array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.to_ndarray((3, 2))?, array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn from_ndarray<D: Dimension>(
        on: &impl AsStream,
        array: &ArrayRef<T, D>,
    ) -> GpuResult<Self> {
        match array.as_slice() {
            Some(elements) => Self::from_slice(on, elements),
            None => Self::from_slice(on, &array.iter().copied().collect::<Vec<_>>()),
        }
    }

    /// The elements, copied to the host, as a row-major array of this shape (feature `ndarray`).
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) for a shape with another number of elements; the fault of a kernel before.
    pub fn to_ndarray<Sh: IntoDimension>(&self, shape: Sh) -> GpuResult<Array<T, Sh::Dim>> {
        let shape = shape.into_dimension();
        check_shape(self, shape.slice())?;
        let elements = self.to_vec()?;
        Ok(Array::from_shape_vec(shape, elements).expect("there are as many elements"))
    }
}
