//! The attributes of pointers.
#![allow(non_snake_case)]

use std::ffi::c_void;

use super::allocations::{Allocation, MemoryKind, change, containing, find};
use super::current::top;
use super::{invalid_value, not_supported, peer, pool};
use crate::abi::{CUcontext, CUdeviceptr, CUmemoryPool, In, Out};
use crate::constants::{memory_type, pointer_attribute as A};
use crate::detail::DriverResult;

pub(crate) fn cuPointerGetAttribute(
    value: Out<c_void>,
    attribute: i32,
    address: CUdeviceptr,
) -> DriverResult {
    value.check()?;
    let allocation = containing(address)?;
    write(value, attribute, address, &allocation)
}

fn write(
    value: Out<c_void>,
    attribute: i32,
    address: CUdeviceptr,
    allocation: &Allocation,
) -> DriverResult {
    let number = value.cast::<i32>();
    match attribute {
        // Memory of a pool belongs to no context.
        A::CONTEXT if allocation.pool.is_some() => {
            value.cast::<CUcontext>().set(std::ptr::null_mut())
        }
        A::CONTEXT => value.cast::<CUcontext>().set(allocation.context.as_ptr()),
        A::MEMORY_TYPE => number.set(memory_type(allocation)),
        A::DEVICE_POINTER => value.cast::<CUdeviceptr>().set(address),
        4 => host_pointer(value, allocation, address),
        A::SYNC_MEMOPS => {
            number.set(allocation.sync_memops.unwrap_or(!allocation.kind.is_host()).into())
        }
        7 => value.cast::<u64>().set(allocation.base),
        8 => number.set((allocation.kind == MemoryKind::Managed).into()),
        A::DEVICE_ORDINAL => number.set(allocation.gpu.ordinal),
        // Neither other processes nor other machines can access it.
        10 | 15 | 21 => number.set(0),
        11 | 19 => value.cast::<CUdeviceptr>().set(allocation.base),
        12 | 18 => value.cast::<usize>().set(allocation.bytes as usize),
        13 => number.set(1),
        14 => value.cast::<u64>().set(0),
        16 => number.set(access(allocation)),
        17 => value.cast::<CUmemoryPool>().set(pool::handle_of(allocation)),
        20 => value.cast::<u64>().set(allocation.base),
        5 => Err(not_supported(
            "the emulator's memory has no tokens for other devices in the machine",
        )),
        _ => Err(invalid_value(format!("{attribute} is not a pointer attribute"))),
    }
}

/// Managed memory counts as device memory.
fn memory_type(allocation: &Allocation) -> i32 {
    if allocation.kind.is_host() { memory_type::HOST } else { memory_type::DEVICE }
}

fn host_pointer(value: Out<c_void>, allocation: &Allocation, address: CUdeviceptr) -> DriverResult {
    match allocation.kind {
        MemoryKind::Host | MemoryKind::Registered | MemoryKind::Managed => {
            value.cast::<u64>().set(address)
        }
        _ => Err(invalid_value(format!(
            "{address:#x} is device memory; the host has no pointer to it"
        ))),
    }
}

/// The access of the current context's device to the memory.
fn access(allocation: &Allocation) -> i32 {
    let shared = allocation.kind.is_host() || allocation.kind == MemoryKind::Managed;
    let reaches = top().is_none_or(|context| peer::is_open(context.gpu, allocation.gpu));
    if shared || reaches { pool::READ_WRITE } else { pool::NO_ACCESS }
}

/// Several attributes at once. An address unknown to the device is not an error: its attributes are
/// 0.
pub(crate) fn cuPointerGetAttributes(
    count: u32,
    attributes: In<i32>,
    values: In<Out<c_void>>,
    address: CUdeviceptr,
) -> DriverResult {
    if count == 0 || attributes.is_null() || values.is_null() {
        return Err(invalid_value("no attributes are requested"));
    }
    for at in 0..count as usize {
        let (attribute, value) = (attributes.at(at), values.at(at));
        value.check()?;
        match find(address) {
            Some(allocation)
                if attribute == 4 && write(value, 4, address, &allocation).is_err() =>
            {
                value.cast::<u64>().set(0)?;
            }
            Some(allocation) => write(value, attribute, address, &allocation)?,
            None => write_unknown(value, attribute, address)?,
        }
    }
    Ok(())
}

fn write_unknown(value: Out<c_void>, attribute: i32, address: CUdeviceptr) -> DriverResult {
    match attribute {
        1 | 3 | 7 | 11 | 12 | 14 | 17..=20 => value.cast::<u64>().set(0),
        // Pageable memory keeps its address.
        4 => value.cast::<u64>().set(address),
        // `CU_DEVICE_INVALID`
        9 => value.cast::<i32>().set(-2),
        2 | 6 | 8 | 10 | 13 | 15 | 16 | 21 => value.cast::<i32>().set(0),
        _ => Err(invalid_value(format!("{attribute} is not a pointer attribute"))),
    }
}

pub(crate) fn cuPointerSetAttribute(
    value: In<c_void>,
    attribute: i32,
    address: CUdeviceptr,
) -> DriverResult {
    if attribute != A::SYNC_MEMOPS {
        return Err(invalid_value(format!("attribute {attribute} of a pointer cannot be set")));
    }
    let sync = value.cast::<i32>().get()? != 0;
    change(address, |allocation| allocation.sync_memops = Some(sync))
}
