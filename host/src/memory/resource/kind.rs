//! Which memory a resource has, and when its next owner may use it.

use sealed::Sealed;

use super::{StreamRef, driver};
use crate::error::GpuError;

/// A kind of memory: [`Device`], [`Pinned`] or [`Unified`]. [`MemoryResource`](super::MemoryResource) says what a
/// resource of each promises.
pub trait ResourceKind: Sealed {}

impl<K: Sealed> ResourceKind for K {}

/// Memory of a device, which kernels and copies use in the order of streams.
#[derive(Clone, Copy, Debug)]
pub enum Device {}

/// Page-locked memory of the host, which is the host's when it is allocated and is unused when it is freed.
#[derive(Clone, Copy, Debug)]
pub enum Pinned {}

/// Managed memory, which has one address on host and device. Kernels use it in the order of streams, and the host
/// after a wait for its stream.
#[derive(Clone, Copy, Debug)]
pub enum Unified {}

pub(super) mod sealed {
    use std::fmt;

    use cuda_driver::sys;

    use super::{GpuError, StreamRef, driver};

    /// What the pool and the adaptors do differently for a kind.
    pub trait Sealed: Copy + fmt::Debug + Send + Sync + 'static {
        /// Whether freed memory may still be in use by what its stream has queued. If not, the next owner may have
        /// it without a wait, and uses it at once.
        const IN_STREAM_ORDER: bool = true;

        /// The refusal of a resource without enough memory.
        fn exhausted(stream: StreamRef<'_>, requested: usize) -> GpuError {
            driver::out_of_memory(stream.inner().context(), requested)
        }

        /// The refusal of a limit.
        fn beyond_limit(requested: usize, free: usize, total: usize, peak: usize) -> GpuError {
            GpuError::OutOfMemory { requested, free, total, peak }
        }

        /// Sets each byte, before the next use by the memory's owner.
        ///
        /// # Safety
        /// The memory has as many bytes of this kind, and other code does not use it in the order of the
        /// stream. The stream's context is current.
        unsafe fn fill(
            stream: StreamRef<'_>,
            address: u64,
            byte: u8,
            bytes: usize,
        ) -> sys::CUresult {
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemsetD8Async(address, byte, bytes, stream.inner().handle()) }
        }
    }
}

impl Sealed for Device {}

impl Sealed for Unified {}

impl Sealed for Pinned {
    const IN_STREAM_ORDER: bool = false;

    fn exhausted(_stream: StreamRef<'_>, requested: usize) -> GpuError {
        GpuError::OutOfPinnedMemory { requested, free: None }
    }

    fn beyond_limit(requested: usize, free: usize, _total: usize, _peak: usize) -> GpuError {
        GpuError::OutOfPinnedMemory { requested, free: Some(free) }
    }

    unsafe fn fill(
        _stream: StreamRef<'_>,
        address: u64,
        byte: u8,
        bytes: usize,
    ) -> cuda_driver::sys::CUresult {
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: the caller's promise: the memory is the host's, and has as many bytes.
        unsafe { start.write_bytes(byte, bytes) };
        cuda_driver::sys::CUresult::CUDA_SUCCESS
    }
}
