//! Memory allocation.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{self, Allocation, MemoryKind, add, allocate, containing, remove};
use super::current::{Context, current};
use super::graph_memory::{self, FreeMemory, GraphMemory};
use super::queue::Task;
use super::registry::Handle;
use super::{capture, check_flags, happens_before, invalid_value, managed, pool, stream};
use crate::abi::{CUdeviceptr, CUmemoryPool, CUstream, HostPtr, Out};
use crate::detail::DriverResult;

/// Flags of pinned memory: portable, mapped, write-combined.
const HOST_FLAGS: u32 = 0x7;
/// Page-locked memory has an address on the device.
const MAPPED: u32 = 0x2;
/// Flags of registered memory: portable, mapped, I/O memory, read-only.
const REGISTER_FLAGS: u32 = 0xf;
/// The alignment of the rows of a pitched allocation, as on current devices.
const PITCH_BYTES: usize = 512;

pub(crate) fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> DriverResult {
    let context = current()?;
    let (free_bytes, total_bytes) = context.gpu.memory().info();
    free.set(free_bytes as usize)?;
    total.set(total_bytes as usize)
}

pub(crate) fn cuMemAlloc_v2(address: Out<CUdeviceptr>, bytes: usize) -> DriverResult {
    let context = current()?;
    capture::check_unsafe()?;
    address.check()?;
    address.set(allocate(MemoryKind::Device, bytes, 0, &context)?)
}

pub(crate) fn cuMemAllocPitch_v2(
    address: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width_bytes: usize,
    height: usize,
    element_bytes: u32,
) -> DriverResult {
    if !matches!(element_bytes, 4 | 8 | 16) {
        return Err(invalid_value(format!(
            "an element of {element_bytes} bytes; it may have 4, 8 or 16"
        )));
    }
    let too_large = || invalid_value(format!("{height} rows of {width_bytes} bytes are too large"));
    let row = width_bytes.checked_next_multiple_of(PITCH_BYTES).ok_or_else(too_large)?;
    let bytes = row.checked_mul(height).ok_or_else(too_large)?;
    pitch.check()?;
    cuMemAlloc_v2(address, bytes)?;
    pitch.set(row)
}

pub(crate) fn cuMemAllocManaged(
    address: Out<CUdeviceptr>,
    bytes: usize,
    flags: u32,
) -> DriverResult {
    let context = current()?;
    if !matches!(flags, 1 | 2) {
        return Err(invalid_value(format!(
            "flags {flags:#x}; managed memory is attached globally (1) or to the host (2)"
        )));
    }
    capture::check_unsafe()?;
    address.check()?;
    address.set(allocate(MemoryKind::Managed, bytes, flags, &context)?)
}

/// Waits for all tasks of the context first, so that no running kernel loses its memory.
pub(crate) fn cuMemFree_v2(address: CUdeviceptr) -> DriverResult {
    let context = current()?;
    if address == 0 {
        return Ok(());
    }
    capture::check_unsafe()?;
    if let Some(memory) = graph_memory::at(address) {
        context.streams.wait_all();
        return memory.end();
    }
    let allocation =
        remove(address, &[MemoryKind::Device, MemoryKind::Pooled, MemoryKind::Managed])?;
    context.streams.wait_all();
    if allocation.kind == MemoryKind::Managed {
        managed::forget(allocation.base);
    }
    allocation.release()?;
    context.check()
}

pub(crate) fn cuMemAllocAsync(
    address: Out<CUdeviceptr>,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    let (context, _) = stream::from_handle(stream)?;
    allocate_in_order(address, bytes, pool::current_of(context.gpu), stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    address: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> DriverResult {
    allocate_in_order(address, bytes, pool.into(), stream)
}

/// Zero bytes give the null address, and are not an error as they are for `cuMemAlloc`. In a stream
/// that is being captured, the graph owns the memory.
fn allocate_in_order(
    address: Out<CUdeviceptr>,
    bytes: usize,
    pool: Handle,
    stream: CUstream,
) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    if bytes == 0 {
        return address.set(0);
    }
    address.check()?;
    if !stream.is_capturing() {
        capture::check_unsafe_on(&context, &stream)?;
        let base = pool::allocate(pool, bytes, &context)?;
        let begin = move || {
            let what = format!("allocation of {bytes} bytes at {base:#x}");
            happens_before::begin_access(what, vec![(Area::row(base, bytes as u64), true)])
        };
        if happens_before::is_tracked() {
            context.enqueue(stream.queue(), Task::new(begin))?;
        }
        return address.set(base);
    }
    let memory = GraphMemory::new(bytes, &context)?;
    stream::enqueue(&context, &stream, memory.clone())?;
    address.set(memory.address)
}

pub(crate) fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    if address == 0 {
        return Ok(());
    }
    if stream.is_capturing() {
        containing(address)?;
        return stream::enqueue(&context, &stream, Arc::new(FreeMemory(address)));
    }
    capture::check_unsafe_on(&context, &stream)?;
    if let Some(memory) = graph_memory::at(address) {
        return memory.end();
    }
    let allocation = remove(address, &[MemoryKind::Device, MemoryKind::Pooled])?;
    let task = Task::new(move || {
        happens_before::begin_access(
            format!("cuMemFreeAsync of the {} bytes at {:#x}", allocation.bytes, allocation.base),
            vec![(Area::row(allocation.base, allocation.bytes), true)],
        )?;
        allocation.release()
    });
    context.enqueue(stream.queue(), task).map(drop)
}

