//! Softmax and norms of rows, and their gradients.

use cuda_std::{bf16, f16};
use ferrowarp::GpuResult;
use ferrowarp::ops::norm::{
    Norm, WeightGradients, backward_into, backward_with_weights_into, norm_into, scratch_bytes,
};
use ferrowarp::ops::softmax::{
    log_softmax_backward_into, log_softmax_into, softmax_backward_into, softmax_into,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::call::{Call, Outcome};
use crate::dtype::{Element, with_type};
use crate::input::{Input, Values};

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
        let mut out = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            if x.len() > 0 {
                let values = x.values::<T>(call.lease())?;
                let operation = if log { log_softmax_into } else { softmax_into };
                operation(on, &values, columns, &mut out.buffer)?;
            }
            call.finish(out)
        })
    })?;
    call.give(py, rows)
}

/// The gradient of softmax, or of its logarithm, by its argument: y is its result, and dy the gradient by that.
#[pyfunction]
pub fn softmax_backward<'py>(
    py: Python<'py>,
    y: &Bound<'py, PyAny>,
    dy: &Bound<'py, PyAny>,
    log: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("softmax_backward", &[("y", Some(y)), ("dy", Some(dy))])?;
    let (y, dy) = (call.input(0), call.input(1));
    let columns = y.columns(call.operation())?;
    check_like(&call, dy, y.shape())?;
    let dx = with_type!("softmax_backward", y.dtype(), [f32 f16 bf16], T => {
        let mut dx = call.output::<T>(py, y.shape())?;
        call.run(py, |on| {
            if y.len() > 0 {
                let (y, dy) = (y.values::<T>(call.lease())?, dy.values::<T>(call.lease())?);
                let operation = if log { log_softmax_backward_into } else { softmax_backward_into };
                operation(on, &y, &dy, columns, &mut dx.buffer)?;
            }
            call.finish(dx)
        })
    })?;
    call.give(py, dx)
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
    normed(py, "layer_norm", true, [Some(x), weight, bias, residual], epsilon)
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
    normed(py, "rms_norm", false, [Some(x), weight, None, residual], epsilon)
}

/// x, weight, bias and residual.
type NormArguments<'a, 'py> = [Option<&'a Bound<'py, PyAny>>; 4];

fn normed<'py>(
    py: Python<'py>,
    name: &'static str,
    is_centered: bool,
    [x, weight, bias, residual]: NormArguments<'_, 'py>,
    epsilon: f32,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [("x", x), ("weight", weight), ("bias", bias), ("residual", residual)];
    let call = Call::new(name, &arguments)?;
    let x = call.input(0);
    let columns = x.columns(name)?;
    check_norm(&call, columns)?;
    let rows = with_type!(name, x.dtype(), [f32 f16 bf16], T => {
        let mut out = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            if x.len() > 0 {
                let beside = Beside::<T>::of(&call)?;
                let norm = beside.norm(is_centered, columns, epsilon);
                norm_into(on, &norm, &x.values::<T>(call.lease())?, &mut out.buffer)?;
            }
            call.finish(out)
        })
    })?;
    call.give(py, rows)
}

/// The gradients of layer norm (is_centered) or RMS norm by what was normalised, the weight and the bias, the latter two where
/// they are asked for: x is what was normalised (the sum, with a residual), and dy the gradient by the result.
#[pyfunction]
#[pyo3(signature = (x, dy, weight, *, is_centered, epsilon, for_weight, for_bias))]
#[allow(clippy::too_many_arguments)]
pub fn norm_backward<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    dy: &Bound<'py, PyAny>,
    weight: Option<&Bound<'py, PyAny>>,
    is_centered: bool,
    epsilon: f32,
    for_weight: bool,
    for_bias: bool,
) -> PyResult<[Option<Bound<'py, PyAny>>; 3]> {
    let arguments = [("x", Some(x)), ("dy", Some(dy)), ("weight", weight)];
    let call = Call::new("norm_backward", &arguments)?;
    let x = call.input(0);
    let columns = x.columns(call.operation())?;
    check_norm(&call, columns)?;
    let wanted = [for_weight, for_bias];
    let [dx, of_weight, of_bias] = with_type!("norm_backward", x.dtype(), [f32 f16 bf16], T => {
        run_norm_backward::<T>(py, &call, columns, (is_centered, epsilon), wanted)
    })?;
    let give = |outcome: Option<Outcome>| outcome.map(|own| call.give(py, own)).transpose();
    Ok([give(dx)?, give(of_weight)?, give(of_bias)?])
}

