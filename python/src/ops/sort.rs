//! Sorts of keys, of indices, and the first keys.

use cuda_std::{bf16, f16};
use ferrowarp::ops;
use ferrowarp::ops::sort::{Extreme, SortOptions};
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::with_type;

fn options(descending: bool) -> SortOptions {
    if descending { SortOptions::DESCENDING } else { SortOptions::ASCENDING }
}

/// The elements of x, which has one axis, in order.
///
/// Floats are in their total order: -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN. The sort is stable.
///
/// x: integers of 8 to 64 bits, float16, bfloat16, float32, float64.
#[pyfunction]
#[pyo3(signature = (x, *, descending = false))]
pub fn sort<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    descending: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("sort", &[("x", Some(x))])?;
    let x = call.input(0);
    let n = x.vector("sort")?;
    let sorted = with_type!("sort", x.dtype(), [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], T => {
        let mut out = call.output::<T>(py, [n])?;
        call.run(py, |on| {
            let mut scratch = call.lease().scratch(ops::sort::scratch_bytes::<T>(n))?;
            let x = x.values::<T>(call.lease())?;
            ops::sort::sort_into(on, &x, &mut out.buffer, options(descending), &mut scratch)?;
            call.finish(out)
        })
    })?;
    call.give(py, sorted)
}

/// The indices (uint32) of the elements of x in order: `x[indices[0]]` is the first. Indices of equal elements ascend.
///
/// x: as for sort.
#[pyfunction]
#[pyo3(signature = (x, *, descending = false))]
pub fn argsort<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    descending: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("argsort", &[("x", Some(x))])?;
    let x = call.input(0);
    let n = x.vector("argsort")?;
    let indices = with_type!("argsort", x.dtype(), [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], T => {
        let mut out = call.output::<u32>(py, [n])?;
        call.run(py, |on| {
            let mut scratch = call.lease().scratch(ops::sort::argsort_scratch_bytes::<T>(n))?;
            let x = x.values::<T>(call.lease())?;
            ops::sort::argsort_into(on, &x, &mut out.buffer, options(descending), &mut scratch)?;
            call.finish(out)
        })
    })?;
    call.give(py, indices)
}

/// The elements of x in order within each segment: segment s is `x[offsets[s]:offsets[s + 1]]`. Elements outside of all segments stay.
///
/// x: as for sort. offsets: int64 or uint64, one more than segments.
#[pyfunction]
#[pyo3(signature = (x, offsets, *, descending = false))]
pub fn segmented_sort<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    descending: bool,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "segmented_sort";
    let call = Call::new(NAME, &[("x", Some(x)), ("offsets", Some(offsets))])?;
    let (x, offsets) = (call.input(0), call.input(1));
    let n = x.vector(NAME)?;
    offsets.segments(NAME)?;
    let sorted = with_type!(NAME, x.dtype(), [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], T => {
        let mut out = call.output::<T>(py, [n])?;
        call.run(py, |on| {
            let bytes = ops::sort::segmented_scratch_bytes::<T>(n);
            let mut scratch = call.lease().scratch(bytes)?;
            let (x, offsets) = (x.values::<T>(call.lease())?, offsets.values::<u64>(call.lease())?);
            let options = options(descending);
            ops::sort::segmented_sort_into(on, &x, &offsets, &mut out.buffer, options, &mut scratch)?;
            call.finish(out)
        })
    })?;
    call.give(py, sorted)
}

/// The indices (uint32) in x of the elements in order within each segment. Indices of equal elements ascend.
///
/// x, offsets: as for segmented_sort.
#[pyfunction]
#[pyo3(signature = (x, offsets, *, descending = false))]
pub fn segmented_argsort<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    descending: bool,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "segmented_argsort";
    let call = Call::new(NAME, &[("x", Some(x)), ("offsets", Some(offsets))])?;
    let (x, offsets) = (call.input(0), call.input(1));
    let n = x.vector(NAME)?;
    offsets.segments(NAME)?;
    let indices = with_type!(NAME, x.dtype(), [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], T => {
        let mut out = call.output::<u32>(py, [n])?;
        call.run(py, |on| {
            let bytes = ops::sort::segmented_argsort_scratch_bytes::<T>(n);
            let mut scratch = call.lease().scratch(bytes)?;
            let (x, offsets) = (x.values::<T>(call.lease())?, offsets.values::<u64>(call.lease())?);
            let options = options(descending);
            ops::sort::segmented_argsort_into(on, &x, &offsets, &mut out.buffer, options, &mut scratch)?;
            call.finish(out)
        })
    })?;
    call.give(py, indices)
}

/// The k largest elements of x (or smallest), in order, and their indices (uint32). Of equal ones the first are taken.
///
/// x: as for sort.
#[pyfunction]
#[pyo3(signature = (x, k, *, largest = true))]
pub fn top_k<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    k: usize,
    largest: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let call = Call::new("top_k", &[("x", Some(x))])?;
    let x = call.input(0);
    let n = x.vector("top_k")?;
    if k > n {
        return Err(call.wrong(format!("{k} of {n} keys are more than there are")));
    }
    let which = if largest { Extreme::Largest } else { Extreme::Smallest };
    let (values, indices) = with_type!("top_k", x.dtype(), [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], T => {
        let (mut values, mut indices) = (call.output::<T>(py, [k])?, call.output::<u32>(py, [k])?);
        call.run(py, |on| {
            let mut scratch = call.lease().scratch(ops::sort::top_k_scratch_bytes::<T>(n, k))?;
            let (x, out) = (x.values::<T>(call.lease())?, (&mut values.buffer, &mut indices.buffer));
            ops::sort::top_k_into(on, &x, out, which, &mut scratch)?;
            Ok((call.finish(values)?, call.finish(indices)?))
        })
    })?;
    Ok((call.give(py, values)?, call.give(py, indices)?))
}
