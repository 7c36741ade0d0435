//! Virtual memory management: address reservations, physical memory, and mappings.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::sync::{Arc, Mutex};

use ::emulator::memory::{GRANULE, Physical, Reservation};

use crate::abi::{CUdeviceptr, HostPtr, In, MemLocation, Out};
use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY};
use crate::detail::{DriverError, DriverResult};
use crate::emulated::allocations::{self, Allocation, MemoryKind};
use crate::emulated::gpu::Gpu;
use crate::emulated::pool::{NO_ACCESS, ON_DEVICE, READ_WRITE, device_of};
use crate::emulated::registry::{Handle, Registry};
use crate::emulated::{current, invalid_value, lock, not_supported};
use crate::structs::{AllocationProp, MemAccess};

/// Physical memory that has a handle or is mapped.
struct PhysicalMemory {
    physical: Physical,
    gpu: &'static Gpu,
    prop: AllocationProp,
}

// SAFETY: the property's pointer is a word that is only handed back.
unsafe impl Send for PhysicalMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for PhysicalMemory {}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        self.gpu.memory().give_physical(self.physical.bytes);
    }
}

/// A handle of physical memory with its reference count.
struct MemoryHandle {
    memory: Arc<PhysicalMemory>,
    count: Mutex<u32>,
}

static MEMORY_HANDLES: Registry<MemoryHandle> = Registry::new("memory handle");

/// A mapping of physical memory.
struct Mapping {
    bytes: u64,
    memory: Arc<PhysicalMemory>,
    handle: Handle,
    /// The devices that have access to it.
    accessible_from: Vec<&'static Gpu>,
}

#[derive(Default)]
struct AddressSpace {
    reservations: BTreeMap<u64, Reservation>,
    mappings: BTreeMap<u64, Mapping>,
}

static ADDRESS_SPACE: Mutex<AddressSpace> =
    Mutex::new(AddressSpace { reservations: BTreeMap::new(), mappings: BTreeMap::new() });

fn whole_granules(bytes: usize) -> DriverResult<u64> {
    match bytes as u64 {
        bytes if bytes > 0 && bytes.is_multiple_of(GRANULE) => Ok(bytes),
        bytes => {
            Err(invalid_value(format!("{bytes} bytes are not a positive multiple of {GRANULE}")))
        }
    }
}

fn refused(error: &io::Error) -> DriverError {
    let code = match error.kind() {
        io::ErrorKind::Unsupported => CUDA_ERROR_NOT_SUPPORTED,
        _ => CUDA_ERROR_OUT_OF_MEMORY,
    };
    DriverError::new(code, format!("the system cannot provide the memory: {error}"))
}

pub(crate) fn cuMemGetAllocationGranularity(
    bytes: Out<usize>,
    prop: In<AllocationProp>,
    option: i32,
) -> DriverResult {
    check(&prop.get()?)?;
    match option {
        0 | 1 => bytes.set(GRANULE as usize),
        _ => Err(invalid_value(format!("{option} is not a granularity option; there are 0 and 1"))),
    }
}

/// Checks the properties of physical memory, and returns the device.
fn check(prop: &AllocationProp) -> DriverResult<&'static Gpu> {
    if prop.kind != 1 {
        return Err(invalid_value(format!("{} is not a type of physical memory", prop.kind)));
    }
    if prop.handle_types != 0 {
        return Err(not_supported("the emulator cannot share memory with other processes"));
    }
    if prop.location.kind != ON_DEVICE {
        return Err(not_supported("the emulator's physical memory is on devices only"));
    }
    device_of(prop.location)
}

/// The requested address is only a hint, and is ignored.
pub(crate) fn cuMemAddressReserve(
    address: Out<CUdeviceptr>,
    bytes: usize,
    align: usize,
    _hint: CUdeviceptr,
    flags: u64,
) -> DriverResult {
    address.check()?;
    let bytes = whole_granules(bytes)?;
    if flags != 0 || align != 0 && !align.is_power_of_two() {
        return Err(invalid_value("flags must be 0, and an alignment a power of two"));
    }
    let made = Reservation::new(bytes, align as u64).map_err(|error| refused(&error))?;
    address.set_if_wanted(made.base);
    lock(&ADDRESS_SPACE).reservations.insert(made.base, made);
    Ok(())
}

