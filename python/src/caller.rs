//! Arrays of PyTorch and CuPy on a GPU, for calls that wait for nothing: an operation runs on the stream that is the current one
//! of the caller's library, and writes memory of that library's allocator. So it is in one order with the library's own
//! operations, and a capture into a CUDA graph takes it.

use std::ptr;

use cuda_driver::sys;
use dlpark::ffi::{DLDeviceType, DLTensor};
use dlpark::python::consumer::exchange::ExchangeApi;
use ferrowarp::GpuResult;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use smallvec::SmallVec;

use crate::device::{Device, Lease, backend};
use crate::dtype::DType;
use crate::input::{Sides, Strides};
use crate::request::check_gradient;

/// A library whose streams calls run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// PyTorch.
    PyTorch,
    /// CuPy.
    CuPy,
}

/// An array on a GPU, and where its library works now.
pub struct OnStream {
    /// Whose it is.
    pub library: Library,
    /// The number of the GPU.
    pub device: u32,
    /// The type of its elements.
    pub dtype: DType,
    /// The number of elements along each axis.
    pub shape: Sides,
    /// How far apart they are along each axis, in elements.
    pub strides: Strides,
    /// The address of the first element.
    pub address: usize,
    /// The library's current stream, if it is known already.
    stream: Option<usize>,
}

impl OnStream {
    /// The argument `name` of `operation`, if it is an array of such a library on a GPU, and of a type that operations take.
    pub fn of(operation: &str, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if let Some(torch) = Torch::get(py)?
            && torch.has(object)?
        {
            return torch.describe(operation, name, object);
        }
        if is_cupy(object)? { of_cupy(object) } else { Ok(None) }
    }

    /// The stream that is the library's current one of the array's device.
    pub fn lease(&self, py: Python<'_>) -> PyResult<Lease> {
        let handle = match self.stream {
            Some(known) => known,
            None => self.current_stream(py)?,
        };
        let lease = || -> GpuResult<Lease> {
            let device = Device::get(self.device)?;
            // SAFETY: it is the current stream of the library on that device, which keeps it for this thread during the call.
            // PyTorch never destroys its streams; CuPy does.
            unsafe { device.callers(handle, self.library == Library::PyTorch) }
        };
        lease().map_err(crate::error::to_python)
    }

    /// What the library's functions in Python say.
    fn current_stream(&self, py: Python<'_>) -> PyResult<usize> {
        let handle = match self.library {
            Library::PyTorch => Torch::loaded(py).current_stream.call1(py, (self.device,))?,
            Library::CuPy => cupy(py)?
                .getattr(intern!(py, "cuda"))?
                .call_method1(intern!(py, "get_current_stream"), (self.device,))?
                .getattr(intern!(py, "ptr"))?
                .unbind(),
        };
        handle.extract(py)
    }
}

impl Library {
    /// New memory for the elements of a result, on the device of `like`, an array of this library, and its address. `of_like`
    /// are the type and the shape of `like`, if its elements lie one after the other.
    pub fn empty<'py>(
        self,
        like: &Bound<'py, PyAny>,
        of_like: Option<(DType, &[usize])>,
        (dtype, shape): (DType, &[usize]),
    ) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let py = like.py();
        let typed = |name: &Bound<'py, PyAny>| {
            let keywords = PyDict::new(py);
            keywords.set_item(intern!(py, "dtype"), name).map(|()| keywords)
        };
        match self {
            Self::PyTorch => {
                let torch = Torch::loaded(py);
                // PyTorch takes less time for this than for reading a shape.
                let array = if of_like == Some((dtype, shape)) {
                    torch.empty_like.bind(py).call1((like,))?
                } else {
                    let keywords = typed(torch.dtype(dtype).bind(py))?;
                    let sides = PyTuple::new(py, shape)?;
                    like.call_method(intern!(py, "new_empty"), sides, Some(&keywords))?
                };
                // An array without elements is anywhere.
                let address = match shape.contains(&0) {
                    true => 0,
                    false => array.call_method0(intern!(py, "data_ptr"))?.extract()?,
                };
                Ok((array, address))
            }
            Self::CuPy => {
                let keywords = typed(PyString::new(py, dtype.name()).as_any())?;
                let sides = PyTuple::new(py, shape)?;
                let array =
                    cupy(py)?.call_method(intern!(py, "empty"), (sides,), Some(&keywords))?;
                let address = cupy_address(&array)?;
                Ok((array, address))
            }
        }
    }
}

/// An error if PyTorch captures its current stream into a CUDA graph, which an operation that waits would break.
pub fn check_not_captured(operation: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let Some(torch) = Torch::get(py)? else { return Ok(()) };
    if torch.has(object)? && torch.is_capturing.call0(py)?.is_truthy(py)? {
        return Err(captured(operation));
    }
    Ok(())
}

/// The error for an operation that waits while its stream is captured.
pub fn captured(operation: &str) -> PyErr {
    crate::error::Error::new_err(format!(
        "{operation} waits for its results, which a capture into a CUDA graph does not allow: call it outside of the graph"
    ))
}

