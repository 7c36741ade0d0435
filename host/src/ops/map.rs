//! One output element for each input element: triads, sums and products of two arrays, scaling, negation, conversions.
//!
//! Each operation is one asynchronous launch, at the memory's full speed where the arrays have one alignment modulo 16
//! bytes: then every load and store has 16 bytes. Arrays of different alignment go element by element. An output of zero
//! elements is left as it is.
//!
//! [`map()`] and [`zip()`] take a functor of your own kernel crate: a struct whose fields are the captured values. See
//! [`kernels_gpu::functor`] for how to write one.

use std::ops::Not;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use cuda_std::number::{bf16, f16};
use kernels_gpu::elementwise::map::{
    self as kernels, map_bits, map_convert, map_scale, zip_product, zip_sum,
};
use kernels_gpu::functor::{MapKernel, ZipKernel};

use super::number::Number;
use super::same_len;
use super::scan::unwritten;
use super::views::{As, AsMut};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Blocks for `n` elements of `T`.
fn grid<T>(n: usize) -> Grid1 {
    Grid1::new(kernels::blocks(n, size_of::<T>(), size_of::<T>()))
}

/// The grid of a map from elements of which the largest has `largest` bytes and the smallest `smallest`.
fn mixed_grid(n: usize, largest: usize, smallest: usize) -> Grid1 {
    Grid1::new(kernels::blocks(n, largest, smallest))
}

/// `f.apply(x[i])` of each element of `x: [n]`, in a new buffer; `f` carries captured values. Asynchronous.
///
/// The functor's kernel is in the kernel crate that declares the functor, whose image `on`'s device has loaded
/// ([`Gpu::with_images`](crate::Gpu::with_images), [`Gpu::load_module`](crate::Gpu::load_module)):
///
/// ```ignore
/// let gpu = Gpu::with_images(KERNELS)?;
/// let doubled = ops::map(&gpu, Scale { by: 2.0 }, &x)?;
/// ```
///
/// # Errors
/// As [`map_into`]; out of memory.
#[doc(alias = "transform")]
#[doc(alias = "closure")]
pub fn map<T: Pod, F: MapKernel<T>>(
    on: &impl AsStream,
    f: F,
    x: &impl DeviceRead<T>,
) -> GpuResult<DeviceBuffer<F::Output>> {
    let mut out = unwritten(on, x.len())?;
    map_into(on, f, x, &mut out)?;
    Ok(out)
}

/// `out[i] = f.apply(x[i])`, both `[n]`. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; [`NoKernels`](crate::GpuError::NoKernels) or
/// [`NotFound`](crate::GpuError::NotFound) if the device has not loaded the functor's kernel crate; errors of the driver.
pub fn map_into<T: Pod, F: MapKernel<T>>(
    on: &impl AsStream,
    f: F,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<F::Output>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("map", n, out.len())?;
    let (from, to) = (size_of::<T>(), size_of::<F::Output>());
    f.launch(on.as_stream(), mixed_grid(n, from.max(to), from.min(to)), x, out)
}

/// `f.apply((a[i], b[i]))` of each pair of elements of `a: [n]` and `b: [n]`, in a new buffer; `f` carries captured values,
/// as in [`map()`]. Asynchronous.
///
/// # Errors
/// As [`zip_into`]; out of memory.
#[doc(alias = "transform")]
pub fn zip<A: Pod, B: Pod, F: ZipKernel<A, B>>(
    on: &impl AsStream,
    f: F,
    a: &impl DeviceRead<A>,
    b: &impl DeviceRead<B>,
) -> GpuResult<DeviceBuffer<F::Output>> {
    let mut out = unwritten(on, a.len())?;
    zip_into(on, f, a, b, &mut out)?;
    Ok(out)
}

/// `out[i] = f.apply((a[i], b[i]))`, all `[n]`. Asynchronous.
///
/// # Errors
/// As [`map_into`].
pub fn zip_into<A: Pod, B: Pod, F: ZipKernel<A, B>>(
    on: &impl AsStream,
    f: F,
    a: &impl DeviceRead<A>,
    b: &impl DeviceRead<B>,
    out: &mut impl DeviceWrite<F::Output>,
) -> GpuResult<()> {
    let n = out.len();
    same_len("zip", n, a.len())?;
    same_len("zip", n, b.len())?;
    let (a_bytes, b_bytes, out_bytes) = (size_of::<A>(), size_of::<B>(), size_of::<F::Output>());
    let largest = a_bytes.max(b_bytes).max(out_bytes);
    let grid = mixed_grid(n, largest, a_bytes.min(b_bytes).min(out_bytes));
    f.launch(on.as_stream(), grid, a, b, out)
}

