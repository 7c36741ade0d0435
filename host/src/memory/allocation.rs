//! One allocation of the driver, and when it is given back.

use std::sync::Arc;

use cust::sys;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::stream::StreamInner;

/// The address of memory of no bytes: not null, aligned like all other memory, never touched.
pub(super) const DANGLING: u64 = 256;

/// Where the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// On the device.
    Device,
    /// Where it is used: the driver moves it.
    Managed,
}

/// Memory of a device, and the stream that orders its uses.
#[derive(Debug)]
pub(super) struct Allocation {
    home: Arc<StreamInner>,
    address: u64,
    bytes: usize,
}

impl Allocation {
    /// Memory for `len` values of `T`, whose bytes are anything.
    pub(super) fn new<T>(home: &Arc<StreamInner>, kind: Kind, len: usize) -> GpuResult<Self> {
        const { assert!(align_of::<T>() as u64 <= DANGLING, "memory is aligned to 256 bytes") };
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| out_of_memory(home.context(), usize::MAX))?;
        let address = if bytes == 0 { DANGLING } else { allocate(home.context(), kind, bytes)? };
        Ok(Self { home: home.clone(), address, bytes })
    }

    pub(super) fn home(&self) -> &Arc<StreamInner> {
        &self.home
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Allocation {
    /// All uses are ordered before the home's end (see `stream`), so waiting for the home is
    /// waiting for the last use.
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.home.settle();
            // SAFETY: the address is this allocation's own and is not used again.
            self.home.context().release(|| unsafe { sys::cuMemFree_v2(self.address) });
        }
    }
}

fn allocate(context: &Context, kind: Kind, bytes: usize) -> GpuResult<u64> {
    let mut address = 0;
    let flags = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as u32;
    let result = match kind {
        Kind::Device => context.call("cuMemAlloc", || {
            // SAFETY: `address` is writable.
            unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }
        }),
        Kind::Managed => context.call("cuMemAllocManaged", || {
            // SAFETY: `address` is writable.
            unsafe { sys::cuMemAllocManaged(&mut address, bytes, flags) }
        }),
    };
    result.map(|()| address).map_err(|error| explain(context, error, bytes))
}

/// Tells how much memory there was if there was too little.
fn explain(context: &Context, error: GpuError, requested: usize) -> GpuError {
    const OUT_OF_MEMORY: u32 = 2;
    match error.driver() {
        Some(driver) if driver.code() == OUT_OF_MEMORY => out_of_memory(context, requested),
        _ => error,
    }
}

fn out_of_memory(context: &Context, requested: usize) -> GpuError {
    let (free, total) = context.memory_info().unwrap_or((0, context.info().total_memory_bytes));
    GpuError::OutOfMemory { requested, free, total }
}
