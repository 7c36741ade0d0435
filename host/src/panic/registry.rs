//! The panics of a context, and to which streams they were reported.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use cuda_std::panic::SLOTS;

use super::launches::Launches;
use super::report::{Claim, LaunchQueue, Report, ReportSource};
use crate::context::{Context, ContextState, Slot};
use crate::error::{GpuResult, KernelPanic};
use crate::lock::lock;

/// The panics of a context.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    shared: Mutex<Shared>,
    /// Whether any module has records.
    possible: AtomicBool,
    /// How many panics were taken from the records.
    serial: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Shared {
    modules: Vec<Weak<dyn ReportSource>>,
    launches: Vec<Weak<Launches>>,
    /// Panics that were taken from the records, for the streams to which they were not reported
    /// yet.
    taken: VecDeque<(u64, Report)>,
    /// Panics that no stream is known to have launched: reported by the next wait of any stream.
    orphans: VecDeque<Report>,
    /// The records of panics that were taken, whose grids may still run.
    held: Vec<Held>,
}

/// A record that is not free yet: the wait that found the panic may have been for another launch of the same kernel, and the
/// other threads of the grid that panicked still have to find the record.
#[derive(Debug)]
struct Held {
    records: Weak<dyn ReportSource>,
    claim: Claim,
    /// The streams that the launch can have been enqueued on. Those that were dropped are not waited for.
    queues: Vec<Weak<dyn LaunchQueue>>,
}

/// How many panics are kept for streams to which they were not reported yet.
const KEPT: usize = 64;

/// How many records are held, so that others are left for panics to come: half of them.
const HELD: usize = SLOTS / 2;

