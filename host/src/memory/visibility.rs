//! When writes to memory become visible to host and device.

use std::fmt;

use cuda_driver::Backend;

use crate::gpu::Gpu;

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
    /// What `gpu` offers.
    ///
    /// ```no_run
    /// use ferrowarp::{Gpu, MemoryVisibility, UnifiedBuffer};
    ///
    /// let gpu = Gpu::new()?;
    /// match MemoryVisibility::detect(&gpu) {
    ///     MemoryVisibility::System => println!("a UnifiedBuffer works"),
    ///     scope => println!("{scope}: use a DeviceBuffer"),
    /// }
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    #[must_use]
    pub fn detect(gpu: &Gpu) -> Self {
        let info = gpu.info();
        match (info.unified_addressing && info.managed_memory, info.concurrent_managed_access) {
            (false, _) => Self::Explicit,
            (true, false) => Self::Device,
            (true, true) => Self::System,
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

    pub(super) fn of(info: &crate::DeviceInfo, backend: Backend) -> Self {
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
