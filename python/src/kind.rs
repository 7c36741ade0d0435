//! Whose array it is: results have the caller's own type.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::array::Array;
use crate::dtype::DType;

/// A library of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `numpy.ndarray`.
    NumPy,
    /// `torch.Tensor`.
    PyTorch,
    /// `cupy.ndarray`.
    CuPy,
    /// `jax.Array`.
    Jax,
    /// Any other producer of DLPack, which gets `ferrowarp.Array`.
    Other,
}

impl Kind {
    /// The library that the object's class, or a class that it is derived from, is defined in.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        for class in object.get_type().mro() {
            let module: String = match class.cast::<PyType>()?.module() {
                Ok(module) => module.extract()?,
                Err(_) => continue,
            };
            match module.split('.').next() {
                Some("numpy") => return Ok(Self::NumPy),
                Some("torch") => return Ok(Self::PyTorch),
                Some("cupy") => return Ok(Self::CuPy),
                Some("jax" | "jaxlib") => return Ok(Self::Jax),
                _ => {}
            }
        }
        Ok(Self::Other)
    }

    /// The result as an array of this library, without a copy.
    pub fn convert(self, array: Bound<'_, Array>) -> PyResult<Bound<'_, PyAny>> {
        let py = array.py();
        let from_dlpack = |module: &str| py.import(module)?.call_method1("from_dlpack", (&array,));
        match self {
            Self::NumPy if array.get().dtype() == DType::Bf16 => {
                let words = Bound::new(py, array.get().words())?;
                let words = py.import("numpy")?.call_method1("from_dlpack", (words,))?;
                words.call_method1("view", (numpy_bfloat16(py)?,))
            }
            Self::NumPy => from_dlpack("numpy"),
            Self::PyTorch => from_dlpack("torch"),
            Self::CuPy => from_dlpack("cupy"),
            Self::Jax => from_dlpack("jax.dlpack"),
            Self::Other => Ok(array.into_any()),
        }
    }
}

/// What NumPy has in place of `bfloat16`, which its DLPack does not know.
fn numpy_bfloat16(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let found = py.import("ml_dtypes").and_then(|module| module.getattr("bfloat16"));
    found.map_err(|_| {
        pyo3::exceptions::PyTypeError::new_err(
            "NumPy has no bfloat16 of its own: install the package ml_dtypes, or use another type",
        )
    })
}

/// A NumPy array of `ml_dtypes.bfloat16` as the 16-bit words that DLPack takes; `None` for any other array.
pub fn bfloat16_words<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let name: String = object.getattr("dtype")?.getattr("name")?.extract()?;
    if name != DType::Bf16.name() {
        return Ok(None);
    }
    object.call_method1("view", (DType::U16.name(),)).map(Some)
}
