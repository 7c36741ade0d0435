//! The panics of a context, and to which streams they were reported.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::launches::Launches;
use super::report::{Report, ReportSource};
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
}

/// How many panics are kept for streams to which they were not reported yet.
const KEPT: usize = 64;

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
        panic.map_or(Ok(()), |panic| Err(panic.into()))
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

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl ContextState for Panics {
    fn take_panic(&self) -> Option<KernelPanic> {
        self.take_all()
    }
}
