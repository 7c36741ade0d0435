//! What a device is like.

use crate::machine::{Checks, Schedule};

/// Device memory of a machine that has as much; more is asked for by
/// [`Profile::total_memory_bytes`].
const MEMORY_BYTES: u64 = 16 << 30;

/// What a device is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name, for people.
    pub name: String,
    /// Compute capability: `(9, 0)` runs `sm_90` and what is older.
    pub compute_capability: (u32, u32),
    /// Letter of the architecture whose own features it has: `a` of `sm_90a`.
    pub arch_variant: Option<char>,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a block.
    pub max_threads_per_block: u32,
    /// Threads of a block in each direction.
    pub max_block_dim: [u32; 3],
    /// Blocks of a grid in each direction.
    pub max_grid_dim: [u32; 3],
    /// Threads that a multiprocessor holds.
    pub max_threads_per_multiprocessor: u32,
    /// Shared memory of a block in bytes.
    pub shared_mem_per_block: u32,
    /// The limit of shared memory for a block of a function that opts in to more, in bytes.
    pub shared_mem_per_block_optin: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_mem_per_multiprocessor: u32,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Registers of a block.
    pub registers_per_block: u32,
    /// Clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_width: u32,
    /// Second-level cache in bytes.
    pub l2_cache_bytes: u32,
    /// Constant memory in bytes.
    pub constant_memory_bytes: u32,
    /// Device memory in bytes.
    pub total_memory_bytes: u64,
    /// CPU threads that run the blocks of a launch.
    pub worker_threads: usize,
    /// Warp instructions that a launch may execute; `None` for any number.
    pub fuel: Option<u64>,
    /// The checks of its launches.
    pub checks: Checks,
    /// In which order the blocks and warps of a launch run.
    pub schedule: Schedule,
}

impl Default for Profile {
    fn default() -> Self {
        Self::hopper()
    }
}

impl Profile {
    /// A device with the limits of an H200, that runs on all CPU threads of this machine. It has
    /// the least of 16 GiB and this machine's memory, so that a kernel which fills it meets an
    /// error and not the end of the process.
    pub fn hopper() -> Self {
        Self {
            name: "Ferrowarp emulated sm_90a".to_owned(),
            compute_capability: (9, 0),
            arch_variant: Some('a'),
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_block_dim: [1024, 1024, 64],
            max_grid_dim: [0x7fff_ffff, 65535, 65535],
            max_threads_per_multiprocessor: 2048,
            shared_mem_per_block: 49152,
            shared_mem_per_block_optin: 232_448,
            shared_mem_per_multiprocessor: 233_472,
            warp_size: 32,
            registers_per_block: 65536,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            memory_bus_width: 6016,
            l2_cache_bytes: 60 << 20,
            constant_memory_bytes: 65536,
            total_memory_bytes: device_memory_bytes(machine_bytes(), container_bytes()),
            worker_threads: std::thread::available_parallelism().map_or(1, usize::from),
            fuel: None,
            checks: Checks::NONE,
            schedule: Schedule::default(),
        }
    }

    /// `sm_90a`
    pub fn architecture(&self) -> String {
        let (major, minor) = self.compute_capability;
        let variant = self.arch_variant.map(String::from).unwrap_or_default();
        format!("sm_{major}{minor}{variant}")
    }

    /// Whether PTX for `target` runs on it.
    pub(super) fn runs(&self, target: &str) -> bool {
        let Some(rest) = target.strip_prefix("sm_") else { return false };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let own = self.compute_capability.0 * 10 + self.compute_capability.1;
        let Ok(wanted) = digits.parse::<u32>() else { return false };
        match &rest[digits.len()..] {
            "" => wanted <= own,
            "f" => wanted <= own && wanted / 10 == own / 10,
            variant => {
                wanted == own && self.arch_variant.is_some_and(|own| variant == own.to_string())
            }
        }
    }
}

/// Device memory where the machine and the container that this process runs in have so much; `None`
/// where nothing tells.
fn device_memory_bytes(machine: Option<u64>, container: Option<u64>) -> u64 {
    [machine, container].into_iter().flatten().fold(MEMORY_BYTES, u64::min)
}

fn machine_bytes() -> Option<u64> {
    total_of(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `None` too where the container has no limit, for which the file says `max`.
fn container_bytes() -> Option<u64> {
    std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

/// The total in the text of `/proc/meminfo`, which counts KiB.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_memory_is_no_more_than_the_machine_has() {
        const GIB: u64 = 1 << 30;
        assert_eq!(device_memory_bytes(None, None), 16 * GIB);
        assert_eq!(device_memory_bytes(Some(64 * GIB), None), 16 * GIB);
        assert_eq!(device_memory_bytes(Some(8 * GIB), None), 8 * GIB);
        assert_eq!(device_memory_bytes(Some(64 * GIB), Some(2 * GIB)), 2 * GIB);
        let here = device_memory_bytes(machine_bytes(), container_bytes());
        assert_eq!(Profile::hopper().total_memory_bytes, here);
    }

    #[test]
    fn the_machines_memory_is_read_in_kib() {
        let text = "MemTotal:        8049196 kB\nMemFree:          123456 kB\n";
        assert_eq!(total_of(text), Some(8_049_196 << 10));
        assert_eq!(total_of("MemFree: 123456 kB\n"), None);
        assert_eq!(total_of("MemTotal: lots\n"), None);
    }
}
