//! A call of an operation: its arguments, the stream that it runs on, and its results.

use cuda_std::launch::DeviceRead;
use ferrowarp::{Backend, DeviceBuffer, GpuResult, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, Memory, Place};
use crate::device::{Device, Lease};
use crate::dtype::{DType, Element};
use crate::error::to_python;
use crate::input::Input;
use crate::kind::Kind;
use crate::request::Request;

/// An operation that is being called.
pub struct Call {
    /// What errors name.
    operation: &'static str,
    place: Place,
    kind: Kind,
    // Fields are dropped in this order: the stream is done before the arguments' memory goes back.
    lease: Lease,
    inputs: Vec<Input>,
}

impl Call {
    /// A call with these arguments, of which those that are `None` are left out. All are in one place, and the results are of
    /// the first one's library.
    pub fn new(
        operation: &'static str,
        arguments: &[(&'static str, Option<&Bound<'_, PyAny>>)],
    ) -> PyResult<Self> {
        Self::on(0, operation, arguments)
    }

    /// As [`new`](Self::new); what is not on a GPU runs on the device of that number.
    pub fn on<'py>(
        ordinal: u32,
        operation: &'static str,
        arguments: &[(&'static str, Option<&Bound<'py, PyAny>>)],
    ) -> PyResult<Self> {
        let given = arguments.iter().filter_map(|(name, object)| Some((*name, (*object)?)));
        let requests = given
            .map(|(name, object)| Request::new(operation, name, object))
            .collect::<PyResult<Vec<_>>>()?;
        let (place, kind) = match requests.first() {
            Some(first) => (first.place, first.kind),
            None => (own_place(ordinal).map_err(to_python)?, Kind::Other),
        };
        if let Some(other) = requests.iter().find(|request| request.place != place) {
            return Err(PyValueError::new_err(format!(
                "{operation}: its arrays are on {} and on {}: move them to one device",
                place.name(),
                other.place.name()
            )));
        }
        let device = open(operation, place, ordinal)?;
        let lease = device.lease().map_err(to_python)?;
        let inputs = requests
            .into_iter()
            .map(|request| request.import(operation, &lease))
            .collect::<PyResult<_>>()?;
        Ok(Self { operation, place, kind, lease, inputs })
    }

    /// What errors name.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The argument with that number, of those that were given.
    pub fn input(&self, number: usize) -> &Input {
        &self.inputs[number]
    }

    /// The argument of that name, if it was given.
    pub fn named(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name() == name)
    }

    /// All arguments that were given.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The call's stream.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Enqueues `work` on the call's stream and waits for it. Other Python threads run meanwhile.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Stream) -> GpuResult<R> + Send,
    ) -> PyResult<R> {
        let result = py.detach(|| {
            let enqueued = work(self.lease.stream());
            let done = self.lease.stream().synchronize();
            enqueued.and_then(|result| done.map(|()| result))
        });
        result.map_err(to_python)
    }

    /// A result in the place of the arguments. The elements have the size of `dtype`'s.
    pub fn result_as<T: Element>(
        &self,
        buffer: DeviceBuffer<T>,
        dtype: DType,
        shape: impl Into<Vec<usize>>,
    ) -> GpuResult<Array> {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), buffer.len(), "a result has its shape");
        assert_eq!(dtype.bytes(), size_of::<T>(), "a result has elements of their size");
        let device = self.lease.device();
        let memory = match self.place {
            Place::Host => {
                let host = buffer.to_vec()?;
                let address = host.as_ptr().expose_provenance();
                Memory::new(host, address, Place::Host, device)
            }
            Place::Gpu(_) => {
                let address = buffer.raw().address as usize;
                Memory::new(buffer, address, self.place, device)
            }
        };
        Ok(Array::new(memory, dtype, shape))
    }

    /// A result in the place of the arguments.
    pub fn result<T: Element>(
        &self,
        buffer: DeviceBuffer<T>,
        shape: impl Into<Vec<usize>>,
    ) -> GpuResult<Array> {
        self.result_as(buffer, T::DTYPE, shape)
    }

    /// The result as an array of the caller's library.
    pub fn give<'py>(&self, py: Python<'py>, array: Array) -> PyResult<Bound<'py, PyAny>> {
        self.kind.convert(Bound::new(py, array)?)
    }

    /// An error of an argument.
    pub fn wrong(&self, reason: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(format!("{}: {reason}", self.operation))
    }
}

/// A buffer that an operation is about to write from end to end.
pub fn unwritten<T: Element>(on: &Stream, len: usize) -> GpuResult<DeviceBuffer<T>> {
    // SAFETY: every bit pattern is a value, and the caller's operation writes all of it, or the buffer is dropped.
    unsafe { DeviceBuffer::uninitialized(on, len) }
}

/// Where results are for which no argument says it: on the GPU, or where the emulator's are.
fn own_place(ordinal: u32) -> GpuResult<Place> {
    Ok(match ferrowarp::backend()? {
        Backend::Cuda => Place::Gpu(ordinal),
        Backend::Emulator => Place::Host,
    })
}

/// The device for arrays in that place: for those of the host the one of that number.
fn open(operation: &str, place: Place, of_host: u32) -> PyResult<&'static Device> {
    let Place::Gpu(ordinal) = place else { return Device::get(of_host).map_err(to_python) };
    if ferrowarp::backend().map_err(to_python)? == Backend::Emulator {
        return Err(PyValueError::new_err(format!(
            "{operation}: the array is on cuda:{ordinal}, and this process uses the emulator, which reaches no GPU's memory: \
             pass array.cpu(), or start without FERROWARP_DEVICE=emulator"
        )));
    }
    Device::get(ordinal).map_err(to_python)
}
