//! A call of an operation: its arguments, checked, and its place in the order of the caller's stream.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use bytemuck::Pod;
use cuda_driver::sys::{self, CUcontext, CUresult};
use ferrowarp::ops::Scratch;
use ferrowarp::{DeviceBuffer, GpuResult, LentBuffer, Stream};

use crate::code::{Code, decode};
use crate::error::{Error, Status};
use crate::handle::{Handle, Lane, is_captured, with_handle};

/// Where a buffer of the library begins: at a multiple of this many bytes, as all allocations do.
const BUFFER_ALIGN: usize = 256;

/// An operation that is being called.
pub struct Call<'a> {
    operation: &'static str,
    handle: &'a Handle,
    lane: &'a mut Lane,
    spans: Vec<Span>,
}

/// The memory of an argument.
#[derive(Clone, Copy)]
struct Span {
    name: &'static str,
    begin: usize,
    end: usize,
    is_written: bool,
}

/// Calls `work`, whose error is the status and the thread's message, as a panic is.
///
/// # Safety
/// The handle is null or one that exists. What pointers `work` passes to the call are as [`LentBuffer::new`] asks for.
pub unsafe fn run(
    operation: &'static str,
    handle: *const Handle,
    work: impl FnOnce(&mut Call<'_>) -> Result<(), Error>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(operation, handle, |handle| {
            let mut lane = handle.lane();
            work(&mut Call { operation, handle, lane: &mut lane, spans: Vec::new() })
        })
    }
}

