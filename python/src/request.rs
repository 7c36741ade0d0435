//! Arguments before their memory is lent: which library's, where, and how to ask for them by DLPack.

use std::ffi::c_void;

use dlpark::ffi::DLDevice;
use dlpark::python::consumer::stream::cuda;
use dlpark::python::{DlpackStream, ImportRequest, ImportedDlpack, StreamArg, from_dlpack};
use ferrowarp::memory::resource::StreamRef;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::Place;
use crate::caller::check_not_captured;
use crate::device::Lease;
use crate::dtype::DType;
use crate::input::Input;
use crate::kind::{Kind, bfloat16_words};

/// An argument before its memory is asked for.
pub struct Request<'py> {
    name: &'static str,
    object: Bound<'py, PyAny>,
    /// How the producer is asked; `None` for a capsule, which is taken as it is.
    import: Option<ImportRequest<'py>>,
    /// The type that DLPack does not say.
    dtype: Option<DType>,
    /// Where its elements are.
    pub place: Place,
    /// Whose array it is.
    pub kind: Kind,
}

impl<'py> Request<'py> {
    /// The argument `name` of `operation`.
    pub fn new(operation: &str, name: &'static str, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let kind = Kind::of(object)?;
        if object.get_type().name()? == "PyCapsule" {
            let object = object.clone();
            return Ok(Self { name, object, import: None, dtype: None, place: Place::Host, kind });
        }
        if !object.hasattr("__dlpack__")? {
            return Err(PyTypeError::new_err(format!(
                "{operation}: `{name}` is a {}, and has to be an array with __dlpack__, as those of NumPy, PyTorch, CuPy \
                 and JAX are",
                object.get_type().name()?
            )));
        }
        let object = match check_gradient(operation, name, object)? {
            // PyTorch does not export it as it is.
            Gradient::Disabled => &object.call_method0("detach")?,
            Gradient::None => object,
        };
        if kind == Kind::NumPy && object.hasattr("mask")? {
            return Err(PyTypeError::new_err(format!(
                "{operation}: `{name}` is a masked array, and the operation knows no masks: pass {name}.filled(value) or \
                 {name}.compressed()"
            )));
        }
        let words = if kind == Kind::NumPy { bfloat16_words(object)? } else { None };
        let dtype = words.is_some().then_some(DType::Bf16);
        let object = words.unwrap_or_else(|| object.clone());
        let import = ImportRequest::new(object.as_borrowed())?;
        let place = Place::of_dlpack(operation, name, import.device()?)?;
        Ok(Self { name, object, import: Some(import), dtype, place, kind })
    }

    /// See [`check_not_captured`].
    pub fn check_not_captured(&self, operation: &str) -> PyResult<()> {
        check_not_captured(operation, &self.object)
    }

    /// Asks the producer for the memory, ready on the call's stream.
    pub fn import(self, operation: &str, lease: &Lease) -> PyResult<Input> {
        let handle = StreamRef::of(lease.stream()).as_raw();
        let stream = CallStream(handle);
        let stream: Option<&dyn DlpackStream> = match self.place {
            Place::Gpu(_) => Some(&stream),
            Place::Host => None,
        };
        let tensor = match self.import {
            None => from_dlpack(self.object.as_borrowed(), None, None)?,
            Some(request) => match request.import(stream, None) {
                // A producer that does not know DLPack 1.
                Err(error) if error.is_instance_of::<PyTypeError>(self.object.py()) => {
                    import_unversioned(&self.object, stream.map(|_| handle))?
                }
                imported => imported?,
            },
        };
        Input::new(operation, self.name, tensor, self.dtype, self.place)
    }
}

/// Whether an argument requires a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    /// It does not.
    None,
    /// It does, but PyTorch records no gradients now.
    Disabled,
}

/// An error for an argument that requires a gradient which PyTorch would record: operations have none.
pub fn check_gradient(
    operation: &str,
    name: &str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Gradient> {
    let py = object.py();
    let Some(required) = object.getattr_opt(intern!(py, "requires_grad"))? else {
        return Ok(Gradient::None);
    };
    if !required.is_truthy().unwrap_or(false) {
        return Ok(Gradient::None);
    }
    if let Ok(torch) = py.import(intern!(py, "torch"))
        && !torch.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()?
    {
        return Ok(Gradient::Disabled);
    }
    Err(PyBufferError::new_err(format!(
        "{operation}: `{name}` requires a gradient, and the operation has none: pass {name}.detach(), or see ferrowarp.torch for \
         operations that have"
    )))
}

/// As DLPack was before its version 1, without `max_version`.
fn import_unversioned(
    object: &Bound<'_, PyAny>,
    stream: Option<*mut c_void>,
) -> PyResult<ImportedDlpack> {
    let arguments = PyDict::new(object.py());
    if let Some(stream) = stream {
        arguments.set_item("stream", stream.addr())?;
    }
    let capsule = object.call_method("__dlpack__", (), Some(&arguments))?;
    from_dlpack(capsule.as_borrowed(), None, None)
}

/// The stream of a call, for producers.
struct CallStream(*mut c_void);

// SAFETY: the handle is that of a stream of the device, which lives as long as the process, and a CUDA producer takes it as a
// number. No other device is asked with a stream.
unsafe impl DlpackStream for CallStream {
    fn as_python_arg(&self, _: Python<'_>, _: DLDevice) -> PyResult<StreamArg> {
        Ok(cuda(self.0))
    }
}
