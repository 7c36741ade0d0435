//! The devices, as the API sees them.
#![allow(non_snake_case)]

use std::ffi::c_char;

use super::device_attributes::attribute;
use super::gpu::{all, gpu};
use super::{invalid_value, not_supported};
use crate::abi::{CUdevice, CUuuid, In, Out, text};
use crate::codes::CUDA_ERROR_INVALID_DEVICE;
use crate::detail::{DriverError, DriverResult};

/// The PCI bus ID of a device, in a PCI domain that no machine has.
fn pci_bus_id(ordinal: CUdevice) -> String {
    format!("FE00:{ordinal:02X}:00.0")
}

fn uuid(ordinal: CUdevice) -> CUuuid {
    let mut bytes = *b"ferrowarp-emu-00";
    bytes[14..].copy_from_slice(format!("{ordinal:02}").as_bytes());
    CUuuid { bytes }
}

pub(crate) fn cuDeviceGet(device: Out<CUdevice>, ordinal: i32) -> DriverResult {
    device.set(gpu(ordinal)?.ordinal)
}

pub(crate) fn cuDeviceGetCount(count: Out<i32>) -> DriverResult {
    count.set(all()?.len() as i32)
}

pub(crate) fn cuDeviceGetName(name: Out<c_char>, len: i32, device: CUdevice) -> DriverResult {
    write_text(name, len, &gpu(device)?.profile().name)
}

/// Writes as much of the text as fits, followed by a NUL.
fn write_text(out: Out<c_char>, len: i32, text: &str) -> DriverResult {
    out.check()?;
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1));
    let room = room.ok_or_else(|| invalid_value(format!("no room for a string in {len} bytes")))?;
    let bytes = &text.as_bytes()[..text.len().min(room)];
    bytes.iter().enumerate().for_each(|(at, &byte)| out.set_at(at, byte as c_char));
    out.set_at(bytes.len(), 0);
    Ok(())
}

pub(crate) fn cuDeviceGetUuid(out: Out<CUuuid>, device: CUdevice) -> DriverResult {
    out.set(uuid(gpu(device)?.ordinal))
}

pub(crate) fn cuDeviceGetUuid_v2(uuid: Out<CUuuid>, device: CUdevice) -> DriverResult {
    cuDeviceGetUuid(uuid, device)
}

pub(crate) fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: CUdevice) -> DriverResult {
    bytes.set(gpu(device)?.profile().total_memory_bytes as usize)
}

pub(crate) fn cuDeviceGetAttribute(value: Out<i32>, number: i32, device: CUdevice) -> DriverResult {
    let gpu = gpu(device)?;
    let answer = attribute(gpu.profile(), gpu.ordinal, number);
    value.set(answer.ok_or_else(|| invalid_value(format!("{number} is not a device attribute")))?)
}

pub(crate) fn cuDeviceComputeCapability(
    major: Out<i32>,
    minor: Out<i32>,
    device: CUdevice,
) -> DriverResult {
    let capability = gpu(device)?.profile().compute_capability;
    major.set(capability.0 as i32)?;
    minor.set(capability.1 as i32)
}

pub(crate) fn cuDeviceGetPCIBusId(out: Out<c_char>, len: i32, device: CUdevice) -> DriverResult {
    write_text(out, len, &pci_bus_id(gpu(device)?.ordinal))
}

pub(crate) fn cuDeviceGetByPCIBusId(device: Out<CUdevice>, id: In<c_char>) -> DriverResult {
    let id = text(id)?.to_string_lossy();
    for gpu in all()? {
        if id.eq_ignore_ascii_case(&pci_bus_id(gpu.ordinal)) {
            return device.set(gpu.ordinal);
        }
    }
    let first = pci_bus_id(0);
    let text = format!("there is no device at `{id}`; the emulator's first is at {first}");
    Err(DriverError::new(CUDA_ERROR_INVALID_DEVICE, text))
}

/// The emulator has no profiler to start.
pub(crate) fn cuProfilerStart() -> DriverResult {
    super::current::current().map(drop)
}

/// The emulator has no profiler to stop.
pub(crate) fn cuProfilerStop() -> DriverResult {
    super::current::current().map(drop)
}

/// The emulator does not have textures.
pub(crate) fn cuDeviceGetTexture1DLinearMaxWidth(
    width: Out<usize>,
    _format: u32,
    _channels: u32,
    device: CUdevice,
) -> DriverResult {
    gpu(device)?;
    width.check()?;
    Err(not_supported("the emulator does not have textures"))
}

/// A context cannot be limited to some multiprocessors.
pub(crate) fn cuDeviceGetExecAffinitySupport(
    answer: Out<i32>,
    kind: i32,
    device: CUdevice,
) -> DriverResult {
    gpu(device)?;
    match kind {
        0 => answer.set(0),
        _ => Err(invalid_value(format!("{kind} is not a type of execution affinity"))),
    }
}

/// `CUdevprop`: the properties that devices had in the first version of the API.
pub(crate) fn cuDeviceGetProperties(out: Out<[i32; 14]>, device: CUdevice) -> DriverResult {
    let gpu = gpu(device)?;
    // Threads of a block, block dimensions, grid dimensions, shared and constant memory, warp size,
    // pitch, registers, clock, texture alignment, by the numbers of the attributes.
    let numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    out.set(numbers.map(|number| attribute(gpu.profile(), gpu.ordinal, number).unwrap_or(0)))
}
