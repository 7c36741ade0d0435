//! Page-locked host memory: the device's copy engines read and write it on their own.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::sys;

use super::allocation::check_alignment;
use super::pending::{PinnedSource, PinnedTarget};
use super::write_combined::WriteCombined;
use crate::context::{Context, Handle};
use crate::deferred_frees::{Freed, free_or_defer};
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

/// `CU_MEMHOSTALLOC_PORTABLE`
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_WRITECOMBINED`
const WRITE_COMBINED: u32 = 4;

/// How page-locked memory is made.
///
/// ```no_run
/// use ferrowarp::{Gpu, PinnedOptions};
///
/// let gpu = Gpu::new()?;
/// let shared = PinnedOptions::new().portable(true).buffer::<f32>(&gpu, 1024)?;
/// let outgoing = PinnedOptions::new().write_combined::<f32>(&gpu, 1024)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedOptions {
    portable: bool,
}

impl PinnedOptions {
    /// Page-locked for one device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the memory is page-locked for every device of the process.
    #[must_use]
    pub fn portable(self, portable: bool) -> Self {
        Self { portable }
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// What the driver answers, for instance that no more memory can be page-locked.
    pub fn buffer<T: Pod>(self, on: &impl AsStream, len: usize) -> GpuResult<PinnedBuffer<T>> {
        Ok(PinnedBuffer { memory: self.allocate(on, 0, len)? })
    }

    /// `len` elements, all of them zero, that the host only writes.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn write_combined<T: Pod>(
        self,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<WriteCombined<T>> {
        Ok(WriteCombined::new(self.allocate(on, WRITE_COMBINED, len)?))
    }

    fn allocate<T: Pod>(
        self,
        on: &impl AsStream,
        flags: u32,
        len: usize,
    ) -> GpuResult<HostAllocation<T>> {
        let flags = flags | if self.portable { PORTABLE } else { 0 };
        HostAllocation::zeroed(on.as_stream().inner().context(), flags, len)
    }
}

/// Memory of `cuMemHostAlloc` that holds `len` values.
#[derive(Debug)]
pub(super) struct HostAllocation<T> {
    context: Arc<Context>,
    address: NonNull<T>,
    len: usize,
}

// SAFETY: the memory is owned like a `Box`'s, and the driver may be called from any thread.
unsafe impl<T: Send> Send for HostAllocation<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HostAllocation<T> {}

impl<T: Pod> HostAllocation<T> {
    fn zeroed(context: &Arc<Context>, flags: u32, len: usize) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let operation = "page-locking memory";
        let too_large =
            GpuError::SizeMismatch { operation, expected: isize::MAX as usize, found: len };
        let address = match bytes.ok_or(too_large)? {
            0 => NonNull::dangling(),
            bytes => allocate(context, flags, bytes)?.cast(),
        };
        // SAFETY: there is room for `len` values, nobody else knows of it, and zero is a value of
        // every `Pod` type.
        unsafe { address.write_bytes(0, len) };
        Ok(Self { context: context.clone(), address, len })
    }
}

impl<T> HostAllocation<T> {
    pub(super) fn as_ptr(&self) -> *mut T {
        self.address.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for HostAllocation<T> {
    /// Copies own what they use until they are over, so none uses it now.
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            let start = Handle(self.address.as_ptr().cast());
            free_or_defer(&self.context, Freed::Host(start), bytes);
        }
    }
}

fn allocate(context: &Context, flags: u32, bytes: usize) -> GpuResult<NonNull<u8>> {
    let mut address = std::ptr::null_mut();
    context.call("cuMemHostAlloc", || {
        // SAFETY: `address` is writable.
        unsafe { sys::cuMemHostAlloc(&mut address, bytes, flags) }
    })?;
    Ok(NonNull::new(address.cast()).expect("the driver gave memory, which is not at null"))
}

/// An array of `T` in page-locked host memory: a plain slice for the host, and what copies that do
/// not wait read and write at the bus's full speed.
///
/// Page-locked memory cannot be swapped out, so take little of it and keep it.
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu, PinnedBuffer};
///
/// let gpu = Gpu::new()?;
/// let mut device = DeviceBuffer::<f32>::zeroed(&gpu, 3)?;
/// let mut pinned = PinnedBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
/// pinned[0] = 4.0;
/// let pending = device.copy_from_pinned_async(&gpu, pinned)?; // the copy has the buffer now
/// let pinned = pending.wait()?; // and gives it back
/// assert_eq!(device.copy_to_pinned_async(&gpu, pinned)?.wait()?[..], [4.0, 2.0, 3.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct PinnedBuffer<T: Pod> {
    memory: HostAllocation<T>,
}

impl<T: Pod> PinnedBuffer<T> {
    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        PinnedOptions::new().buffer(on, len)
    }

    /// A copy of `values`.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        let mut buffer = Self::zeroed(on, values.len())?;
        buffer.copy_from_slice(values);
        Ok(buffer)
    }
}

impl<T: Pod> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory holds `len` values and is borrowed with `self`; a copy that writes it
        // owns it.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }
}

impl<T: Pod> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, exclusively; a copy that reads it owns it, or an `Arc` of it.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.memory.len()) }
    }
}

impl<T: Pod> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({:p}, {} elements)", self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: the memory stays where it is until the buffer is dropped, holds `len` values, and only its
// owner reaches it.
unsafe impl<T: Pod> PinnedSource<T> for PinnedBuffer<T> {
    fn source(&self) -> *const [T] {
        std::ptr::slice_from_raw_parts(self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> PinnedTarget<T> for PinnedBuffer<T> {
    fn target(&mut self) -> *mut [T] {
        std::ptr::slice_from_raw_parts_mut(self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: nobody writes the buffer while an `Arc` of it is shared.
unsafe impl<T: Pod> PinnedSource<T> for Arc<PinnedBuffer<T>> {
    fn source(&self) -> *const [T] {
        (**self).source()
    }
}

/// One value of `T` in page-locked host memory.
pub struct PinnedBox<T: Pod> {
    buffer: PinnedBuffer<T>,
}

impl<T: Pod> PinnedBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn new(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        Ok(Self { buffer: PinnedBuffer::from_slice(on, slice::from_ref(value))? })
    }
}

impl<T: Pod> Deref for PinnedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.buffer[0]
    }
}

impl<T: Pod> DerefMut for PinnedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.buffer[0]
    }
}

impl<T: Pod> fmt::Debug for PinnedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBox({:p})", self.buffer.memory.as_ptr())
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> PinnedSource<T> for PinnedBox<T> {
    fn source(&self) -> *const [T] {
        self.buffer.source()
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> PinnedTarget<T> for PinnedBox<T> {
    fn target(&mut self) -> *mut [T] {
        self.buffer.target()
    }
}
