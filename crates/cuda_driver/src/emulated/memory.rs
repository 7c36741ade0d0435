//! Allocating and freeing.
#![allow(non_snake_case)]

use std::ffi::c_void;

use super::allocations::{self, Block, Kind, add, allocate, containing, memory, take};
use super::current::current;
use super::queue::Work;
use super::{check_flags, invalid, stream};
use crate::abi::{CUdeviceptr, CUstream, HostPtr, Out};
use crate::detail::Answer;

/// Portable, mapped, write-combined.
const HOST_FLAGS: u32 = 0x7;
/// Portable, mapped, a device's registers, only read.
const REGISTER_FLAGS: u32 = 0xf;
/// Rows of a pitched allocation begin at multiples of this, as on current devices.
const PITCH_BYTES: usize = 512;

pub(crate) fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Answer {
    current()?;
    let (free_bytes, total_bytes) = memory()?.info();
    free.set(free_bytes as usize)?;
    total.set(total_bytes as usize)
}

pub(crate) fn cuMemAlloc_v2(address: Out<CUdeviceptr>, bytes: usize) -> Answer {
    let context = current()?;
    address.check()?;
    address.set(allocate(Kind::Device, bytes, 0, context.handle)?)
}

pub(crate) fn cuMemAllocPitch_v2(
    address: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width_bytes: usize,
    height: usize,
    element_bytes: u32,
) -> Answer {
    if !matches!(element_bytes, 4 | 8 | 16) {
        return Err(invalid(format!(
            "an element of {element_bytes} bytes; it may have 4, 8 or 16"
        )));
    }
    let too_large = || invalid(format!("{height} rows of {width_bytes} bytes are too many"));
    let row = width_bytes.checked_next_multiple_of(PITCH_BYTES).ok_or_else(too_large)?;
    let bytes = row.checked_mul(height).ok_or_else(too_large)?;
    pitch.check()?;
    cuMemAlloc_v2(address, bytes)?;
    pitch.set(row)
}

pub(crate) fn cuMemAllocManaged(address: Out<CUdeviceptr>, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    if !matches!(flags, 1 | 2) {
        return Err(invalid(format!(
            "flags {flags:#x}; managed memory is attached globally (1) or to the host (2)"
        )));
    }
    address.check()?;
    address.set(allocate(Kind::Managed, bytes, flags, context.handle)?)
}

/// Waits for all work of the context first, so that no kernel loses memory under its feet.
pub(crate) fn cuMemFree_v2(address: CUdeviceptr) -> Answer {
    let context = current()?;
    if address == 0 {
        return Ok(());
    }
    let block = take(address, &[Kind::Device, Kind::Pooled, Kind::Managed])?;
    context.queue.wait_all();
    block.release()?;
    context.check()
}

/// No bytes are the null address here, and not an error as they are for plain memory.
pub(crate) fn cuMemAllocAsync(address: Out<CUdeviceptr>, bytes: usize, stream: CUstream) -> Answer {
    let (context, _) = stream::named(stream)?;
    if bytes == 0 {
        return address.set(0);
    }
    address.check()?;
    address.set(allocate(Kind::Pooled, bytes, 0, context.handle)?)
}

pub(crate) fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
    if address == 0 {
        return Ok(());
    }
    let block = take(address, &[Kind::Device, Kind::Pooled])?;
    let work = Work::new(move || block.release());
    context.queue.submit(&context, stream.line(), work).map(drop)
}

pub(crate) fn cuMemAllocHost_v2(pointer: Out<*mut c_void>, bytes: usize) -> Answer {
    cuMemHostAlloc(pointer, bytes, 0)
}

/// No bytes are a null pointer here, and not an error as they are for device memory.
pub(crate) fn cuMemHostAlloc(pointer: Out<*mut c_void>, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    check_flags(flags, HOST_FLAGS)?;
    if bytes == 0 {
        return pointer.set(std::ptr::null_mut());
    }
    pointer.check()?;
    let base = allocate(Kind::Host, bytes, flags, context.handle)?;
    pointer.set(std::ptr::with_exposed_provenance_mut(base as usize))
}

pub(crate) fn cuMemFreeHost(pointer: HostPtr) -> Answer {
    let context = current()?;
    if pointer.address() == 0 {
        return Ok(());
    }
    let block = take(pointer.address(), &[Kind::Host])?;
    context.queue.wait_all();
    block.release()?;
    context.check()
}

pub(crate) fn cuMemHostRegister_v2(pointer: HostPtr, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    check_flags(flags, REGISTER_FLAGS)?;
    let (base, bytes) = (pointer.0.expose_provenance() as u64, bytes as u64);
    // SAFETY: by the API's contract the caller keeps the memory until it unregisters it, and
    // orders its own uses with those of kernels and copies.
    unsafe { memory()?.register(base, bytes) }?;
    add(Block { base, bytes, kind: Kind::Registered, flags, context: context.handle });
    Ok(())
}

pub(crate) fn cuMemHostUnregister(pointer: HostPtr) -> Answer {
    let context = current()?;
    let block = take(pointer.address(), &[Kind::Registered])?;
    context.queue.wait_all();
    block.release()?;
    context.check()
}

/// The host's block that `pointer` lies in.
fn host_block(pointer: HostPtr) -> Answer<Block> {
    let block = containing(pointer.address())?;
    if block.kind.is_host() {
        return Ok(block);
    }
    Err(invalid(format!("{:#x} is {:?} memory, not the host's", pointer.address(), block.kind)))
}

/// On this device a byte has one address for host and kernels.
pub(crate) fn cuMemHostGetDevicePointer_v2(
    address: Out<CUdeviceptr>,
    pointer: HostPtr,
    flags: u32,
) -> Answer {
    current()?;
    check_flags(flags, 0)?;
    host_block(pointer)?;
    address.set(pointer.address())
}

pub(crate) fn cuMemHostGetFlags(flags: Out<u32>, pointer: HostPtr) -> Answer {
    current()?;
    flags.set(host_block(pointer)?.flags)
}

pub(crate) fn cuMemGetAddressRange_v2(
    base: Out<CUdeviceptr>,
    bytes: Out<usize>,
    address: CUdeviceptr,
) -> Answer {
    current()?;
    let block = allocations::containing(address)?;
    base.set_if_wanted(block.base);
    bytes.set_if_wanted(block.bytes as usize);
    Ok(())
}
