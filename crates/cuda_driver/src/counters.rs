//! What launches did: instructions, sectors of memory, conflicts of banks, counted by the emulator.
//!
//! A GPU keeps such counters for its own profilers; [`start`] is an error there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::emulator::{Device, Launch, Trap};

pub use ::emulator::counters::*;
pub use ::emulator::fault::{Access, SourceLocation, Space};

use crate::backend::{Backend, backend};

static COUNTING: AtomicBool = AtomicBool::new(false);
static REPORTS: Mutex<Vec<LaunchReport>> = Mutex::new(Vec::new());

/// One launch that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchReport {
    /// The kernel.
    pub kernel: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Shared memory of a block that the kernel declares, in bytes.
    pub static_shared_bytes: u32,
    /// Shared memory of a block that the launch added, in bytes.
    pub dynamic_shared_bytes: u32,
    /// How long the emulator took, with its counters on.
    pub elapsed: Duration,
    /// What was counted.
    pub counters: Counters,
}

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
            COUNTING.store(true, Ordering::Release);
            Ok(())
        }
        Some(Backend::Cuda) => Err(NotCounted::OnGpu),
        None => Err(NotCounted::NotInitialized),
    }
}

/// Counts no more, and takes what was counted, launches in the order in which they ended. Launches still
/// at work are left out: synchronise first.
pub fn take() -> Vec<LaunchReport> {
    COUNTING.store(false, Ordering::Release);
    std::mem::take(&mut REPORTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a launch to its end, counted if that was asked for.
// As in the emulator: a launch is rare.
#[allow(clippy::result_large_err)]
pub(crate) fn launch(device: &Device, launch: &Launch<'_>) -> Result<(), Trap> {
    device.count(COUNTING.load(Ordering::Acquire));
    let start = Instant::now();
    let stats = device.launch(launch)?;
    let Some(counters) = stats.counters else { return Ok(()) };
    let report = LaunchReport {
        kernel: launch.function.name.clone(),
        grid: launch.grid,
        block: launch.block,
        static_shared_bytes: launch.function.static_shared_bytes,
        dynamic_shared_bytes: launch.dynamic_shared_bytes,
        elapsed: start.elapsed(),
        counters,
    };
    REPORTS.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    Ok(())
}
