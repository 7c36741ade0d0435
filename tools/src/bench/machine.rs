//! What the figures were found with: driver, clocks, limits.

use std::process::{Command, Stdio};

use ferrowarp::device::DeviceInfo;

/// What `nvidia-smi` says about a device, in one line; `None` where it is not on the machine.
#[must_use]
pub fn driver(ordinal: u32) -> Option<String> {
    const ASKED: &str = "driver_version,clocks.max.sm,clocks.max.mem,power.limit,persistence_mode";
    let [driver, sm, memory, power, persistence] = ask(ordinal, ASKED)?.try_into().ok()?;
    Some(format!(
        "driver {driver}; clocks up to {sm} MHz, memory {memory} MHz; power limit {power} W; persistence mode {}",
        persistence.to_lowercase()
    ))
}

/// The clock of the multiprocessors now, in MHz.
#[must_use]
pub fn clock_mhz(ordinal: u32) -> Option<u32> {
    ask(ordinal, "clocks.sm")?.first()?.parse().ok()
}

/// The answers of `nvidia-smi`, without their units.
fn ask(ordinal: u32, what: &str) -> Option<Vec<String>> {
    let output = Command::new("nvidia-smi")
        .arg(format!("--query-gpu={what}"))
        .args(["--format=csv,noheader,nounits", &format!("--id={ordinal}")])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let line = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(line.trim().split(", ").map(str::to_owned).collect())
}

/// 10^12 f32 operations a second at the highest clock, a fused multiply-add counted as two; 0 for generations that
/// are not known.
#[must_use]
pub fn peak_tera_operations(info: &DeviceInfo) -> f64 {
    let lanes = match info.compute_capability {
        (8, 0) => 64.0,
        (8.., _) => 128.0,
        _ => 0.0,
    };
    2.0 * lanes * f64::from(info.multiprocessors) * f64::from(info.clock_khz) * 1e3 / 1e12
}
