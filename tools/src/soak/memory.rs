//! The memory of the process and of the device, which must not grow after the warm-up.

use std::time::Duration;

use serde::Serialize;

use super::error::SoakError;

/// How far the memory of the process may grow after the warm-up: pages of freed blocks stay where others lie between.
pub(super) const HOST_BOUND: u64 = 96 << 20;
/// How far the used memory of the device may.
pub(super) const DEVICE_BOUND: u64 = 64 << 20;
/// The warm-up: this part of the time, within these limits. Modules are loaded and allocators fill meanwhile.
const WARM_UP_PART: u32 = 5;
const WARM_UP_LEAST: Duration = Duration::from_secs(30);
const WARM_UP_MOST: Duration = Duration::from_secs(120);

/// The memory in use while nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Resident bytes of this process; 0 where the system does not say.
    pub host_bytes: u64,
    /// Bytes of the device that are in use, by this process and by others.
    pub device_bytes: u64,
}

/// What became of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// The number of samples.
    pub samples: usize,
    /// The most that was in use in the warm-up; `None` if there was no sample.
    pub warm: Option<Sample>,
    /// The last sample.
    pub last: Option<Sample>,
}

/// Compares samples with those of the warm-up.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    warm_up: Duration,
    report: MemoryReport,
}

impl MemoryWatch {
    /// For a run that takes so long.
    pub(super) fn new(time: Duration) -> Self {
        let warm_up = (time / WARM_UP_PART).clamp(WARM_UP_LEAST, WARM_UP_MOST);
        Self { warm_up, report: MemoryReport::default() }
    }

    pub(super) fn report(&self) -> MemoryReport {
        self.report
    }

    /// Takes a sample that was made `since` the start of the run.
    pub(super) fn take(&mut self, since: Duration, sample: Sample) -> Result<(), SoakError> {
        let report = &mut self.report;
        report.samples += 1;
        report.last = Some(sample);
        let Some(warm) = report.warm.filter(|_| since > self.warm_up) else {
            let warm = report.warm.unwrap_or(sample);
            report.warm = Some(Sample {
                host_bytes: warm.host_bytes.max(sample.host_bytes),
                device_bytes: warm.device_bytes.max(sample.device_bytes),
            });
            return Ok(());
        };
        grown("the host's", warm.host_bytes, sample.host_bytes, HOST_BOUND)?;
        grown("the device's", warm.device_bytes, sample.device_bytes, DEVICE_BOUND)
    }
}

fn grown(whose: &'static str, before: u64, now: u64, bound: u64) -> Result<(), SoakError> {
    let grown = now.saturating_sub(before);
    if grown > bound { Err(SoakError::Grew { whose, grown, bound }) } else { Ok(()) }
}

/// Returns to the system what the allocator keeps of freed blocks: it keeps some for each thread that there ever was, and
/// what it keeps says nothing about leaks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_allocator() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    // SAFETY: the C library has a function of this name and type, which any thread may call at any time.
    unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_allocator() {}

/// Resident bytes of this process, without freed blocks that its allocator keeps.
#[cfg(target_os = "linux")]
pub(super) fn resident_bytes() -> u64 {
    trim_allocator();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1024 * kib.unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn resident_bytes() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sample(host: u64, device: u64) -> Sample {
        Sample { host_bytes: host * MIB, device_bytes: device * MIB }
    }

    #[test]
    fn growth_in_the_warm_up_is_none_and_later_growth_has_a_bound() {
        let mut watch = MemoryWatch::new(Duration::from_secs(200));
        let mut take = |second, sample| watch.take(Duration::from_secs(second), sample);
        take(1, sample(10, 10)).unwrap();
        take(39, sample(500, 400)).unwrap();
        take(40, sample(490, 410)).unwrap();
        take(41, sample(500 + 96, 410 + 64)).unwrap();
        let error = take(50, sample(500 + 97, 410)).unwrap_err().to_string();
        assert_eq!(
            error,
            "the host's memory grew by 97.0 MiB since the warm-up; the bound is 96 MiB"
        );
        let error = take(51, sample(500, 410 + 65)).unwrap_err().to_string();
        assert!(error.starts_with("the device's memory grew by 65.0 MiB"), "{error}");
        assert_eq!(watch.report().warm, Some(sample(500, 410)));
        assert_eq!(watch.report().samples, 6);
    }

    #[test]
    fn a_first_sample_after_the_warm_up_is_what_others_are_compared_with() {
        let mut watch = MemoryWatch::new(Duration::from_secs(36_000));
        watch.take(Duration::from_secs(121), sample(7, 7)).unwrap();
        assert!(watch.take(Duration::from_secs(122), sample(104, 7)).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_is_measured() {
        let rises = || {
            let before = resident_bytes();
            let block = std::hint::black_box(vec![1u8; 256 << 20]);
            let after = resident_bytes();
            drop(block);
            before > 0 && after >= before + (128 << 20)
        };
        // Other tests of this process may give back as much in one of the tries.
        assert!((0..5).any(|_| rises()), "{}", resident_bytes());
    }
}