/// What is asked of PyTorch.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    /// Its functions in C, which a newer PyTorch has.
    exchange: PyOnceLock<Option<Exchange>>,
    /// Its types, in the order of `DType::ALL`.
    dtypes: Vec<Py<PyAny>>,
    current_stream: Py<PyAny>,
    empty_like: Py<PyAny>,
    is_capturing: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

impl Torch {
    /// It, if the program has imported it, and it was built for CUDA.
    fn get(py: Python<'_>) -> PyResult<Option<&'static Self>> {
        if let Some(torch) = TORCH.get(py) {
            return Ok(Some(torch));
        }
        let Some(module) = loaded(py, intern!(py, "torch"))? else { return Ok(None) };
        // Not yet while another thread imports it.
        let Ok(torch) = Self::of(&module) else { return Ok(None) };
        let torch = torch.map(|torch| TORCH.get_or_init(py, || torch));
        Ok(torch)
    }

    /// It, after an array of it was found.
    fn loaded(py: Python<'_>) -> &'static Self {
        TORCH.get(py).expect("a tensor of it was found")
    }

    fn of(module: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if module.getattr("version")?.getattr("cuda")?.is_none() {
            return Ok(None);
        }
        let (native, tensor) = (module.getattr("_C")?, module.getattr("Tensor")?);
        let parameter = module.getattr("nn")?.getattr("Parameter")?;
        let dtypes = DType::ALL.iter().map(|dtype| {
            // PyTorch before 2.3 has no unsigned words.
            Ok(module
                .getattr(dtype.name())
                .unwrap_or(module.py().None().into_bound(module.py()))
                .unbind())
        });
        Ok(Some(Self {
            tensor: tensor.cast_into::<PyType>()?.unbind(),
            parameter: parameter.cast_into::<PyType>()?.unbind(),
            exchange: PyOnceLock::new(),
            dtypes: dtypes.collect::<PyResult<_>>()?,
            empty_like: module.getattr("empty_like")?.unbind(),
            current_stream: native.getattr("_cuda_getCurrentRawStream")?.unbind(),
            is_capturing: module.getattr("cuda")?.getattr("is_current_stream_capturing")?.unbind(),
        }))
    }

    fn has(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let tensor = self.tensor.bind(object.py());
        Ok(object.get_type().is(tensor) || object.is_instance(tensor)?)
    }

    fn dtype(&self, dtype: DType) -> &Py<PyAny> {
        &self.dtypes[dtype as usize]
    }

    /// The tensor, if it is on a GPU.
    fn describe(
        &self,
        operation: &str,
        name: &str,
        tensor: &Bound<'_, PyAny>,
    ) -> PyResult<Option<OnStream>> {
        let py = tensor.py();
        match self.describe_by_exchange(tensor)? {
            Described::OnGpu(found) => {
                check_gradient(operation, name, tensor)?;
                if !found.shape.contains(&0) {
                    check_not_negative(operation, name, tensor)?;
                }
                return Ok(Some(found));
            }
            Described::Elsewhere => return Ok(None),
            Described::Unknown => {}
        }
        if !tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            return Ok(None);
        }
        check_gradient(operation, name, tensor)?;
        let dtype = tensor.getattr(intern!(py, "dtype"))?;
        let Some(dtype) = self.dtypes.iter().position(|own| own.is(&dtype)) else {
            return Ok(None);
        };
        check_not_negative(operation, name, tensor)?;
        Ok(Some(OnStream {
            library: Library::PyTorch,
            stream: None,
            device: tensor.call_method0(intern!(py, "get_device"))?.extract()?,
            dtype: DType::ALL[dtype],
            shape: numbers(&tensor.getattr(intern!(py, "shape"))?)?,
            strides: numbers(&tensor.call_method0(intern!(py, "stride"))?)?,
            address: tensor.call_method0(intern!(py, "data_ptr"))?.extract()?,
        }))
    }
}

impl Torch {
    /// The tensor, by PyTorch's functions in C, which take a fifth of the time of those in Python: for tensors of PyTorch's own types,
    /// since another type's methods may say something else.
    fn describe_by_exchange(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Described> {
        let (py, class) = (tensor.py(), tensor.get_type());
        if !class.is(&self.tensor) && !class.is(&self.parameter) {
            return Ok(Described::Unknown);
        }
        let exchange = self.exchange.get_or_try_init(py, || Exchange::of(tensor))?;
        let Some(Exchange(api)) = exchange else { return Ok(Described::Unknown) };
        let found = api.with_tensor_view_no_sync(tensor.as_borrowed(), |tensor, stream| {
            // SAFETY: the view is PyTorch's, and lives until this function returns.
            unsafe { described(tensor, stream.expose_provenance()) }
        });
        // What cannot be described so, such as a sparse tensor, has its error from the other way.
        Ok(found.unwrap_or(Described::Unknown))
    }
}

/// PyTorch's functions in C: `DLPackExchangeAPI`.
struct Exchange(ExchangeApi);

// SAFETY: a table of functions that lives as long as the process; they are called with the interpreter's lock held.
unsafe impl Send for Exchange {}
// SAFETY: as above.
unsafe impl Sync for Exchange {}

impl Exchange {
    fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Ok(ExchangeApi::from_object(tensor.as_borrowed())?.map(Self))
    }
}

/// What PyTorch's functions in C say of a tensor.
enum Described {
    /// It is on a GPU.
    OnGpu(OnStream),
    /// It is not.
    Elsewhere,
    /// Nothing.
    Unknown,
}

/// What the view says, with the current stream of its device.
///
/// # Safety
/// The view's pointers are those of a tensor that lives.
unsafe fn described(tensor: &DLTensor, stream: usize) -> Described {
    if tensor.device.device_type != DLDeviceType::CUDA {
        return Described::Elsewhere;
    }
    let (Some(dtype), Ok(axes)) = (DType::of_dlpack(tensor.dtype), usize::try_from(tensor.ndim))
    else {
        return Described::Unknown;
    };
    if axes > 0 && (tensor.shape.is_null() || tensor.strides.is_null()) {
        return Described::Unknown;
    }
    let numbers = |first: *mut i64| match axes {
        0 => &[][..],
        // SAFETY: there is one for each axis, by the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(first.cast_const(), axes) },
    };
    Described::OnGpu(OnStream {
        library: Library::PyTorch,
        device: tensor.device.device_id.cast_unsigned(),
        dtype,
        shape: numbers(tensor.shape).iter().map(|&len| len as usize).collect(),
        strides: numbers(tensor.strides).iter().map(|&stride| stride as isize).collect(),
        address: tensor.data.expose_provenance() + tensor.byte_offset as usize,
        stream: Some(stream),
    })
}

/// An error for a tensor of PyTorch whose memory has other signs than its elements.
fn check_not_negative(operation: &str, name: &str, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    if tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        return Err(PyValueError::new_err(format!(
            "{operation}: `{name}` is the negative of its memory: pass {name}.resolve_neg()"
        )));
    }
    Ok(())
}

