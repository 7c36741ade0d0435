//! Arguments: memory of other libraries, lent for a call.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, RawSlice};
use dlpark::DlpackFlags;
use dlpark::python::ImportedDlpack;
use ferrowarp::{DeviceBuffer, DeviceSlice, GpuResult, LentBuffer};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::array::Place;
use crate::caller::OnStream;
use crate::device::Lease;
use crate::dtype::{DType, Element, unsupported};

/// The number of elements along each axis: as a rule of so few axes that no memory is allocated for it.
pub type Sides = SmallVec<[usize; 4]>;
/// How far apart the elements are along each axis, in elements.
pub type Strides = SmallVec<[isize; 4]>;

/// An argument whose memory was lent.
pub struct Input {
    name: &'static str,
    dtype: DType,
    shape: Sides,
    strides: Strides,
    address: usize,
    place: Place,
    is_read_only: bool,
    /// Gives the memory back, if the call waits. Dropped after the call's stream is done.
    _owner: Option<ImportedDlpack>,
}

impl Input {
    /// An array on the GPU, in work of the caller's own stream.
    pub fn on_stream(operation: &str, name: &'static str, found: OnStream) -> PyResult<Self> {
        let OnStream { device, dtype, shape, strides, address, .. } = found;
        let (place, is_read_only) = (Place::Gpu(device), false);
        let own = Self { name, dtype, shape, strides, address, place, is_read_only, _owner: None };
        own.check_alignment(operation)?;
        Ok(own)
    }

