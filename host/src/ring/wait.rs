//! How the host waits for a ring.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
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
/// The time between looks at the kernel, where the looks at the ring have an interval.
pub(super) const LOOK: Duration = Duration::from_millis(1);

/// How the host waits at its end of a ring: for a message, or for a free slot. It looks again and again, because a
/// kernel that runs cannot wake a thread.
#[doc(alias = "Polled")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// A thread that waits spins at first, then yields, and sleeps after two milliseconds. For futures, a thread of the
    /// context looks after 20 microseconds, and less and less often while nothing comes: at most a millisecond apart.
    #[default]
    Adaptive,
    /// It looks at this interval, and sleeps in between.
    Polled {
        /// The time between two looks. With [`Duration::ZERO`] it spins: the soonest to see a message, and a
        /// processor's core is spent on it.
        interval: Duration,
    },
}

/// The strategy of a ring, which can be changed while threads wait.
#[derive(Debug)]
pub(super) struct SharedStrategy(AtomicU64);

impl SharedStrategy {
    const ADAPTIVE: u64 = u64::MAX;

    pub(super) fn get(&self) -> WaitStrategy {
        match self.0.load(Relaxed) {
            Self::ADAPTIVE => WaitStrategy::Adaptive,
            nanoseconds => WaitStrategy::Polled { interval: Duration::from_nanos(nanoseconds) },
        }
    }

    pub(super) fn set(&self, strategy: WaitStrategy) {
        let nanoseconds = match strategy {
            WaitStrategy::Adaptive => Self::ADAPTIVE,
            // Five centuries are the longest interval.
            WaitStrategy::Polled { interval } => {
                u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).min(Self::ADAPTIVE - 1)
            }
        };
        self.0.store(nanoseconds, Relaxed);
    }
}

impl Default for SharedStrategy {
    fn default() -> Self {
        Self(AtomicU64::new(Self::ADAPTIVE))
    }
}

/// A wait of a thread.
#[derive(Debug, Default)]
pub(super) struct Wait {
    strategy: WaitStrategy,
    /// When the wait ends, whatever has come.
    end: Option<Instant>,
    rounds: u32,
    since: Option<Instant>,
}

impl Wait {
    pub(super) fn new(strategy: WaitStrategy, end: Option<Instant>) -> Self {
        Self { strategy, end, ..Self::default() }
    }

    /// Waits a little. Whether the kernels that have the ring are over: then nothing will change.
    ///
    /// # Errors
    /// Their fault or panic.
    pub(super) fn pause(&mut self, memory: &SharedMemory) -> GpuResult<bool> {
        self.rounds = self.rounds.wrapping_add(1);
        let look = match self.strategy {
            WaitStrategy::Adaptive => self.pause_less_and_less(),
            WaitStrategy::Polled { interval } => self.pause_for(interval),
        };
        if look { memory.is_over() } else { Ok(false) }
    }

    /// Whether to look at the kernel now.
    fn pause_less_and_less(&mut self) -> bool {
        if self.rounds < EAGER {
            std::hint::spin_loop();
            return false;
        }
        match self.since.get_or_insert_with(Instant::now).elapsed() < AWAKE {
            true => thread::yield_now(),
            false => thread::sleep(NAP),
        }
        self.rounds.is_multiple_of(RARE)
    }

    /// Whether to look at the kernel now.
    fn pause_for(&mut self, interval: Duration) -> bool {
        let looked = *self.since.get_or_insert_with(Instant::now);
        let left = self.end.map_or(interval, |end| end.saturating_duration_since(Instant::now()));
        match interval.min(left) {
            Duration::ZERO => std::hint::spin_loop(),
            rest => thread::sleep(rest),
        }
        let look = looked.elapsed() >= LOOK;
        self.since = self.since.filter(|_| !look);
        look
    }

    /// Whether this is the first round.
    pub(super) fn begins(&self) -> bool {
        self.rounds == 0
    }

    /// Whether the time is up.
    pub(super) fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_is_kept_as_it_was_set() {
        let shared = SharedStrategy::default();
        assert_eq!(shared.get(), WaitStrategy::Adaptive);
        for interval in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(3600)] {
            shared.set(WaitStrategy::Polled { interval });
            assert_eq!(shared.get(), WaitStrategy::Polled { interval });
        }
        // What cannot be counted is a time that does not pass.
        shared.set(WaitStrategy::Polled { interval: Duration::MAX });
        let WaitStrategy::Polled { interval } = shared.get() else { panic!("it is polled") };
        assert!(interval > Duration::from_secs(1 << 33));
        shared.set(WaitStrategy::Adaptive);
        assert_eq!(shared.get(), WaitStrategy::Adaptive);
    }
}
