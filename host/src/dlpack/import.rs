//! Tensors of other libraries as buffers.

use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;
use std::ptr;

use cuda_driver::{Backend, sys};
use cuda_std::launch::{DeviceRead, RawSlice};
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase, TensorRef};

use super::Element;
use super::element::{dtype_of, name};
use crate::context::Context;
use crate::device::backend;
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

impl<T: Element> DeviceBuffer<T> {
    /// The memory of a DLPack tensor as a buffer, in row-major order. Nothing is copied. The buffer owns the tensor, which goes back to
    /// its producer as the owner of [`from_raw_parts`](Self::from_raw_parts) does: when the work is done that the buffer's
    /// stream has when the buffer is dropped.
    ///
    /// `tensor.validate()?.shape()` is the shape, for who needs it.
    ///
    /// # Errors
    /// The tensor is dropped then.
    /// - [`WrongDevice`](GpuError::WrongDevice) for memory of another GPU than that of `on`, [`WrongContext`](GpuError::WrongContext) for that of
    ///   another context.
    /// - [`InvalidArgument`](GpuError::InvalidArgument) for a tensor that is read-only (see [`ReadOnly`](super::ReadOnly)), has elements of
    ///   another type or several lanes, is on a device that is not a CUDA device, is not contiguous, begins at an address that is not
    ///   a multiple of 256, or has a malformed shape; for an address that the driver does not know.
    ///
    /// # Safety
    /// - The tensor is as DLPack has it: its memory holds the elements of its shape, written, until its deleter is called, which any
    ///   thread may do. What is checked is the first and the last byte's device.
    /// - No other code reads or writes the memory until the deleter is called, but in work that the stream of `on` waits for. A legacy tensor
    ///   has no flag for it, and is not read-only.
    /// - Work that has written it is done, or the stream of `on` waits for it: the producer was given the stream, or
    ///   [`wait_for_raw`](crate::Stream::wait_for_raw) was called.
    pub unsafe fn from_dlpack<M: ManagedTensorBase + 'static>(
        on: &impl AsStream,
        tensor: Managed<M>,
    ) -> GpuResult<Self> {
        if tensor.flags().contains(DlpackFlags::READ_ONLY) {
            return Err(refused(
                "the tensor is read-only: import it as a `ReadOnly` buffer, or have its producer copy it".to_owned(),
            ));
        }
        // SAFETY: the caller's promise.
        unsafe { import(on, tensor) }
    }
}

/// The memory of a DLPack tensor, to be read: a [`DeviceBuffer`] that is never lent to be written.
///
/// ```no_run
/// # fn example(x: ferrowarp::dlpack::ReadOnly<f32>) -> ferrowarp::GpuResult<()> {
/// assert_eq!(x.slice(..2).to_vec()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
/// ```compile_fail,E0596
/// # fn example(mut x: ferrowarp::dlpack::ReadOnly<f32>) -> ferrowarp::GpuResult<()> {
/// x.clear()?; // writes the buffer
/// # Ok(())
/// # }
/// ```
pub struct ReadOnly<T: Element>(DeviceBuffer<T>);

impl<T: Element> ReadOnly<T> {
    /// As [`DeviceBuffer::from_dlpack`], also for tensors that their producers do not let be written.
    ///
    /// # Errors
    /// As [`DeviceBuffer::from_dlpack`], but for a read-only tensor.
    ///
    /// # Safety
    /// As [`DeviceBuffer::from_dlpack`], but that other code may read the memory at the same time.
    pub unsafe fn from_dlpack<M: ManagedTensorBase + 'static>(
        on: &impl AsStream,
        tensor: Managed<M>,
    ) -> GpuResult<Self> {
        // SAFETY: the caller's promise; nothing writes the buffer, which is private.
        unsafe { import(on, tensor) }.map(Self)
    }
}

impl<T: Element> Deref for ReadOnly<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.0
    }
}

impl<T: Element> fmt::Debug for ReadOnly<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnly").field(&self.0).finish()
    }
}

// SAFETY: it is the buffer's own.
unsafe impl<T: Element> DeviceRead<T> for ReadOnly<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.0.raw()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// # Safety
/// As [`DeviceBuffer::from_dlpack`], but that of a read-only tensor the buffer is only read.
unsafe fn import<T: Element, M: ManagedTensorBase + 'static>(
    on: &impl AsStream,
    tensor: Managed<M>,
) -> GpuResult<DeviceBuffer<T>> {
    let context = on.as_stream().inner().context();
    let view = tensor.validate().map_err(|error| refused(error.to_string()))?;
    check_device(context, view.device())?;
    check_dtype(view.dtype(), dtype_of::<T>())?;
    check_contiguous(&view)?;
    let address = address_of(&view)?;
    check_memory(context, address, view.num_bytes())?;
    let len = view.num_elements();
    // SAFETY: the caller's promise. The tensor has the memory until it is dropped.
    unsafe { DeviceBuffer::from_raw_parts(on, address, len, tensor) }
}

fn refused(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: "importing a tensor", reason }
}

