//! What the environment says about the emulated device.

use std::env;
use std::num::NonZero;
use std::thread::available_parallelism;

use ::emulator::memory::MAX_DEVICES;
use ::emulator::{Checks, Profile, Schedule};

use super::invalid;
use crate::detail::{Answer, Failure};

/// The environment variable that sizes device memory.
const MEMORY: &str = "FERROWARP_EMULATOR_MEMORY";

/// The environment variable that says how many devices there are.
const DEVICES: &str = "FERROWARP_EMULATOR_DEVICES";

/// The environment variable that limits the warp instructions of a launch.
const FUEL: &str = "FERROWARP_FUEL";

/// The environment variable that names the checks of a launch.
const CHECK: &str = "FERROWARP_CHECK";

/// The environment variable that names the order of blocks and warps.
const SCHEDULE: &str = "FERROWARP_SCHEDULE";

/// The checks where nothing is said: all while one develops, else those that cost little.
const CHECKS: Checks = match cfg!(debug_assertions) {
    true => Checks::ALL,
    false => Checks { memory: true, sync: true, ..Checks::NONE },
};

/// The device to emulate.
pub(super) fn profile() -> Answer<Profile> {
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

/// How many devices there are.
pub(super) fn devices() -> Answer<usize> {
    env::var_os(DEVICES).map_or(Ok(1), |text| device_count(&text.to_string_lossy()))
}

fn device_count(text: &str) -> Answer<usize> {
    let count = text.trim().parse().ok().filter(|count| (1..=MAX_DEVICES).contains(count));
    count.ok_or_else(|| invalid(format!("{DEVICES} is `{text}`; it may be 1 to {MAX_DEVICES}")))
}

/// A number of bytes, with a suffix for powers of 1024.
fn memory_bytes(text: &str) -> Answer<u64> {
    let (digits, shift) = match text.trim().char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text.trim()[..at], 10),
        Some((at, 'M' | 'm')) => (&text.trim()[..at], 20),
        Some((at, 'G' | 'g')) => (&text.trim()[..at], 30),
        _ => (text.trim(), 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| not_a_size(text))
}

fn warp_instructions(text: &str) -> Answer<u64> {
    text.trim().parse().ok().filter(|&limit| limit > 0).ok_or_else(|| {
        invalid(format!("{FUEL} is `{text}`; it may be a number of warp instructions above 0"))
    })
}

fn checks(text: &str) -> Answer<Checks> {
    text.parse().map_err(|error| invalid(format!("{CHECK} is `{text}`: {error}")))
}

fn schedule(text: &str) -> Answer<Schedule> {
    text.parse().map_err(|error| invalid(format!("{SCHEDULE} is `{text}`: {error}")))
}

fn not_a_size(text: &str) -> Failure {
    invalid(format!(
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
