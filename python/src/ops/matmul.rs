//! Matrix products.

use bytemuck::Pod;
use cuda_std::{bf16, f16};
use ferrowarp::GpuResult;
use ferrowarp::ops::matmul::{
    Matrix, MatrixMut, Options, double_into, double_scratch_bytes, matmul_into, registers_into,
    scratch_bytes_of_views, three_tf32_into, three_tf32_scratch_bytes,
};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::call::{Call, Outcome};
use crate::device::Lease;
use crate::dtype::{DType, Element, with_type};
use crate::input::Values;

/// Where the matrices of an argument are.
#[derive(Clone, Copy)]
struct Layout {
    batches: usize,
    sides: [usize; 2],
    is_transposed: bool,
}

impl Layout {
    fn of(call: &Call, number: usize) -> PyResult<Self> {
        let (batches, sides, is_transposed) = call.input(number).matrices(call.operation())?;
        Ok(Self { batches, sides, is_transposed })
    }

    fn matrix<'a, T: Element>(self, values: &'a Values<'_, T>) -> GpuResult<Matrix<'a, T>> {
        let [rows, columns] = self.sides;
        let matrix = if self.is_transposed {
            Matrix::column_major(values.as_slice(), rows, columns)?
        } else {
            Matrix::row_major(values.as_slice(), rows, columns)?
        };
        matrix.batched(self.batches, if self.batches == 1 { 0 } else { rows * columns })
    }
}

/// A product whose sizes fit.
struct Product<'a> {
    call: &'a Call,
    layouts: [Layout; 2],
    batches: usize,
    shape: Vec<usize>,
}

impl Product<'_> {
    /// Enqueues `multiply` with A, B and a place for D.
    fn run<T: Element>(
        &self,
        py: Python<'_>,
        multiply: impl FnOnce(&Lease, Matrix<'_, T>, Matrix<'_, T>, MatrixMut<'_, T>) -> GpuResult<()>
        + Send,
    ) -> PyResult<Outcome> {
        let [a, b] = self.layouts;
        let (rows, columns) = (a.sides[0], b.sides[1]);
        let mut out = self.call.output::<T>(py, self.shape.clone())?;
        self.call.run(py, |_| {
            let lease = self.call.lease();
            let x = self.call.input(0).values::<T>(lease)?;
            let y = self.call.input(1).values::<T>(lease)?;
            if !out.buffer.is_empty() {
                let d = MatrixMut::row_major(out.buffer.as_mut_slice(), rows, columns)?;
                let d = d.batched(self.batches, rows * columns)?;
                multiply(lease, a.matrix(&x)?, b.matrix(&y)?, d)?;
            }
            self.call.finish(out)
        })
    }
}

/// The matrix product of a and b: matrices, or batches of as many matrices (three axes), of which one may be a single matrix.
///
/// a and b are row-major or transposed (x.T, x.mT), without gaps. float16 and bfloat16 are added in float32 and rounded once.
/// Of float32, precision says how: "float32" (fused multiply-adds of float32), "tf32" (rounded to TF32, tensor cores), "3xtf32"
/// (three products of TF32, tensor cores).
///
/// a, b: both float16, bfloat16, float32 or float64.
#[pyfunction]
#[pyo3(name = "matmul", signature = (a, b, *, precision = None))]
pub fn matmul<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    precision: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("matmul", &[("a", Some(a)), ("b", Some(b))])?;
    let product = fit(&call)?;
    let dtype = call.input(0).dtype();
    if precision.is_some() && dtype != DType::F32 {
        return Err(call.wrong(format!("precision is for float32, and these are {}", dtype.name())));
    }
    let d = match dtype {
        DType::Bf16 => product.run::<bf16>(py, tensor_cores),
        DType::F16 => product.run::<f16>(py, tensor_cores),
        DType::F64 => product.run::<f64>(py, |lease, a, b, d| {
            let mut scratch = lease.scratch(double_scratch_bytes(lease.stream(), a, b, &d)?)?;
            double_into(lease.stream(), a, b, d, (1.0, 0.0), None, &mut scratch)
        }),
        DType::F32 => match precision.unwrap_or("float32") {
            "float32" => product.run::<f32>(py, |lease, a, b, d| {
                registers_into(lease.stream(), a, b, d, Options::new())
            }),
            "tf32" => product
                .run::<f32>(py, |lease, a, b, d| tensor_cores(lease, a.as_tf32(), b.as_tf32(), d)),
            "3xtf32" => product.run::<f32>(py, |lease, a, b, d| {
                let on = lease.stream();
                let mut scratch = lease.scratch(three_tf32_scratch_bytes(on, a, b, &d)?)?;
                three_tf32_into(on, a, b, d, Options::new(), &mut scratch)
            }),
            other => Err(PyValueError::new_err(format!(
                "matmul: precision is {other:?}, and has to be \"float32\", \"tf32\" or \"3xtf32\""
            ))),
        },
        _ => with_type!("matmul", dtype, [f16 bf16 f32 f64], _T => unreachable!()),
    }?;
    call.give(py, d)
}

/// Enqueues a product on tensor cores.
fn tensor_cores<T: Factor, D: Pod>(
    lease: &Lease,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: MatrixMut<'_, D>,
) -> GpuResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let on = lease.stream();
    let mut scratch = lease.scratch(scratch_bytes_of_views(on, a, b, &d)?)?;
    matmul_into(on, a, b, d, Options::new(), &mut scratch)
}

/// The product of both arguments, if they fit.
fn fit(call: &Call) -> PyResult<Product<'_>> {
    let [a, b] = [call.input(0), call.input(1)];
    if a.dtype() != b.dtype() {
        return Err(PyTypeError::new_err(format!(
            "matmul: `a` has elements of {}, and `b` of {}: they have to be of one type",
            a.dtype().name(),
            b.dtype().name()
        )));
    }
    let layouts = [Layout::of(call, 0)?, Layout::of(call, 1)?];
    let [x, y] = layouts;
    let (is_batch, has_one) = (
        a.shape().len() == 3 || b.shape().len() == 3,
        a.shape().len() == 2 || b.shape().len() == 2,
    );
    if x.sides[1] != y.sides[0] || (!has_one && x.batches != y.batches) {
        return Err(call.wrong(format!(
            "{:?} times {:?}: the last side of `a` has to be the last but one of `b`, and batches have to be as many",
            a.shape(),
            b.shape()
        )));
    }
    let batches = if a.shape().len() == 3 { x.batches } else { y.batches };
    let mut shape = vec![x.sides[0], y.sides[1]];
    if is_batch {
        shape.insert(0, batches);
    }
    Ok(Product { call, layouts, batches, shape })
}