/// `a = b + s * c`, all `[n]` of f32 or f64, rounded once (fused). Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn triad<T>(
    on: &impl AsStream,
    s: T,
    b: &impl DeviceRead<T>,
    c: &impl DeviceRead<T>,
    a: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    kernels::triad<T>: Instance,
{
    let n = a.len();
    same_len("triad", n, b.len())?;
    same_len("triad", n, c.len())?;
    kernels::triad::<T>::launch(on.as_stream(), grid::<T>(n), s, b, c, a)
}

/// `out = factor * x`, both `[n]` of f32 or f64. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn scale<T>(
    on: &impl AsStream,
    factor: T,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    map_scale<T>: Instance,
{
    let n = x.len();
    same_len("scaling", n, out.len())?;
    map_scale::<T>::launch(on.as_stream(), grid::<T>(n), factor, x, out)
}

/// `out = a + b`, all `[n]` of f32. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn sum<T>(
    on: &impl AsStream,
    a: &impl DeviceRead<T>,
    b: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    zip_sum<T>: Instance,
{
    let n = out.len();
    same_len("adding two arrays", n, a.len())?;
    same_len("adding two arrays", n, b.len())?;
    zip_sum::<T>::launch(on.as_stream(), grid::<T>(n), a, b, out)
}

/// `out = a * b`, all `[n]` of f32. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn product<T>(
    on: &impl AsStream,
    a: &impl DeviceRead<T>,
    b: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    zip_product<T>: Instance,
{
    let n = out.len();
    same_len("multiplying two arrays", n, a.len())?;
    same_len("multiplying two arrays", n, b.len())?;
    zip_product::<T>::launch(on.as_stream(), grid::<T>(n), a, b, out)
}

/// A float, whose sign is one bit: f16, bf16, f32 or f64.
pub trait Signed: Number<Bits: Not<Output = <Self as Number>::Bits>> {
    /// The sign bit.
    const SIGN: Self::Bits;
}

impl Signed for f16 {
    const SIGN: u16 = 1 << 15;
}

impl Signed for bf16 {
    const SIGN: u16 = 1 << 15;
}

impl Signed for f32 {
    const SIGN: u32 = 1 << 31;
}

impl Signed for f64 {
    const SIGN: u64 = 1 << 63;
}

/// `out = -x`, both `[n]`: the sign bit is flipped, of NaN too. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn negate<T: Signed>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    map_bits<T::Bits>: Instance,
{
    let none: T::Bits = bytemuck::Zeroable::zeroed();
    bits("negation", on, !none, T::SIGN, x, out)
}

/// `out = |x|`, both `[n]`: the sign bit is cleared, of NaN too. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn abs<T: Signed>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    map_bits<T::Bits>: Instance,
{
    let none: T::Bits = bytemuck::Zeroable::zeroed();
    bits("magnitudes", on, !T::SIGN, none, x, out)
}

/// `out = x & keep ^ flip` of the elements' bits.
fn bits<T: Signed>(
    operation: &'static str,
    on: &impl AsStream,
    keep: T::Bits,
    flip: T::Bits,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    map_bits<T::Bits>: Instance,
{
    let n = x.len();
    same_len(operation, n, out.len())?;
    let (x, mut out) = (As::new(x), AsMut::new(out));
    map_bits::<T::Bits>::launch(on.as_stream(), grid::<T>(n), keep, flip, &x, &mut out)
}

/// Each number as another type, rounded to the nearest, ties to even; what is too large becomes infinite. Both `[n]`: f32
/// to f16 or bf16, or either to f32. Asynchronous.
///
/// # Errors
/// As [`triad`].
pub fn convert<T: Pod, U: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<U>,
) -> GpuResult<()>
where
    map_convert<T, U>: Instance,
{
    let n = x.len();
    same_len("conversion", n, out.len())?;
    let (from, to) = (size_of::<T>(), size_of::<U>());
    let grid = mixed_grid(n, from.max(to), from.min(to));
    map_convert::<T, U>::launch(on.as_stream(), grid, x, out)
}
