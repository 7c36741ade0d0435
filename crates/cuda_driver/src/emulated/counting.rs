//! Counts what launches do, while a program asks for it through `crate::counters`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::emulator::counters::Counters;
use ::emulator::{Device, Launch, Trap};

use super::lock;

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

/// Counts the launches that begin from now on, until [`take`].
pub(crate) fn start() {
    COUNTING.store(true, Ordering::Release);
}

/// Counts no more, and takes the reports of the launches that have ended.
pub(crate) fn take() -> Vec<LaunchReport> {
    COUNTING.store(false, Ordering::Release);
    std::mem::take(&mut lock(&REPORTS))
}

/// Runs a launch to its end, counted if that was asked for.
// As in the emulator: a launch is rare.
#[allow(clippy::result_large_err)]
pub(super) fn launch(device: &Device, launch: &Launch<'_>) -> Result<(), Trap> {
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
    lock(&REPORTS).push(report);
    Ok(())
}