fn run_norm_backward<T: Element + ferrowarp::ops::RowValue>(
    py: Python<'_>,
    call: &Call,
    columns: usize,
    (is_centered, epsilon): (bool, f32),
    wanted: [bool; 2],
) -> PyResult<[Option<Outcome>; 3]> {
    let (x, dy) = (call.input(0), call.input(1));
    let mut dx = call.output::<T>(py, x.shape())?;
    let gradient = |is_wanted: bool| is_wanted.then(|| call.output::<T>(py, [columns])).transpose();
    let [mut of_weight, mut of_bias] = [gradient(wanted[0])?, gradient(wanted[1])?];
    call.run(py, |on| {
        let lease = call.lease();
        let beside = Beside::<T>::of(call)?;
        let norm = beside.norm(is_centered, columns, epsilon);
        let (x, dy) = (x.values::<T>(lease)?, dy.values::<T>(lease)?);
        if wanted == [false; 2] {
            if call.input(0).len() > 0 {
                backward_into(on, &norm, &x, &dy, &mut dx.buffer)?;
            }
        } else if let Some(rows) = call.input(0).len().checked_div(columns) {
            let mut scratch = lease.scratch(scratch_bytes(rows, columns))?;
            let gradients = WeightGradients {
                weight: of_weight.as_mut().map(|own| own.buffer.as_mut_slice()),
                bias: of_bias.as_mut().map(|own| own.buffer.as_mut_slice()),
            };
            backward_with_weights_into(
                on,
                &norm,
                &x,
                &dy,
                &mut dx.buffer,
                gradients,
                &mut scratch,
            )?;
        }
        let finish = |own: Option<_>| own.map(|own| call.finish::<T>(own)).transpose();
        Ok([Some(call.finish(dx)?), finish(of_weight)?, finish(of_bias)?])
    })
}

/// What a norm takes beside x, on the device.
struct Beside<'a, T: Element> {
    weight: Option<Values<'a, T>>,
    bias: Option<Values<'a, T>>,
    residual: Option<Values<'a, T>>,
}

impl<'a, T: Element> Beside<'a, T> {
    fn of(call: &'a Call) -> GpuResult<Self> {
        let values =
            |name: &str| call.named(name).map(|input| input.values::<T>(call.lease())).transpose();
        let [weight, bias, residual] = ["weight", "bias", "residual"].map(values);
        Ok(Self { weight: weight?, bias: bias?, residual: residual? })
    }

    fn norm(&self, is_centered: bool, columns: usize, epsilon: f32) -> Norm<'_, T> {
        let norm = if is_centered { Norm::layer(columns) } else { Norm::rms(columns) };
        let mut norm = norm.epsilon(epsilon);
        if let Some(weight) = &self.weight {
            norm = norm.weight(weight.as_slice());
        }
        if let Some(bias) = &self.bias {
            norm = norm.bias(bias.as_slice());
        }
        if let Some(residual) = &self.residual {
            norm = norm.residual(residual.as_slice());
        }
        norm
    }
}

/// An error unless what a norm takes beside x fits it.
fn check_norm(call: &Call, columns: usize) -> PyResult<()> {
    let (matrix, row) = (call.input(0).shape(), [columns]);
    call.inputs()[1..].iter().try_for_each(|other| {
        let is_matrix = matches!(other.name(), "residual" | "dy");
        check_like(call, other, if is_matrix { matrix } else { &row })
    })
}

/// An error unless an argument has the type of the first one and that shape.
fn check_like(call: &Call, other: &Input, expected: &[usize]) -> PyResult<()> {
    let first = call.input(0);
    other.check_contiguous(call.operation())?;
    if other.dtype() != first.dtype() {
        return Err(PyTypeError::new_err(format!(
            "{}: `{}` has elements of {}, and `{}` of {}: they have to be of one type",
            call.operation(),
            other.name(),
            other.dtype().name(),
            first.name(),
            first.dtype().name()
        )));
    }
    if other.shape() != expected {
        let (name, found) = (other.name(), other.shape());
        return Err(call.wrong(format!("`{name}` has the shape {found:?}, and needs {expected:?}")));
    }
    Ok(())
}
