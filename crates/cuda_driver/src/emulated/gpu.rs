//! The emulated devices of the process. There is one, or as many as the environment says.

use std::sync::{Arc, OnceLock};

use ::emulator::memory::GlobalMemory;
use ::emulator::{Device, Profile};

use super::settings;
use crate::abi::CUdevice;
use crate::codes::{CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_NOT_INITIALIZED};
use crate::detail::{Answer, Failure};

/// An emulated device.
pub(super) struct Gpu {
    pub(super) ordinal: CUdevice,
    pub(super) device: Arc<Device>,
    /// The first fault of a kernel. It costs the process the device: every later call that has to
    /// do with it, in any context, answers this.
    lost: OnceLock<Failure>,
}

static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();

/// Makes the devices; does nothing where they are made.
pub(super) fn start() -> Answer {
    if GPUS.get().is_none() {
        let devices = Device::several(&settings::profile()?, settings::devices()?);
        let gpu = |(ordinal, device)| Gpu { ordinal, device, lost: OnceLock::new() };
        // A second start at the same time made equal ones; the first stay.
        let _ = GPUS.set((0..).zip(devices).map(gpu).collect());
    }
    Ok(())
}

/// All of them; there is one at least.
pub(super) fn all() -> Answer<&'static [Gpu]> {
    let gpus = GPUS.get().ok_or_else(|| Failure::from(CUDA_ERROR_NOT_INITIALIZED))?;
    Ok(gpus)
}

/// The memory as the host sees it: that of all devices.
pub(super) fn memory() -> Answer<&'static GlobalMemory> {
    Ok(all()?[0].memory())
}

/// The device of this ordinal, or `CUDA_ERROR_INVALID_DEVICE`.
pub(super) fn gpu(ordinal: CUdevice) -> Answer<&'static Gpu> {
    let gpus = all()?;
    usize::try_from(ordinal).ok().and_then(|at| gpus.get(at)).ok_or_else(|| {
        let count = gpus.len();
        let text = format!("there is no device {ordinal}; the emulator has {count}, from 0 on");
        Failure::new(CUDA_ERROR_INVALID_DEVICE, text)
    })
}

impl Gpu {
    pub(super) fn profile(&self) -> &Profile {
        self.device.profile()
    }

    pub(super) fn memory(&self) -> &GlobalMemory {
        self.device.memory()
    }

    /// Ends the device for this process, as a fault in a kernel does: what runs on it stops. The
    /// first fault stays.
    pub(super) fn lose(&self, fault: Failure) {
        let _ = self.lost.set(fault);
        self.device.halt();
    }

    /// The fault that cost the process the device.
    pub(super) fn fault(&self) -> Option<&Failure> {
        self.lost.get()
    }

    /// Fails where the device is lost.
    pub(super) fn check(&self) -> Answer {
        self.fault().cloned().map_or(Ok(()), Err)
    }
}
