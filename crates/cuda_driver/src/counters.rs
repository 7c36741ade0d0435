//! Performance counters of launches: instructions, memory sectors and bank conflicts, counted by
//! the emulator.
//!
//! On a GPU such counters are available only to NVIDIA's profilers, so [`start`] is an error there.

pub use ::emulator::counters::*;
pub use ::emulator::fault::{Access, SourceLocation, Space};

pub use crate::emulated::counting::LaunchReport;

use crate::backend::{Backend, backend};
use crate::emulated::counting;

/// Why launches cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    /// The launches run on a GPU.
    #[error(
        "only the emulator counts, and launches run on the GPU; set FERROWARP_DEVICE=emulator, or \
         use Nsight Compute"
    )]
    OnGpu,
    /// `cuInit` has not been called.
    #[error("CUDA is not initialized yet, so it is not known whether the emulator runs launches")]
    NotInitialized,
}

/// Counts the launches that begin from now on, until [`take`].
///
/// # Errors
/// Returns an error if the launches of this process run on a GPU, or if `cuInit` has not been
/// called.
pub fn start() -> Result<(), NotCounted> {
    match backend() {
        Some(Backend::Emulator) => {
            counting::start();
            Ok(())
        }
        Some(Backend::Cuda) => Err(NotCounted::OnGpu),
        None => Err(NotCounted::NotInitialized),
    }
}

/// Stops counting, and returns a report of each counted launch, in the order in which the launches
/// ended. Launches that are still running are missing: synchronize first.
pub fn take() -> Vec<LaunchReport> {
    counting::take()
}
