//! The emulated devices of the process: one, unless the environment sets another number.

use std::sync::{Arc, OnceLock};

use ::emulator::memory::GlobalMemory;
use ::emulator::{Device, Profile};

use super::settings;
use crate::abi::CUdevice;
use crate::codes::{CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_NOT_INITIALIZED};
use crate::detail::{DriverError, DriverResult};

/// An emulated device.
pub(super) struct Gpu {
    pub(super) ordinal: CUdevice,
    pub(super) device: Arc<Device>,
    /// The first fault of a kernel. The device is lost to the process then: every later call that
    /// involves it, in any context, returns this error.
    lost: OnceLock<DriverError>,
}

static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();

/// Creates the devices. Does nothing if they exist already.
pub(super) fn start() -> DriverResult {
    if GPUS.get().is_none() {
        let devices = Device::several(&settings::profile()?, settings::devices()?);
        let gpu = |(ordinal, device)| Gpu { ordinal, device, lost: OnceLock::new() };
        // A concurrent start made equal devices; the first ones are kept.
        let _ = GPUS.set((0..).zip(devices).map(gpu).collect());
    }
    Ok(())
}

/// All devices, of which there is at least one.
pub(super) fn all() -> DriverResult<&'static [Gpu]> {
    let gpus = GPUS.get().ok_or_else(|| DriverError::from(CUDA_ERROR_NOT_INITIALIZED))?;
    Ok(gpus)
}

/// The memory as the host sees it, which includes that of all devices.
pub(super) fn memory() -> DriverResult<&'static GlobalMemory> {
    Ok(all()?[0].memory())
}

/// The device of this ordinal, or `CUDA_ERROR_INVALID_DEVICE`.
pub(super) fn gpu(ordinal: CUdevice) -> DriverResult<&'static Gpu> {
    let gpus = all()?;
    usize::try_from(ordinal).ok().and_then(|at| gpus.get(at)).ok_or_else(|| {
        let count = gpus.len();
        let text =
            format!("there is no device {ordinal}; the emulator has {count}, numbered from 0");
        DriverError::new(CUDA_ERROR_INVALID_DEVICE, text)
    })
}

impl Gpu {
    pub(super) fn profile(&self) -> &Profile {
        self.device.profile()
    }

    pub(super) fn memory(&self) -> &GlobalMemory {
        self.device.memory()
    }

    /// Marks the device as lost to this process, as a fault in a kernel does, and stops what runs
    /// on it. The first fault is kept.
    pub(super) fn lose(&self, fault: DriverError) {
        let _ = self.lost.set(fault);
        self.device.halt();
    }

    /// The fault by which the device was lost.
    pub(super) fn fault(&self) -> Option<&DriverError> {
        self.lost.get()
    }

    /// Fails if the device is lost.
    pub(super) fn check(&self) -> DriverResult {
        self.fault().cloned().map_or(Ok(()), Err)
    }
}
