//! Memory of the caller, as memory of the library.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use ferrowarp::memory::resource::{AllocationRequest, MemoryResource, StreamRef, kind};
use ferrowarp::{DeviceBuffer, DeviceSlice, DeviceSliceMut, GpuResult, Stream};

/// Where a buffer of the library begins: at a multiple of this many bytes, as all allocations do.
pub(crate) const BUFFER_ALIGN: usize = 256;

/// Elements in memory of the caller, for one call or as long as the caller promises.
pub struct Lent<T> {
    /// From the last multiple of [`BUFFER_ALIGN`] on. The bytes before the elements are never used: they are only named.
    bytes: DeviceBuffer<u8>,
    front_bytes: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Lent<T> {
    /// `len` elements at an address that is a multiple of their alignment.
    ///
    /// # Safety
    /// As long as this value lives, and until `stream` has done what was enqueued on it meanwhile, the elements are there, and other code uses
    /// them only in work that the stream waits for, or that waits for the stream. What is not written holds values.
    pub unsafe fn new(stream: &Stream, address: usize, len: usize) -> GpuResult<Self> {
        let front_bytes = if len == 0 { 0 } else { address % BUFFER_ALIGN };
        let memory = Arc::new(LentMemory { address: (address - front_bytes) as u64 });
        let bytes = front_bytes + len * size_of::<T>();
        // SAFETY: the caller's promise.
        let bytes = unsafe { DeviceBuffer::uninitialized_in(&memory, stream, bytes)? };
        Ok(Self { bytes, front_bytes, elements: PhantomData })
    }

    /// The elements, to be read.
    pub fn get(&self) -> DeviceSlice<'_, T> {
        let elements = self.bytes.slice(self.front_bytes..).cast();
        elements.expect("the address is aligned, and the elements are whole")
    }

    /// The elements, to be written.
    pub fn get_mut(&mut self) -> DeviceSliceMut<'_, T> {
        let elements = self.bytes.slice_mut(self.front_bytes..).into_cast();
        elements.expect("the address is aligned, and the elements are whole")
    }
}

/// `len` elements at a multiple of [`BUFFER_ALIGN`], as a buffer.
///
/// # Safety
/// As [`Lent::new`].
pub unsafe fn buffer<T: Pod>(
    stream: &Stream,
    address: usize,
    len: usize,
) -> GpuResult<DeviceBuffer<T>> {
    // SAFETY: the caller's promise.
    unsafe {
        DeviceBuffer::uninitialized_in(
            &Arc::new(LentMemory { address: address as u64 }),
            stream,
            len,
        )
    }
}

/// The memory of one buffer.
#[derive(Debug)]
struct LentMemory {
    address: u64,
}

// SAFETY: made for one buffer, at an address that is a multiple of 256. That the bytes are there, that nothing else uses those that the
// library does, and that the stream comes after what did, is what `Lent::new` asks for. The caller has the memory back when the stream is done.
unsafe impl MemoryResource for LentMemory {
    type Kind = kind::Device;

    fn allocate(&self, _: &AllocationRequest<'_>) -> GpuResult<u64> {
        Ok(self.address)
    }

    unsafe fn deallocate(&self, _: StreamRef<'_>, _: u64, _: usize) {}
}
