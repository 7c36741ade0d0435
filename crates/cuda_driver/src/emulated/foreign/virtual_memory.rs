//! Virtual memory in the program's hands: ranges of addresses, physical memory, and mappings.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::sync::{Arc, Mutex};

use ::emulator::memory::{GRANULE, Physical, Reservation};

use crate::abi::{CUdeviceptr, HostPtr, In, MemLocation, Out};
use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY};
use crate::detail::{Answer, Failure};
use crate::emulated::allocations::{self, Block, Kind};
use crate::emulated::gpu::Gpu;
use crate::emulated::pool::{NO_ACCESS, ON_DEVICE, READ_WRITE, device_of};
use crate::emulated::registry::{Handle, Registry};
use crate::emulated::{current, invalid, lacking, lock};
use crate::structs::{AllocationProp, MemAccess};

/// Physical memory that a program has a handle of, or has mapped.
struct Memory {
    physical: Physical,
    gpu: &'static Gpu,
    prop: AllocationProp,
}

// SAFETY: the property's pointer is a word that is only handed back.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        self.gpu.memory().give_physical(self.physical.bytes);
    }
}

/// A handle of physical memory, with how often it was retained.
struct Named {
    memory: Arc<Memory>,
    count: Mutex<u32>,
}

static MEMORIES: Registry<Named> = Registry::new("memory handle");

/// Physical memory at its place.
struct Mapping {
    bytes: u64,
    memory: Arc<Memory>,
    handle: Handle,
    /// The devices that may touch it.
    open_to: Vec<&'static Gpu>,
}

#[derive(Default)]
struct Space {
    reservations: BTreeMap<u64, Reservation>,
    mappings: BTreeMap<u64, Mapping>,
}

static SPACE: Mutex<Space> =
    Mutex::new(Space { reservations: BTreeMap::new(), mappings: BTreeMap::new() });

fn whole(bytes: usize) -> Answer<u64> {
    match bytes as u64 {
        bytes if bytes > 0 && bytes.is_multiple_of(GRANULE) => Ok(bytes),
        bytes => Err(invalid(format!("{bytes} bytes are no multiple of {GRANULE}"))),
    }
}

fn refused(error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::Unsupported => CUDA_ERROR_NOT_SUPPORTED,
        _ => CUDA_ERROR_OUT_OF_MEMORY,
    };
    Failure::new(code, format!("the system has no such memory: {error}"))
}

pub(crate) fn cuMemGetAllocationGranularity(
    bytes: Out<usize>,
    prop: In<AllocationProp>,
    option: i32,
) -> Answer {
    check(&prop.get()?)?;
    match option {
        0 | 1 => bytes.set(GRANULE as usize),
        _ => Err(invalid(format!("{option} is no option; there are 0 and 1"))),
    }
}

/// The device of a property.
fn check(prop: &AllocationProp) -> Answer<&'static Gpu> {
    if prop.kind != 1 {
        return Err(invalid(format!("{} is no kind of physical memory", prop.kind)));
    }
    if prop.handle_types != 0 {
        return Err(lacking("the emulator shares no memory with other processes"));
    }
    if prop.location.kind != ON_DEVICE {
        return Err(lacking("the emulator's physical memory is that of devices"));
    }
    device_of(prop.location)
}

/// A wish for an address is not followed: it is a wish.
pub(crate) fn cuMemAddressReserve(
    address: Out<CUdeviceptr>,
    bytes: usize,
    align: usize,
    _wish: CUdeviceptr,
    flags: u64,
) -> Answer {
    address.check()?;
    let bytes = whole(bytes)?;
    if flags != 0 || align != 0 && !align.is_power_of_two() {
        return Err(invalid("flags are 0, and an alignment is a power of two"));
    }
    let made = Reservation::new(bytes, align as u64).map_err(|error| refused(&error))?;
    address.set_if_wanted(made.base);
    lock(&SPACE).reservations.insert(made.base, made);
    Ok(())
}

