//! Events of a hot module.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cuda_builder::{CudaBuilderError, Scope};

use super::VersionInfo;
use crate::error::GpuError;

/// What happened to a [`HotModule`](super::HotModule). Holds no version: the version that an event reports can be
/// unloaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadEvent {
    /// The kernel crate changed, and is being built.
    Building,
    /// The kernel crate was built: after an edit the kernels that it can concern, and behind them all.
    Built {
        /// Which kernels were compiled.
        scope: Scope,
        /// How long the build took.
        took: Duration,
        /// The compiler's warnings, in its own words; empty if there are none.
        warnings: String,
    },
    /// The kernel crate could not be built; the version before stays in use.
    /// [`CudaBuilderError::Rejected`] has the compiler's own text.
    BuildFailed {
        /// Why not.
        error: Arc<CudaBuilderError>,
    },
    /// A new version is in use.
    Swapped {
        /// The new version.
        version: VersionInfo,
        /// How long the driver compiled and loaded it.
        load: Duration,
        /// The time from the first sign of the edit until it was in use. On Linux a PTX file that is written is
        /// edited when its writer closes it.
        since_edit: Duration,
    },
    /// What was built or written is what is in use.
    Unchanged {
        /// The version in use.
        version: VersionInfo,
    },
    /// The driver does not take the PTX; the version before stays in use.
    /// [`GpuError::driver`] has the driver's log.
    LoadFailed {
        /// Why not.
        error: Arc<GpuError>,
    },
    /// A kernel that the program launches is missing, or has other parameters or another contract
    /// than its launcher; the version before stays in use.
    Refused {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        error: Arc<GpuError>,
    },
    /// The file is gone or cannot be read; the version before stays in use.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: Arc<std::io::Error>,
    },
    /// A version that is not kept any more was unloaded, after its last launch had run.
    Unloaded {
        /// Its number.
        number: u64,
    },
}

/// What happened in a [`HotFolder`](super::HotFolder). Holds no module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FolderEvent {
    /// A file came, and its first version is in use.
    Added {
        /// The file.
        path: PathBuf,
        /// Its first version.
        version: VersionInfo,
    },
    /// Something happened to the module of a file: a new version, an edit that was refused, a version that was unloaded.
    Changed {
        /// The file.
        path: PathBuf,
        /// What happened.
        event: ReloadEvent,
    },
    /// A file has gone. What the program holds of its module stays in use.
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// A file that has no module yet cannot be read, or the driver does not take it. The next edit of it is tried again.
    NotLoaded {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: Arc<GpuError>,
    },
}

impl ReloadEvent {
    /// A failed load, or a refusal where a kernel is the matter.
    pub(super) fn of_error(error: GpuError) -> Self {
        let error = Arc::new(error);
        let kernel = match error.root() {
            GpuError::WrongParameters { kernel, .. } => (*kernel).to_owned(),
            GpuError::WrongTypes { kernel, .. } => (*kernel).to_owned(),
            GpuError::ContractChanged { kernel, .. } => (*kernel).to_owned(),
            GpuError::NotFound { kernel, .. } => kernel.clone(),
            _ => return Self::LoadFailed { error },
        };
        Self::Refused { kernel, error }
    }
}
