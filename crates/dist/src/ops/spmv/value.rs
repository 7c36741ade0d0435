//! What matrices are made of: the kernels of one device for it.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::spmv::{self, Csr};
use ferrowarp::ops::{Scratch, map};
use ferrowarp::{GpuResult, Stream};

mod sealed {
    pub trait Sealed {}
}

/// What the entries of a [`RowCsr`](super::RowCsr) are: `f32` or `f64`.
#[diagnostic::on_unimplemented(
    message = "the kernels of sparse products have no instance for entries of `{Self}`",
    note = "they have instances for `f32` and `f64`"
)]
pub trait MatrixValue: Pod + sealed::Sealed {
    #[doc(hidden)]
    const ONE: Self;

    /// `y = A x`.
    #[doc(hidden)]
    fn multiply(
        on: &Stream,
        a: &Csr<Self>,
        x: &impl DeviceRead<Self>,
        y: &mut DeviceBuffer<Self>,
        scratch: &mut Scratch,
    ) -> GpuResult<()>;

    /// `to[i] = x[column of row i]`, for a matrix that has one entry in each row, a one.
    #[doc(hidden)]
    fn take(
        on: &Stream,
        chosen: &Csr<Self>,
        x: &impl DeviceRead<Self>,
        to: &mut DeviceBuffer<Self>,
    ) -> GpuResult<()>;

    /// `y = a + b`.
    #[doc(hidden)]
    fn add(
        on: &Stream,
        a: &DeviceBuffer<Self>,
        b: &DeviceBuffer<Self>,
        y: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
}

macro_rules! values {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}

        impl MatrixValue for $ty {
            const ONE: Self = 1.0;

            fn multiply(
                on: &Stream,
                a: &Csr<Self>,
                x: &impl DeviceRead<Self>,
                y: &mut DeviceBuffer<Self>,
                scratch: &mut Scratch,
            ) -> GpuResult<()> {
                spmv::spmv_into(on, a, x, y, scratch)
            }

            fn take(
                on: &Stream,
                chosen: &Csr<Self>,
                x: &impl DeviceRead<Self>,
                to: &mut DeviceBuffer<Self>,
            ) -> GpuResult<()> {
                spmv::spmv_plain_into(on, chosen, x, to)
            }

            fn add(
                on: &Stream,
                a: &DeviceBuffer<Self>,
                b: &DeviceBuffer<Self>,
                y: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                map::triad(on, Self::ONE, a, b, y)
            }
        }
    )*};
}

values!(f32 f64);