pub(crate) fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) -> Answer {
    let mut space = lock(&SPACE);
    let bytes = bytes as u64;
    match space.reservations.get(&address) {
        Some(range) if range.bytes == bytes => {}
        _ => return Err(invalid(format!("{address:#x} begins no range of {bytes} bytes"))),
    }
    if space.mappings.range(address..address + bytes).next().is_some() {
        return Err(invalid("physical memory is mapped in the range"));
    }
    space.reservations.remove(&address);
    Ok(())
}

pub(crate) fn cuMemCreate(
    handle: Out<u64>,
    bytes: usize,
    prop: In<AllocationProp>,
    flags: u64,
) -> Answer {
    handle.check()?;
    let (prop, bytes) = (prop.get()?, whole(bytes)?);
    let gpu = check(&prop)?;
    if flags != 0 {
        return Err(invalid("flags are 0"));
    }
    gpu.memory().take_physical(bytes)?;
    let physical = Physical::new(bytes).map_err(|error| {
        gpu.memory().give_physical(bytes);
        refused(&error)
    })?;
    let memory = Arc::new(Memory { physical, gpu, prop });
    let named = MEMORIES.add(Named { memory, count: Mutex::new(1) });
    handle.set(named.as_ptr().addr() as u64)
}

fn handle_of(handle: u64) -> Handle {
    Handle::from(std::ptr::without_provenance_mut::<c_void>(handle as usize))
}

/// The handle's memory. What is no handle is an invalid value, as NVIDIA's driver has it.
fn named(handle: u64) -> Answer<Arc<Named>> {
    let unknown = || invalid(format!("{handle:#x} is no live handle of memory"));
    MEMORIES.find(handle_of(handle)).ok_or_else(unknown)
}

/// Memory that is mapped stays until it is mapped no longer.
pub(crate) fn cuMemRelease(handle: u64) -> Answer {
    let found = named(handle)?;
    let mut count = lock(&found.count);
    *count = count.saturating_sub(1);
    if *count == 0 {
        MEMORIES.remove(handle_of(handle))?;
    }
    Ok(())
}

/// The handle of the memory that is mapped at an address, once more.
pub(crate) fn cuMemRetainAllocationHandle(handle: Out<u64>, address: HostPtr) -> Answer {
    let address = address.address();
    let space = lock(&SPACE);
    let mapping = space.mappings.range(..=address).next_back();
    let mapping = mapping.filter(|(base, mapping)| address - *base < mapping.bytes);
    let (_, mapping) = mapping.ok_or_else(|| invalid("no physical memory is mapped there"))?;
    match MEMORIES.find(mapping.handle) {
        Some(named) => *lock(&named.count) += 1,
        None => {
            let memory = mapping.memory.clone();
            MEMORIES.put(mapping.handle, Arc::new(Named { memory, count: Mutex::new(1) }));
        }
    }
    handle.set(mapping.handle.as_ptr().addr() as u64)
}

pub(crate) fn cuMemGetAllocationPropertiesFromHandle(
    prop: Out<AllocationProp>,
    handle: u64,
) -> Answer {
    prop.set(named(handle)?.memory.prop)
}

