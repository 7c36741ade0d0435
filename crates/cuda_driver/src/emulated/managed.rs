//! Advice about managed memory, and what an address is.
#![allow(non_snake_case)]

use std::ffi::c_void;

use super::allocations::{Block, Kind, containing, memory};
use super::current::current;
use super::queue::Work;
use super::{check_flags, invalid, stream};
use crate::abi::{CUcontext, CUdevice, CUdeviceptr, CUstream, MemLocation, Out};
use crate::codes::{CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

/// The number that stands for the host where a device is asked for.
const HOST: CUdevice = -1;

/// Advice moves pages on a GPU; here all memory is near, so it is only checked.
pub(crate) fn cuMemAdvise(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    device: CUdevice,
) -> Answer {
    current()?;
    check_managed(address, bytes)?;
    match advice {
        1 | 2 | 4 => Ok(()),
        3 | 5 | 6 => check_place(device),
        _ => Err(invalid(format!("{advice} is no advice; there are 1 to 6"))),
    }
}

/// As with advice there is nothing to move, but it keeps its place in the stream.
pub(crate) fn cuMemPrefetchAsync(
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    check_managed(address, bytes)?;
    check_place(device)?;
    context.queue.submit(&context, stream.line(), Work::new(|| Ok(()))).map(drop)
}

pub(crate) fn cuMemAdvise_v2(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    place: MemLocation,
) -> Answer {
    // Three kinds of advice name no place, and may come with any.
    let device = if matches!(advice, 1 | 2 | 4) { HOST } else { device_of(place)? };
    cuMemAdvise(address, bytes, advice, device)
}

pub(crate) fn cuMemPrefetchAsync_v2(
    address: CUdeviceptr,
    bytes: usize,
    place: MemLocation,
    flags: u32,
    stream: CUstream,
) -> Answer {
    check_flags(flags, 0)?;
    cuMemPrefetchAsync(address, bytes, device_of(place)?, stream)
}

/// The device, or the host: all of its memory nodes are one here.
fn device_of(place: MemLocation) -> Answer<CUdevice> {
    match place.kind {
        1 => Ok(place.id),
        2..=4 => Ok(HOST),
        kind => Err(invalid(format!("{kind} is no kind of place; there are 1 to 4"))),
    }
}

fn check_managed(address: CUdeviceptr, bytes: usize) -> Answer {
    if bytes == 0 {
        return Err(invalid("no bytes"));
    }
    memory()?.check(address, bytes as u64)?;
    match containing(address)?.kind {
        Kind::Managed => Ok(()),
        kind => Err(invalid(format!("{address:#x} is {kind:?} memory, not managed"))),
    }
}

fn check_place(device: CUdevice) -> Answer {
    match device {
        HOST | 0 => Ok(()),
        _ => Err(Failure::new(CUDA_ERROR_INVALID_DEVICE, format!("there is no device {device}"))),
    }
}

pub(crate) fn cuPointerGetAttribute(
    value: Out<c_void>,
    attribute: i32,
    address: CUdeviceptr,
) -> Answer {
    let block = containing(address)?;
    match attribute {
        1 => value.cast::<CUcontext>().set(block.context.as_ptr()),
        2 => value.cast::<u32>().set(memory_type(&block)),
        3 => value.cast::<CUdeviceptr>().set(address),
        4 => host_pointer(value, &block, address),
        6 => value.cast::<i32>().set(0),
        7 => value.cast::<u64>().set(block.base),
        8 => value.cast::<i32>().set((block.kind == Kind::Managed).into()),
        9 => value.cast::<i32>().set(0),
        11 => value.cast::<CUdeviceptr>().set(block.base),
        12 => value.cast::<usize>().set(block.bytes as usize),
        13 => value.cast::<i32>().set(1),
        _ => Err(Failure::new(
            CUDA_ERROR_NOT_SUPPORTED,
            format!("the emulator does not know pointer attribute {attribute}"),
        )),
    }
}

/// The API's numbers: 1 host, 2 device, which managed memory counts as.
fn memory_type(block: &Block) -> u32 {
    if block.kind.is_host() { 1 } else { 2 }
}

fn host_pointer(value: Out<c_void>, block: &Block, address: CUdeviceptr) -> Answer {
    match block.kind {
        Kind::Device | Kind::Pooled => {
            Err(invalid(format!("{address:#x} is device memory; the host has no pointer to it")))
        }
        _ => value.cast::<u64>().set(address),
    }
}
