//! Tensors of this crate's memory.

use std::mem::ManuallyDrop;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::{ptr, thread};

use cuda_driver::Backend;
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase, versioned};

use super::element::dtype_of;
use super::{ConsumerStream, Element};
use crate::context::Context;
use crate::device::backend;
use crate::device_sync::drop_after_all_work;
use crate::error::{GpuError, GpuResult};
use crate::host_callback::keeps_deferred;
use crate::memory::{DeviceBuffer, DeviceSlice, PinnedBuffer, UnifiedBuffer};
use crate::stream::StreamInner;
use crate::thread_state::may_call_driver;

const EXPORT: &str = "exporting a tensor";

impl<T: Element> DeviceBuffer<T> {
    /// The buffer as a DLPack tensor of this shape, contiguous and row-major, which owns it; `&[len]` is one dimension and
    /// `&[]` a single element. `M` is the form of DLPack 1 (`DLManagedTensorVersioned`) or the legacy one (`DLManagedTensor`).
    ///
    /// `stream` waits for the work that the buffer has. See [`dlpack`](crate::dlpack) for the device that the tensor names, and for what
    /// its drop waits for.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch) if the shape has another number of elements,
    /// [`InvalidArgument`](GpuError::InvalidArgument) for a stream that DLPack does not allow, a driver's refusal. The buffer is
    /// dropped then.
    pub fn into_dlpack<M: ManagedTensorBase>(
        self,
        shape: &[usize],
        stream: ConsumerStream,
    ) -> GpuResult<Managed<M>> {
        let elements = Elements::of(self.as_slice(), DLDeviceType::CUDA)?;
        elements.export(self, shape, stream, DlpackFlags::empty())
    }
}

impl<T: Element> UnifiedBuffer<T> {
    /// As [`DeviceBuffer::into_dlpack`], for memory that host and device share.
    ///
    /// # Errors
    /// As [`DeviceBuffer::into_dlpack`].
    pub fn into_dlpack<M: ManagedTensorBase>(
        self,
        shape: &[usize],
        stream: ConsumerStream,
    ) -> GpuResult<Managed<M>> {
        let elements = Elements::of(self.as_device_slice(), DLDeviceType::CUDAMANAGED)?;
        elements.export(self, shape, stream, DlpackFlags::empty())
    }
}

impl<T: Element> PinnedBuffer<T> {
    /// As [`DeviceBuffer::into_dlpack`], for page-locked memory. No stream has to wait: no work uses a buffer that is not borrowed.
    ///
    /// # Errors
    /// As [`DeviceBuffer::into_dlpack`].
    pub fn into_dlpack<M: ManagedTensorBase>(self, shape: &[usize]) -> GpuResult<Managed<M>> {
        let home = self.home().clone();
        let elements = Elements {
            address: self.as_ptr().expose_provenance(),
            len: self.len(),
            dtype: dtype_of::<T>(),
            device: device(home.context(), DLDeviceType::CUDAHOST)?,
            home,
        };
        elements.export(self, shape, ConsumerStream::NO_SYNC, DlpackFlags::empty())
    }
}

/// A part of a buffer as a read-only DLPack tensor, while this program reads the buffer too: no code writes memory that an `Arc`
/// shares. The tensor keeps the buffer. Legacy tensors cannot be read-only.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use ferrowarp::dlpack::{ConsumerStream, share};
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let weights = Arc::new(DeviceBuffer::from_slice(&gpu, &[0.5f32; 600])?);
/// let tensor = share(&weights, 300.., &[30, 10], ConsumerStream::OMITTED)?;
/// assert_eq!(weights.to_vec()?.len(), 600);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// # Errors
/// As [`DeviceBuffer::into_dlpack`].
///
/// # Panics
/// If `range` is not inside.
pub fn share<T: Element>(
    buffer: &Arc<DeviceBuffer<T>>,
    range: impl RangeBounds<usize>,
    shape: &[usize],
    stream: ConsumerStream,
) -> GpuResult<versioned::Dlpack> {
    let elements = Elements::of(buffer.slice(range), DLDeviceType::CUDA)?;
    elements.export(buffer.clone(), shape, stream, DlpackFlags::READ_ONLY)
}

