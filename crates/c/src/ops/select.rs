//! Selections, partitions and runs.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use ferrowarp::ops::select::{self, Flagged, Unique};

use crate::call::run;
use crate::element::{ElementType, with_bits};
use crate::error::Status;
use crate::handle::Handle;

/// Evaluates `$body` with `$T` as the unsigned integer of an element's size.
macro_rules! with_element {
    ($call:expr, $found:expr, $T:ident => $body:expr) => {
        with_bits!($call, $found, [u8 u32 u64 i8 i32 i64 f32 f64], [u8 u32 u64], $T => $body)
    };
}

/// Writes the elements of `x: [n]` whose flag (`uint8_t`) in `flags: [n]` is not 0 to the front of `out: [n]`, in their order, and how many they
/// are to `count: [1]` (`uint64_t`). All are in device memory, the count too. The rest of `out` stays as it is.
///
/// Elements of 1, 4 and 8 bytes.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_select(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    flags: *const u8,
    n: i64,
    out: *mut c_void,
    count: *mut u64,
) -> Status {
    let arrays = Arrays { x, flags, n, out, count };
    // SAFETY: the caller's promise.
    unsafe { by_flags("ferrowarp_select", handle, r#type, arrays, Others::Dropped) }
}

/// As ferrowarp_select(), and the other elements follow in `out: [n]`, in reversed order.
///
/// # Safety
/// As ferrowarp_select().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_partition(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    flags: *const u8,
    n: i64,
    out: *mut c_void,
    count: *mut u64,
) -> Status {
    let arrays = Arrays { x, flags, n, out, count };
    // SAFETY: the caller's promise.
    unsafe { by_flags("ferrowarp_partition", handle, r#type, arrays, Others::Follow) }
}

/// The arrays of a selection by flags.
struct Arrays {
    x: *const c_void,
    flags: *const u8,
    n: i64,
    out: *mut c_void,
    count: *mut u64,
}

/// What becomes of elements whose flag is 0.
#[derive(Clone, Copy)]
enum Others {
    Dropped,
    Follow,
}

/// # Safety
/// As [`ferrowarp_select`].
unsafe fn by_flags(
    operation: &'static str,
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    Arrays { x, flags, n, out, count }: Arrays,
    others: Others,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run(operation, handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            with_element!(call, r#type, T => {
                let x = call.read::<T>("x", x, n)?;
                let flags = call.read::<u8>("flags", flags.cast(), n)?;
                let mut out = call.write::<T>("out", out, n)?;
                let mut count = call.write::<u64>("count", count.cast(), 1)?;
                call.enqueue_with(select::scratch_bytes::<T>(n), |on, scratch| {
                    let (flagged, out, count) = (Flagged(&flags), &mut out, &mut count);
                    match others {
                        Others::Dropped => select::by_into(on, flagged, &x, out, count, scratch),
                        Others::Follow => select::partition_into(on, flagged, &x, out, count, scratch),
                    }
                })
            })
        })
    }
}

/// Writes the elements of `x: [n]` that differ from the one before, and the first, to the front of `out: [n]`, and how many they are to
/// `count: [1]` (`uint64_t`): of a sorted array, each value once. The rest of `out` stays as it is. Elements are compared by their bits: a NaN
/// equals itself, and the two zeros differ.
///
/// Elements of 1, 4 and 8 bytes.
///
/// # Safety
/// As ferrowarp_select().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_unique(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    n: i64,
    out: *mut c_void,
    count: *mut u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_unique", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            with_element!(call, r#type, T => {
                let x = call.read::<T>("x", x, n)?;
                let mut out = call.write::<T>("out", out, n)?;
                let mut count = call.write::<u64>("count", count.cast(), 1)?;
                call.enqueue_with(select::scratch_bytes::<T>(n), |on, scratch| {
                    let (out, count) = (&mut out, &mut count);
                    select::by_into(on, Unique, &x, out, count, scratch)
                })
            })
        })
    }
}

/// Run-length encoding of `x: [n]`: the element of each run of equal ones to the front of `values: [n]`, its length modulo 2^32
/// (`uint32_t`) to the front of `lengths: [n]`, and how many runs there are to `count: [1]` (`uint64_t`). Elements are compared as
/// ferrowarp_unique() does.
///
/// Elements of 1, 4 and 8 bytes.
///
/// # Safety
/// As ferrowarp_select().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_run_lengths(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    n: i64,
    values: *mut c_void,
    lengths: *mut u32,
    count: *mut u64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_run_lengths", handle, |call| {
            let (r#type, n) = (call.code("type", r#type)?, call.len("n", n)?);
            with_element!(call, r#type, T => {
                let x = call.read::<T>("x", x, n)?;
                let mut values = call.write::<T>("values", values, n)?;
                let mut lengths = call.write::<u32>("lengths", lengths.cast(), n)?;
                let mut count = call.write::<u64>("count", count.cast(), 1)?;
                call.enqueue_with(select::run_lengths_scratch_bytes::<T>(n), |on, scratch| {
                    let (values, lengths) = (&mut values, &mut lengths);
                    select::run_lengths_into(on, &x, values, lengths, &mut count, scratch)
                })
            })
        })
    }
}
