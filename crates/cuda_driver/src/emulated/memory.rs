//! Allocating and freeing.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{self, Block, Kind, add, allocate, containing, take};
use super::current::{Context, current};
use super::graph_memory::{self, FreeMemory, GraphMemory};
use super::queue::Work;
use super::registry::Handle;
use super::{capture, check_flags, invalid, managed, order, pool, stream};
use crate::abi::{CUdeviceptr, CUobject, CUstream, HostPtr, Out};
use crate::detail::Answer;

/// Portable, mapped, write-combined.
const HOST_FLAGS: u32 = 0x7;
/// Portable, mapped, a device's registers, only read.
const REGISTER_FLAGS: u32 = 0xf;
/// Rows of a pitched allocation begin at multiples of this, as on current devices.
const PITCH_BYTES: usize = 512;

pub(crate) fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Answer {
    let context = current()?;
    let (free_bytes, total_bytes) = context.gpu.memory().info();
    free.set(free_bytes as usize)?;
    total.set(total_bytes as usize)
}

pub(crate) fn cuMemAlloc_v2(address: Out<CUdeviceptr>, bytes: usize) -> Answer {
    let context = current()?;
    capture::check_unsafe()?;
    address.check()?;
    address.set(allocate(Kind::Device, bytes, 0, &context)?)
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
    capture::check_unsafe()?;
    address.check()?;
    address.set(allocate(Kind::Managed, bytes, flags, &context)?)
}

/// Waits for all work of the context first, so that no kernel loses memory under its feet.
pub(crate) fn cuMemFree_v2(address: CUdeviceptr) -> Answer {
    let context = current()?;
    if address == 0 {
        return Ok(());
    }
    capture::check_unsafe()?;
    if let Some(memory) = graph_memory::at(address) {
        context.queue.wait_all();
        return memory.end();
    }
    let block = take(address, &[Kind::Device, Kind::Pooled, Kind::Managed])?;
    context.queue.wait_all();
    if block.kind == Kind::Managed {
        managed::forget(block.base);
    }
    block.release()?;
    context.check()
}

pub(crate) fn cuMemAllocAsync(address: Out<CUdeviceptr>, bytes: usize, stream: CUstream) -> Answer {
    let (context, _) = stream::named(stream)?;
    allocate_in_order(address, bytes, pool::current_of(context.gpu), stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    address: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUobject,
    stream: CUstream,
) -> Answer {
    allocate_in_order(address, bytes, pool.into(), stream)
}

/// No bytes are the null address here, and not an error as they are for plain memory. In a stream
/// whose work goes to a graph, the graph gets the memory.
fn allocate_in_order(
    address: Out<CUdeviceptr>,
    bytes: usize,
    pool: Handle,
    stream: CUstream,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    if bytes == 0 {
        return address.set(0);
    }
    address.check()?;
    if !stream.is_capturing() {
        capture::check_unsafe_on(&context, &stream)?;
        let base = pool::allocate(pool, bytes, &context)?;
        let work = move || {
            let what = format!("allocation of {bytes} bytes at {base:#x} in its order");
            order::begin(what, vec![(Area::row(base, bytes as u64), true)])
        };
        if order::is_kept() {
            context.submit(stream.line(), Work::new(work))?;
        }
        return address.set(base);
    }
    let memory = GraphMemory::new(bytes, &context)?;
    stream::enqueue(&context, &stream, memory.clone())?;
    address.set(memory.address)
}

pub(crate) fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
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
    let block = take(address, &[Kind::Device, Kind::Pooled])?;
    let work = Work::new(move || {
        order::begin(
            format!("cuMemFreeAsync of the {} bytes at {:#x}", block.bytes, block.base),
            vec![(Area::row(block.base, block.bytes), true)],
        )?;
        block.release()
    });
    context.submit(stream.line(), work).map(drop)
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
    capture::check_unsafe()?;
    pointer.check()?;
    let base = allocate(Kind::Host, bytes, flags, &context)?;
    pointer.set(std::ptr::with_exposed_provenance_mut(base as usize))
}

pub(crate) fn cuMemFreeHost(pointer: HostPtr) -> Answer {
    let context = current()?;
    if pointer.address() == 0 {
        return Ok(());
    }
    capture::check_unsafe()?;
    let block = take(pointer.address(), &[Kind::Host])?;
    end_pinned(&context, &block, "cuMemFreeHost")
}

/// Pinned memory is the host's alone again. The race check wants the host to have waited for what the
/// device did with it.
fn end_pinned(context: &Context, block: &Block, function: &str) -> Answer {
    context.queue.wait_all_unseen();
    let what = format!("{function} of the {} bytes at {:#x}", block.bytes, block.base);
    let touched = order::host_touches(what, block.base, block.bytes);
    context.queue.wait_all();
    block.release()?;
    if let Err(race) = touched {
        context.gpu.lose(race);
    }
    context.check()
}

pub(crate) fn cuMemHostRegister_v2(pointer: HostPtr, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    check_flags(flags, REGISTER_FLAGS)?;
    capture::check_unsafe()?;
    let (base, bytes) = (pointer.0.expose_provenance() as u64, bytes as u64);
    // SAFETY: by the API's contract the caller keeps the memory until it unregisters it, and
    // orders its own uses with those of kernels and copies.
    unsafe { context.gpu.memory().register(base, bytes) }?;
    add(Block::new(base, bytes, Kind::Registered, flags, &context));
    Ok(())
}

pub(crate) fn cuMemHostUnregister(pointer: HostPtr) -> Answer {
    let context = current()?;
    capture::check_unsafe()?;
    let block = take(pointer.address(), &[Kind::Registered])?;
    end_pinned(&context, &block, "cuMemHostUnregister")
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
