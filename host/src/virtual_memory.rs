//! The driver's virtual memory: addresses are reserved first, and memory is mapped at them later, piece by piece.

use cuda_driver::sys;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};

/// A range of reserved addresses, as large as the device's memory. Memory is mapped at its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    address: u64,
    bytes: usize,
    /// What is mapped is a multiple of this.
    page_bytes: usize,
}

impl Reservation {
    /// Reserves addresses. `None` where the device has no virtual memory, or no more addresses.
    pub(crate) fn new(context: &Context) -> GpuResult<Option<Self>> {
        if !context.info().virtual_memory {
            return Ok(None);
        }
        match Self::reserve(context) {
            Ok(range) => Ok(Some(range)),
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reserve(context: &Context) -> GpuResult<Self> {
        let page_bytes = page_bytes(context)?;
        let bytes = context.info().total_memory_bytes.next_multiple_of(page_bytes);
        let mut address = 0;
        context.call_uncounted("cuMemAddressReserve", || {
            // SAFETY: `address` is writable; no address is asked for, and no flags are defined.
            unsafe { sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0) }
        })?;
        Ok(Self { address, bytes, page_bytes })
    }

    /// The first address.
    pub(crate) fn address(self) -> u64 {
        self.address
    }

    /// How many bytes have to be mapped for `bytes`; `None` if there are fewer addresses.
    pub(crate) fn whole_pages(self, bytes: usize) -> Option<usize> {
        bytes.checked_next_multiple_of(self.page_bytes).filter(|bytes| *bytes <= self.bytes)
    }

    /// Maps new memory at the addresses from `mapped` up to `end`, in bytes from the first one. Work on the memory
    /// before them may run meanwhile.
    ///
    /// # Errors
    /// The driver's, out of memory for one; nothing is mapped then.
    pub(crate) fn map(self, context: &Context, mapped: usize, end: usize) -> GpuResult<()> {
        let (at, bytes) = (self.address + mapped as u64, end - mapped);
        let memory = Physical::new(context, bytes)?;
        context.call_uncounted("cuMemMap", || {
            // SAFETY: the addresses are reserved and nothing is mapped there; the handle is a live one of this size.
            unsafe { sys::cuMemMap(at, bytes, 0, memory.handle, 0) }
        })?;
        set_access(context, at, bytes, context.info().ordinal).inspect_err(|_| {
            // SAFETY: it was mapped just now, and no work knows of it.
            context.release(|| unsafe { sys::cuMemUnmap(at, bytes) });
        })
    }

    /// Lets kernels of the device of that number reach the first `mapped` bytes.
    pub(crate) fn open_to(self, context: &Context, peer: u32, mapped: usize) -> GpuResult<()> {
        set_access(context, self.address, mapped, peer)
    }

    /// Gives memory and addresses back.
    ///
    /// # Safety
    /// The first `mapped` bytes are mapped. No work uses them any more, and nothing uses this range again.
    pub(crate) unsafe fn free(self, context: &Context, mapped: usize) {
        // SAFETY: the caller's promise; the handles were released before, so that the memory goes with its mapping.
        let unmap = || unsafe { sys::cuMemUnmap(self.address, mapped) };
        if mapped == 0 || context.release(unmap) {
            // SAFETY: the whole range as it was reserved, in which nothing is mapped.
            context.release(|| unsafe { sys::cuMemAddressFree(self.address, self.bytes) });
        }
    }
}

/// Whether the driver has no virtual memory, or no more addresses.
fn is_refusal(error: &GpuError) -> bool {
    const OUT_OF_MEMORY: u32 = 2;
    const NOT_SUPPORTED: u32 = 801;
    let code = error.driver().map(|driver| driver.code());
    matches!(code, Some(OUT_OF_MEMORY | NOT_SUPPORTED))
}

/// The unit in which memory is mapped on the context's device.
fn page_bytes(context: &Context) -> GpuResult<usize> {
    const MINIMUM: i32 = 0;
    let (mut bytes, properties) = (0, properties(context));
    context.call_uncounted("cuMemGetAllocationGranularity", || {
        // SAFETY: `bytes` is writable, and the properties are complete.
        unsafe { sys::cuMemGetAllocationGranularity(&mut bytes, &properties, MINIMUM) }
    })?;
    Ok(bytes)
}

fn set_access(context: &Context, at: u64, bytes: usize, device: u32) -> GpuResult<()> {
    let access =
        sys::MemAccess { location: location(device), flags: sys::mem_access::PROT_READWRITE };
    context.call_uncounted("cuMemSetAccess", || {
        // SAFETY: memory is mapped in all of the range, and there is one description.
        unsafe { sys::cuMemSetAccess(at, bytes, &access, 1) }
    })
}

/// Memory without an address. A mapping keeps it.
struct Physical<'a> {
    context: &'a Context,
    handle: u64,
}

impl<'a> Physical<'a> {
    fn new(context: &'a Context, bytes: usize) -> GpuResult<Self> {
        let (mut handle, properties) = (0, properties(context));
        context.call_uncounted("cuMemCreate", || {
            // SAFETY: `handle` is writable, the properties are complete, and no flags are defined.
            unsafe { sys::cuMemCreate(&mut handle, bytes, &properties, 0) }
        })?;
        Ok(Self { context, handle })
    }
}

impl Drop for Physical<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's own and is not used again.
        self.context.release(|| unsafe { sys::cuMemRelease(self.handle) });
    }
}

/// Of memory of the context's device, for this process alone.
fn properties(context: &Context) -> sys::AllocationProp {
    sys::AllocationProp {
        kind: sys::mem_allocation_type::PINNED,
        handle_types: 0,
        location: location(context.info().ordinal),
        security: std::ptr::null_mut(),
        flags: [0; 8],
    }
}

fn location(ordinal: u32) -> sys::MemLocation {
    sys::MemLocation { kind: sys::mem_location_type::DEVICE, id: ordinal as i32 }
}