    /// What a producer lent, checked. `dtype` is the type where DLPack does not say it.
    pub fn new(
        operation: &str,
        name: &'static str,
        owner: ImportedDlpack,
        dtype: Option<DType>,
        place: Place,
    ) -> PyResult<Self> {
        let refused = |error: &dyn std::fmt::Display| {
            PyBufferError::new_err(format!("{operation}: `{name}`: {error}"))
        };
        let tensor = owner.validate().map_err(|error| refused(&error))?;
        if place == Place::Host && Place::of_dlpack(operation, name, tensor.device())? != place {
            return Err(PyValueError::new_err(format!(
                "{operation}: `{name}` is a capsule of a CUDA device, whose work cannot be waited for: pass the array itself"
            )));
        }
        let found = tensor.dtype();
        let dtype = dtype.or_else(|| DType::of_dlpack(found)).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{operation}: `{name}` has elements of DLPack's type {} with {} bits and {} lanes, which no operation takes",
                found.code.0, found.bits, found.lanes
            ))
        })?;
        let shape = tensor.shape().iter().map(|&len| len as usize).collect();
        let strides = tensor.strides_or_compact().map_err(|error| refused(&error))?;
        let strides = strides.iter().map(|&stride| stride as isize).collect();
        let address = tensor.data_ptr().expose_provenance() + tensor.byte_offset() as usize;
        let is_read_only = owner.flags().contains(DlpackFlags::READ_ONLY);
        let _owner = Some(owner);
        let own = Self { name, dtype, shape, strides, address, place, is_read_only, _owner };
        own.check_alignment(operation)?;
        Ok(own)
    }

    fn check_alignment(&self, operation: &str) -> PyResult<()> {
        let (name, bytes) = (self.name, self.dtype.bytes());
        if self.len() == 0 || self.address.is_multiple_of(bytes) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{operation}: `{name}` begins at an address that is not a multiple of its elements' {bytes} bytes: copy it first"
        )))
    }

    /// What the operation calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The size in bytes, without gaps.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.bytes()
    }

    /// The address of the first element.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Where the elements are.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether its owner does not let it be written.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether the elements lie one after the other, in the order of the axes that `axis` lists.
    fn is_dense(&self, axes: impl DoubleEndedIterator<Item = usize>) -> bool {
        let mut expected = 1;
        self.len() == 0
            || axes.rev().all(|axis| {
                let fits = self.shape[axis] == 1 || self.strides[axis] == expected;
                expected *= self.shape[axis] as isize;
                fits
            })
    }

    /// Whether the elements lie one after the other, row-major.
    pub fn is_contiguous(&self) -> bool {
        self.is_dense(0..self.shape.len())
    }

    /// An error unless they do.
    pub fn check_contiguous(&self, operation: &str) -> PyResult<()> {
        if self.is_contiguous() { Ok(()) } else { Err(self.not_contiguous(operation)) }
    }

    fn not_contiguous(&self, operation: &str) -> PyErr {
        PyValueError::new_err(format!(
            "{operation}: `{}` of shape {:?} has strides {:?}, so that its elements do not lie one after the other: pass \
             {}.contiguous() of PyTorch, or ascontiguousarray of NumPy and CuPy",
            self.name, self.shape, self.strides, self.name
        ))
    }

    /// The length, of an array with one axis.
    pub fn vector(&self, operation: &str) -> PyResult<usize> {
        self.check_contiguous(operation)?;
        match self.shape[..] {
            [len] => Ok(len),
            _ => Err(PyValueError::new_err(format!(
                "{operation}: `{}` has to have one axis, and its shape is {:?}",
                self.name, self.shape
            ))),
        }
    }

    /// How many segments the offsets delimit that it holds: int64 or uint64, one more than segments.
    pub fn segments(&self, operation: &str) -> PyResult<usize> {
        let offsets = self.vector(operation)?;
        if !matches!(self.dtype, DType::I64 | DType::U64) {
            let operation = format!("{operation} with offsets");
            return Err(unsupported(&operation, self.dtype.name(), &[DType::I64, DType::U64]));
        }
        offsets.checked_sub(1).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{operation}: there has to be one offset more than there are segments"
            ))
        })
    }

    /// The length of the last axis.
    pub fn columns(&self, operation: &str) -> PyResult<usize> {
        self.check_contiguous(operation)?;
        self.shape.last().copied().ok_or_else(|| {
            PyValueError::new_err(format!("{operation}: `{}` has to have an axis", self.name))
        })
    }

    /// Batches, rows and columns of a matrix or a batch of them, and whether its columns lie one after the other in place of
    /// its rows.
    pub fn matrices(&self, operation: &str) -> PyResult<(usize, [usize; 2], bool)> {
        let (batches, first) = match self.shape[..] {
            [_, _] => (1, 0),
            [batches, _, _] => (batches, 1),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{operation}: `{}` has to be a matrix or a batch of matrices, and its shape is {:?}",
                    self.name, self.shape
                )));
            }
        };
        let sides = [self.shape[first], self.shape[first + 1]];
        if self.is_dense(0..first + 2) {
            Ok((batches, sides, false))
        } else if self.is_dense((0..first).chain([first + 1, first])) {
            Ok((batches, sides, true))
        } else {
            Err(self.not_contiguous(operation))
        }
    }

    /// The sizes of a tensor of four axes, and whether it is the transpose of one without gaps whose two middle axes are exchanged.
    pub fn heads(&self, operation: &str) -> PyResult<([usize; 4], bool)> {
        let [batches, heads, rows, depth] = self.shape[..] else {
            return Err(PyValueError::new_err(format!(
                "{operation}: `{}` has to have four axes, and its shape is {:?}",
                self.name, self.shape
            )));
        };
        let sizes = [batches, heads, rows, depth];
        if self.is_dense(0..4) {
            Ok((sizes, false))
        } else if self.is_dense([0, 2, 1, 3].into_iter()) {
            Ok((sizes, true))
        } else {
            Err(self.not_contiguous(operation))
        }
    }

    /// Whether it has the memory of another argument, all of it.
    pub fn is_at(&self, other: &Self) -> bool {
        self.bytes() > 0 && (self.address, self.bytes()) == (other.address, other.bytes())
    }

    /// Whether it shares a part of another argument's memory.
    pub fn overlaps(&self, other: &Self) -> bool {
        let [own, other] =
            [self, other].map(|input| (input.address, input.address + input.bytes()));
        own != other && own.0.max(other.0) < own.1.min(other.1)
    }

    /// The bytes of an array of the host.
    pub fn host_bytes(&self) -> &[u8] {
        assert_eq!(self.place, Place::Host, "bytes of the host");
        match self.bytes() {
            0 => &[],
            // SAFETY: as in `values`; bytes need no alignment.
            bytes => unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), bytes)
            },
        }
    }

    /// Writes an array of the host.
    pub fn write_host(&self, bytes: &DeviceBuffer<u8>) -> GpuResult<()> {
        assert!(
            self.place == Place::Host && !self.is_read_only,
            "an array of the host that is written"
        );
        if self.bytes() == 0 {
            return Ok(());
        }
        let begin = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the producer lent this many bytes until the owner is dropped, and lets them be written. That no other thread uses
        // an array while a kernel writes it is what its library asks of its users too.
        let host = unsafe { std::slice::from_raw_parts_mut(begin, self.bytes()) };
        bytes.copy_to_host(host)
    }

    /// The elements on the device: those of a GPU where they are, those of the host as a copy. In memory order.
    ///
    /// `T` has the elements' size.
    pub fn values<'a, T: Element>(&'a self, lease: &'a Lease) -> GpuResult<Values<'a, T>> {
        assert_eq!(size_of::<T>(), self.dtype.bytes(), "an operation takes elements of their size");
        let len = self.len();
        if self.place == Place::Host {
            let begin = std::ptr::with_exposed_provenance::<T>(self.address);
            let host: &[T] = match len {
                0 => &[],
                // SAFETY: the producer lent this many elements until the owner is dropped, they were checked to be dense and
                // aligned, and every bit pattern is a value of `T`. That no other thread writes an array while an operation
                // reads it is what NumPy and PyTorch ask of their users too.
                _ => unsafe { std::slice::from_raw_parts(begin, len) },
            };
            return DeviceBuffer::from_slice(lease.stream(), host).map(Values::Copied);
        }
        // SAFETY:
        // - The input is borrowed: its memory lives, and was checked to be aligned and dense.
        // - The call's stream comes after what writes it: the producer has made it wait, or it is the caller's own. In the former case the
        //   call waits for the stream before it gives the memory back; in the latter the caller's library gives it to later work of
        //   that stream alone.
        // - Nothing writes it meanwhile but work that the caller enqueues during the call, which its library's own rules exclude.
        unsafe { LentBuffer::new(lease.stream(), self.address as u64, len) }.map(Values::Lent)
    }
}

/// Elements that an operation reads.
pub enum Values<'a, T: Pod> {
    /// Where another library has them.
    Lent(LentBuffer<'a, T>),
    /// On the device, as a copy of the host's.
    Copied(DeviceBuffer<T>),
}

impl<T: Pod> Values<'_, T> {
    /// The elements, for operations that take a slice.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        match self {
            Self::Lent(lent) => lent.as_slice(),
            Self::Copied(buffer) => buffer.as_slice(),
        }
    }
}

// SAFETY: they are those of the buffer.
unsafe impl<T: Pod> DeviceRead<T> for Values<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        match self {
            Self::Lent(lent) => lent.raw(),
            Self::Copied(buffer) => buffer.raw(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Lent(lent) => lent.len(),
            Self::Copied(buffer) => buffer.len(),
        }
    }
}
