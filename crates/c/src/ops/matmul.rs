//! Matrix products.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use bytemuck::Pod;
use cuda_std::{bf16, f16};
use ferrowarp::ops::matmul::{
    Matrix, MatrixLayout, MatrixMut, Options, Order, double_into, double_scratch_bytes,
    matmul_into, registers_into, scratch_bytes_of_views, three_tf32_into, three_tf32_scratch_bytes,
};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};

use crate::call::{Call, run};
use crate::code::code;
use crate::element::{Element, ElementType, with_type};
use crate::error::{Error, Status};
use crate::handle::Handle;

/// How products of f32 are computed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// What the element type has: f16 and bf16 on tensor cores, added in f32 and rounded once; f64 on tensor cores; f32 by fused
    /// multiply-adds.
    Default = 0,
    /// f32 rounded to TF32, on tensor cores.
    Tf32 = 1,
    /// f32 as three products of TF32, on tensor cores.
    ThreeTf32 = 2,
}

code!(Precision, "ferrowarp_precision", [Default Tf32 ThreeTf32]);

/// Which elements of a matrix are neighbours in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixOrder {
    /// Those of a row, as in C: element (i, j) is at i * leading + j.
    RowMajor = 0,
    /// Those of a column, as in BLAS: element (i, j) is at i + j * leading.
    ColumnMajor = 1,
}

code!(MatrixOrder, "ferrowarp_matrix_order", [RowMajor ColumnMajor]);

/// The sizes of a batch of matrices, and where their elements are.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "the order may be any number")]
pub struct MatrixShape {
    /// Rows of each matrix.
    pub rows: i64,
    /// Columns of each matrix.
    pub columns: i64,
    /// The leading dimension, in elements: from a row to the next, or from a column to the next.
    pub leading: i64,
    /// Matrices: 1, or as many as the other arguments have.
    pub batches: i64,
    /// From a matrix to the next, in elements. With 1 batch it is not used.
    pub batch_stride: i64,
    /// Which elements are neighbours. A transpose is the same memory in the other order, with rows and columns exchanged.
    pub order: MaybeUninit<MatrixOrder>,
}

/// Writes alpha * A * B + beta * D to D: A is m × k, B is k × n, and D m × n, of the elements' type. If beta is 0, D is not read. A or B of
/// 1 batch is used for all of D's.
///
/// Elements of f16, bf16, f32, f64; `precision` is for f32. Alpha and beta are rounded to float, but for f64.
///
/// # Safety
/// The handle exists; the shapes can be read; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_matmul(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    precision: MaybeUninit<Precision>,
    alpha: f64,
    a: *const c_void,
    a_shape: *const MatrixShape,
    b: *const c_void,
    b_shape: *const MatrixShape,
    beta: f64,
    d: *mut c_void,
    d_shape: *const MatrixShape,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_matmul", handle, |call| {
            let (r#type, precision) =
                (call.code("type", r#type)?, call.code("precision", precision)?);
            if precision != Precision::Default && r#type != ElementType::F32 {
                return Err(
                    call.wrong(format!("`precision` is for f32, and these are {}", r#type.name()))
                );
            }
            let a_layout = layout(call, "a_shape", a_shape)?;
            let b_layout = layout(call, "b_shape", b_shape)?;
            let d_layout = layout(call, "d_shape", d_shape)?;
            with_type!(call, r#type, [f16 bf16 f32 f64], T => {
                let a = call.read::<T>("a", a, span(call, "a", &a_layout)?)?;
                let b = call.read::<T>("b", b, span(call, "b", &b_layout)?)?;
                let mut d = call.write::<T>("d", d, span(call, "d", &d_layout)?)?;
                let factors = [
                    call.enqueue(|_| Matrix::new(a.as_slice(), a_layout))?,
                    call.enqueue(|_| Matrix::new(b.as_slice(), b_layout))?,
                ];
                let d = call.enqueue(|_| MatrixMut::new(d.as_mut_slice(), d_layout))?;
                T::multiply(call, precision, factors, d, (alpha, beta))
            })
        })
    }
}

