//! Scans (prefix sums).

use cuda_std::{bf16, f16};
use ferrowarp::ops;
use ferrowarp::ops::scan::{Form, Max, Min, Sum};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::with_type;

/// Each element of x, which has one axis, combined with all before it: by "sum", "max" or "min".
///
/// With exclusive=True, an element is combined of those before it alone; the first is then 0 (of "max" the type's least number,
/// of "min" its greatest). Integers wrap. The sums of floats have the same bits in every run.
///
/// x: for "sum" integers of 8 to 64 bits, float16, bfloat16, float32, float64; for "max" and "min" int32, uint32, float32.
#[pyfunction]
#[pyo3(name = "scan", signature = (x, op = "sum", *, exclusive = false))]
pub fn scan<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    op: &str,
    exclusive: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("scan", &[("x", Some(x))])?;
    let x = call.input(0);
    let n = x.vector("scan")?;
    let form = if exclusive { Form::Exclusive } else { Form::Inclusive };
    macro_rules! by {
        ($name:literal, $operator:ident, [$($ty:ident)*]) => {
            with_type!($name, x.dtype(), [$($ty)*], T => {
                let mut out = call.output::<T>(py, [n])?;
                call.run(py, |on| {
                    let mut scratch = call.lease().scratch(ops::scan::scratch_bytes::<T, $operator>(n))?;
                    let x = x.values::<T>(call.lease())?;
                    ops::scan::by_into(on, $operator, form, &x, &mut out.buffer, &mut scratch)?;
                    call.finish(out)
                })
            })
        };
    }
    let scanned = match op {
        "sum" => by!("scan", Sum, [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64]),
        "max" => by!("scan by \"max\"", Max, [u32 i32 f32]),
        "min" => by!("scan by \"min\"", Min, [u32 i32 f32]),
        _ => Err(PyValueError::new_err(format!(
            "scan: op is {op:?}, and has to be \"sum\", \"max\" or \"min\""
        ))),
    }?;
    call.give(py, scanned)
}
