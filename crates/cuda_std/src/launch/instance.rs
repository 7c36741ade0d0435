//! Which instances a generic kernel has.

use super::Kernel;

/// An instance of a generic kernel that `#[kernel(…)]` lists: `axpy<f32>` of `#[kernel(f32)] fn axpy<T>`.
///
/// The macro implements it for the type that stands beside the kernel, with the arguments of each
/// instance. A generic function asks for it, and launches the kernel for each type that has an instance:
///
/// ```
/// # use cuda_std::launch::{Args, Kernel, LaunchConfig, RawSlice};
/// # struct Buffer;
/// # unsafe impl<T> DeviceRead<T> for Buffer {
/// #     fn raw(&self) -> RawSlice<'_> { RawSlice { address: 256, len: 3, home: None } }
/// #     fn len(&self) -> usize { 3 }
/// # }
/// # unsafe impl<T> DeviceWrite<T> for Buffer {
/// #     fn raw_mut(&mut self) -> RawSlice<'_> { RawSlice { address: 512, len: 3, home: None } }
/// #     fn len(&self) -> usize { 3 }
/// # }
/// # struct Stream;
/// # impl Launch for Stream {
/// #     type Error = &'static str;
/// #     unsafe fn launch(
/// #         &self, kernel: &'static Kernel, _: LaunchConfig, _: &Args<'_>,
/// #     ) -> Result<(), &'static str> {
/// #         Err(kernel.name)
/// #     }
/// # }
/// use core::ops::{AddAssign, Mul};
/// use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, Launch};
/// use cuda_std::prelude::*;
///
/// #[kernel((f32, 1), (f32, 4), (f64, 2), block = 256)]
/// pub fn axpy<T: Copy + Mul<Output = T> + AddAssign, const N: usize>(
///     index: ThreadIndex,
///     alpha: T,
///     x: &[[T; N]],
///     mut y: DisjointSlice<[T; N]>,
/// ) {
///     if let Some(y) = y.get_mut(index) {
///         for (y, x) in y.iter_mut().zip(&x[index.get()]) {
///             *y += alpha * *x;
///         }
///     }
/// }
///
/// /// `y += alpha * x`, each of `n` vectors of `N` elements.
/// fn axpy_of<T, const N: usize, L: Launch>(
///     on: &L,
///     n: usize,
///     alpha: T,
///     x: &impl DeviceRead<[T; N]>,
///     y: &mut impl DeviceWrite<[T; N]>,
/// ) -> Result<(), L::Error>
/// where
///     axpy<T, N>: Instance,
/// {
///     axpy::<T, N>::launch(on, axpy::<T, N>::grid_for(n), alpha, x, y)
/// }
///
/// # fn main() {
/// # let (stream, x, mut y) = (Stream, Buffer, Buffer);
/// # let launched =
/// axpy_of::<f64, 2, _>(&stream, 3, 0.5, &x, &mut y)
/// # ; assert_eq!(launched, Err("axpy_f64_2"));
/// # }
/// ```
///
/// No bound of the kernel is repeated where the launcher's arguments have the types `T`, `[T; N]`, or
/// types without a parameter. Where one is a path of a parameter, such as `<T as Number>::Wide` or `Complex<T>`,
/// `launch` has the kernel's bounds, and so has the function that calls it.
///
/// # Safety
/// `KERNEL` describes the PTX entry that was compiled for these arguments: safe launchers believe it.
#[diagnostic::on_unimplemented(
    message = "the kernel has no instance `{Self}`",
    label = "not an instance of this kernel",
    note = "a generic kernel has the instances that its `#[kernel(…)]` lists"
)]
pub unsafe trait Instance {
    /// The instance's name, the parameters of its PTX entry, in order, and its contract.
    const KERNEL: &'static Kernel;
}