/// An element type that has a product.
trait Product: Element {
    /// Enqueues the product. Of the scale, alpha is first.
    fn multiply(
        call: &mut Call<'_>,
        precision: Precision,
        factors: [Matrix<'_, Self>; 2],
        d: MatrixMut<'_, Self>,
        scale: (f64, f64),
    ) -> Result<(), Error>;
}

macro_rules! halves {
    ($($ty:ident)*) => {$(
        impl Product for $ty {
            fn multiply(
                call: &mut Call<'_>,
                _: Precision,
                factors: [Matrix<'_, Self>; 2],
                d: MatrixMut<'_, Self>,
                scale: (f64, f64),
            ) -> Result<(), Error> {
                tensor_cores(call, factors, d, options(scale))
            }
        }
    )*};
}

halves!(f16 bf16);

impl Product for f32 {
    fn multiply(
        call: &mut Call<'_>,
        precision: Precision,
        [a, b]: [Matrix<'_, Self>; 2],
        d: MatrixMut<'_, Self>,
        scale: (f64, f64),
    ) -> Result<(), Error> {
        let options = options(scale);
        match precision {
            Precision::Default => call.enqueue(|on| registers_into(on, a, b, d, options)),
            Precision::Tf32 => tensor_cores(call, [a.as_tf32(), b.as_tf32()], d, options),
            Precision::ThreeTf32 => {
                let bytes = call.enqueue(|on| three_tf32_scratch_bytes(on, a, b, &d))?;
                call.enqueue_with(bytes, |on, scratch| {
                    three_tf32_into(on, a, b, d, options, scratch)
                })
            }
        }
    }
}

impl Product for f64 {
    fn multiply(
        call: &mut Call<'_>,
        _: Precision,
        [a, b]: [Matrix<'_, Self>; 2],
        d: MatrixMut<'_, Self>,
        scale: (f64, f64),
    ) -> Result<(), Error> {
        let bytes = call.enqueue(|on| double_scratch_bytes(on, a, b, &d))?;
        call.enqueue_with(bytes, |on, scratch| double_into(on, a, b, d, scale, None, scratch))
    }
}

/// The scale of products that are added in f32.
fn options<'a, D: Pod>((alpha, beta): (f64, f64)) -> Options<'a, D> {
    Options::new().alpha(alpha as f32).beta(beta as f32)
}

fn tensor_cores<T: Factor, D: Pod>(
    call: &mut Call<'_>,
    [a, b]: [Matrix<'_, T>; 2],
    d: MatrixMut<'_, D>,
    options: Options<'_, D>,
) -> Result<(), Error>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let bytes = call.enqueue(|on| scratch_bytes_of_views(on, a, b, &d))?;
    call.enqueue_with(bytes, |on, scratch| matmul_into(on, a, b, d, options, scratch))
}

/// The layout that C has passed.
///
/// # Safety
/// The shape is null or can be read.
unsafe fn layout(
    call: &Call<'_>,
    name: &'static str,
    shape: *const MatrixShape,
) -> Result<MatrixLayout, Error> {
    // SAFETY: the caller's promise.
    let shape =
        unsafe { shape.as_ref() }.ok_or(Error::Null { operation: call.operation(), name })?;
    let order = match call.code(name, shape.order)? {
        MatrixOrder::RowMajor => Order::RowMajor,
        MatrixOrder::ColumnMajor => Order::ColumnMajor,
    };
    Ok(MatrixLayout {
        rows: call.len(name, shape.rows)?,
        columns: call.len(name, shape.columns)?,
        order,
        leading: call.len(name, shape.leading)?,
        batches: call.len(name, shape.batches)?,
        batch_stride: if shape.batches == 1 { 0 } else { call.len(name, shape.batch_stride)? },
    })
}

/// From the first element of the array `name` to the last one, in elements.
fn span(call: &Call<'_>, name: &'static str, layout: &MatrixLayout) -> Result<usize, Error> {
    if layout.is_empty() {
        return Ok(0);
    }
    let (vectors, len) = match layout.order {
        Order::RowMajor => (layout.rows, layout.columns),
        Order::ColumnMajor => (layout.columns, layout.rows),
    };
    let between = [(vectors, layout.leading), (layout.batches, layout.batch_stride)];
    call.span(name, len, &between)
}
