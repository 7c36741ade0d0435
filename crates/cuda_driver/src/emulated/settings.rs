//! The environment variables that configure the emulated devices.

use std::env;
use std::num::NonZero;
use std::thread::available_parallelism;

use ::emulator::memory::MAX_DEVICES;
use ::emulator::{Checks, Profile, Schedule};

use super::invalid_value;
use crate::detail::{DriverError, DriverResult};

/// The environment variable that sets the size of each device's memory.
const MEMORY: &str = "FERROWARP_EMULATOR_MEMORY";

/// The environment variable that sets the number of devices.
const DEVICES: &str = "FERROWARP_EMULATOR_DEVICES";

/// The environment variable that limits the warp instructions of a launch.
const FUEL: &str = "FERROWARP_FUEL";

/// The environment variable that selects the checks of a launch.
const CHECK: &str = "FERROWARP_CHECK";

/// The environment variable that selects the schedule of blocks and warps.
const SCHEDULE: &str = "FERROWARP_SCHEDULE";

/// The default checks: all of them in builds with debug assertions, else the cheap ones.
const CHECKS: Checks = match cfg!(debug_assertions) {
    true => Checks::ALL,
    false => Checks { memory: true, sync: true, ..Checks::NONE },
};

/// The device to emulate.
pub(super) fn profile() -> DriverResult<Profile> {
    let worker_threads = available_parallelism().map_or(1, NonZero::get);
    let name = "Ferrowarp emulator".to_owned();
    let mut profile = Profile { name, worker_threads, checks: CHECKS, ..Profile::hopper() };
    if let Some(text) = env::var_os(MEMORY) {
        profile.total_memory_bytes = memory_bytes(&text.to_string_lossy())?;
    }
    if let Some(text) = env::var_os(FUEL) {
        profile.fuel = Some(warp_instructions(&text.to_string_lossy())?);
    }
    if let Some(text) = env::var_os(CHECK) {
        profile.checks = checks(&text.to_string_lossy())?;
    }
    if let Some(text) = env::var_os(SCHEDULE) {
        profile.schedule = schedule(&text.to_string_lossy())?;
    }
    Ok(profile)
}

/// The number of devices.
pub(super) fn devices() -> DriverResult<usize> {
    env::var_os(DEVICES).map_or(Ok(1), |text| device_count(&text.to_string_lossy()))
}

fn device_count(text: &str) -> DriverResult<usize> {
    let count = text.trim().parse().ok().filter(|count| (1..=MAX_DEVICES).contains(count));
    count.ok_or_else(|| {
        invalid_value(format!("{DEVICES} is `{text}`; it may be 1 to {MAX_DEVICES}"))
    })
}

/// A number of bytes, with a suffix for powers of 1024.
fn memory_bytes(text: &str) -> DriverResult<u64> {
    let (digits, shift) = match text.trim().char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text.trim()[..at], 10),
        Some((at, 'M' | 'm')) => (&text.trim()[..at], 20),
        Some((at, 'G' | 'g')) => (&text.trim()[..at], 30),
        _ => (text.trim(), 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| not_a_size(text))
}

fn warp_instructions(text: &str) -> DriverResult<u64> {
    text.trim().parse().ok().filter(|&limit| limit > 0).ok_or_else(|| {
        invalid_value(format!(
            "{FUEL} is `{text}`; it may be a number of warp instructions above 0"
        ))
    })
}

fn checks(text: &str) -> DriverResult<Checks> {
    text.parse().map_err(|error| invalid_value(format!("{CHECK} is `{text}`: {error}")))
}

fn schedule(text: &str) -> DriverResult<Schedule> {
    text.parse().map_err(|error| invalid_value(format!("{SCHEDULE} is `{text}`: {error}")))
}

fn not_a_size(text: &str) -> DriverError {
    invalid_value(format!(
        "{MEMORY} is `{text}`; it may be a number of bytes such as `268435456`, or one with a \
         suffix such as `512K`, `256M` or `4G`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        for (text, bytes) in
            [("4096", 4096), ("512K", 512 << 10), ("3m", 3 << 20), (" 2G ", 2 << 30)]
        {
            assert_eq!(memory_bytes(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_by_name() {
        for text in ["", "G", "0", "-1", "1.5G", "12Q", "99999999999G", "ten"] {
            let failure = memory_bytes(text).unwrap_err();
            assert_eq!(failure.code, 1);
            assert!(failure.text.contains(&format!("{MEMORY} is `{text}`")), "{}", failure.text);
        }
    }

    #[test]
    fn there_are_one_to_sixteen_devices() {
        assert_eq!((device_count("1").unwrap(), device_count(" 16 ").unwrap()), (1, 16));
        for text in ["", "0", "17", "-1", "two", "1.0"] {
            let failure = device_count(text).unwrap_err();
            assert!(failure.text.contains(&format!("{DEVICES} is `{text}`")), "{}", failure.text);
        }
    }

    #[test]
    fn fuel_is_a_number_above_zero() {
        assert_eq!(warp_instructions(" 1000000 ").unwrap(), 1_000_000);
        for text in ["", "0", "-5", "1e6", "lots"] {
            let failure = warp_instructions(text).unwrap_err();
            assert!(failure.text.contains(&format!("{FUEL} is `{text}`")), "{}", failure.text);
        }
    }

    #[test]
    fn checks_and_schedules_are_named() {
        assert_eq!(checks("all").unwrap(), Checks::ALL);
        assert_eq!(checks("race,sync").unwrap(), Checks { race: true, sync: true, ..Checks::NONE });
        let failure = checks("races").unwrap_err();
        assert_eq!(failure.code, 1);
        assert!(failure.text.contains("FERROWARP_CHECK is `races`: `races` is not a check"));
        assert_eq!(schedule("random:7").unwrap(), Schedule::Random(7));
        let failure = schedule("random").unwrap_err();
        assert_eq!(failure.code, 1);
        assert!(failure.text.contains("FERROWARP_SCHEDULE is `random`: "), "{}", failure.text);
    }
}
