//! A call of an operation: its arguments, the stream that it runs on, and its results.

use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};
use ferrowarp::{Backend, DeviceBuffer, DeviceSliceMut, GpuResult, LentBuffer, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PySlice;
use smallvec::{SmallVec, smallvec};

use crate::array::{Array, Memory, Place};
use crate::caller::{CurrentContext, Library, OnStream, captured};
use crate::device::{Device, Lease, backend};
use crate::dtype::{DType, Element};
use crate::error::to_python;
use crate::input::{Input, Sides};
use crate::kind::Kind;
use crate::request::Request;

/// An operation that is being called.
pub struct Call {
    /// What errors name.
    operation: &'static str,
    place: Place,
    kind: Kind,
    /// Whether it waits for the length of its results.
    is_measuring: bool,
    /// For a call on the caller's own stream: the first argument, beside which results are allocated.
    like: Option<(Library, Py<PyAny>)>,
    // Fields are dropped in this order: the stream is done before the arguments' memory goes back.
    lease: Lease,
    inputs: SmallVec<[Input; 1]>,
    _current: CurrentContext,
}

/// Named arguments, of which those that are `None` are left out.
type Arguments<'a, 'py> = [(&'static str, Option<&'a Bound<'py, PyAny>>)];

impl Call {
    /// A call with these arguments, of which those that are `None` are left out. All are in one place, and the results are of
    /// the first one's library.
    ///
    /// Where the arguments' library lets it, the call runs on the caller's own stream and waits for nothing.
    pub fn new(operation: &'static str, arguments: &Arguments<'_, '_>) -> PyResult<Self> {
        match Self::on_stream(operation, arguments)? {
            Some(call) => Ok(call),
            None => Self::on(0, operation, arguments),
        }
    }

    /// As [`new`](Self::new), for an operation that waits for the length of its results.
    pub fn measuring(operation: &'static str, arguments: &Arguments<'_, '_>) -> PyResult<Self> {
        let call = Self::new(operation, arguments)?;
        match call.lease.is_callers() && call.lease.is_captured() {
            true => Err(captured(operation)),
            false => Ok(Self { is_measuring: true, ..call }),
        }
    }

    /// A call on a stream of its own, which waits for what it computes.
    pub fn waiting(operation: &'static str, arguments: &Arguments<'_, '_>) -> PyResult<Self> {
        Self::on(0, operation, arguments)
    }

    /// The call on the caller's own stream, if all arguments are on one GPU and of one library that has such streams.
    fn on_stream(operation: &'static str, arguments: &Arguments<'_, '_>) -> PyResult<Option<Self>> {
        let mut given = arguments.iter().filter_map(|(name, object)| Some((*name, (*object)?)));
        let Some((name, first)) = given.next() else { return Ok(None) };
        let Some(found) = OnStream::of(operation, name, first)? else { return Ok(None) };
        if backend().map_err(to_python)? == Backend::Emulator {
            return Ok(None);
        }
        let (library, device) = (found.library, found.device);
        let current = CurrentContext::get();
        let lease = found.lease(first.py())?;
        let mut inputs = SmallVec::new();
        inputs.push(Input::on_stream(operation, name, found)?);
        for (name, object) in given {
            match OnStream::of(operation, name, object)? {
                Some(found) if (found.library, found.device) == (library, device) => {
                    inputs.push(Input::on_stream(operation, name, found)?);
                }
                _ => return Ok(None),
            }
        }
        let kind = match library {
            Library::PyTorch => Kind::PyTorch,
            Library::CuPy => Kind::CuPy,
        };
        let (place, like) = (Place::Gpu(device), Some((library, first.clone().unbind())));
        let is_measuring = false;
        Ok(Some(Self {
            operation,
            place,
            kind,
            is_measuring,
            like,
            lease,
            inputs,
            _current: current,
        }))
    }

    /// A call that waits; what is not on a GPU runs on the device of that number.
    pub fn on(
        ordinal: u32,
        operation: &'static str,
        arguments: &Arguments<'_, '_>,
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
        let current = CurrentContext::get();
        let device = open(operation, place, ordinal)?;
        if let Some(first) = requests.first().filter(|first| first.place != Place::Host) {
            first.check_not_captured(operation)?;
        }
        let lease = device.lease().map_err(to_python)?;
        let inputs = requests
            .into_iter()
            .map(|request| request.import(operation, &lease))
            .collect::<PyResult<_>>()?;
        let (is_measuring, like) = (false, None);
        Ok(Self { operation, place, kind, is_measuring, like, lease, inputs, _current: current })
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

    /// Enqueues `work` on the call's stream, and waits for it if the stream is not the caller's. Other Python threads run
    /// meanwhile.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Stream) -> GpuResult<R> + Send,
    ) -> PyResult<R> {
        let stream = self.lease.stream();
        if self.lease.is_callers() && !self.is_measuring && self.is_empty() {
            // Nothing is computed, and so nothing takes time that other threads could use.
            return work(stream).map_err(to_python);
        }
        let result = py.detach(|| {
            let enqueued = work(stream);
            if self.lease.is_callers() {
                return enqueued;
            }
            let done = stream.synchronize();
            enqueued.and_then(|result| done.map(|()| result))
        });
        result.map_err(to_python)
    }

    /// Whether there are arguments, and no elements in any of them. One that stands for a device alone says nothing.
    fn is_empty(&self) -> bool {
        let is_empty = |input: &Input| input.len() == 0 && input.name() != "like";
        !self.inputs.is_empty() && self.inputs.iter().all(is_empty)
    }

    /// Memory for a result of that shape, which the operation writes.
    pub fn output<T: Element>(
        &self,
        py: Python<'_>,
        shape: impl AsRef<[usize]>,
    ) -> PyResult<Output<T>> {
        self.output_as(py, T::DTYPE, shape)
    }

    /// As [`output`](Self::output); the elements have the size of `dtype`'s.
    pub fn output_as<T: Element>(
        &self,
        py: Python<'_>,
        dtype: DType,
        shape: impl AsRef<[usize]>,
    ) -> PyResult<Output<T>> {
        assert_eq!(dtype.bytes(), size_of::<T>(), "a result has elements of their size");
        let shape = Sides::from_slice(shape.as_ref());
        let len = shape.iter().try_fold(1usize, |len, side| len.checked_mul(*side));
        let len = len.ok_or_else(|| {
            self.wrong(format!("the shape {shape:?} has more elements than can be counted"))
        })?;
        let Some((library, like)) = &self.like else {
            let buffer = py.detach(|| self.lease.unwritten(len)).map_err(to_python)?;
            return Ok(Output { buffer: Written::Own(buffer), dtype, shape });
        };
        let first = &self.inputs[0];
        let of_like = first.is_contiguous().then(|| (first.dtype(), first.shape()));
        let (array, address) = library.empty(like.bind(py), of_like, (dtype, &shape))?;
        // SAFETY: it was allocated for this result alone, in the order of the stream; the array is held as long as the buffer.
        let lent = unsafe { LentBuffer::new(self.lease.stream(), address as u64, len) };
        let lent = lent.map_err(to_python)?;
        Ok(Output { buffer: Written::Theirs(lent, array.unbind()), dtype, shape })
    }

    /// An output that was written.
    pub fn finish<T: Element>(&self, output: Output<T>) -> GpuResult<Outcome> {
        let Output { buffer, dtype, shape } = output;
        let buffer = match buffer {
            Written::Theirs(_, array) => return Ok(Outcome::Theirs(array)),
            Written::Own(buffer) => buffer,
        };
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
        Ok(Outcome::Own(Array::new(memory, dtype, shape.into_vec())))
    }

    /// The first `len` elements of an output of one axis, which the operation has written. Of PyTorch's and CuPy's arrays it is a
    /// view.
    pub fn finish_front<T: Element>(&self, output: Output<T>, len: usize) -> GpuResult<Outcome> {
        let Output { buffer, dtype, .. } = output;
        let whole = match buffer {
            Written::Theirs(_, array) => return Ok(Outcome::Front(array, len)),
            Written::Own(buffer) => buffer,
        };
        let mut front = self.lease.unwritten(len)?;
        front.as_mut_slice().copy_from_device(whole.slice(..len))?;
        self.finish(Output { buffer: Written::Own(front), dtype, shape: smallvec![len] })
    }

    /// A result of one axis that the operation has allocated.
    pub fn result<T: Element>(&self, buffer: DeviceBuffer<T>) -> GpuResult<Outcome> {
        let shape = smallvec![buffer.len()];
        self.finish(Output { buffer: Written::Own(buffer), dtype: T::DTYPE, shape })
    }

    /// The result as an array of the caller's library.
    pub fn give<'py>(&self, py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyAny>> {
        match outcome {
            Outcome::Own(array) => self.kind.convert(Bound::new(py, array)?),
            Outcome::Theirs(array) => Ok(array.into_bound(py)),
            Outcome::Front(array, len) => {
                array.bind(py).get_item(PySlice::new(py, 0, len as isize, 1))
            }
        }
    }

    /// An error of an argument.
    pub fn wrong(&self, reason: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(format!("{}: {reason}", self.operation))
    }
}

/// Memory for a result.
pub struct Output<T: Element> {
    /// What the operation writes, from end to end.
    pub buffer: Written<T>,
    dtype: DType,
    shape: Sides,
}

/// What an operation writes.
pub enum Written<T: Element> {
    /// Memory of this library.
    Own(DeviceBuffer<T>),
    /// That of an array of the caller's library.
    Theirs(LentBuffer<'static, T>, Py<PyAny>),
}

impl<T: Element> Written<T> {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        DeviceWrite::<T>::len(self) == 0
    }

    /// The elements, for operations that take a slice.
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        match self {
            Self::Own(buffer) => buffer.as_mut_slice(),
            Self::Theirs(lent, _) => lent.as_mut_slice(),
        }
    }
}

// SAFETY: they are those of the buffer.
unsafe impl<T: Element> DeviceWrite<T> for Written<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        match self {
            Self::Own(buffer) => buffer.raw_mut(),
            Self::Theirs(lent, _) => lent.raw_mut(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Own(buffer) => buffer.len(),
            Self::Theirs(lent, _) => lent.len(),
        }
    }
}

/// A result.
pub enum Outcome {
    /// In memory of this library.
    Own(Array),
    /// An array of the caller's library.
    Theirs(Py<PyAny>),
    /// The first elements of one.
    Front(Py<PyAny>, usize),
}

/// Where results are for which no argument says it: on the GPU, or where the emulator's are.
fn own_place(ordinal: u32) -> GpuResult<Place> {
    Ok(match backend()? {
        Backend::Cuda => Place::Gpu(ordinal),
        Backend::Emulator => Place::Host,
    })
}

/// The device for arrays in that place: for those of the host the one of that number.
fn open(operation: &str, place: Place, of_host: u32) -> PyResult<&'static Device> {
    let Place::Gpu(ordinal) = place else { return Device::get(of_host).map_err(to_python) };
    if backend().map_err(to_python)? == Backend::Emulator {
        return Err(PyValueError::new_err(format!(
            "{operation}: the array is on cuda:{ordinal}, and this process uses the emulator, which reaches no GPU's memory: \
             pass array.cpu(), or start without FERROWARP_DEVICE=emulator"
        )));
    }
    Device::get(ordinal).map_err(to_python)
}
