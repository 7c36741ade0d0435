//! Selections, partitions and runs.

use ferrowarp::ops::select::{
    Flagged, Unique, by_into, partition_into, run_lengths_into, run_lengths_scratch_bytes,
    scratch_bytes,
};
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::{DType, unsupported, with_type};

/// An error unless `x` and `flags` are as long, and the flags are flags.
fn check_flags(call: &Call) -> PyResult<()> {
    let operation = call.operation();
    let (x, flags) = (call.input(0), call.input(1));
    let (n, n_flags) = (x.vector(operation)?, flags.vector(operation)?);
    if !matches!(flags.dtype(), DType::Bool | DType::U8) {
        let operation = format!("{operation} with flags");
        return Err(unsupported(&operation, flags.dtype().name(), &[DType::Bool, DType::U8]));
    }
    if n != n_flags {
        return Err(call.wrong(format!("{n} elements have {n_flags} flags: pass a flag for each")));
    }
    Ok(())
}

/// The elements of x whose flag is set, in their order. Both have one axis and one length.
///
/// x: integers of 8, 32 and 64 bits, float32, float64. flags: bool or uint8.
#[pyfunction]
#[pyo3(name = "select")]
pub fn select<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    flags: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::measuring("select", &[("x", Some(x)), ("flags", Some(flags))])?;
    check_flags(&call)?;
    let (x, flags) = (call.input(0), call.input(1));
    let kept = with_type!("select", x.dtype(), [u8 u32 u64 i8 i32 i64 f32 f64], T => {
        let mut all = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            let lease = call.lease();
            let (values, flags) = (x.values::<T>(lease)?, flags.values::<u8>(lease)?);
            let kept = lease.count(scratch_bytes::<T>(x.len()), |count, scratch| {
                by_into(on, Flagged(&flags), &values, &mut all.buffer, count, scratch)
            })?;
            call.finish_front(all, kept)
        })
    })?;
    call.give(py, kept)
}

/// All elements of x, those whose flag is set first and in their order, the others after them in reversed order; and how many
/// flags are set.
///
/// x, flags: as for select.
#[pyfunction]
pub fn partition<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    flags: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let call = Call::measuring("partition", &[("x", Some(x)), ("flags", Some(flags))])?;
    check_flags(&call)?;
    let (x, flags) = (call.input(0), call.input(1));
    let (all, kept) = with_type!("partition", x.dtype(), [u8 u32 u64 i8 i32 i64 f32 f64], T => {
        let mut all = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            let lease = call.lease();
            let (values, flags) = (x.values::<T>(lease)?, flags.values::<u8>(lease)?);
            let kept = lease.count(scratch_bytes::<T>(x.len()), |count, scratch| {
                partition_into(on, Flagged(&flags), &values, &mut all.buffer, count, scratch)
            })?;
            Ok((call.finish(all)?, kept))
        })
    })?;
    Ok((call.give(py, all)?, kept))
}

/// The elements of x, which has one axis, that differ from the one before, and the first. Of a sorted x: each value once.
///
/// Elements are compared by their bits: a NaN equals itself, and the two zeros differ.
///
/// x: integers of 8, 32 and 64 bits, float32, float64.
#[pyfunction]
pub fn unique<'py>(py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::measuring("unique", &[("x", Some(x))])?;
    let x = call.input(0);
    x.vector("unique")?;
    let first = with_type!("unique", x.dtype(), [u8 u32 u64 i8 i32 i64 f32 f64], T => {
        let mut all = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            let (lease, values) = (call.lease(), x.values::<T>(call.lease())?);
            let kept = lease.count(scratch_bytes::<T>(x.len()), |count, scratch| {
                by_into(on, Unique, &values, &mut all.buffer, count, scratch)
            })?;
            call.finish_front(all, kept)
        })
    })?;
    call.give(py, first)
}

/// The runs of equal elements of x, which has one axis: the element of each, and its length (uint32).
///
/// x: as for unique.
#[pyfunction]
pub fn run_lengths<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let call = Call::measuring("run_lengths", &[("x", Some(x))])?;
    let x = call.input(0);
    x.vector("run_lengths")?;
    let (values, lengths) = with_type!("run_lengths", x.dtype(), [u8 u32 u64 i8 i32 i64 f32 f64], T => {
        let mut first = call.output::<T>(py, x.shape())?;
        let mut lengths = call.output::<u32>(py, x.shape())?;
        call.run(py, |on| {
            let (lease, values) = (call.lease(), x.values::<T>(call.lease())?);
            let runs = lease.count(run_lengths_scratch_bytes::<T>(x.len()), |count, scratch| {
                let (first, lengths) = (&mut first.buffer, &mut lengths.buffer);
                run_lengths_into(on, &values, first, lengths, count, scratch)
            })?;
            Ok((call.finish_front(first, runs)?, call.finish_front(lengths, runs)?))
        })
    })?;
    Ok((call.give(py, values)?, call.give(py, lengths)?))
}
