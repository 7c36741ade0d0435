//! Arrays of random numbers.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;

use ferrowarp::ops::random;

use crate::call::{Call, run};
use crate::element::{ElementType, with_type};
use crate::error::{Error, Status};
use crate::handle::Handle;

/// Fills `out: [n]` with uniform random numbers in [0, 1), of Philox4x32-10: elements `offset` and on of the endless array of `seed`. The
/// same bits on every device.
///
/// Elements of f32, f64.
///
/// # Safety
/// The handle exists; the array has its elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_random_uniform(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    out: *mut c_void,
    n: i64,
    seed: u64,
    offset: u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_random_uniform", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            with_type!(call, r#type, [f32 f64], T => {
                let mut out = call.write::<T>("out", out, n)?;
                call.enqueue(|on| random::uniform_into(on, &mut out, seed, offset))
            })
        })
    }
}

/// Fills `out: [n]` (`float`) with normal random numbers: elements `offset` and on of the endless array of `seed`.
///
/// # Safety
/// As ferrowarp_random_uniform().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_random_normal(
    handle: *const Handle,
    out: *mut f32,
    n: i64,
    mean: f32,
    deviation: f32,
    seed: u64,
    offset: u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_random_normal", handle, |call| {
            let n = call.len("n", n)?;
            let mut out = call.write::<f32>("out", out.cast(), n)?;
            call.enqueue(|on| {
                random::normal_scaled_into(on, &mut out, seed, offset, mean, deviation)
            })
        })
    }
}

/// Fills `out: [n]` with random integers from `low` to below `high`, all equally likely: elements `offset` and on of the endless array of
/// `seed`. The same bits on every device.
///
/// Elements of u32, u64.
///
/// # Safety
/// As ferrowarp_random_uniform().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_random_integers(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    out: *mut c_void,
    n: i64,
    low: u64,
    high: u64,
    seed: u64,
    offset: u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_random_integers", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            with_type!(call, r#type, [u32 u64], T => {
                let range = range::<T>(call, low, high)?;
                let mut out = call.write::<T>("out", out, n)?;
                call.enqueue(|on| {
                    random::integers_in_range_into(on, &mut out, range, seed, offset)
                })
            })
        })
    }
}

/// The range, of the elements' type and not empty.
fn range<T: TryFrom<u64> + PartialOrd>(
    call: &Call<'_>,
    low: u64,
    high: u64,
) -> Result<Range<T>, Error> {
    let bounds = T::try_from(low).ok().zip(T::try_from(high).ok());
    let bounds = bounds.filter(|(low, high)| low < high);
    let wrong = || {
        call.wrong(format!(
            "from {low} to below {high} there is not an integer of the elements' type"
        ))
    };
    bounds.map(|(low, high)| low..high).ok_or_else(wrong)
}
