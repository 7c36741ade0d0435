//! What all works of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ferrowarp::error::GpuResult;
use ferrowarp::memory::resource::{MemoryPool, MemoryResource, StatisticsAdaptor};
use ferrowarp::pool::StreamPool;
use ferrowarp::{Gpu, Stream};

use super::counts::{Counts, Flow};
use super::error::SoakError;
use super::memory::{MemoryWatch, Sample, resident_bytes};
use super::random::Random;

/// Streams that works share. Some make one of their own.
const STREAMS: usize = 4;

/// The device, its pools, and what the run has found so far.
pub(super) struct Site {
    pub(super) gpu: Gpu,
    /// Counts what goes to the pool and comes back.
    pub(super) memory: Arc<StatisticsAdaptor<MemoryPool>>,
    pub(super) streams: StreamPool,
    pub(super) counts: Counts,
    pub(super) watch: Mutex<MemoryWatch>,
    pub(super) start: Instant,
    /// Works hold it for reading; those that must be alone on the device hold it for writing.
    pub(super) alone: RwLock<()>,
    pub(super) next: AtomicU64,
    pub(super) is_over: Arc<AtomicBool>,
    pub(super) miss: Mutex<Option<SoakError>>,
    /// Milliseconds after the start at which work last ended.
    progress: AtomicU64,
}

impl Site {
    pub(super) fn new(gpu: Gpu, time: Duration, is_over: Arc<AtomicBool>) -> GpuResult<Self> {
        Ok(Self {
            memory: StatisticsAdaptor::new(MemoryPool::new(&gpu)),
            streams: StreamPool::new(&gpu, STREAMS)?,
            counts: Counts::default(),
            watch: Mutex::new(MemoryWatch::new(time)),
            start: Instant::now(),
            alone: RwLock::new(()),
            next: AtomicU64::new(0),
            is_over,
            miss: Mutex::new(None),
            progress: AtomicU64::new(0),
            gpu,
        })
    }

    /// Runs `work` on a stream of the pool or on a new one.
    pub(super) fn on_a_stream<R>(
        &self,
        random: &mut Random,
        work: impl FnOnce(&Stream, &mut Random) -> Result<R, SoakError>,
    ) -> Result<R, SoakError> {
        if random.once_in(2) {
            work(&self.gpu.create_stream()?, random)
        } else {
            work(&*self.streams.acquire()?, random)
        }
    }

    /// Samples the memory, and looks for what was lost. Nothing else runs.
    pub(super) fn take_sample(&self) -> Result<(), SoakError> {
        self.gpu.synchronize()?;
        self.memory.trim()?;
        let counts = self.memory.statistics();
        if counts.current_bytes > 0 {
            return Err(SoakError::Leaked { bytes: counts.current_bytes });
        }
        self.counts.set(Flow::Allocations, counts.allocations, counts.frees);
        self.counts.check()?;
        let (free, total) = self.gpu.memory_info()?;
        let sample = Sample {
            host_bytes: resident_bytes(),
            device_bytes: total.saturating_sub(free) as u64,
        };
        lock(&self.watch).take(self.start.elapsed(), sample)
    }

    pub(super) fn note_progress(&self) {
        self.progress.store(self.start.elapsed().as_millis() as u64, Relaxed);
    }

    /// How long no work has ended.
    pub(super) fn waited(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.progress.load(Relaxed)))
    }

    /// Ends the run; the first miss is the one that is reported.
    pub(super) fn fail(&self, miss: SoakError) {
        lock(&self.miss).get_or_insert(miss);
        self.is_over.store(true, Relaxed);
    }
}

/// A panic of another thread is found when it is joined.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