impl Call<'_> {
    /// What errors name.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The caller's stream.
    pub fn stream(&self) -> &Stream {
        self.lane.stream()
    }

    /// An error while the stream is captured into a CUDA graph.
    pub fn refuse_capture(&self) -> Result<(), Error> {
        let operation = self.operation;
        if is_captured(self.stream()) { Err(Error::Captured { operation }) } else { Ok(()) }
    }

    /// The handle's context.
    pub fn context(&self) -> CUcontext {
        self.handle.context()
    }

    /// Enqueues `work` on the stream.
    pub fn enqueue<R>(&self, work: impl FnOnce(&Stream) -> GpuResult<R>) -> Result<R, Error> {
        work(self.stream()).map_err(|error| self.failed(error))
    }

    /// Enqueues `work` on the stream, with that much scratch memory.
    pub fn enqueue_with<R>(
        &mut self,
        scratch_bytes: usize,
        work: impl FnOnce(&Stream, &mut Scratch) -> GpuResult<R>,
    ) -> Result<R, Error> {
        self.lane.with_scratch(scratch_bytes, work).map_err(|error| self.failed(error))
    }

    /// An error of the library in this operation.
    pub fn failed(&self, error: ferrowarp::GpuError) -> Error {
        Error::Gpu { operation: self.operation, error }
    }

    /// An error of a value.
    pub fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::Value { operation: self.operation, reason: reason.into() }
    }

    /// The variant that C has passed.
    pub fn code<C: Code>(&self, name: &'static str, given: MaybeUninit<C>) -> Result<C, Error> {
        decode(self.operation, name, given)
    }

    /// A length that C has passed.
    pub fn len(&self, name: &'static str, value: i64) -> Result<usize, Error> {
        usize::try_from(value).map_err(|_| Error::Negative {
            operation: self.operation,
            name,
            value,
        })
    }

    /// The product of lengths of the array `name`.
    pub fn product(&self, name: &'static str, lens: &[usize]) -> Result<usize, Error> {
        let product = lens.iter().try_fold(1_usize, |product, len| product.checked_mul(*len));
        product.ok_or(Error::Overflow { operation: self.operation, name })
    }

    /// The sum of two lengths of the array `name`.
    pub fn sum(&self, name: &'static str, a: usize, b: usize) -> Result<usize, Error> {
        a.checked_add(b).ok_or(Error::Overflow { operation: self.operation, name })
    }

    /// From the first element of the array `name` to the last one, in elements: `len` neighbours, repeated by each `(count, stride)` of
    /// `between`. No count is 0.
    pub fn span(
        &self,
        name: &'static str,
        len: usize,
        between: &[(usize, usize)],
    ) -> Result<usize, Error> {
        between.iter().try_fold(len, |span, (count, stride)| {
            self.sum(name, span, self.product(name, &[count - 1, *stride])?)
        })
    }

    /// `len` elements that the operation reads.
    ///
    /// # Safety
    /// As [`LentBuffer::new`]; what is checked is that both ends are memory of the device.
    pub unsafe fn read<T: Pod>(
        &mut self,
        name: &'static str,
        at: *const c_void,
        len: usize,
    ) -> Result<LentBuffer<'static, T>, Error> {
        let address = self.check::<T>(name, at.addr(), len, false)?;
        // SAFETY: the caller's promise.
        unsafe { LentBuffer::new(self.stream(), address as u64, len) }
            .map_err(|error| self.failed(error))
    }

    /// As [`read`](Self::read), of an argument that may be null.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    pub unsafe fn read_optional<T: Pod>(
        &mut self,
        name: &'static str,
        at: *const c_void,
        len: usize,
    ) -> Result<Option<LentBuffer<'static, T>>, Error> {
        // SAFETY: the caller's promise.
        (!at.is_null()).then(|| unsafe { self.read(name, at, len) }).transpose()
    }

    /// `len` elements that the operation writes, and may read. No other argument has memory in common with them.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    pub unsafe fn write<T: Pod>(
        &mut self,
        name: &'static str,
        at: *mut c_void,
        len: usize,
    ) -> Result<LentBuffer<'static, T>, Error> {
        let address = self.check::<T>(name, at.addr(), len, true)?;
        // SAFETY: the caller's promise.
        unsafe { LentBuffer::new(self.stream(), address as u64, len) }
            .map_err(|error| self.failed(error))
    }

    /// `len` elements that are read for longer than the call, as a buffer.
    ///
    /// # Safety
    /// As [`read`](Self::read), until the buffer is dropped and the stream has done its work.
    pub unsafe fn keep<T: Pod>(
        &mut self,
        name: &'static str,
        at: *const c_void,
        len: usize,
    ) -> Result<DeviceBuffer<T>, Error> {
        let address = self.check::<T>(name, at.addr(), len, false)?;
        self.check_alignment(name, address, BUFFER_ALIGN, len)?;
        // SAFETY: the caller's promise.
        unsafe { DeviceBuffer::from_raw_parts(self.stream(), address as u64, len, ()) }
            .map_err(|error| self.failed(error))
    }

    fn check_alignment(
        &self,
        name: &'static str,
        address: usize,
        align: usize,
        len: usize,
    ) -> Result<(), Error> {
        if len == 0 || address.is_multiple_of(align) {
            return Ok(());
        }
        Err(Error::Misaligned { operation: self.operation, name, address, align })
    }

    /// Checks where an argument is; returns its address.
    fn check<T>(
        &mut self,
        name: &'static str,
        begin: usize,
        len: usize,
        is_written: bool,
    ) -> Result<usize, Error> {
        let operation = self.operation;
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let end = bytes.and_then(|bytes| begin.checked_add(bytes));
        let end = end.ok_or(Error::Overflow { operation, name })?;
        if len == 0 {
            return Ok(begin);
        }
        if begin == 0 {
            return Err(Error::Null { operation, name });
        }
        self.check_alignment(name, begin, align_of::<T>(), len)?;
        self.check_place(name, begin, begin)?;
        self.check_place(name, begin, end - 1)?;
        let span = Span { name, begin, end, is_written };
        let meets = |other: &&Span| {
            (is_written || other.is_written) && begin < other.end && other.begin < end
        };
        if let Some(other) = self.spans.iter().find(meets) {
            return Err(Error::Overlap { operation, name, other: other.name });
        }
        self.spans.push(span);
        Ok(begin)
    }

    /// An error unless the driver has the byte on the handle's device.
    fn check_place(&self, name: &'static str, begin: usize, address: usize) -> Result<(), Error> {
        use sys::pointer_attribute as A;
        let wanted = [A::MEMORY_TYPE, A::DEVICE_ORDINAL];
        let (mut kind, mut found) = (0_i32, 0_i32);
        let values: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut found).cast()];
        // SAFETY: two attributes are asked for, and each value has room for its own; the address is not followed.
        let asked = unsafe {
            sys::cuPointerGetAttributes(2, wanted.as_ptr(), values.as_ptr().cast(), address as u64)
        };
        let operation = self.operation;
        if asked != CUresult::CUDA_SUCCESS || kind == 0 || kind == sys::memory_type::HOST {
            cuda_driver::take_detail();
            return Err(Error::NotDeviceMemory {
                operation,
                name,
                address,
                offset: address - begin,
            });
        }
        let expected = self.handle.ordinal();
        if found.cast_unsigned() != expected {
            return Err(Error::WrongDevice { operation, name, found, expected });
        }
        Ok(())
    }
}