impl Panics {
    /// Those of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::KernelPanics, Self::default)
    }

    /// How many panics were taken until now.
    fn serial(&self) -> u64 {
        self.serial.load(Ordering::Acquire)
    }

    /// The list of launches of a new stream.
    pub(crate) fn new_launches(&self) -> Arc<Launches> {
        let launches = Arc::new(Launches::new(self.serial.clone()));
        let mut shared = self.lock();
        shared.launches.retain(|own| own.strong_count() > 0);
        shared.launches.push(Arc::downgrade(&launches));
        launches
    }

    /// Looks at a module's records from now on.
    pub(super) fn watch(&self, records: Weak<dyn ReportSource>) {
        self.lock().modules.push(records);
        self.possible.store(true, Ordering::Release);
    }

    /// The first panic that work of `launches` depends on, if it was not reported yet.
    ///
    /// # Errors
    /// That panic.
    pub(crate) fn check(&self, launches: &Launches) -> GpuResult<()> {
        if !self.possible.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut shared = self.lock();
        self.collect(&mut shared, |report| launches.could_be(report));
        let own = |(serial, report): &&(u64, Report)| launches.waits_for(*serial, report);
        let panic = shared.taken.iter().find(own).map(|(_, report)| report.panic.clone());
        if panic.is_some() {
            launches.mark_reported(self.serial());
        }
        let panic = panic.or_else(|| shared.orphans.pop_front().map(|report| report.panic));
        self.free_ended(shared);
        panic.map_or(Ok(()), |panic| Err(panic.into()))
    }

    /// The panic of the grid with this id (its low half), each time.
    pub(crate) fn of_grid(&self, grid: u32) -> Option<KernelPanic> {
        if !self.possible.load(Ordering::Acquire) {
            return None;
        }
        let mut shared = self.lock();
        let is_own = |report: &Report| report.panic.grid == Some(grid);
        self.collect(&mut shared, is_own);
        let mut all = shared.taken.iter().map(|(_, report)| report);
        let panic = all.find(|report| is_own(report)).map(|report| report.panic.clone());
        self.free_ended(shared);
        panic
    }

    /// The first panic of the whole context; all panics then count as reported to all streams.
    pub(crate) fn take_all(&self) -> Option<KernelPanic> {
        if !self.possible.load(Ordering::Acquire) {
            return None;
        }
        let mut shared = self.lock();
        let before = self.serial();
        self.collect(&mut shared, |_| true);
        let all: Vec<_> = shared.launches.iter().filter_map(Weak::upgrade).collect();
        let untold = |(serial, report): &&(u64, Report)| {
            *serial > before || all.iter().any(|own| own.waits_for(*serial, report))
        };
        let first = shared.taken.iter().find(untold).map(|(_, report)| report.panic.clone());
        all.iter().for_each(|own| own.mark_reported(self.serial()));
        let orphan = std::mem::take(&mut shared.orphans).into_iter().next();
        self.free_ended(shared);
        first.or(orphan.map(|report| report.panic))
    }

    /// Takes all panics from the records before a module is unloaded, for the streams to which they
    /// were not reported yet.
    pub(crate) fn keep_all(&self) {
        if self.possible.load(Ordering::Acquire) {
            self.collect(&mut self.lock(), |_| true);
        }
    }

    /// Takes from the records the panics that `which` selects, and those that cannot be of any
    /// stream's launches, such as those of a graph.
    fn collect(&self, shared: &mut Shared, which: impl Fn(&Report) -> bool) {
        shared.modules.retain(|own| own.strong_count() > 0);
        let launches: Vec<_> = shared.launches.iter().filter_map(Weak::upgrade).collect();
        let is_orphan = |report: &Report| !launches.iter().any(|own| own.could_be(report));
        for records in shared.modules.iter().filter_map(Weak::upgrade) {
            for report in records.take(&|report| which(report) || is_orphan(report)) {
                let queues = launches.iter().filter(|own| own.could_be(&report));
                shared.held.extend(report.claim.map(|claim| Held {
                    records: Arc::downgrade(&records),
                    claim,
                    queues: queues.filter_map(|own| own.queue().cloned()).collect(),
                }));
                if is_orphan(&report) {
                    shared.orphans.push_back(report);
                } else {
                    let serial = self.serial.fetch_add(1, Ordering::AcqRel) + 1;
                    shared.taken.push_back((serial, report));
                }
            }
        }
        while shared.taken.len() > KEPT {
            shared.taken.pop_front();
        }
    }

    /// Frees the records of grids that have ended.
    ///
    /// A stream is asked, and may be dropped, without the lock, because its drop can come back here.
    fn free_ended(&self, mut shared: MutexGuard<'_, Shared>) {
        if shared.held.is_empty() {
            return;
        }
        let mut held = std::mem::take(&mut shared.held);
        drop(shared);
        held.retain_mut(|own| !own.is_over());
        let mut shared = self.lock();
        shared.held.splice(..0, held);
        let too_many = shared.held.len().saturating_sub(HELD);
        shared.held.drain(..too_many).for_each(|own| own.free());
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Held {
    /// Whether the grid has ended; its record is free then.
    fn is_over(&mut self) -> bool {
        self.queues.retain(|queue| queue.upgrade().is_some_and(|queue| !queue.is_done()));
        let is_over = self.queues.is_empty();
        if is_over {
            self.free();
        }
        is_over
    }

    fn free(&self) {
        if let Some(records) = self.records.upgrade() {
            records.free(self.claim);
        }
    }
}

impl ContextState for Panics {
    fn take_panic(&self) -> Option<KernelPanic> {
        self.take_all()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use cuda_std::launch::LaunchConfig;

    use super::*;

    const CONFIG: LaunchConfig =
        LaunchConfig { grid: (1, 1, 1), block: (32, 1, 1), shared_mem_bytes: 0 };

    /// Records with one panic at most.
    #[derive(Debug, Default)]
    struct Records {
        report: Mutex<Option<Report>>,
        freed: AtomicUsize,
    }

    impl ReportSource for Records {
        fn take(&self, which: &dyn Fn(&Report) -> bool) -> Vec<Report> {
            lock(&self.report).take_if(|report| which(report)).into_iter().collect()
        }

        fn free(&self, _: Claim) {
            self.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Records {
        /// A panic of the kernel `alike` in this grid.
        fn panic(&self, grid: u32) {
            let panic = KernelPanic {
                kernel: "alike".to_owned(),
                message: String::new(),
                file: String::new(),
                line: 0,
                column: 0,
                block: [0; 3],
                thread: [0; 3],
                others: 0,
                grid: Some(grid),
            };
            let kernels = vec!["alike".to_owned()];
            let claim = Some(Claim { slot: 0, generation: 1 });
            let report = Report { panic, kernels, grid: [1; 3], block: [32, 1, 1], claim };
            *lock(&self.report) = Some(report);
        }

        fn freed(&self) -> usize {
            self.freed.load(Ordering::Relaxed)
        }
    }

    #[derive(Debug, Default)]
    struct Queue {
        done: AtomicBool,
    }

    impl LaunchQueue for Queue {
        fn is_done(&self) -> bool {
            self.done.load(Ordering::Relaxed)
        }
    }

    /// A launch of the kernel `alike`, which runs.
    fn launch(panics: &Panics) -> (Arc<Launches>, Arc<Queue>) {
        let (launches, queue) = (panics.new_launches(), Arc::new(Queue::default()));
        let weak: Weak<dyn LaunchQueue> = Arc::<Queue>::downgrade(&queue);
        launches.set_queue(weak);
        launches.add("alike", &CONFIG);
        (launches, queue)
    }

    fn watched(panics: &Panics) -> Arc<Records> {
        let records = Arc::<Records>::default();
        let weak: Weak<dyn ReportSource> = Arc::<Records>::downgrade(&records);
        panics.watch(weak);
        records
    }

    #[test]
    fn a_record_is_held_while_a_launch_runs_that_it_can_be_of() {
        let panics = Panics::default();
        let records = watched(&panics);
        let [(ended, queue), (panicked, other)] = [launch(&panics), launch(&panics)];
        queue.done.store(true, Ordering::Relaxed);
        records.panic(7);
        // The wait for the launch that has ended finds the panic of the one that runs.
        assert!(panics.check(&ended).is_err());
        assert_eq!(records.freed(), 0);
        assert!(panics.check(&ended).is_ok());
        assert_eq!(records.freed(), 0);
        other.done.store(true, Ordering::Relaxed);
        assert!(panics.check(&panicked).is_err());
        assert_eq!(records.freed(), 1);
        assert!(panics.check(&panicked).is_ok());
        assert_eq!(records.freed(), 1);
    }

    #[test]
    fn a_stream_that_was_dropped_holds_no_record() {
        let panics = Panics::default();
        let records = watched(&panics);
        let (launches, queue) = launch(&panics);
        records.panic(7);
        assert!(panics.check(&launches).is_err());
        assert_eq!(records.freed(), 0);
        drop(queue);
        assert!(panics.take_all().is_none());
        assert_eq!(records.freed(), 1);
    }

    #[test]
    fn half_of_the_records_are_held() {
        let panics = Panics::default();
        let records = watched(&panics);
        let (launches, _queue) = launch(&panics);
        for grid in 0..10 {
            records.panic(grid);
            assert!(panics.check(&launches).is_err());
            assert_eq!(records.freed(), (grid as usize + 1).saturating_sub(HELD));
        }
    }

    #[test]
    fn the_panic_of_a_grid_is_found_among_others() {
        let panics = Panics::default();
        let records = watched(&panics);
        let (launches, _queue) = launch(&panics);
        assert_eq!(panics.of_grid(7), None);
        for grid in [7, 8] {
            records.panic(grid);
            assert!(panics.check(&launches).is_err());
        }
        for grid in [8, 7, 8] {
            assert_eq!(panics.of_grid(grid).and_then(|panic| panic.grid), Some(grid));
        }
        assert_eq!(panics.of_grid(9), None);
    }
}