/// A module that the program has imported.
fn loaded<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    modules.cast_into::<PyDict>()?.get_item(name)
}

/// The numbers of a tuple.
fn numbers<'py, N>(tuple: &Bound<'py, PyAny>) -> PyResult<SmallVec<[N; 4]>>
where
    N: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    tuple.cast::<PyTuple>()?.iter().map(|number| number.extract()).collect()
}

fn cupy(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "cupy")).map(Bound::into_any)
}

fn is_cupy(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if loaded(py, intern!(py, "cupy"))?.is_none() {
        return Ok(false);
    }
    object.is_instance(&cupy(py)?.getattr(intern!(py, "ndarray"))?)
}

fn cupy_address(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = array.py();
    array.getattr(intern!(py, "data"))?.getattr(intern!(py, "ptr"))?.extract()
}

/// The array, if it is on CuPy's current device, where CuPy allocates.
fn of_cupy(array: &Bound<'_, PyAny>) -> PyResult<Option<OnStream>> {
    let py = array.py();
    let device: u32 =
        array.getattr(intern!(py, "device"))?.getattr(intern!(py, "id"))?.extract()?;
    let cuda = cupy(py)?.getattr(intern!(py, "cuda"))?;
    let current: u32 =
        cuda.call_method0(intern!(py, "Device"))?.getattr(intern!(py, "id"))?.extract()?;
    let dtype = array.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "name"))?;
    let dtype = DType::from_name(dtype.cast::<PyString>()?.to_cow()?.as_ref());
    let Some(dtype) = dtype.filter(|_| device == current) else { return Ok(None) };
    let bytes: Strides = numbers(&array.getattr(intern!(py, "strides"))?)?;
    let size = dtype.bytes() as isize;
    if bytes.iter().any(|stride| stride % size != 0) {
        return Ok(None);
    }
    Ok(Some(OnStream {
        library: Library::CuPy,
        stream: None,
        device,
        dtype,
        shape: numbers(&array.getattr(intern!(py, "shape"))?)?,
        strides: bytes.into_iter().map(|stride| stride / size).collect(),
        address: cupy_address(array)?,
    }))
}

/// Makes the context current again that was so on this thread: a call makes that of its device current, and libraries take the
/// current context for their current device.
pub struct CurrentContext(sys::CUcontext);

// SAFETY: a context may be made current on any thread; it is done on the thread that has it.
unsafe impl Send for CurrentContext {}
// SAFETY: as above.
unsafe impl Sync for CurrentContext {}

impl CurrentContext {
    /// That of this thread.
    pub fn get() -> Self {
        // Before the driver is chosen, none is known. Without one, what follows returns the error.
        let _ = backend();
        Self(current_context())
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        if current_context() != self.0 {
            // SAFETY: it is the caller's, who has not destroyed it meanwhile, or none. A drop has no error to return.
            let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
        }
    }
}

fn current_context() -> sys::CUcontext {
    let mut context = ptr::null_mut();
    // SAFETY: the place is writable. After an error it is as it was: none.
    let _ = unsafe { sys::cuCtxGetCurrent(&mut context) };
    context
}
