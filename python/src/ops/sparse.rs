//! Sparse matrices and their products with vectors.

use bytemuck::Pod;
use ferrowarp::ops;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::array::Place;
use crate::call::Call;
use crate::dtype::{DType, Element, unsupported, with_type};
use crate::error::Error;
use crate::input::Input;

/// A sparse matrix in compressed rows, for products with vectors: Csr(offsets, columns, values, width).
///
/// Row r has the entries `offsets[r]` to `offsets[r + 1]`, each with its column and its value; offsets rise from 0 to the number of
/// entries. The arrays are copied and checked once, by the host. The matrix is on the device of its arrays; one of the CPU is used with
/// vectors of the CPU.
///
/// offsets, columns: int32, int64, uint32 or uint64. values: float32, float64. There may be up to 2^32 - 1 rows, columns and entries.
#[pyclass(frozen, module = "ferrowarp")]
pub struct Csr {
    matrix: Matrix,
    place: Place,
}

/// It by the type of its values.
enum Matrix {
    F32(ops::Csr<f32>),
    F64(ops::Csr<f64>),
}

/// A type of values.
trait Value: Element {
    fn matrix(csr: ops::Csr<Self>) -> Matrix;
    fn of(matrix: &Matrix) -> Option<&ops::Csr<Self>>;
}

macro_rules! values {
    ($($ty:ty, $variant:ident;)*) => {$(
        impl Value for $ty {
            fn matrix(csr: ops::Csr<Self>) -> Matrix {
                Matrix::$variant(csr)
            }

            fn of(matrix: &Matrix) -> Option<&ops::Csr<Self>> {
                match matrix {
                    Matrix::$variant(csr) => Some(csr),
                    _ => None,
                }
            }
        }
    )*};
}

values! {
    f32, F32;
    f64, F64;
}

#[pymethods]
impl Csr {
    #[new]
    fn new(
        py: Python<'_>,
        offsets: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        width: usize,
    ) -> PyResult<Self> {
        let arguments =
            [("offsets", Some(offsets)), ("columns", Some(columns)), ("values", Some(values))];
        let call = Call::waiting("Csr", &arguments)?;
        let offsets = numbers(py, &call, call.input(0))?;
        let columns = numbers(py, &call, call.input(1))?;
        let values = call.input(2);
        values.vector("Csr")?;
        let matrix = with_type!("Csr", values.dtype(), [f32 f64], T => {
            let host: Vec<T> = host(py, &call, values)?;
            let made = call.run(py, |on| ops::Csr::new(on, width, &offsets, &columns, &host))?;
            Ok(T::matrix(made))
        })?;
        Ok(Self { matrix, place: values.place() })
    }

    /// The number of rows and of columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        match &self.matrix {
            Matrix::F32(csr) => (csr.rows(), csr.width()),
            Matrix::F64(csr) => (csr.rows(), csr.width()),
        }
    }

    /// The number of entries.
    #[getter]
    fn entries(&self) -> usize {
        match &self.matrix {
            Matrix::F32(csr) => csr.entries(),
            Matrix::F64(csr) => csr.entries(),
        }
    }

    /// The type of the values, by NumPy's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.value_type().name()
    }

    fn __repr__(&self) -> String {
        let ((rows, columns), entries) = (self.shape(), self.entries());
        let (dtype, device) = (self.dtype(), self.place.name());
        format!(
            "<ferrowarp.Csr of {dtype}, shape ({rows}, {columns}), {entries} entries, {device}>"
        )
    }
}

impl Csr {
    fn value_type(&self) -> DType {
        match self.matrix {
            Matrix::F32(_) => DType::F32,
            Matrix::F64(_) => DType::F64,
        }
    }
}

/// The product of a matrix (Csr) and a vector: `y[r]` is the sum of `values[i] * x[columns[i]]` over the entries i of row r.
///
/// The same bits again and again. x: as many elements as the matrix has columns, of the type of its values.
#[pyfunction]
pub fn spmv<'py>(
    py: Python<'py>,
    matrix: &Bound<'py, Csr>,
    x: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let own = matrix.get();
    let call = Call::new("spmv", &[("x", Some(x))])?;
    if call.lease().is_callers() && call.lease().is_captured() {
        return Err(Error::new_err(
            "spmv: the matrix belongs to another stream, whose work a capture into a CUDA graph does not take: call it outside \
             of the graph",
        ));
    }
    let x = call.input(0);
    let ((rows, width), n) = (own.shape(), x.vector("spmv")?);
    if x.place() != own.place {
        let (matrix, vector) = (own.place.name(), x.place().name());
        return Err(call.wrong(format!(
            "the matrix is on {matrix} and the vector on {vector}: move one to the other\'s device"
        )));
    }
    if x.dtype() != own.value_type() {
        return Err(PyTypeError::new_err(format!(
            "spmv: the matrix is of {} and the vector of {}: they have to be of one type",
            own.dtype(),
            x.dtype().name()
        )));
    }
    if n != width {
        return Err(
            call.wrong(format!("the matrix has {width} columns, and the vector {n} elements"))
        );
    }
    let y = with_type!("spmv", x.dtype(), [f32 f64], T => {
        let csr = <T as Value>::of(&own.matrix).expect("the types were compared");
        let mut y = call.output::<T>(py, [rows])?;
        call.run(py, |on| {
            if rows > 0 {
                let mut scratch = call.lease().scratch(ops::spmv::scratch_bytes(csr))?;
                ops::spmv_into(on, csr, &x.values::<T>(call.lease())?, &mut y.buffer, &mut scratch)?;
            }
            call.finish(y)
        })
    })?;
    call.give(py, y)
}

/// The elements of an argument as the host has them.
fn host<T: Element>(py: Python<'_>, call: &Call, input: &Input) -> PyResult<Vec<T>> {
    call.run(py, |_| input.values::<T>(call.lease())?.as_slice().to_vec())
}

/// The elements of an argument as numbers of 32 bits; an error if one is none.
fn numbers(py: Python<'_>, call: &Call, input: &Input) -> PyResult<Vec<u32>> {
    input.vector(call.operation())?;
    let name = input.name();
    fn all<T: Pod + TryInto<u32>>(name: &str, host: Vec<T>) -> PyResult<Vec<u32>> {
        let number = |value: T| {
            value.try_into().map_err(|_| {
                PyValueError::new_err(format!(
                    "Csr: `{name}` has a number that is not one of 32 bits"
                ))
            })
        };
        host.into_iter().map(number).collect()
    }
    match input.dtype() {
        DType::U32 => host(py, call, input),
        DType::I32 => all::<i32>(name, host(py, call, input)?),
        DType::I64 => all::<i64>(name, host(py, call, input)?),
        DType::U64 => all::<u64>(name, host(py, call, input)?),
        other => {
            let supported = [DType::I32, DType::I64, DType::U32, DType::U64];
            Err(unsupported(&format!("Csr with {name}"), other.name(), &supported))
        }
    }
}