pub(crate) fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) -> DriverResult {
    let mut space = lock(&ADDRESS_SPACE);
    let bytes = bytes as u64;
    match space.reservations.get(&address) {
        Some(range) if range.bytes == bytes => {}
        _ => {
            return Err(invalid_value(format!(
                "{address:#x} does not begin a reserved range of {bytes} bytes"
            )));
        }
    }
    if space.mappings.range(address..address + bytes).next().is_some() {
        return Err(invalid_value("physical memory is mapped in the range"));
    }
    space.reservations.remove(&address);
    Ok(())
}

pub(crate) fn cuMemCreate(
    handle: Out<u64>,
    bytes: usize,
    prop: In<AllocationProp>,
    flags: u64,
) -> DriverResult {
    handle.check()?;
    let (prop, bytes) = (prop.get()?, whole_granules(bytes)?);
    let gpu = check(&prop)?;
    if flags != 0 {
        return Err(invalid_value("flags must be 0"));
    }
    gpu.memory().take_physical(bytes)?;
    let physical = Physical::new(bytes).map_err(|error| {
        gpu.memory().give_physical(bytes);
        refused(&error)
    })?;
    let memory = Arc::new(PhysicalMemory { physical, gpu, prop });
    let named = MEMORY_HANDLES.add(MemoryHandle { memory, count: Mutex::new(1) });
    handle.set(named.number())
}

fn handle_of(handle: u64) -> Handle {
    Handle::from(std::ptr::without_provenance_mut::<c_void>(handle as usize))
}

/// The memory of a handle. An unknown handle is an invalid value, as in NVIDIA's driver.
fn from_handle(handle: u64) -> DriverResult<Arc<MemoryHandle>> {
    let unknown = || invalid_value(format!("{handle:#x} is not a live memory handle"));
    MEMORY_HANDLES.find(handle_of(handle)).ok_or_else(unknown)
}

/// Mapped memory is kept until it is unmapped.
pub(crate) fn cuMemRelease(handle: u64) -> DriverResult {
    let found = from_handle(handle)?;
    let mut count = lock(&found.count);
    *count = count.saturating_sub(1);
    if *count == 0 {
        MEMORY_HANDLES.remove(handle_of(handle))?;
    }
    Ok(())
}

/// Retains the handle of the memory that is mapped at an address.
pub(crate) fn cuMemRetainAllocationHandle(handle: Out<u64>, address: HostPtr) -> DriverResult {
    let address = address.address();
    let space = lock(&ADDRESS_SPACE);
    let mapping = space.mappings.range(..=address).next_back();
    let mapping = mapping.filter(|(base, mapping)| address - *base < mapping.bytes);
    let (_, mapping) =
        mapping.ok_or_else(|| invalid_value("no physical memory is mapped there"))?;
    match MEMORY_HANDLES.find(mapping.handle) {
        Some(named) => *lock(&named.count) += 1,
        None => {
            let memory = mapping.memory.clone();
            MEMORY_HANDLES
                .put(mapping.handle, Arc::new(MemoryHandle { memory, count: Mutex::new(1) }));
        }
    }
    handle.set(mapping.handle.number())
}

pub(crate) fn cuMemGetAllocationPropertiesFromHandle(
    prop: Out<AllocationProp>,
    handle: u64,
) -> DriverResult {
    prop.set(from_handle(handle)?.memory.prop)
}