pub(crate) fn cuMemMap(
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> Answer {
    let (bytes, found) = (whole(bytes)?, named(handle)?);
    if offset != 0 || flags != 0 {
        return Err(lacking("physical memory is mapped from its first byte on"));
    }
    let memory = &found.memory;
    if bytes != memory.physical.bytes || !address.is_multiple_of(GRANULE) {
        return Err(invalid("physical memory is mapped whole, at multiples of the granularity"));
    }
    let mut space = lock(&SPACE);
    let range = space.reservations.range(..=address).next_back().map(|(_, range)| range);
    let range = range.filter(|range| address + bytes <= range.base + range.bytes);
    let range = range.ok_or_else(|| invalid(format!("{address:#x} lies in no reserved range")))?;
    if space.mappings.range(address..address + bytes).next().is_some() {
        return Err(invalid("physical memory is mapped there already"));
    }
    range.map(address, &memory.physical).map_err(|error| refused(&error))?;
    let (memory, handle) = (memory.clone(), handle_of(handle));
    space.mappings.insert(address, Mapping { bytes, memory, handle, open_to: Vec::new() });
    Ok(())
}

/// Whole mappings only; where nothing is mapped there is nothing to do.
pub(crate) fn cuMemUnmap(address: CUdeviceptr, bytes: usize) -> Answer {
    let bytes = whole(bytes)?;
    let mut space = lock(&SPACE);
    let bases = whole_mappings(&space, address, bytes)?;
    for base in bases {
        let Some(mapping) = space.mappings.remove(&base) else { continue };
        close(base, &mapping);
        let range = space.reservations.range(..=base).next_back();
        if let Some((_, range)) = range {
            range.unmap(base, mapping.bytes).map_err(|error| refused(&error))?;
        }
    }
    Ok(())
}

/// The mappings in a range, none of which crosses its ends.
fn whole_mappings(space: &Space, address: u64, bytes: u64) -> Answer<Vec<u64>> {
    let end = address.checked_add(bytes).ok_or_else(|| invalid("no such range"))?;
    let before = space.mappings.range(..address).next_back();
    let crosses = before.is_some_and(|(base, mapping)| base + mapping.bytes > address);
    let inside: Vec<_> = space.mappings.range(address..end).collect();
    if crosses || inside.iter().any(|(base, mapping)| *base + mapping.bytes > end) {
        return Err(invalid("the range ends inside of a mapping"));
    }
    Ok(inside.into_iter().map(|(base, _)| *base).collect())
}

/// Makes a mapping no memory of any device.
fn close(base: u64, mapping: &Mapping) {
    if !mapping.open_to.is_empty() {
        mapping.memory.gpu.memory().hide(base);
        allocations::forget(base);
    }
}

pub(crate) fn cuMemSetAccess(
    address: CUdeviceptr,
    bytes: usize,
    list: In<MemAccess>,
    count: usize,
) -> Answer {
    let bytes = whole(bytes)?;
    if count > 0 {
        list.get()?;
    }
    let mut space = lock(&SPACE);
    let bases = whole_mappings(&space, address, bytes)?;
    let mapped: u64 = bases.iter().map(|base| space.mappings[base].bytes).sum();
    if mapped != bytes {
        return Err(invalid("physical memory is not mapped in all of the range"));
    }
    for at in 0..count {
        let MemAccess { location, flags } = list.at(at);
        let open = match flags {
            NO_ACCESS => false,
            READ_WRITE => true,
            1 => return Err(lacking("the emulator has no memory that is only read")),
            _ => return Err(invalid(format!("{flags} is no access; there are 0, 1 and 3"))),
        };
        let gpu = device_of(location)?;
        for base in &bases {
            if let Some(mapping) = space.mappings.get_mut(base) {
                set_access(*base, mapping, gpu, open);
            }
        }
    }
    Ok(())
}

fn set_access(base: u64, mapping: &mut Mapping, gpu: &'static Gpu, open: bool) {
    let known = !mapping.open_to.is_empty();
    mapping.open_to.retain(|other| other.ordinal != gpu.ordinal);
    if open {
        mapping.open_to.push(gpu);
    }
    let memory = mapping.memory.gpu.memory();
    match (known, mapping.open_to.is_empty()) {
        (false, false) => {
            memory.show(base, mapping.bytes);
            if let Some(context) = current::top() {
                let block = Block::new(base, mapping.bytes, Kind::Mapped, 0, &context);
                allocations::add(Block { gpu: mapping.memory.gpu, ..block });
            }
        }
        (true, true) => {
            memory.hide(base);
            allocations::forget(base);
            return;
        }
        (false, true) => return,
        (true, false) => {}
    }
    memory.give(base, gpu.memory(), open);
}

pub(crate) fn cuMemGetAccess(
    flags: Out<u64>,
    location: In<MemLocation>,
    address: CUdeviceptr,
) -> Answer {
    let gpu = device_of(location.get()?)?;
    let space = lock(&SPACE);
    let mapping = space.mappings.range(..=address).next_back();
    let mapping = mapping.filter(|(base, mapping)| address - *base < mapping.bytes);
    let (_, mapping) = mapping.ok_or_else(|| {
        Failure::new(CUDA_ERROR_INVALID_VALUE, "no physical memory is mapped there")
    })?;
    let open = mapping.open_to.iter().any(|other| other.ordinal == gpu.ordinal);
    flags.set(if open { READ_WRITE as u64 } else { NO_ACCESS as u64 })
}
