//! Histograms.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use ferrowarp::GpuResult;
use ferrowarp::Stream;
use ferrowarp::ops::histogram::{Bins, Countable, add_into};

use crate::call::{Call, run};
use crate::element::{Element, ElementType, with_type};
use crate::error::{Error, Status};
use crate::handle::Handle;

/// Boundaries of bins, as C passes them.
trait Level: Sized {
    fn of(value: f64) -> Option<Self>;
}

impl Level for u64 {
    fn of(value: f64) -> Option<Self> {
        // Up to 2^32, the end of u32, each whole number is a double.
        let is_whole = value.fract() == 0.0 && (0.0..=4_294_967_296.0).contains(&value);
        is_whole.then_some(value as Self)
    }
}

impl Level for f32 {
    fn of(value: f64) -> Option<Self> {
        Some(value as Self)
    }
}

/// A boundary of the samples' type.
fn level<L: Level>(call: &Call<'_>, name: &str, value: f64) -> Result<L, Error> {
    let wrong =
        || call.wrong(format!("`{name}` is {value}, which is not a value of the samples' type"));
    L::of(value).ok_or_else(wrong)
}

/// Counts how many of `x: [n]` fall into each of `bins` bins of equal width, which cover `low` up to below `high`, in `out: [bins]`
/// (`uint32_t`). Bin b begins at low + b * (high - low) / bins. What is outside, and NaN, is not counted.
///
/// Elements of u8, u16, u32, whose bounds are whole numbers, and f32, whose bounds are rounded to float. With u8 the call copies a table to
/// the device and frees it, for which the driver may wait.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_histogram(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    n: i64,
    low: f64,
    high: f64,
    bins: u32,
    out: *mut u32,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_histogram", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            if r#type == ElementType::U8 {
                call.refuse_capture()?;
            }
            with_type!(call, r#type, [u8 u16 u32 f32], T => {
                let range = level(call, "low", low)?..level(call, "high", high)?;
                count::<T>(call, (x, n), (out, bins as usize), |on| Bins::even(on, range, bins))
            })
        })
    }
}

/// As ferrowarp_histogram(), into bins between neighbours of `levels: [bins + 1]`, which are in ascending order and in the host's memory: bin
/// b takes the samples from `levels[b]` to below `levels[b + 1]`. The call copies them to the device and frees them there, for which the driver may wait.
///
/// # Safety
/// As ferrowarp_histogram(); the levels can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_histogram_ranges(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    n: i64,
    levels: *const f64,
    bins: u32,
    out: *mut u32,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_histogram_ranges", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            call.refuse_capture()?;
            if levels.is_null() {
                return Err(Error::Null { operation: call.operation(), name: "levels" });
            }
            let levels = std::slice::from_raw_parts(levels, bins as usize + 1);
            with_type!(call, r#type, [u8 u16 u32 f32], T => {
                let levels = levels.iter().map(|value| level(call, "levels", *value));
                let levels = levels.collect::<Result<Vec<_>, _>>()?;
                count::<T>(call, (x, n), (out, bins as usize), |on| Bins::ranges(on, &levels))
            })
        })
    }
}

/// # Safety
/// As [`ferrowarp_histogram`].
unsafe fn count<T: Element + Countable>(
    call: &mut Call<'_>,
    (x, n): (*const c_void, usize),
    (out, n_bins): (*mut u32, usize),
    bins: impl FnOnce(&Stream) -> GpuResult<Bins<T>>,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let (x, mut out) =
        unsafe { (call.read::<T>("x", x, n)?, call.write::<u32>("out", out.cast(), n_bins)?) };
    let bins = call.enqueue(bins)?;
    call.enqueue(|on| {
        let mut out = out.as_mut_slice();
        out.clear()?;
        add_into(on, &x, &bins, &mut out)
    })
}
