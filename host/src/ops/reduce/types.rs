//! Which types are reduced, and by which instance of a kernel.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, RawSlice};
use cuda_std::number::{bf16, f16};
use kernels_gpu::grid::reduce as kernels;

use crate::Stream;
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;
use crate::ops::units::{As, AsMut};

/// What every launch takes beside its arrays: blocks, words for partial values, counters.
#[doc(hidden)]
#[derive(Debug)]
pub struct Job<'a> {
    pub stream: &'a Stream,
    pub blocks: u32,
    pub partials: DeviceSliceMut<'a, u32>,
    pub counters: DeviceSliceMut<'a, u32>,
}

mod sealed {
    pub trait Sealed {}
}

/// An element of a sum: f16, bf16, f32, f64, i32, u32, i64 or u64.
pub trait Sum: Pod + sealed::Sealed {
    /// The sum's type: f32 for halves, else the same.
    type Total: Pod;

    #[doc(hidden)]
    fn launch(
        job: Job<'_>,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self::Total>,
    ) -> GpuResult<()>;
}

/// An element of a product: f32, f64, i32, u32, i64 or u64.
pub trait Product: Pod + sealed::Sealed {
    #[doc(hidden)]
    fn launch(
        job: Job<'_>,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
}

/// Which extreme.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Least,
    Greatest,
}