/// Whether a buffer of `context` can be where the producer says the tensor is.
fn check_device(context: &Context, device: DLDevice) -> GpuResult<()> {
    let expected = context.info().ordinal;
    match device.device_type {
        DLDeviceType::CUDA => match u32::try_from(device.device_id) {
            Ok(found) if found == expected => Ok(()),
            Ok(found) => Err(GpuError::WrongDevice { what: "the tensor", expected, found }),
            Err(_) => Err(refused(format!("its device has the number {}", device.device_id))),
        },
        DLDeviceType::CUDAMANAGED => Ok(()),
        // The emulator's memory is exported as such.
        DLDeviceType::CPU if backend()? == Backend::Emulator => Ok(()),
        DLDeviceType::CPU | DLDeviceType::CUDAHOST => {
            Err(refused("it is in the host's memory: copy it to a DeviceBuffer".to_owned()))
        }
        other => Err(refused(format!(
            "it is on a device of DLPack's type {}, and a buffer is on a CUDA device",
            other.0
        ))),
    }
}

fn check_dtype(found: DLDataType, expected: DLDataType) -> GpuResult<()> {
    if found.matches(expected) {
        return Ok(());
    }
    let [found, expected] = [found, expected].map(name);
    Err(refused(format!("its elements are {found}, and the buffer's {expected}")))
}

/// Whether the elements lie one after the other, row-major. A dimension of one element may have any stride.
fn check_contiguous(tensor: &TensorRef<'_>) -> GpuResult<()> {
    let strides = tensor.strides_or_compact().map_err(|error| refused(error.to_string()))?;
    if tensor.num_elements() == 0 {
        return Ok(());
    }
    let mut expected = 1;
    for (axis, (&len, &stride)) in tensor.shape().iter().zip(&*strides).enumerate().rev() {
        if len != 1 && stride != expected {
            return Err(refused(format!(
                "dimension {axis} has a stride of {stride} elements, and a contiguous tensor's is {expected}: have its \
                 producer copy it to contiguous memory"
            )));
        }
        expected *= len;
    }
    Ok(())
}

/// The address of the first element; 0 if there is none.
fn address_of(tensor: &TensorRef<'_>) -> GpuResult<u64> {
    let (data, offset) = (tensor.data_ptr().expose_provenance() as u64, tensor.byte_offset());
    if tensor.num_elements() == 0 {
        return Ok(0);
    }
    if data == 0 {
        return Err(refused(format!(
            "it has {} elements, and a null pointer to them",
            tensor.num_elements()
        )));
    }
    data.checked_add(offset).filter(|address| address.is_multiple_of(256)).ok_or_else(|| {
        refused(format!(
            "its elements begin {offset} bytes after {data:#x}, and a buffer's at a multiple of 256 bytes: have its producer copy it"
        ))
    })
}

/// Whether the driver has the first and the last byte on the device of `context`.
fn check_memory(context: &Context, address: u64, bytes: usize) -> GpuResult<()> {
    if bytes == 0 {
        return Ok(());
    }
    let last = address.checked_add(bytes as u64 - 1);
    let last = last.ok_or_else(|| refused(format!("it has {bytes} bytes at {address:#x}")))?;
    for at in [address, last] {
        let Location { kind, device: found, context: owner } = locate(context, at)?;
        let expected = context.info().ordinal;
        if kind == 0 || kind == sys::memory_type::HOST {
            return Err(refused(format!(
                "{at:#x}, of its {bytes} bytes from {address:#x} on, is not memory of a device that this process's driver knows"
            )));
        }
        if found.cast_unsigned() != expected {
            let found = found.cast_unsigned();
            return Err(GpuError::WrongDevice { what: "the tensor", expected, found });
        }
        if !owner.is_null() && owner != context.raw() {
            return Err(GpuError::WrongContext { what: "the tensor", ordinal: expected });
        }
    }
    Ok(())
}

/// Where an address is.
struct Location {
    /// The kind of memory (`CUmemorytype`), 0 for none.
    kind: i32,
    /// The ordinal of its device.
    device: i32,
    /// The context that it was allocated in. Null for none, as a pool's is.
    context: sys::CUcontext,
}

fn locate(context: &Context, address: u64) -> GpuResult<Location> {
    use sys::pointer_attribute as A;
    let wanted = [A::MEMORY_TYPE, A::DEVICE_ORDINAL, A::CONTEXT];
    let nowhere = || Location { kind: 0, device: 0, context: ptr::null_mut() };
    let mut found = nowhere();
    let values: [*mut c_void; 3] = [
        (&raw mut found.kind).cast(),
        (&raw mut found.device).cast(),
        (&raw mut found.context).cast(),
    ];
    let asked = context.call("cuPointerGetAttributes", || {
        let (wanted, values) = (wanted.as_ptr(), values.as_ptr().cast());
        // SAFETY: three attributes are asked for, and each value has room for its own; the address is not followed.
        unsafe { sys::cuPointerGetAttributes(3, wanted, values, address) }
    });
    match asked {
        // Some drivers refuse an address that they do not know.
        Err(GpuError::Driver(_)) => Ok(nowhere()),
        asked => asked.map(|()| found),
    }
}
