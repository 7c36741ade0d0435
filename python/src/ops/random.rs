//! Random numbers.

use ferrowarp::GpuError;
use ferrowarp::ops;
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::{DType, unsupported, with_type};

/// A length, or the length of each axis.
#[derive(FromPyObject)]
pub enum Shape {
    /// That of the only axis.
    Length(usize),
    /// Those of all axes.
    Lengths(Vec<usize>),
}

impl Shape {
    fn into_vec(self) -> Vec<usize> {
        match self {
            Self::Length(len) => vec![len],
            Self::Lengths(lengths) => lengths,
        }
    }
}

fn dtype(operation: &str, name: &str, supported: &[DType]) -> PyResult<DType> {
    DType::from_name(name).ok_or_else(|| unsupported(operation, name, supported))
}

/// Uniform numbers in [0, 1): 0 can occur, 1 cannot. The same bits on every device.
///
/// A seed stands for an endless array, of which this is the part that begins at element offset. dtype: "float32" or "float64".
/// The result is of the library and on the device of the array like; without it a ferrowarp.Array.
#[pyfunction]
#[pyo3(signature = (shape, *, seed, offset = 0, dtype = "float32", like = None))]
pub fn uniform<'py>(
    py: Python<'py>,
    shape: Shape,
    seed: u64,
    offset: u64,
    dtype: &str,
    like: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("uniform", &[("like", like)])?;
    let shape = shape.into_vec();
    let dtype = self::dtype("uniform", dtype, &[DType::F32, DType::F64])?;
    let numbers = with_type!("uniform", dtype, [f32 f64], T => {
        let mut out = call.output::<T>(py, shape)?;
        call.run(py, |on| {
            ops::random::uniform_into(on, &mut out.buffer, seed, offset)?;
            call.finish(out)
        })
    })?;
    call.give(py, numbers)
}

/// Normal numbers (float32) with that mean and standard deviation.
///
/// seed, offset, like: as for uniform.
#[pyfunction]
#[pyo3(signature = (shape, *, seed, offset = 0, mean = 0.0, deviation = 1.0, like = None))]
pub fn normal<'py>(
    py: Python<'py>,
    shape: Shape,
    seed: u64,
    offset: u64,
    mean: f32,
    deviation: f32,
    like: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("normal", &[("like", like)])?;
    let shape = shape.into_vec();
    let mut out = call.output::<f32>(py, shape)?;
    let numbers = call.run(py, |on| {
        ops::random::normal_scaled_into(on, &mut out.buffer, seed, offset, mean, deviation)?;
        call.finish(out)
    })?;
    call.give(py, numbers)
}

/// Integers from low to below high, all equally likely. The same bits on every device. dtype: "uint32" or "uint64".
///
/// seed, offset, like: as for uniform.
#[pyfunction]
#[pyo3(signature = (shape, low, high, *, seed, offset = 0, dtype = "uint32", like = None))]
#[allow(clippy::too_many_arguments)]
pub fn integers<'py>(
    py: Python<'py>,
    shape: Shape,
    low: u64,
    high: u64,
    seed: u64,
    offset: u64,
    dtype: &str,
    like: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("integers", &[("like", like)])?;
    let shape = shape.into_vec();
    let dtype = self::dtype("integers", dtype, &[DType::U32, DType::U64])?;
    let numbers = with_type!("integers", dtype, [u32 u64], T => {
        let mut out = call.output::<T>(py, shape)?;
        call.run(py, |on| {
            let bound = |value: u64| T::try_from(value).map_err(|_| GpuError::InvalidArgument {
                operation: "integers",
                reason: format!("{value} is not a number of {}", dtype.name()),
            });
            let range = bound(low)?..bound(high)?;
            ops::random::integers_in_range_into(on, &mut out.buffer, range, seed, offset)?;
            call.finish(out)
        })
    })?;
    call.give(py, numbers)
}
