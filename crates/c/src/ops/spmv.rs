//! Sparse matrix-vector products.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_driver::sys::CUcontext;
use ferrowarp::Stream;
use ferrowarp::ops::spmv::scratch_bytes;
use ferrowarp::ops::{Csr, spmv_into};

use crate::call::run;
use crate::context::CurrentContext;
use crate::element::{Element, ElementType, with_type};
use crate::error::{Error, Status, report};
use crate::handle::Handle;

/// A sparse matrix in compressed rows (CSR): arrays of the caller, and a table of the library's.
pub struct CsrMatrix {
    values: Values,
    /// What it was made with.
    context: CUcontext,
    stream: Stream,
}

enum Values {
    F32(Csr<f32>),
    F64(Csr<f64>),
}

impl std::fmt::Debug for CsrMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsrMatrix").finish_non_exhaustive()
    }
}

/// A type of the values of a matrix.
trait Value: Element {
    fn wrap(matrix: Csr<Self>) -> Values;
    fn unwrap(values: &Values) -> Option<&Csr<Self>>;
}

macro_rules! values {
    ($($ty:ident $variant:ident;)*) => {$(
        impl Value for $ty {
            fn wrap(matrix: Csr<Self>) -> Values {
                Values::$variant(matrix)
            }

            fn unwrap(values: &Values) -> Option<&Csr<Self>> {
                match values {
                    Values::$variant(matrix) => Some(matrix),
                    _ => None,
                }
            }
        }
    )*};
}

values! {
    f32 F32;
    f64 F64;
}

/// Makes a matrix of `rows` rows, `columns` columns and `entries` entries from arrays in device memory: `offsets: [rows + 1]`,
/// `column_indices: [entries]`, both `uint32_t`, and `values: [entries]`. The arrays are not copied: they begin at multiples of 256 bytes, and live unchanged
/// until ferrowarp_csr_destroy(), which comes before ferrowarp_destroy(). Enqueues a search for where the blocks of a product begin, which products then save.
///
/// Values of f32, f64; fewer than 2^32 rows, columns and entries.
///
/// # Safety
/// The handle exists, and `matrix` is null or a place that can be written. The offsets rise from 0 to `entries`, and every column is below
/// `columns`: they are not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_csr_create(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    rows: i64,
    columns: i64,
    entries: i64,
    offsets: *const u32,
    column_indices: *const u32,
    values: *const c_void,
    matrix: *mut *mut CsrMatrix,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_csr_create", handle, |call| {
            call.refuse_capture()?;
            if matrix.is_null() {
                return Err(Error::Null { operation: call.operation(), name: "matrix" });
            }
            let (rows, columns) = (call.len("rows", rows)?, call.len("columns", columns)?);
            let (r#type, entries) = (call.code("type", r#type)?, call.len("entries", entries)?);
            with_type!(call, r#type, [f32 f64], T => {
                let rows = call.sum("offsets", rows, 1)?;
                let offsets = call.keep::<u32>("offsets", offsets.cast(), rows)?;
                let indices = call.keep::<u32>("column_indices", column_indices.cast(), entries)?;
                let values = call.keep::<T>("values", values, entries)?;
                let created = call.enqueue(|on| Csr::from_device(on, columns, offsets, indices, values))?;
                let (values, context) = (T::wrap(created), call.context());
                let created = CsrMatrix { values, context, stream: call.stream().clone() };
                matrix.write(Box::into_raw(Box::new(created)));
                Ok(())
            })
        })
    }
}

/// Waits for the stream of the handle that the matrix was made with, and frees what the library has of it: the arrays are the caller's again. A null matrix is left alone.
///
/// # Safety
/// The matrix is null, or was made by ferrowarp_csr_create() and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_csr_destroy(matrix: *mut CsrMatrix) -> Status {
    const OPERATION: &str = "ferrowarp_csr_destroy";
    report(OPERATION, || {
        if matrix.is_null() {
            return Ok(());
        }
        // SAFETY: it came from `Box::into_raw`, and is the caller's to destroy.
        let matrix = unsafe { Box::from_raw(matrix) };
        // SAFETY: the device keeps its context.
        let _before = unsafe { CurrentContext::enter(OPERATION, matrix.context)? };
        let done = matrix.stream.synchronize();
        drop(matrix);
        done.map_err(|error| Error::Gpu { operation: OPERATION, error })
    })
}

/// Writes A * x to y: `x: [columns]`, `y: [rows]`, of the type of the matrix' values. The same bits in every run.
///
/// # Safety
/// The handle and the matrix exist; the arrays hold their elements until the stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_spmv(
    handle: *const Handle,
    matrix: *const CsrMatrix,
    x: *const c_void,
    y: *mut c_void,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_spmv", handle, |call| {
            let matrix = matrix
                .as_ref()
                .ok_or(Error::Null { operation: call.operation(), name: "matrix" })?;
            let r#type = match matrix.values {
                Values::F32(_) => ElementType::F32,
                Values::F64(_) => ElementType::F64,
            };
            with_type!(call, r#type, [f32 f64], T => {
                let matrix = T::unwrap(&matrix.values).expect("the type is that of the values");
                let x = call.read::<T>("x", x, matrix.width())?;
                let mut y = call.write::<T>("y", y, matrix.rows())?;
                call.enqueue_with(scratch_bytes(matrix), |on, scratch| spmv_into(on, matrix, &x, &mut y, scratch))
            })
        })
    }
}
