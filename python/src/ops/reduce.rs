//! Reductions of segments.

use cuda_std::{bf16, f16};
use ferrowarp::ops::reduce::{
    segmented_max_into, segmented_min_into, segmented_sum_into, segments_scratch_bytes,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::with_type;

/// The "sum", "min" or "max" of each segment of x, which has one axis: segment s is `x[offsets[s]:offsets[s + 1]]`.
///
/// An empty segment has the sum 0, the minimum +inf or the type's greatest integer, and the maximum -inf or the least one.
/// NaN is ignored by "min" and "max". Sums of float16 and bfloat16 are float32.
///
/// x: for "sum" float16, bfloat16, float32, float64, int32, uint32; for "min" and "max" float32, int32, uint32. offsets: int64 or
/// uint64, one more than segments.
#[pyfunction]
#[pyo3(signature = (x, offsets, op = "sum"))]
pub fn segmented_reduce<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    op: &str,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "segmented_reduce";
    let call = Call::new(NAME, &[("x", Some(x)), ("offsets", Some(offsets))])?;
    let (x, offsets) = (call.input(0), call.input(1));
    x.vector(NAME)?;
    let segments = offsets.segments(NAME)?;
    macro_rules! by {
        ($name:literal, $operation:ident, [$($ty:ident)*], $total:ty) => {
            with_type!($name, x.dtype(), [$($ty)*], T => {
                let mut out = call.output::<$total>(py, [segments])?;
                call.run(py, |on| {
                    let mut scratch = call.lease().scratch(segments_scratch_bytes(segments, x.len()))?;
                    let (x, offsets) = (x.values::<T>(call.lease())?, offsets.values::<u64>(call.lease())?);
                    $operation(on, &x, &offsets, &mut out.buffer, &mut scratch)?;
                    call.finish(out)
                })
            })
        };
    }
    let reduced = match op {
        "sum" => {
            by!("segmented_reduce", segmented_sum_into, [f16 bf16 f32 f64 i32 u32], <T as ferrowarp::ops::reduce::Element>::Total)
        }
        "min" => by!("segmented_reduce by \"min\"", segmented_min_into, [f32 i32 u32], T),
        "max" => by!("segmented_reduce by \"max\"", segmented_max_into, [f32 i32 u32], T),
        _ => Err(PyValueError::new_err(format!(
            "{NAME}: op is {op:?}, and has to be \"sum\", \"min\" or \"max\""
        ))),
    }?;
    call.give(py, reduced)
}
