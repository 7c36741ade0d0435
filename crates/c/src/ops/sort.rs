//! Sorts of keys and pairs, of indices, and the first keys.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::sort::{self, Extreme, SortOptions};

use crate::call::{Call, run};
use crate::code::code;
use crate::element::{ElementType, with_bits, with_type};
use crate::error::{Error, Status};
use crate::handle::Handle;

/// Which keys come first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The smallest.
    Ascending = 0,
    /// The largest.
    Descending = 1,
}

code!(SortOrder, "ferrowarp_order", [Ascending Descending]);

impl SortOrder {
    fn options(self) -> SortOptions {
        match self {
            Self::Ascending => SortOptions::ASCENDING,
            Self::Descending => SortOptions::DESCENDING,
        }
    }
}

/// Evaluates `$body` with `$T` as the type of keys.
macro_rules! with_key {
    ($call:expr, $found:expr, $T:ident => $body:expr) => {
        with_type!($call, $found, [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], $T => $body)
    };
}

/// Sorts `keys: [n]` to `out: [n]`, which may be `keys` itself. The sort is stable. Floats are in their total order: -NaN, -inf, ...,
/// -0.0, 0.0, ..., inf, NaN. Elements of all types.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_sort(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    order: MaybeUninit<SortOrder>,
    keys: *const c_void,
    out: *mut c_void,
    n: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_sort", handle, |call| {
            let (r#type, options) =
                (call.code("type", r#type)?, call.code("order", order)?.options());
            let n = call.len("n", n)?;
            with_key!(call, r#type, T => {
                let is_in_place = keys == out.cast_const();
                let keys = if is_in_place { None } else { Some(call.read::<T>("keys", keys, n)?) };
                let mut out = call.write::<T>("out", out, n)?;
                call.enqueue_with(sort::scratch_bytes::<T>(n), |on, scratch| match &keys {
                    Some(keys) => sort::sort_into(on, keys, &mut out, options, scratch),
                    None => sort::sort_in_place(on, &mut out, options, scratch),
                })
            })
        })
    }
}

/// Sorts `keys: [n]` to `out_keys: [n]`, and `values: [n]` to `out_values: [n]` in the order of their keys. Keys and values may both be
/// sorted in place. The sort is stable. Keys of all types, values of 4 and 8 bytes.
///
/// # Safety
/// As ferrowarp_sort().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_sort_pairs(
    handle: *const Handle,
    key_type: MaybeUninit<ElementType>,
    value_type: MaybeUninit<ElementType>,
    order: MaybeUninit<SortOrder>,
    keys: *const c_void,
    values: *const c_void,
    out_keys: *mut c_void,
    out_values: *mut c_void,
    n: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_sort_pairs", handle, |call| {
            let options = call.code("order", order)?.options();
            let (key, value) =
                (call.code("key_type", key_type)?, call.code("value_type", value_type)?);
            let n = call.len("n", n)?;
            let is_in_place = keys == out_keys.cast_const() && values == out_values.cast_const();
            with_key!(call, key, K => with_bits!(call, value, [u32 u64 i32 i64 f32 f64], [u32 u64], V => {
                let inputs = if is_in_place {
                    None
                } else {
                    Some((call.read::<K>("keys", keys, n)?, call.read::<V>("values", values, n)?))
                };
                let mut keys = call.write::<K>("out_keys", out_keys, n)?;
                let mut values = call.write::<V>("out_values", out_values, n)?;
                call.enqueue_with(sort::pairs_scratch_bytes::<K, V>(n), |on, scratch| {
                    let (keys, values) = (&mut keys, &mut values);
                    match &inputs {
                        Some((x, y)) => {
                            let inputs = (x, y);
                            sort::sort_pairs_into(on, inputs, (keys, values), options, scratch)
                        }
                        None => sort::sort_pairs_in_place(on, keys, values, options, scratch),
                    }
                })
            }))
        })
    }
}

/// Writes the indices (`uint32_t`) of the elements of `x: [n]` in order to `indices: [n]`: `x[indices[0]]` is the first. Indices of equal
/// elements ascend. Elements of all types; n is at most 2^32.
///
/// # Safety
/// As ferrowarp_sort().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_argsort(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    order: MaybeUninit<SortOrder>,
    x: *const c_void,
    indices: *mut u32,
    n: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_argsort", handle, |call| {
            let (r#type, options) =
                (call.code("type", r#type)?, call.code("order", order)?.options());
            let n = call.len("n", n)?;
            with_key!(call, r#type, T => {
                let x = call.read::<T>("x", x, n)?;
                let mut indices = call.write::<u32>("indices", indices.cast(), n)?;
                call.enqueue_with(sort::argsort_scratch_bytes::<T>(n), |on, scratch| {
                    sort::argsort_into(on, &x, &mut indices, options, scratch)
                })
            })
        })
    }
}

/// Writes the first `k` elements of `x: [n]` in `order` to `out: [k]`, and their indices (`uint32_t`) to `indices: [k]`: the k largest with
/// FERROWARP_ORDER_DESCENDING. Of equal elements the first are taken. Elements of all types; n is at most 2^32, and k below 2^31.
///
/// # Safety
/// As ferrowarp_sort().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_top_k(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    order: MaybeUninit<SortOrder>,
    x: *const c_void,
    n: i64,
    k: i64,
    out: *mut c_void,
    indices: *mut u32,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_top_k", handle, |call| {
            let (r#type, order) = (call.code("type", r#type)?, call.code("order", order)?);
            let which = match order {
                SortOrder::Ascending => Extreme::Smallest,
                SortOrder::Descending => Extreme::Largest,
            };
            let (n, k) = (call.len("n", n)?, check_k(call, n, k)?);
            with_key!(call, r#type, T => {
                let x = call.read::<T>("x", x, n)?;
                let mut out = call.write::<T>("out", out, k)?;
                let mut indices = call.write::<u32>("indices", indices.cast(), k)?;
                call.enqueue_with(sort::top_k_scratch_bytes::<T>(n, k), |on, scratch| {
                    let results = (&mut out, &mut indices);
                    sort::top_k_into(on, &x, results, which, scratch)
                })
            })
        })
    }
}

/// `k`, of at most `n`.
fn check_k(call: &Call<'_>, n: i64, k: i64) -> Result<usize, Error> {
    if k > n {
        let reason = format!("`k` is {k}, and there are {n} elements");
        return Err(Error::Length { operation: call.operation(), reason });
    }
    call.len("k", k)
}
