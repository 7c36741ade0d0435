//! What launches did: instructions, sectors of memory, conflicts of banks, counted by the emulator.
//!
//! A GPU keeps such counters for its own profilers; [`start`] is an error there.

pub use ::emulator::counters::*;
pub use ::emulator::fault::{Access, SourceLocation, Space};

pub use crate::emulated::counting::LaunchReport;

use crate::backend::{Backend, backend};
use crate::emulated::counting;

/// Why launches cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    /// A GPU runs them.
    #[error(
        "only the emulator counts, and launches run on the GPU; set FERROWARP_DEVICE=emulator, or \
         use Nsight Compute"
    )]
    OnGpu,
    /// Nobody called `cuInit`.
    #[error("CUDA is not initialised yet, so it is not known whether the emulator runs launches")]
    NotInitialized,
}

/// Counts the launches that begin from now on, until [`take`].
///
/// # Errors
/// The launches of this process run on a GPU, or nothing is decided yet.
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

/// Counts no more, and takes what was counted, launches in the order in which they ended. Launches still
/// at work are left out: synchronise first.
pub fn take() -> Vec<LaunchReport> {
    counting::take()
}
