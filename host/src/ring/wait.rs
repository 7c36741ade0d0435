//! How the host waits for a ring.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::GpuResult;
use crate::shared_memory::SharedMemory;

/// Rounds in which nothing but the ring is looked at.
const EAGER: u32 = 256;
/// Rounds between looks at the kernel.
const RARE: u32 = 64;
/// After so long, a thread sleeps between looks.
const AWAKE: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(50);

/// A wait.
#[derive(Debug, Default)]
pub(super) struct Wait {
    rounds: u32,
    since: Option<Instant>,
}

impl Wait {
    /// Waits a little. Whether the kernels that have the ring are over: then nothing will change.
    ///
    /// # Errors
    /// Their fault or panic.
    pub(super) fn pause(&mut self, memory: &SharedMemory) -> GpuResult<bool> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds < EAGER {
            std::hint::spin_loop();
            return Ok(false);
        }
        match self.since.get_or_insert_with(Instant::now).elapsed() < AWAKE {
            true => thread::yield_now(),
            false => thread::sleep(NAP),
        }
        if !self.rounds.is_multiple_of(RARE) {
            return Ok(false);
        }
        memory.is_over()
    }

    /// Whether this is the first round.
    pub(super) fn begins(&self) -> bool {
        self.rounds == 0
    }
}
