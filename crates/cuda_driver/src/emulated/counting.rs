//! Counts events of launches, while a program asks for that through `crate::counters`.

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
    /// The name of the kernel.
    pub kernel: String,
    /// The grid dimensions, in blocks.
    pub grid: [u32; 3],
    /// The block dimensions, in threads.
    pub block: [u32; 3],
    /// Static shared memory of a block, in bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// The emulation time, with counters on.
    pub elapsed: Duration,
    /// The counters.
    pub counters: Counters,
}

/// Counts the launches that begin from now on, until [`take`].
pub(crate) fn start() {
    COUNTING.store(true, Ordering::Release);
}

/// Stops counting, and takes the reports of the launches that have ended.
pub(crate) fn take() -> Vec<LaunchReport> {
    COUNTING.store(false, Ordering::Release);
    std::mem::take(&mut lock(&REPORTS))
}

/// Runs a launch to its end, and counts its events if a program asked for that.
// The size of the error does not matter: launches are rare. The emulator allows it, too.
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
