//! Existing host memory, page-locked in place.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::sys;

use super::pending::{PinnedSource, PinnedTarget};
use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

/// `CU_MEMHOSTREGISTER_PORTABLE`
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_READ_ONLY`
const READ_ONLY: u32 = 8;
/// The driver's code for memory of which a part is page-locked already.
const ALREADY_REGISTERED: u32 = 712;
/// The driver's code for a range that it does not take.
const INVALID_VALUE: u32 = 1;

/// A page-lock on memory that other code owns. Dropping it unlocks.
#[derive(Debug)]
pub(super) struct Registration {
    context: Arc<Context>,
    address: usize,
    bytes: usize,
}

impl Registration {
    /// Page-locks `values`, for every device of the process.
    ///
    /// # Safety
    /// The memory lives, and stays where it is, until the registration is dropped. It may be written,
    /// unless it is `read_only`.
    pub(super) unsafe fn new<T: Pod>(
        context: &Arc<Context>,
        values: *const [T],
        read_only: bool,
    ) -> GpuResult<Self> {
        if read_only && !context.info().registers_read_only {
            let what = "registering memory to be read alone: copy it to a PinnedBuffer";
            return Err(GpuError::Unsupported { what });
        }
        let address = values.cast::<T>().expose_provenance();
        let registration =
            Self { context: context.clone(), address, bytes: values.len() * size_of::<T>() };
        if registration.bytes == 0 {
            return Ok(registration);
        }
        let flags = PORTABLE | if read_only { READ_ONLY } else { 0 };
        let registered = context.call("cuMemHostRegister", || {
            let (start, bytes) = (values.cast_mut().cast(), registration.bytes);
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemHostRegister_v2(start, bytes, flags) }
        });
        match registered {
            Ok(()) => Ok(registration),
            Err(error) => Err(registration.refused(error)),
        }
    }

    /// Whether the memory holds all of `bytes` bytes at `address`.
    pub(super) fn holds(&self, address: u64, bytes: usize) -> bool {
        let (start, end) = (self.address as u64, (self.address + self.bytes) as u64);
        start <= address && address + bytes as u64 <= end
    }

    /// What was not registered needs no end.
    fn refused(mut self, error: GpuError) -> GpuError {
        let (address, bytes) = (self.address as u64, std::mem::take(&mut self.bytes));
        match error.driver().map(|driver| driver.code()) {
            Some(ALREADY_REGISTERED) => GpuError::AlreadyRegistered { address, bytes },
            Some(INVALID_VALUE) => error.context(format!(
                "page-locking {bytes} bytes at {address:#x}: where the system registers whole pages \
                 alone, begin and end at a multiple of {PAGE_BYTES} bytes"
            )),
            _ => error,
        }
    }
}

/// The size of a page, on the systems that have a driver.
const PAGE_BYTES: usize = 4096;

/// What the driver knows of `bytes` bytes of host memory at `address`: whether they are page-locked or
/// unified, and whether kernels reach them by the same address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostPointerInfo {
    pub(super) to_driver: bool,
    pub(super) in_place: bool,
}

impl HostPointerInfo {
    /// Asks about the first byte and the last one.
    pub(super) fn of(context: &Context, address: u64, bytes: usize) -> GpuResult<Self> {
        if bytes == 0 {
            return Ok(Self::default());
        }
        let [first, last] = [address, address + bytes as u64 - 1].map(|at| Self::at(context, at));
        let (first, last) = (first?, last?);
        Ok(Self {
            to_driver: first.to_driver && last.to_driver,
            in_place: first.in_place && last.in_place,
        })
    }

    fn at(context: &Context, address: u64) -> GpuResult<Self> {
        use sys::pointer_attribute as A;
        let wanted = [A::MEMORY_TYPE, A::DEVICE_POINTER];
        let (mut kind, mut device) = (0u32, 0u64);
        let values: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut device).cast()];
        let asked = context.call("cuPointerGetAttributes", || {
            let (wanted, values) = (wanted.as_ptr(), values.as_ptr().cast());
            // SAFETY: two attributes are asked for, and each value has room for its own; the address
            // is not followed.
            unsafe { sys::cuPointerGetAttributes(2, wanted, values, address) }
        });
        match asked {
            // Some drivers refuse an address that they do not know.
            Err(GpuError::Driver(_)) => return Ok(Self::default()),
            asked => asked?,
        }
        Ok(Self { to_driver: kind != 0, in_place: kind != 0 && device == address })
    }
}

impl Registration {
    /// Ends it. After an error it is as it was.
    fn end_or_tell(&mut self) -> GpuResult<()> {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: this registered the memory, once; whoever used it on the device has waited.
        self.context.call("cuMemHostUnregister", || unsafe { sys::cuMemHostUnregister(start) })?;
        self.bytes = 0;
        Ok(())
    }

    /// Ends it where an error could not be handled. Whether the memory is the host's alone again.
    fn end(&mut self) -> bool {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: this registered the memory, once; whoever used it on the device has waited.
        let end = || unsafe { sys::cuMemHostUnregister(start) };
        std::mem::take(&mut self.bytes) == 0 || self.context.release(end)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// A vector that is page-locked where it is.
///
/// Registering takes about as long as copying, so it is for memory that is copied many times, or too
/// large to have twice. Memory that is only borrowed is registered by
/// [`HostScope::register`](super::HostScope::register).
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu, RegisteredVec};
///
/// let gpu = Gpu::new()?;
/// let mut device = DeviceBuffer::<f32>::zeroed(&gpu, 1000)?;
/// let samples = RegisteredVec::new(&gpu, vec![0.5f32; 1000])?;
/// let samples = device.copy_from_pinned_async(&gpu, samples)?.wait()?;
/// let samples: Vec<f32> = samples.into_vec()?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct RegisteredVec<T: Pod> {
    registration: Registration,
    values: ManuallyDrop<Vec<T>>,
}

impl<T: Pod> RegisteredVec<T> {
    /// Page-locks `values`, for every device of the process.
    ///
    /// # Errors
    /// [`GpuError::AlreadyRegistered`], or what the driver answers; `values` are dropped then.
    pub fn new(on: &impl AsStream, mut values: Vec<T>) -> GpuResult<Self> {
        let all: *mut [T] = values.as_mut_slice();
        // SAFETY: the vector is owned beside the registration, never grows, and is dropped later.
        let registration =
            unsafe { Registration::new(on.as_stream().inner().context(), all, false)? };
        Ok(Self { registration, values: ManuallyDrop::new(values) })
    }

    /// The vector, page-locked no longer.
    ///
    /// # Errors
    /// What the driver answers; the vector is then dropped, or never freed if the driver still knows it.
    pub fn into_vec(mut self) -> GpuResult<Vec<T>> {
        self.registration.end_or_tell()?;
        let mut this = ManuallyDrop::new(self);
        // SAFETY: neither is used again, since `this` is not dropped.
        unsafe {
            std::ptr::drop_in_place(&mut this.registration);
            Ok(ManuallyDrop::take(&mut this.values))
        }
    }
}

impl<T: Pod> Drop for RegisteredVec<T> {
    /// Memory that the driver still holds must not be another's, so it is never freed.
    fn drop(&mut self) {
        if self.registration.end() {
            // SAFETY: this is the end of `self`.
            unsafe { ManuallyDrop::drop(&mut self.values) };
        }
    }
}

impl<T: Pod> Deref for RegisteredVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Pod> DerefMut for RegisteredVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T: Pod> fmt::Debug for RegisteredVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredVec({:p}, {} elements)", self.values.as_ptr(), self.values.len())
    }
}

// SAFETY: the vector's memory stays where it is, since nothing grows it, and only its owner reaches
// it.
unsafe impl<T: Pod> PinnedSource<T> for RegisteredVec<T> {
    fn source(&self) -> *const [T] {
        self.values.as_slice()
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> PinnedTarget<T> for RegisteredVec<T> {
    fn target(&mut self) -> *mut [T] {
        self.values.as_mut_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpu;

    /// A range that begins in page-locked memory and ends beyond it is not page-locked memory.
    #[test]
    fn a_range_is_known_to_the_driver_if_its_first_and_last_byte_are() {
        let gpu = Gpu::new().unwrap();
        let context = gpu.as_stream().inner().context();
        let memory = vec![0_u8; 4 * PAGE_BYTES];
        let start = memory.as_ptr().addr().next_multiple_of(PAGE_BYTES);
        let pages = start - memory.as_ptr().addr();
        let locked: *const [u8] = &memory[pages..][..2 * PAGE_BYTES];
        // SAFETY: the vector outlives the registration, and nothing writes it.
        let _registration = unsafe { Registration::new(context, locked, false) }.unwrap();
        let is_known = |from: usize, bytes: usize| {
            let address = (start + from) as u64;
            HostPointerInfo::of(context, address, bytes).unwrap().to_driver
        };
        assert!(is_known(0, 2 * PAGE_BYTES) && is_known(PAGE_BYTES, PAGE_BYTES));
        assert!(!is_known(PAGE_BYTES, PAGE_BYTES + 1));
    }
}
