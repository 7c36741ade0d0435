//! Results: memory that Python owns, given on by DLPack.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dlpark::ffi::{DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::python::{DlpackExporter, ExportRequest, export_dlpack};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::caller::CurrentContext;
use crate::device::Device;
use crate::dtype::DType;

/// Where the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the host's memory.
    Host,
    /// In the memory of the GPU with that number.
    Gpu(u32),
}

impl Place {
    /// It as PyTorch writes it.
    pub fn name(self) -> String {
        match self {
            Self::Host => "cpu".to_owned(),
            Self::Gpu(ordinal) => format!("cuda:{ordinal}"),
        }
    }

    /// That of the argument `name` of `operation`, by its DLPack device.
    pub fn of_dlpack(operation: &str, name: &str, device: DLDevice) -> PyResult<Self> {
        match device.device_type {
            DLDeviceType::CPU | DLDeviceType::CUDAHOST => Ok(Self::Host),
            DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED => {
                Ok(Self::Gpu(device.device_id.cast_unsigned()))
            }
            other => Err(PyValueError::new_err(format!(
                "{operation}: `{name}` is on a device of DLPack's type {}: an array has to be on the CPU or on a CUDA device",
                other.0
            ))),
        }
    }

    fn dlpack(self) -> DLDevice {
        match self {
            Self::Host => DLDevice::CPU,
            Self::Gpu(ordinal) => DLDevice::cuda(ordinal.cast_signed()),
        }
    }
}

/// The memory of a result. It is freed when the last array or consumer that has it is gone.
pub struct Memory {
    /// A `Vec`, or a buffer of `device`. Dropped after the wait in `drop`.
    owner: Option<Box<dyn Any + Send + Sync>>,
    address: usize,
    place: Place,
    device: &'static Device,
    /// Whether another library has had the address.
    is_shared: AtomicBool,
}

impl Memory {
    /// The memory of `owner`, which begins at `address`.
    pub fn new(
        owner: impl Any + Send + Sync,
        address: usize,
        place: Place,
        device: &'static Device,
    ) -> Self {
        let owner: Box<dyn Any + Send + Sync> = Box::new(owner);
        Self { owner: Some(owner), address, place, device, is_shared: AtomicBool::new(false) }
    }
}

impl Drop for Memory {
    /// A consumer drops its array when it has enqueued its last use, on streams that are not known here; so the device has to
    /// be done with all of its work first.
    fn drop(&mut self) {
        let _current = CurrentContext::get();
        if self.place != Place::Host && *self.is_shared.get_mut() {
            // The only error is that of a device that is lost, or of a process that ends: no work uses the memory.
            let _ = self.device.gpu().synchronize();
        }
        drop(self.owner.take());
    }
}

/// An array that other libraries take by DLPack: torch.from_dlpack(array), numpy.from_dlpack(array), …
///
/// Operations return one where the argument is not of NumPy, PyTorch, CuPy or JAX.
#[pyclass(frozen, module = "ferrowarp")]
pub struct Array {
    memory: Arc<Memory>,
    dtype: DType,
    shape: Vec<usize>,
}

impl Array {
    /// The elements at the beginning of `memory`, which has as many.
    pub fn new(memory: Memory, dtype: DType, shape: Vec<usize>) -> Self {
        Self { memory: Arc::new(memory), dtype, shape }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The same memory as words of 16 bits.
    pub fn words(&self) -> Self {
        Self { memory: self.memory.clone(), dtype: DType::U16, shape: self.shape.clone() }
    }

    fn export<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let failed = |error: dlpark::metadata::Error| PyBufferError::new_err(error.to_string());
        let shape: Vec<i64> = self.shape.iter().map(|len| len.cast_signed() as i64).collect();
        self.memory.is_shared.store(true, Ordering::Release);
        let context = self.memory.clone();
        let mut tensor = Dynamic::compact(shape).initialize_as::<M>(context).map_err(failed)?;
        let data = std::ptr::with_exposed_provenance_mut(self.memory.address);
        tensor.set_data(data).set_dtype(self.dtype.dlpack()).set_device(self.memory.place.dlpack());
        // SAFETY:
        // - The memory has the elements of this shape, one after the other, and lives as long as the context.
        // - It is writable, and no flag says otherwise.
        // - Any thread may drop the context.
        Ok(unsafe { tensor.finish() })
    }
}

impl DlpackExporter for Array {
    fn device(&self) -> DLDevice {
        self.memory.place.dlpack()
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    /// The call that made the array has waited for it, so that no stream has to.
    fn prepare_export(&self, _: Python<'_>, request: &ExportRequest<'_>) -> PyResult<()> {
        match self.memory.place {
            Place::Gpu(_) => request.cuda_stream().map(|_| ()),
            Place::Host => Ok(()),
        }
    }

    fn export_legacy(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.export()
    }

    fn export_versioned(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.export()
    }
}

#[pymethods]
impl Array {
    /// The number of elements along each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The type of the elements, by NumPy's name.
    #[getter(dtype)]
    fn dtype_name(&self) -> &'static str {
        self.dtype.name()
    }

    /// "cpu", or "cuda:0".
    #[getter(device)]
    fn device_name(&self) -> String {
        self.memory.place.name()
    }

    fn __len__(&self) -> PyResult<usize> {
        self.shape
            .first()
            .copied()
            .ok_or_else(|| PyTypeError::new_err("an array without axes has no length"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (dtype, device) = (self.dtype.name(), self.memory.place.name());
        let shape = self.shape(py)?.repr()?;
        Ok(format!("<ferrowarp.Array of {dtype}, shape {shape}, {device}>"))
    }

    /// The type and the number of the device, as DLPack has them.
    fn __dlpack_device__(&self) -> (u32, i32) {
        self.memory.place.dlpack().into()
    }

    /// The array as a DLPack capsule, without a copy. The elements are complete: no stream has to wait.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let request = ExportRequest::parse(stream.as_ref(), max_version, dl_device, copy)?;
        export_dlpack(self, py, request)
    }
}
