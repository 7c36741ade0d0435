//! When writes to memory become visible to host and device.

use std::fmt;

use cuda_driver::Backend;

use super::platform::Platform;
use crate::device::{DeviceInfo, backend, devices};
use crate::gpu::Gpu;
use crate::stream::AsStream;

/// How far a write of the host or of a kernel can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryVisibility {
    /// Host and device have no memory in common: data is copied.
    Explicit,
    /// Memory in common, seen by the other side when a kernel has ended: the host must not touch
    /// unified memory while one runs. So it is under WSL2 and on older devices.
    Device,
    /// Each side sees the other's writes while a kernel runs; system-scope atomics order them.
    System,
}

impl MemoryVisibility {
    /// What holds for every device that this process can use: by the [`Platform`], and then by what the driver says of
    /// each device. Where there is no device to ask, it is the most that the platform offers. Starts the driver.
    ///
    /// ```no_run
    /// use ferrowarp::MemoryVisibility;
    ///
    /// match MemoryVisibility::detect() {
    ///     MemoryVisibility::System => println!("a UnifiedBuffer works"),
    ///     scope => println!("{scope}: use a DeviceBuffer"),
    /// }
    /// ```
    #[must_use]
    pub fn detect() -> Self {
        let platform = Platform::detect();
        let all = backend().and_then(|backend| Ok((backend, devices()?)));
        let worst = all.ok().and_then(|(backend, devices)| {
            devices.iter().map(|info| Self::by(platform, backend, info)).min()
        });
        worst.unwrap_or_else(|| platform.best_visibility())
    }

    /// What the device of `on` offers on this platform.
    #[must_use]
    pub fn of(on: &impl AsStream) -> Self {
        // Not the library's own `backend`, which refuses in a forked child.
        let backend = cuda_driver::backend().expect("there is a stream, so the driver has started");
        Self::by(Platform::detect(), backend, on.as_stream().inner().context().info())
    }

    /// The emulator's memory is the process's own on every platform.
    fn by(platform: Platform, backend: Backend, info: &DeviceInfo) -> Self {
        let shares_addresses = info.unified_addressing && info.managed_memory;
        let by_device = match (shares_addresses, info.concurrent_managed_access) {
            (false, _) => Self::Explicit,
            (true, false) => Self::Device,
            (true, true) => Self::System,
        };
        match backend {
            Backend::Emulator => by_device,
            Backend::Cuda => by_device.min(platform.best_visibility()),
        }
    }
}

impl fmt::Display for MemoryVisibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "explicit copies",
            Self::Device => "visible when a kernel has ended",
            Self::System => "visible while kernels run",
        })
    }
}

/// How kernels reach plain host memory: a `Vec`, the stack, a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostPages {
    /// Not at all.
    Absent,
    /// The driver moves pages when they are touched: heterogeneous memory management (HMM).
    Migrated,
    /// The device reads the host's page tables: address translation services (ATS).
    Shared,
    /// The emulator: the slices that it is given, to the byte, and nothing beside them.
    Emulated,
}

impl HostPages {
    /// What `gpu` offers.
    #[must_use]
    pub fn detect(gpu: &Gpu) -> Self {
        Self::of(gpu.info(), gpu.backend())
    }

    /// What the device with these attributes offers.
    #[must_use]
    pub fn of(info: &DeviceInfo, backend: Backend) -> Self {
        match (backend, info.pageable_memory_access, info.uses_host_page_tables) {
            (Backend::Emulator, _, _) => Self::Emulated,
            (_, false, _) => Self::Absent,
            (_, true, false) => Self::Migrated,
            (_, true, true) => Self::Shared,
        }
    }

    /// Whether kernels can use a plain host slice.
    #[must_use]
    pub fn are_usable(self) -> bool {
        self != Self::Absent
    }
}

impl fmt::Display for HostPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "out of reach",
            Self::Migrated => "migrated by the driver (HMM)",
            Self::Shared => "reached by the host's page tables (ATS)",
            Self::Emulated => "reached where slices are given",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryVisibility::{Device, Explicit, System};
    use super::*;

    /// A device of this machine with these attributes.
    fn device(unified_addressing: bool, managed: bool, concurrent: bool) -> DeviceInfo {
        let mut info = devices().unwrap().remove(0);
        info.unified_addressing = unified_addressing;
        (info.managed_memory, info.concurrent_managed_access) = (managed, concurrent);
        info
    }

    #[test]
    fn the_platform_limits_what_a_device_offers() {
        let all = [
            Platform::Linux,
            Platform::Wsl2,
            Platform::Windows,
            Platform::Wsl1,
            Platform::MacOs,
            Platform::Other,
        ];
        let of = |backend, info: DeviceInfo| {
            all.map(|platform| MemoryVisibility::by(platform, backend, &info))
        };
        let (full, older) = (device(true, true, true), device(true, true, false));
        assert_eq!(
            of(Backend::Cuda, full.clone()),
            [System, Device, Device, Explicit, Explicit, Explicit]
        );
        assert_eq!(of(Backend::Cuda, older.clone())[..3], [Device; 3]);
        for info in [device(false, true, true), device(true, false, true)] {
            assert_eq!(of(Backend::Cuda, info), [Explicit; 6]);
        }
        assert_eq!(of(Backend::Emulator, full), [System; 6]);
        assert_eq!(of(Backend::Emulator, older), [Device; 6]);
    }

    #[test]
    fn what_is_detected_holds_for_each_device() {
        let (backend, detected) = (backend().unwrap(), MemoryVisibility::detect());
        let each = |info: &DeviceInfo| MemoryVisibility::by(Platform::detect(), backend, info);
        let all: Vec<_> = devices().unwrap().iter().map(each).collect();
        assert!(all.contains(&detected) && all.iter().all(|own| *own >= detected), "{all:?}");
    }
}
