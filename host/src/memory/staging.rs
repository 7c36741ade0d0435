//! Page-locked host memory between the host's own and the device's, owned by copies that do not wait.

use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard};

use bytemuck::Pod;
use cuda_driver::sys;

use super::allocation::check_alignment;
use crate::context::{Context, ContextState, Handle, Slot};
use crate::deferred_frees::{Freed, free_or_defer};
use crate::error::GpuResult;
use crate::lock::lock;

/// How much unused page-locked memory is kept. Allocating and freeing it may stall the device.
const KEPT_BYTES: usize = 64 << 20;
const LEAST_BYTES: usize = 4 << 10;

/// A context's unused page-locked memory: blocks by their size, a power of two.
#[derive(Debug, Default)]
pub(crate) struct StagingCache {
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    free: HashMap<usize, Vec<Handle<u8>>>,
    bytes: usize,
}

impl StagingCache {
    fn of(context: &Context) -> &Self {
        context.state(Slot::PinnedCache, Self::default)
    }

    fn take(&self, bytes: usize) -> Option<Handle<u8>> {
        let mut blocks = self.lock();
        let block = blocks.free.get_mut(&bytes)?.pop()?;
        blocks.bytes -= bytes;
        Some(block)
    }

    /// The block comes back where there is too much already.
    fn give(&self, block: Handle<u8>, bytes: usize) -> Option<Handle<u8>> {
        let mut blocks = self.lock();
        if blocks.bytes + bytes > KEPT_BYTES {
            return Some(block);
        }
        blocks.bytes += bytes;
        blocks.free.entry(bytes).or_default().push(block);
        None
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        lock(&self.blocks)
    }
}

impl ContextState for StagingCache {
    fn close(&self, context: &Context) {
        let all = std::mem::take(&mut *self.lock());
        for block in all.free.into_values().flatten() {
            // SAFETY: no other code has the block.
            context.release(|| unsafe { sys::cuMemFreeHost(block.get().cast()) });
        }
    }
}

/// An array of page-locked memory.
#[derive(Debug)]
pub(crate) struct Staging<T> {
    context: Arc<Context>,
    address: NonNull<T>,
    len: usize,
    /// The size of the whole block; 0 if there is none.
    block_bytes: usize,
}

// SAFETY: the memory is owned like a `Vec`'s, and the driver may be called from any thread.
unsafe impl<T: Send> Send for Staging<T> {}
// SAFETY: as above; shared, it is only read.
unsafe impl<T: Sync> Sync for Staging<T> {}

impl<T: Pod> Staging<T> {
    /// `len` elements of any value.
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let bytes = len.saturating_mul(size_of::<T>());
        let (address, block_bytes) = match bytes {
            0 => (NonNull::dangling(), 0),
            bytes => {
                let whole = bytes.max(LEAST_BYTES).checked_next_power_of_two().unwrap_or(bytes);
                (block(context, whole)?.cast(), whole)
            }
        };
        Ok(Self { context: context.clone(), address, len, block_bytes })
    }

    /// Makes all values zero.
    pub(crate) fn clear(&mut self) {
        // SAFETY: there is room for `len` values, and zero is a value of every `Pod` type. Nobody has
        // the memory but the owner, which lends it to no copy now.
        unsafe { self.address.write_bytes(0, self.len) };
    }

    /// The values, where no copy writes them.
    ///
    /// # Safety
    /// The device writes none of them while the slice lives.
    pub(crate) unsafe fn as_slice(&self) -> &[T] {
        // SAFETY: there are `len` values; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }

    /// The values, where no copy uses them.
    ///
    /// # Safety
    /// The device neither reads nor writes them while the slice lives.
    pub(crate) unsafe fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: there are `len` values; the rest is the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Queues a copy to the device.
    ///
    /// # Safety
    /// The stream is one of this context. Device memory of as many values at `address` is in its order and is borrowed by
    /// no other code; `self` lives and is not written until the copy is done.
    pub(crate) unsafe fn upload(&self, stream: sys::CUstream, address: u64) -> GpuResult<()> {
        if self.bytes() == 0 {
            return Ok(());
        }
        self.context.call("cuMemcpyHtoDAsync", || {
            let source = self.address.as_ptr().cast();
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, source, self.bytes(), stream) }
        })
    }

    /// Queues a copy from the device.
    ///
    /// # Safety
    /// The stream is one of this context. Device memory of as many values at `address` is in its order; `self` lives and
    /// nobody looks at it until the copy is done.
    pub(crate) unsafe fn download(&self, stream: sys::CUstream, address: u64) -> GpuResult<()> {
        if self.bytes() == 0 {
            return Ok(());
        }
        self.context.call("cuMemcpyDtoHAsync", || {
            let target = self.address.as_ptr().cast();
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemcpyDtoHAsync_v2(target, address, self.bytes(), stream) }
        })
    }
}

impl<T> Staging<T> {
    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for Staging<T> {
    fn drop(&mut self) {
        if self.block_bytes == 0 {
            return;
        }
        let block = Handle(self.address.as_ptr().cast());
        if let Some(block) = StagingCache::of(&self.context).give(block, self.block_bytes) {
            // Copies that use it keep it until they are done.
            let start = Handle(block.get().cast());
            free_or_defer(&self.context, Freed::Host(start), self.block_bytes);
        }
    }
}

/// An unused block, or a new one. All its bytes are initialised.
fn block(context: &Arc<Context>, bytes: usize) -> GpuResult<NonNull<u8>> {
    if let Some(block) =
        StagingCache::of(context).take(bytes).and_then(|block| NonNull::new(block.get()))
    {
        return Ok(block);
    }
    let mut address = ptr::null_mut();
    context.call("cuMemHostAlloc", || {
        // SAFETY: `address` is writable.
        unsafe { sys::cuMemHostAlloc(&mut address, bytes, 0) }
    })?;
    let address = NonNull::new(address.cast()).expect("the driver gave memory, not null");
    // SAFETY: the block has as many bytes, and nobody else knows of it.
    unsafe { address.write_bytes(0, bytes) };
    Ok(address)
}