pub(crate) fn cuMemAllocHost_v2(pointer: Out<*mut c_void>, bytes: usize) -> DriverResult {
    cuMemHostAlloc(pointer, bytes, 0)
}

/// Zero bytes give a null pointer, and are not an error as they are for device memory.
pub(crate) fn cuMemHostAlloc(pointer: Out<*mut c_void>, bytes: usize, flags: u32) -> DriverResult {
    let context = current()?;
    check_flags(flags, HOST_FLAGS)?;
    if bytes == 0 {
        return pointer.set(std::ptr::null_mut());
    }
    capture::check_unsafe()?;
    pointer.check()?;
    let base = allocate(MemoryKind::Host, bytes, flags, &context)?;
    pointer.set(std::ptr::with_exposed_provenance_mut(base as usize))
}

pub(crate) fn cuMemFreeHost(pointer: HostPtr) -> DriverResult {
    let context = current()?;
    if pointer.address() == 0 {
        return Ok(());
    }
    capture::check_unsafe()?;
    let allocation = remove(pointer.address(), &[MemoryKind::Host])?;
    end_pinned(&context, &allocation, "cuMemFreeHost")
}

/// Ends the use of pinned memory by the device. To the race check, the host must have waited for
/// what the device did with it.
fn end_pinned(context: &Context, allocation: &Allocation, function: &str) -> DriverResult {
    context.streams.wait_all_without_ordering();
    let what = format!("{function} of the {} bytes at {:#x}", allocation.bytes, allocation.base);
    let touched = happens_before::check_host_access(what, allocation.base, allocation.bytes);
    context.streams.wait_all();
    allocation.release()?;
    if let Err(race) = touched {
        context.gpu.lose(race);
    }
    context.check()
}

pub(crate) fn cuMemHostRegister_v2(pointer: HostPtr, bytes: usize, flags: u32) -> DriverResult {
    let context = current()?;
    check_flags(flags, REGISTER_FLAGS)?;
    capture::check_unsafe()?;
    let (base, bytes) = (pointer.0.expose_provenance() as u64, bytes as u64);
    // SAFETY: by the API's contract the caller keeps the memory until it unregisters it, and
    // orders its own uses with those of kernels and copies.
    unsafe { context.gpu.memory().register(base, bytes) }?;
    add(Allocation::new(base, bytes, MemoryKind::Registered, flags, &context));
    Ok(())
}

pub(crate) fn cuMemHostUnregister(pointer: HostPtr) -> DriverResult {
    let context = current()?;
    capture::check_unsafe()?;
    let allocation = remove(pointer.address(), &[MemoryKind::Registered])?;
    end_pinned(&context, &allocation, "cuMemHostUnregister")
}

/// The pinned allocation that contains `pointer`.
fn pinned_allocation(pointer: HostPtr) -> DriverResult<Allocation> {
    let allocation = containing(pointer.address())?;
    if allocation.kind.is_host() {
        return Ok(allocation);
    }
    Err(invalid_value(format!(
        "{:#x} is {:?} memory, not the host's",
        pointer.address(),
        allocation.kind
    )))
}

/// On this device, host and kernels use one address for a byte.
pub(crate) fn cuMemHostGetDevicePointer_v2(
    address: Out<CUdeviceptr>,
    pointer: HostPtr,
    flags: u32,
) -> DriverResult {
    current()?;
    check_flags(flags, 0)?;
    pinned_allocation(pointer)?;
    address.set(pointer.address())
}

pub(crate) fn cuMemHostGetFlags(flags: Out<u32>, pointer: HostPtr) -> DriverResult {
    current()?;
    // As NVIDIA's driver answers: all of it is mapped, and a read-only registration is not told.
    flags.set(pinned_allocation(pointer)?.flags & HOST_FLAGS | MAPPED)
}

pub(crate) fn cuMemGetAddressRange_v2(
    base: Out<CUdeviceptr>,
    bytes: Out<usize>,
    address: CUdeviceptr,
) -> DriverResult {
    current()?;
    let allocation = allocations::containing(address)?;
    base.set_if_wanted(allocation.base);
    bytes.set_if_wanted(allocation.bytes as usize);
    Ok(())
}