pub(crate) fn cuMemMap(
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> DriverResult {
    let (bytes, found) = (whole_granules(bytes)?, from_handle(handle)?);
    if offset != 0 || flags != 0 {
        return Err(not_supported("physical memory can only be mapped from its first byte on"));
    }
    let memory = &found.memory;
    if bytes != memory.physical.bytes || !address.is_multiple_of(GRANULE) {
        return Err(invalid_value(
            "physical memory can only be mapped whole, at multiples of the granularity",
        ));
    }
    let mut space = lock(&ADDRESS_SPACE);
    let range = space.reservations.range(..=address).next_back().map(|(_, range)| range);
    let range = range.filter(|range| address + bytes <= range.base + range.bytes);
    let range =
        range.ok_or_else(|| invalid_value(format!("{address:#x} lies in no reserved range")))?;
    if space.mappings.range(address..address + bytes).next().is_some() {
        return Err(invalid_value("physical memory is mapped there already"));
    }
    range.map(address, &memory.physical).map_err(|error| refused(&error))?;
    let (memory, handle) = (memory.clone(), handle_of(handle));
    space.mappings.insert(address, Mapping { bytes, memory, handle, accessible_from: Vec::new() });
    Ok(())
}

/// Unmaps whole mappings. It is not an error if nothing is mapped.
pub(crate) fn cuMemUnmap(address: CUdeviceptr, bytes: usize) -> DriverResult {
    let bytes = whole_granules(bytes)?;
    let mut space = lock(&ADDRESS_SPACE);
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

/// The mappings in a range. Fails if one crosses the ends of the range.
fn whole_mappings(space: &AddressSpace, address: u64, bytes: u64) -> DriverResult<Vec<u64>> {
    let end = address
        .checked_add(bytes)
        .ok_or_else(|| invalid_value("the range exceeds the address space"))?;
    let before = space.mappings.range(..address).next_back();
    let crosses = before.is_some_and(|(base, mapping)| base + mapping.bytes > address);
    let inside: Vec<_> = space.mappings.range(address..end).collect();
    if crosses || inside.iter().any(|(base, mapping)| *base + mapping.bytes > end) {
        return Err(invalid_value("the range cuts a mapping"));
    }
    Ok(inside.into_iter().map(|(base, _)| *base).collect())
}

/// Removes the access of all devices to a mapping.
fn close(base: u64, mapping: &Mapping) {
    if !mapping.accessible_from.is_empty() {
        mapping.memory.gpu.memory().hide(base);
        allocations::forget(base);
    }
}

pub(crate) fn cuMemSetAccess(
    address: CUdeviceptr,
    bytes: usize,
    list: In<MemAccess>,
    count: usize,
) -> DriverResult {
    let bytes = whole_granules(bytes)?;
    if count > 0 {
        list.get()?;
    }
    let mut space = lock(&ADDRESS_SPACE);
    let bases = whole_mappings(&space, address, bytes)?;
    let mapped: u64 = bases.iter().map(|base| space.mappings[base].bytes).sum();
    if mapped != bytes {
        return Err(invalid_value("physical memory is not mapped in all of the range"));
    }
    for at in 0..count {
        let MemAccess { location, flags } = list.at(at);
        let open = match flags {
            NO_ACCESS => false,
            READ_WRITE => true,
            1 => return Err(not_supported("the emulator has no read-only memory")),
            _ => {
                return Err(invalid_value(format!(
                    "{flags} is not an access flag; there are 0, 1 and 3"
                )));
            }
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
    let was_accessible = !mapping.accessible_from.is_empty();
    mapping.accessible_from.retain(|other| other.ordinal != gpu.ordinal);
    if open {
        mapping.accessible_from.push(gpu);
    }
    let memory = mapping.memory.gpu.memory();
    match (was_accessible, mapping.accessible_from.is_empty()) {
        (false, false) => {
            memory.show(base, mapping.bytes);
            if let Some(context) = current::top() {
                let allocation =
                    Allocation::new(base, mapping.bytes, MemoryKind::Mapped, 0, &context);
                allocations::add(Allocation { gpu: mapping.memory.gpu, ..allocation });
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
) -> DriverResult {
    let gpu = device_of(location.get()?)?;
    let space = lock(&ADDRESS_SPACE);
    let mapping = space.mappings.range(..=address).next_back();
    let mapping = mapping.filter(|(base, mapping)| address - *base < mapping.bytes);
    let (_, mapping) = mapping.ok_or_else(|| {
        DriverError::new(CUDA_ERROR_INVALID_VALUE, "no physical memory is mapped there")
    })?;
    let open = mapping.accessible_from.iter().any(|other| other.ordinal == gpu.ordinal);
    flags.set(if open { READ_WRITE as u64 } else { NO_ACCESS as u64 })
}
