//! Softmax and norms of rows.

use cuda_std::{bf16, f16};
use ferrowarp::GpuResult;
use ferrowarp::ops;
use ferrowarp::ops::norm::Norm;
use ferrowarp::ops::softmax::{log_softmax_into, softmax_into};
use pyo3::prelude::*;

use crate::call::{Call, unwritten};
use crate::dtype::{Element, with_type};
use crate::input::{Input, Resident};

/// The softmax along the last axis of x, or its logarithm; computed in float32.
///
/// x: float32, float16, bfloat16, with any number of axes.
#[pyfunction]
#[pyo3(name = "softmax", signature = (x, *, log = false))]
pub fn softmax<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    log: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("softmax", &[("x", Some(x))])?;
    let x = call.input(0);
    let columns = x.columns("softmax")?;
    let rows = with_type!("softmax", x.dtype(), [f32 f16 bf16], T => {
        call.run(py, |on| {
            let mut out = unwritten::<T>(on, x.len())?;
            if x.len() > 0 {
                let values = x.values::<T>(call.lease())?;
                let operation = if log { log_softmax_into } else { softmax_into };
                operation(on, &values, columns, &mut out)?;
            }
            call.result(out, x.shape())
        })
    })?;
    call.give(py, rows)
}

/// Layer norm along the last axis of x: (s - mean) / sqrt(variance + epsilon) * weight + bias, with s = x + residual; computed
/// in float32.
///
/// x: float32, float16, bfloat16, with any number of axes. weight, bias: as many elements as the last axis, of the same type.
/// residual: as x.
#[pyfunction]
#[pyo3(signature = (x, weight = None, bias = None, *, residual = None, epsilon = 1e-5))]
pub fn layer_norm<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    weight: Option<&Bound<'py, PyAny>>,
    bias: Option<&Bound<'py, PyAny>>,
    residual: Option<&Bound<'py, PyAny>>,
    epsilon: f32,
) -> PyResult<Bound<'py, PyAny>> {
    normed(py, "layer_norm", true, [x], [weight, bias, residual], epsilon)
}

/// RMS norm along the last axis of x: s / sqrt(mean of squares of s + epsilon) * weight, with s = x + residual; computed in
/// float32.
///
/// x, weight, residual: as for layer_norm.
#[pyfunction]
#[pyo3(signature = (x, weight = None, *, residual = None, epsilon = 1e-5))]
pub fn rms_norm<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    weight: Option<&Bound<'py, PyAny>>,
    residual: Option<&Bound<'py, PyAny>>,
    epsilon: f32,
) -> PyResult<Bound<'py, PyAny>> {
    normed(py, "rms_norm", false, [x], [weight, None, residual], epsilon)
}

fn normed<'py>(
    py: Python<'py>,
    name: &'static str,
    is_centered: bool,
    [x]: [&Bound<'py, PyAny>; 1],
    [weight, bias, residual]: [Option<&Bound<'py, PyAny>>; 3],
    epsilon: f32,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [("x", Some(x)), ("weight", weight), ("bias", bias), ("residual", residual)];
    let call = Call::new(name, &arguments)?;
    let x = call.input(0);
    let columns = x.columns(name)?;
    for other in &call.inputs()[1..] {
        let expected = if other.name() == "residual" { x.shape() } else { &[columns] };
        check_like(&call, other, expected)?;
    }
    let rows = with_type!(name, x.dtype(), [f32 f16 bf16], T => {
        call.run(py, |on| {
            let mut out = unwritten::<T>(on, x.len())?;
            if x.len() > 0 {
                let [weight, bias, residual] = ["weight", "bias", "residual"].map(|name| resident::<T>(&call, name));
                let (weight, bias, residual) = (weight?, bias?, residual?);
                let mut norm = if is_centered { Norm::layer(columns) } else { Norm::rms(columns) }.epsilon(epsilon);
                if let Some(weight) = &weight {
                    norm = norm.weight(weight.as_slice());
                }
                if let Some(bias) = &bias {
                    norm = norm.bias(bias.as_slice());
                }
                if let Some(residual) = &residual {
                    norm = norm.residual(residual.as_slice());
                }
                ops::norm::norm_into(on, &norm, &x.values::<T>(call.lease())?, &mut out)?;
            }
            call.result(out, x.shape())
        })
    })?;
    call.give(py, rows)
}

fn resident<'a, T: Element>(call: &'a Call, name: &str) -> GpuResult<Option<Resident<'a, T>>> {
    call.named(name).map(|input| input.resident::<T>(call.lease())).transpose()
}

/// An error unless an argument has the type of the first one and that shape.
fn check_like(call: &Call, other: &Input, expected: &[usize]) -> PyResult<()> {
    let x = call.input(0);
    other.check_contiguous(call.operation())?;
    if other.dtype() != x.dtype() {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "{}: `{}` has elements of {}, and `x` of {}: they have to be of one type",
            call.operation(),
            other.name(),
            other.dtype().name(),
            x.dtype().name()
        )));
    }
    if other.shape() != expected {
        let (name, found) = (other.name(), other.shape());
        return Err(call.wrong(format!("`{name}` has the shape {found:?}, and needs {expected:?}")));
    }
    Ok(())
}