/// An element that is compared: f16, bf16, f32, f64, i32, u32, i64 or u64.
pub trait Compare: Pod + sealed::Sealed {
    #[doc(hidden)]
    fn launch_extreme(
        job: Job<'_>,
        side: Side,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
    #[doc(hidden)]
    fn launch_place(
        job: Job<'_>,
        side: Side,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()>;
}

/// An element of sums of segments, rows and columns: f16, bf16, f32, f64, i32 or u32.
pub trait SumParts: Sum {
    #[doc(hidden)]
    fn launch_segments(
        job: Job<'_>,
        split: kernels::Split,
        x: &impl DeviceRead<Self>,
        offsets: &impl DeviceRead<u64>,
        out: &mut impl DeviceWrite<Self::Total>,
    ) -> GpuResult<()>;
    #[doc(hidden)]
    fn launch_columns(
        job: Job<'_>,
        shape: kernels::Shape,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self::Total>,
    ) -> GpuResult<()>;
}

/// An element of extremes of segments, rows and columns: f32, i32 or u32.
pub trait CompareParts: Compare {
    #[doc(hidden)]
    fn launch_segments(
        job: Job<'_>,
        side: Side,
        split: kernels::Split,
        x: &impl DeviceRead<Self>,
        offsets: &impl DeviceRead<u64>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
    #[doc(hidden)]
    fn launch_columns(
        job: Job<'_>,
        side: Side,
        shape: kernels::Shape,
        x: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
    ) -> GpuResult<()>;
}

/// Launches an instance: `launch!(job, kernel::<T>(values…), x, offsets…; out)`.
macro_rules! launch {
    ($job:ident, $kernel:ident::<$shipped:ty>($($value:expr),*), $x:expr $(, $read:expr)*; $out:expr) => {{
        let Job { stream, blocks, mut partials, mut counters } = $job;
        let grid = Grid1::new(blocks);
        let (x, mut out) = (As::new($x), AsMut::new($out));
        kernels::$kernel::<$shipped>::launch(
            stream, grid, $($value,)* &x, $($read,)* &mut partials, &mut counters, &mut out,
        )
    }};
}

macro_rules! sums {
    ($($ty:ty as $shipped:ty => $total:ty;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Sum for $ty {
            type Total = $total;

            fn launch(
                job: Job<'_>,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<$total>,
            ) -> GpuResult<()> {
                launch!(job, reduce_sum::<$shipped>(), x; out)
            }
        }
    )*};
}

sums! {
    f16 as f16 => f32;
    bf16 as bf16 => f32;
    f32 as f32 => f32;
    f64 as f64 => f64;
    i32 as i32 => i32;
    u32 as i32 => u32;
    i64 as u64 => i64;
    u64 as u64 => u64;
}

macro_rules! products {
    ($($ty:ty as $shipped:ty;)*) => {$(
        impl Product for $ty {
            fn launch(
                job: Job<'_>,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                launch!(job, reduce_product::<$shipped>(), x; out)
            }
        }
    )*};
}

products! {
    f32 as f32;
    f64 as f64;
    i32 as i32;
    u32 as i32;
    i64 as u64;
    u64 as u64;
}

/// Comparisons: by which bits the least becomes what is looked for, and the greatest.
macro_rules! comparisons {
    ($($ty:ty as $shipped:ty: $least:expr, $greatest:expr;)*) => {$(
        impl Compare for $ty {
            fn launch_extreme(
                job: Job<'_>,
                side: Side,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                launch!(job, reduce_extreme::<$shipped>(side.of($least, $greatest)), x; out)
            }

            fn launch_place(
                job: Job<'_>,
                side: Side,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<u64>,
            ) -> GpuResult<()> {
                launch!(job, reduce_place::<$shipped>(side.of($least, $greatest)), x; out)
            }
        }
    )*};
}

impl Side {
    fn of<T>(self, least: T, greatest: T) -> T {
        match self {
            Self::Least => least,
            Self::Greatest => greatest,
        }
    }
}

/// The sign of 32 and of 64 bits.
const SIGN: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

comparisons! {
    f16 as f16: 0, 0x8000;
    bf16 as bf16: 0, 0x8000;
    f32 as f32: 0, SIGN;
    f64 as f64: 0, SIGN_64;
    i32 as u32: SIGN, !SIGN;
    u32 as u32: 0, !0;
    i64 as u64: SIGN_64, !SIGN_64;
    u64 as u64: 0, !0;
}

macro_rules! sums_of_parts {
    ($($ty:ty as $shipped:ty;)*) => {$(
        impl SumParts for $ty {
            fn launch_segments(
                job: Job<'_>,
                split: kernels::Split,
                x: &impl DeviceRead<Self>,
                offsets: &impl DeviceRead<u64>,
                out: &mut impl DeviceWrite<Self::Total>,
            ) -> GpuResult<()> {
                launch!(job, segment_sum::<$shipped>(split), x, offsets; out)
            }

            fn launch_columns(
                job: Job<'_>,
                shape: kernels::Shape,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self::Total>,
            ) -> GpuResult<()> {
                launch!(job, column_sum::<$shipped>(shape), x; out)
            }
        }
    )*};
}

sums_of_parts! {
    f16 as f16;
    bf16 as bf16;
    f32 as f32;
    f64 as f64;
    i32 as i32;
    u32 as i32;
}

macro_rules! comparisons_of_parts {
    ($($ty:ty as $shipped:ty: $least:expr, $greatest:expr;)*) => {$(
        impl CompareParts for $ty {
            fn launch_segments(
                job: Job<'_>,
                side: Side,
                split: kernels::Split,
                x: &impl DeviceRead<Self>,
                offsets: &impl DeviceRead<u64>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                let flip = side.of($least, $greatest);
                launch!(job, segment_extreme::<$shipped>(flip, split), x, offsets; out)
            }

            fn launch_columns(
                job: Job<'_>,
                side: Side,
                shape: kernels::Shape,
                x: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
            ) -> GpuResult<()> {
                let flip = side.of($least, $greatest);
                launch!(job, column_extreme::<$shipped>(flip, shape), x; out)
            }
        }
    )*};
}

comparisons_of_parts! {
    f32 as f32: 0, SIGN;
    i32 as u32: SIGN, !SIGN;
    u32 as u32: 0, !0;
}

/// No offsets: the segments are rows.
pub(super) struct NoOffsets;

// SAFETY: there is no element.
unsafe impl DeviceRead<u64> for NoOffsets {
    fn raw(&self) -> RawSlice {
        RawSlice { address: 256, len: 0, home: None }
    }

    fn len(&self) -> usize {
        0
    }
}
