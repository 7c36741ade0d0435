//! Times of our side.

use std::time::Instant;

use cuda_std::launch::Grid1;
use kernels_gpu::random::noise::hold;
use serde::{Deserialize, Serialize};

use super::case::{Case, Rig};
use super::check::Fault;
use ferrowarp::error::GpuResult;
use ferrowarp::{Backend, Gpu};

/// Most copies of the data. Where all of them fit into the L2 cache, at some hundred kilobytes and below, both sides run
/// out of the cache, and what counts is the launch.
pub const MOST_COPIES: usize = 256;
/// Most runs in a batch: the driver's queue of a stream is not endless.
const MOST_RUNS: usize = 100;
/// How long a batch takes, if it can.
const BATCH_MS: f64 = 1.0;
/// The first seed; each copy of the data has its own.
const SEED: u32 = 1;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Turns of each side.
    pub sittings: usize,
    /// Samples in a turn.
    pub rounds: usize,
}

/// How the samples of a case are taken, on both sides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batching {
    /// Copies of the data.
    pub copies: usize,
    /// Runs between two events.
    pub runs: usize,
}

/// Copies of `bytes` that outgrow a cache of `cache` bytes twice and fit into a third of `free`.
fn copies(bytes: u64, cache: u64, free: u64) -> usize {
    let bytes = bytes.max(1);
    let wanted = (2 * cache).div_ceil(bytes) + 1;
    wanted.min(free / 3 / bytes).clamp(1, MOST_COPIES as u64) as usize
}

/// Our side of a case.
pub struct Ours<'a> {
    gpu: &'a Gpu,
    rigs: Vec<Box<dyn Rig>>,
    /// Runs so far, since the poison.
    done: usize,
    /// How long the host takes to queue a run.
    queue_ns: u64,
    batching: Batching,
    is_timed_on_host: bool,
}

impl<'a> Ours<'a> {
    /// Makes the data, runs each copy once, and finds out how long a batch should be.
    ///
    /// # Errors
    /// What the driver answers, out of memory for one.
    pub fn new(gpu: &'a Gpu, case: &Case) -> GpuResult<Self> {
        Self::with(gpu, case, |gpu, seed| case.set_up(gpu, seed))
    }

    /// As [`new`](Self::new), for a peer of the case that runs in this process.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        gpu: &'a Gpu,
        case: &Case,
        set_up: impl Fn(&Gpu, u32) -> GpuResult<Box<dyn Rig>>,
    ) -> GpuResult<Self> {
        let n = match gpu.backend() {
            _ if case.is_timed_on_host => 1,
            Backend::Cuda => {
                copies(case.work.bytes, gpu.info().l2_bytes.into(), gpu.memory_info()?.0 as u64)
            }
            Backend::Emulator => 2,
        };
        let rigs = (0..n as u32).map(|copy| set_up(gpu, SEED + copy)).collect::<GpuResult<_>>()?;
        let batching = Batching { copies: n, runs: 1 };
        let is_timed_on_host = case.is_timed_on_host;
        let mut ours = Self { gpu, rigs, done: 0, queue_ns: 0, batching, is_timed_on_host };
        ours.warm_up()?;
        Ok(ours)
    }

    /// How samples are taken.
    #[must_use]
    pub fn batching(&self) -> Batching {
        self.batching
    }

    fn warm_up(&mut self) -> GpuResult<()> {
        if self.is_timed_on_host {
            self.sample_on_host()?;
            return self.poison();
        }
        (0..self.rigs.len()).try_for_each(|_| self.next())?;
        self.gpu.synchronize()?;
        if self.gpu.backend() == Backend::Emulator {
            return self.poison();
        }
        const RUNS: usize = 10;
        let start = Instant::now();
        let mut queued = start.elapsed();
        let (_, ms) = self.gpu.time(|| {
            (0..RUNS).try_for_each(|_| self.next())?;
            queued = start.elapsed();
            Ok(())
        })?;
        self.queue_ns = queued.as_nanos() as u64 / RUNS as u64;
        let runs = (BATCH_MS * RUNS as f64 / ms).ceil() as usize;
        self.batching.runs = runs.clamp(1, MOST_RUNS);
        self.poison()
    }

    /// Overwrites all outputs, so that the next [`check`](Self::check) is of what runs from now on.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn poison(&mut self) -> GpuResult<()> {
        self.done = 0;
        self.rigs.iter_mut().try_for_each(|rig| rig.poison(self.gpu))
    }

    fn next(&mut self) -> GpuResult<()> {
        let copy = self.done % self.rigs.len();
        self.done += 1;
        self.rigs[copy].run(self.gpu)
    }

    /// `rounds` samples: milliseconds of one run.
    ///
    /// # Errors
    /// What the driver answers, or the fault of a kernel.
    pub fn sitting(&mut self, rounds: usize) -> GpuResult<Vec<f64>> {
        self.gpu.synchronize()?;
        (0..rounds).map(|_| self.sample()).collect()
    }

    fn sample(&mut self) -> GpuResult<f64> {
        if self.is_timed_on_host {
            return self.sample_on_host();
        }
        let runs = self.batching.runs;
        if self.gpu.backend() == Backend::Cuda {
            hold::launch(self.gpu, Grid1::new(1), hold_ns(self.queue_ns, runs))?;
        }
        let (_, ms) = self.gpu.time(|| (0..runs).try_for_each(|_| self.next()))?;
        Ok(ms / runs as f64)
    }

    /// A run by the host's clock.
    fn sample_on_host(&mut self) -> GpuResult<f64> {
        self.rigs[0].prepare(self.gpu)?;
        self.gpu.synchronize()?;
        let start = Instant::now();
        self.next()?;
        self.gpu.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// Checks the first and the last copy that ran.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&mut self) -> Result<(), Fault> {
        let ran = self.rigs.len().min(self.done);
        let mut chosen = vec![0, ran.saturating_sub(1)];
        chosen.dedup();
        chosen.into_iter().try_for_each(|copy| self.rigs[copy].check(self.gpu))
    }
}

/// How long the device is held while the host queues so many runs.
fn hold_ns(queue_ns: u64, runs: usize) -> u64 {
    const MOST_NS: u64 = 20_000_000;
    (queue_ns * runs as u64 * 3 / 2 + 20_000).min(MOST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_outgrow_the_cache_and_fit_into_memory() {
        const MIB: u64 = 1 << 20;
        assert_eq!(copies(8 * MIB, 50 * MIB, 1 << 37), 14);
        assert_eq!(copies(1 << 33, 50 * MIB, 1 << 37), 2);
        assert_eq!(copies(1 << 33, 50 * MIB, 1 << 34), 1);
        assert_eq!(copies(4096, 50 * MIB, 1 << 37), MOST_COPIES);
        assert_eq!(copies(0, 50 * MIB, 1 << 37), MOST_COPIES);
    }

    #[test]
    fn a_held_device_waits() {
        let gpu = Gpu::new().unwrap();
        gpu.load_kernels().unwrap();
        let (_, ms) = gpu.time(|| hold::launch(&gpu, Grid1::new(1), 3_000_000)).unwrap();
        assert!(ms >= 3.0, "{ms} ms");
    }

    #[test]
    fn the_hold_outlasts_the_queueing() {
        assert!(hold_ns(5_000, 100) > 500_000);
        assert!(hold_ns(u32::MAX.into(), 100) == 20_000_000);
    }
}
