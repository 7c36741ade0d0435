//! One output element for each input element: triads, sums and products of two arrays, scaling, negation, conversions.
//!
//! All are queued, in one launch, at the memory's full speed if the arrays are aligned alike: 16 bytes a load and
//! store. Arrays of another alignment go element by element. An output of zero elements is left alone.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use cuda_std::number::{bf16, f16};
use kernels_gpu::grid::map as kernels;

use super::same_len;
use super::units::{As, AsMut};
use crate::Stream;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// Blocks for `n` elements of so many bytes.
fn grid(n: usize, element_bytes: usize) -> Grid1 {
    Grid1::new(kernels::blocks(n, element_bytes, element_bytes))
}

/// f32 or f64.
pub trait Real: Pod {
    #[doc(hidden)]
    fn launch_triad(
        stream: &Stream,
        grid: Grid1,
        s: Self,
        arrays: (&impl DeviceRead<Self>, &impl DeviceRead<Self>),
        a: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
    #[doc(hidden)]
    fn launch_scale(
        stream: &Stream,
        grid: Grid1,
        factor: Self,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
}

macro_rules! reals {
    ($($ty:ty)*) => {$(
        impl Real for $ty {
            fn launch_triad(
                stream: &Stream,
                grid: Grid1,
                s: Self,
                (b, c): (&impl DeviceRead<Self>, &impl DeviceRead<Self>),
                a: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                kernels::triad::<$ty>::launch(stream, grid, s, b, c, a)
            }

            fn launch_scale(
                stream: &Stream,
                grid: Grid1,
                factor: Self,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                kernels::map_scale::<$ty>::launch(stream, grid, factor, x, out)
            }
        }
    )*};
}

reals!(f32 f64);

/// `a = b + s * c`, all `[n]`, rounded once.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; what the driver answers.
pub fn triad<T: Real>(
    on: &impl AsStream,
    s: T,
    b: &impl DeviceRead<T>,
    c: &impl DeviceRead<T>,
    a: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = a.len();
    same_len("triad", n, b.len())?;
    same_len("triad", n, c.len())?;
    T::launch_triad(on.as_stream(), grid(n, size_of::<T>()), s, (b, c), a)
}

/// `out = factor * x`, both `[n]`.
///
/// # Errors
/// As [`triad`].
pub fn scale<T: Real>(
    on: &impl AsStream,
    factor: T,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("scaling", n, out.len())?;
    T::launch_scale(on.as_stream(), grid(n, size_of::<T>()), factor, x, out)
}

/// Maps of two arrays of f32.
macro_rules! pairs {
    ($($name:ident $kernel:ident: $doc:literal;)*) => {$(
        #[doc = concat!("`", $doc, "`, all `[n]`.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; what the driver answers.
        pub fn $name<S: AsStream>(
            on: &S,
            a: &impl DeviceRead<f32>,
            b: &impl DeviceRead<f32>,
            out: &mut impl DeviceWrite<f32>,
        ) -> GpuResult<()> {
            let n = out.len();
            same_len("a map of two arrays", n, a.len())?;
            same_len("a map of two arrays", n, b.len())?;
            kernels::$kernel::<f32>::launch(on.as_stream(), grid(n, 4), a, b, out)
        }
    )*};
}

pairs! {
    sum zip_sum: "out = a + b";
    product zip_product: "out = a * b";
}

/// f16, bf16, f32 or f64: a number whose sign is a bit.
pub trait Signed: Pod {
    #[doc(hidden)]
    fn launch_sign(
        stream: &Stream,
        grid: Grid1,
        is_kept: bool,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
}

macro_rules! signed {
    ($($ty:ty as $bits:ty;)*) => {$(
        impl Signed for $ty {
            fn launch_sign(
                stream: &Stream,
                grid: Grid1,
                is_kept: bool,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let (keep, flip) = if is_kept { (!0, SIGN) } else { (!SIGN, 0) };
                let (x, mut out) = (As::<_, $ty>::new(x), AsMut::<_, $ty>::new(out));
                kernels::map_bits::<$bits>::launch(stream, grid, keep, flip, &x, &mut out)
            }
        }
    )*};
}

signed! {
    f16 as u16;
    bf16 as u16;
    f32 as u32;
    f64 as u64;
}

/// `out = -x`, both `[n]`: the sign's bit is turned around, of NaN too.
///
/// # Errors
/// As [`triad`].
pub fn negate<T: Signed>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("negation", n, out.len())?;
    T::launch_sign(on.as_stream(), grid(n, size_of::<T>()), true, x, out)
}

/// `out = |x|`, both `[n]`: the sign's bit is cleared, of NaN too.
///
/// # Errors
/// As [`triad`].
pub fn abs<T: Signed>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("magnitudes", n, out.len())?;
    T::launch_sign(on.as_stream(), grid(n, size_of::<T>()), false, x, out)
}

/// A type that becomes a `U`: f32 a half, or a half f32.
pub trait Convert<U: Pod>: Pod {
    #[doc(hidden)]
    fn launch_convert(
        stream: &Stream,
        grid: Grid1,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<U>,
    ) -> GpuResult<()>;
}

macro_rules! conversions {
    ($($from:ty => $to:ty;)*) => {$(
        impl Convert<$to> for $from {
            fn launch_convert(
                stream: &Stream,
                grid: Grid1,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<$to>,
            ) -> GpuResult<()> {
                kernels::map_convert::<$from, $to>::launch(stream, grid, x, out)
            }
        }
    )*};
}

conversions! {
    f32 => f16;
    f32 => bf16;
    f16 => f32;
    bf16 => f32;
}

/// Each number as another type, rounded to the nearest, of two the even one; what is too large becomes infinite. Both
/// `[n]`.
///
/// # Errors
/// As [`triad`].
pub fn convert<T: Convert<U>, U: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<U>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("conversion", n, out.len())?;
    let (from, to) = (size_of::<T>(), size_of::<U>());
    let grid = Grid1::new(kernels::blocks(n, from.max(to), from.min(to)));
    T::launch_convert(on.as_stream(), grid, x, out)
}
