//! The panics of a context, and which streams were told of them.

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
    serial: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    modules: Vec<Weak<dyn ReportSource>>,
    launches: Vec<Weak<Launches>>,
    /// Panics that were taken, for the streams that have not been told.
    taken: VecDeque<(u64, Report)>,
    /// Panics of what no stream is known to have launched: for whoever waits next.
    orphans: VecDeque<Report>,
}

/// Panics that are kept for streams that have not been told.
const KEPT: usize = 64;

impl Panics {
    /// Those of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::KernelPanics, Self::default)
    }

    /// How many panics were taken until now.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Acquire)
    }

    /// The list of launches of a new stream.
    pub(crate) fn new_launches(&self) -> Arc<Launches> {
        let launches = Arc::new(Launches::default());
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

    /// The first panic that work of `launches` depends on, if it has not been told yet.
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
            launches.told(self.serial());
        }
        let panic = panic.or_else(|| shared.orphans.pop_front().map(|report| report.panic));
        panic.map_or(Ok(()), |panic| Err(panic.into()))
    }

    /// The first panic of the whole context; all streams count as told.
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
        all.iter().for_each(|own| own.told(self.serial()));
        let orphan = std::mem::take(&mut shared.orphans).into_iter().next();
        first.or(orphan.map(|report| report.panic))
    }

    /// Takes all panics from the records, for the streams that have not been told: a module goes.
    pub(crate) fn keep_all(&self) {
        if self.possible.load(Ordering::Acquire) {
            self.collect(&mut self.lock(), |_| true);
        }
    }

    /// Takes from the records the panics that `which` says, and those that no stream's launches
    /// could be, as those of a graph.
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
