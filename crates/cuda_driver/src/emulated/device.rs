//! The device: there is one, with ordinal 0.
#![allow(non_snake_case)]

use std::ffi::c_char;

use super::attributes::attribute;
use super::{invalid, the_device};
use crate::abi::{CUdevice, CUuuid, In, Out, text};
use crate::codes::CUDA_ERROR_INVALID_DEVICE;
use crate::detail::{Answer, Failure};

/// No machine has a PCI domain of this number.
const PCI_BUS_ID: &str = "FE00:00:00.0";
const UUID: CUuuid = CUuuid { bytes: *b"ferrowarp-emu-00" };

/// Fails unless there is such a device.
pub(super) fn check_device(device: CUdevice) -> Answer {
    match device {
        0 => Ok(()),
        _ => Err(Failure::new(
            CUDA_ERROR_INVALID_DEVICE,
            format!("there is no device {device}; the emulator has one, device 0"),
        )),
    }
}

pub(crate) fn cuDeviceGet(device: Out<CUdevice>, ordinal: i32) -> Answer {
    check_device(ordinal)?;
    device.set(ordinal)
}

pub(crate) fn cuDeviceGetCount(count: Out<i32>) -> Answer {
    count.set(1)
}

pub(crate) fn cuDeviceGetName(name: Out<c_char>, len: i32, device: CUdevice) -> Answer {
    check_device(device)?;
    write_text(name, len, &the_device()?.profile().name)
}

/// As much of the text as fits, with a NUL behind it.
fn write_text(place: Out<c_char>, len: i32, text: &str) -> Answer {
    place.check()?;
    let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1));
    let room = room.ok_or_else(|| invalid(format!("no room for a text in {len} bytes")))?;
    let bytes = &text.as_bytes()[..text.len().min(room)];
    bytes.iter().enumerate().for_each(|(at, &byte)| place.set_at(at, byte as c_char));
    place.set_at(bytes.len(), 0);
    Ok(())
}

pub(crate) fn cuDeviceGetUuid(uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    check_device(device)?;
    uuid.set(UUID)
}

pub(crate) fn cuDeviceGetUuid_v2(uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    cuDeviceGetUuid(uuid, device)
}

pub(crate) fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: CUdevice) -> Answer {
    check_device(device)?;
    bytes.set(the_device()?.profile().total_memory_bytes as usize)
}

pub(crate) fn cuDeviceGetAttribute(value: Out<i32>, number: i32, device: CUdevice) -> Answer {
    check_device(device)?;
    let answer = attribute(the_device()?.profile(), number);
    value.set(answer.ok_or_else(|| invalid(format!("{number} is no attribute of a device")))?)
}

pub(crate) fn cuDeviceComputeCapability(
    major: Out<i32>,
    minor: Out<i32>,
    device: CUdevice,
) -> Answer {
    check_device(device)?;
    let capability = the_device()?.profile().compute_capability;
    major.set(capability.0 as i32)?;
    minor.set(capability.1 as i32)
}

pub(crate) fn cuDeviceGetPCIBusId(place: Out<c_char>, len: i32, device: CUdevice) -> Answer {
    check_device(device)?;
    write_text(place, len, PCI_BUS_ID)
}

pub(crate) fn cuDeviceGetByPCIBusId(device: Out<CUdevice>, id: In<c_char>) -> Answer {
    let id = text(id)?.to_string_lossy();
    if id.eq_ignore_ascii_case(PCI_BUS_ID) {
        return device.set(0);
    }
    let text = format!("there is no device at `{id}`; the emulator's is at {PCI_BUS_ID}");
    Err(Failure::new(CUDA_ERROR_INVALID_DEVICE, text))
}

pub(crate) fn cuDeviceCanAccessPeer(can: Out<i32>, device: CUdevice, peer: CUdevice) -> Answer {
    check_device(device)?;
    check_device(peer)?;
    can.set(0)
}

/// There is no profiler to start.
pub(crate) fn cuProfilerStart() -> Answer {
    super::current::current().map(drop)
}

/// There is no profiler to stop.
pub(crate) fn cuProfilerStop() -> Answer {
    super::current::current().map(drop)
}