/// What a tensor describes.
struct Elements {
    address: usize,
    len: usize,
    dtype: DLDataType,
    device: DLDevice,
    home: Arc<StreamInner>,
}

impl Elements {
    fn of<T: Element>(slice: DeviceSlice<'_, T>, device_type: DLDeviceType) -> GpuResult<Self> {
        Ok(Self {
            address: slice.as_device_ptr().address() as usize,
            len: slice.len(),
            dtype: dtype_of::<T>(),
            device: device(slice.home().context(), device_type)?,
            home: slice.home().clone(),
        })
    }

    /// The tensor, whose memory `owner` has.
    fn export<M: ManagedTensorBase>(
        self,
        owner: impl Send + 'static,
        shape: &[usize],
        stream: ConsumerStream,
        flags: DlpackFlags,
    ) -> GpuResult<Managed<M>> {
        let expected = shape.iter().try_fold(1usize, |all, len| all.checked_mul(*len));
        let expected = expected.unwrap_or(usize::MAX);
        if expected != self.len {
            let (operation, found) = (EXPORT, self.len);
            return Err(GpuError::SizeMismatch { operation, expected, found });
        }
        stream.wait_for(&self.home, self.device)?;
        let context = self.home.context().clone();
        let owner = Box::new(Exported { owner: Some(owner), context });
        let made = Dynamic::compact(shape).initialize_as::<M>(owner);
        let mut tensor = made.map_err(|error| refused(error.to_string()))?;
        let data = match self.len {
            // As DLPack has it for tensors without elements.
            0 => ptr::null_mut(),
            _ => ptr::with_exposed_provenance_mut(self.address),
        };
        tensor.set_data(data).set_dtype(self.dtype).set_device(self.device);
        tensor.set_flags(flags).map_err(|error| refused(error.to_string()))?;
        // SAFETY:
        // - The owner has the elements of this shape, one after the other, at the address, until it is dropped.
        // - They are written: the consumer's stream waits for the work that does, as the consumer asked for.
        // - Only what the flags let be written is: an owner that is not read-only was moved here.
        Ok(unsafe { tensor.finish() })
    }
}

/// The error of an export.
pub(super) fn refused(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: EXPORT, reason }
}

/// Where consumers find the memory: on the emulator it is the host's.
fn device(context: &Context, device_type: DLDeviceType) -> GpuResult<DLDevice> {
    Ok(match (backend()?, device_type) {
        (Backend::Emulator, _) => DLDevice::CPU,
        (Backend::Cuda, DLDeviceType::CUDA) => DLDevice::cuda(context.info().ordinal.cast_signed()),
        // DLPack numbers neither managed nor page-locked memory.
        (Backend::Cuda, device_type) => DLDevice { device_type, device_id: 0 },
    })
}

/// What an exported tensor owns.
struct Exported<O: Send + 'static> {
    owner: Option<O>,
    context: Arc<Context>,
}

impl<O: Send + 'static> Drop for Exported<O> {
    /// A consumer may have enqueued uses on streams that are not known here, so the device has to be done with all of its work. A thread
    /// of its own waits for that where this one cannot, in a capture or a host callback, or where the wait would surprise it, since
    /// it drops what another thread has left.
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        let context = self.context.clone();
        if may_call_driver() && !keeps_deferred() {
            return drop_after_all_work(&context, owner);
        }
        // Where the system has no thread, the memory leaks.
        let owner = ManuallyDrop::new(owner);
        let wait = move || drop_after_all_work(&context, ManuallyDrop::into_inner(owner));
        let _ = thread::Builder::new().name("ferrowarp dlpack".to_owned()).spawn(wait);
    }
}
