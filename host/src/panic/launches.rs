//! The launches of a stream since its last wait.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use cuda_std::launch::LaunchConfig;
use smallvec::SmallVec;

use super::report::{LaunchQueue, Report};
use crate::lock::lock;

/// How many different launches are kept apart; with more, any panic could be the stream's.
const DIFFERENT: usize = 256;

/// The launches whose panics a stream's next wait reports: its own, and those that it was ordered
/// after.
#[derive(Debug)]
pub(crate) struct Launches {
    /// The [`Epoch`], which changes with the list locked.
    epoch: AtomicU64,
    list: Mutex<List>,
    /// How many panics were taken from the records of the context.
    serial: Arc<AtomicU64>,
    /// Where they were enqueued, if it is one stream.
    queue: OnceLock<Weak<dyn LaunchQueue>>,
}

/// The time between the beginnings of two waits for the launches of one stream: a number, unique in the process for all
/// time. A launch that was noted in an epoch need not be noted in it again, because a wait that removes the former begins
/// after the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// Before all epochs.
    pub(crate) const NEVER: Self = Self(0);

    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
struct List {
    /// Inline while they are few: a launch then touches no memory of their own.
    entries: SmallVec<[Entry; 2]>,
    /// Where the last launch was noted: the next one often is of the same kernel and shape.
    latest: usize,
    /// Counts launches, so that a wait removes none that came after it began.
    clock: u64,
}

/// What a launch is known by: the kernel's name, the grid and the block.
type Launched = (&'static str, (u32, u32, u32), (u32, u32, u32));

/// Launches of one kernel with one shape.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` for launches that are no longer kept apart.
    what: Option<Launched>,
    /// Panics up to this serial came before the first of them, or were reported.
    since: u64,
    /// When the last of them came.
    clock: u64,
}

impl Launches {
    /// None yet, of a context whose panics `serial` counts.
    pub(super) fn new(serial: Arc<AtomicU64>) -> Self {
        let epoch = AtomicU64::new(Epoch::new().0);
        Self { epoch, list: Mutex::default(), serial, queue: OnceLock::new() }
    }

    /// Says that they are those of `queue`. It is said once.
    pub(crate) fn set_queue(&self, queue: Weak<dyn LaunchQueue>) {
        let set = self.queue.set(queue);
        debug_assert!(set.is_ok(), "the launches are those of another queue");
    }

    /// Where they were enqueued.
    pub(super) fn queue(&self) -> Option<&Weak<dyn LaunchQueue>> {
        self.queue.get()
    }

    /// The epoch, without a lock.
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// A launch, after the panics until now. The epoch in which it is noted.
    pub(crate) fn add(&self, kernel: &'static str, config: &LaunchConfig) -> Epoch {
        let what = Some((kernel, config.grid, config.block));
        let mut list = self.lock();
        // The serial only grows, so that of a launch like the latest one changes nothing.
        if !list.repeat(&what) {
            list.add(what, self.serial.load(Ordering::Acquire));
        }
        self.epoch()
    }

    /// All launches of `other`: this stream waits for them.
    pub(crate) fn absorb(&self, other: &Launches) {
        if std::ptr::eq(self, other) {
            return;
        }
        let theirs = other.lock().entries.clone();
        let mut own = self.lock();
        theirs.into_iter().for_each(|entry| own.add(entry.what, entry.since));
    }

    /// The moment at which a wait begins, and with it the next epoch.
    pub(crate) fn clock(&self) -> u64 {
        let list = self.lock();
        self.epoch.store(Epoch::new().0, Ordering::Release);
        list.clock
    }

    /// A wait that began at `moment` is over.
    pub(crate) fn remove_until(&self, moment: u64) {
        self.lock().entries.retain(|entry| entry.clock > moment);
    }

    /// All panics up to `serial` were reported.
    pub(super) fn mark_reported(&self, serial: u64) {
        self.lock().entries.iter_mut().for_each(|entry| entry.since = entry.since.max(serial));
    }

    /// Whether the panic could be of one of these launches.
    pub(super) fn could_be(&self, report: &Report) -> bool {
        self.lock().entries.iter().any(|entry| entry.could_be(report))
    }

    /// Whether one of these launches could have panicked so, and the panic was not reported here
    /// yet.
    pub(super) fn waits_for(&self, serial: u64, report: &Report) -> bool {
        let list = self.lock();
        // A panic that cannot be of any launch is reported to the first caller; see
        // `Panics::check`.
        list.entries.iter().any(|entry| entry.since < serial && entry.could_be(report))
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }
}

impl Default for Launches {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl List {
    /// Notes a launch if it is like the latest one.
    fn repeat(&mut self, what: &Option<Launched>) -> bool {
        match self.entries.get_mut(self.latest) {
            Some(entry) if entry.is(what) => {
                self.clock += 1;
                entry.clock = self.clock;
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, what: Option<Launched>, since: u64) {
        self.clock += 1;
        let clock = self.clock;
        let known = self.entries.iter().position(|entry| entry.is(&what));
        self.latest = known.unwrap_or(self.entries.len());
        if let Some(entry) = self.entries.get_mut(self.latest) {
            (entry.since, entry.clock) = (entry.since.min(since), clock);
            return;
        }
        if self.entries.len() < DIFFERENT {
            return self.entries.push(Entry { what, since, clock });
        }
        let since = self.entries.iter().map(|entry| entry.since).min().unwrap_or(since).min(since);
        self.entries.clear();
        self.entries.push(Entry { what: None, since, clock });
    }
}

impl Entry {
    /// Whether it is of such launches.
    fn is(&self, what: &Option<Launched>) -> bool {
        match (&self.what, what) {
            // The same name mostly is the same text.
            (Some(own), Some(other)) => {
                (own.1, own.2) == (other.1, other.2)
                    && (ptr::eq(own.0, other.0) || own.0 == other.0)
            }
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    fn could_be(&self, report: &Report) -> bool {
        let Some((kernel, grid, block)) = self.what else { return true };
        let named = report.kernels.is_empty() || report.kernels.iter().any(|own| own == kernel);
        let [grid, block] = [grid, block].map(|(x, y, z)| [x, y, z]);
        named && (grid, block) == (report.grid, report.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::KernelPanic;

    const CONFIG: LaunchConfig =
        LaunchConfig { grid: (2, 1, 1), block: (32, 1, 1), shared_mem_bytes: 0 };

    fn found(kernels: &[&str], block: u32) -> Report {
        let panic = KernelPanic {
            kernel: String::new(),
            message: String::new(),
            file: String::new(),
            line: 0,
            column: 0,
            block: [0; 3],
            thread: [0; 3],
            others: 0,
            grid: None,
        };
        let kernels = kernels.iter().map(|&name| name.to_owned()).collect();
        Report { panic, kernels, grid: [2, 1, 1], block: [block, 1, 1], claim: None }
    }

    #[test]
    fn names_and_shapes_tell_whose_a_panic_is() {
        let launches = Launches::default();
        launches.add("a", &CONFIG);
        assert!(launches.could_be(&found(&["b", "a"], 32)));
        assert!(launches.could_be(&found(&[], 32)));
        assert!(!launches.could_be(&found(&["b"], 32)));
        assert!(!launches.could_be(&found(&["a"], 64)));
    }

    #[test]
    fn a_panic_is_told_once_and_only_to_launches_before_it() {
        let launches = Launches::default();
        launches.serial.store(3, Ordering::Release);
        launches.add("a", &CONFIG);
        assert!(!launches.waits_for(3, &found(&["a"], 32)));
        assert!(launches.waits_for(4, &found(&["a"], 32)));
        launches.mark_reported(4);
        assert!(!launches.waits_for(4, &found(&["a"], 32)));
    }

    #[test]
    fn a_wait_is_for_what_was_launched_before_it() {
        let (launches, behind) = (Launches::default(), Launches::default());
        launches.add("a", &CONFIG);
        let moment = launches.clock();
        launches.add("b", &CONFIG);
        behind.absorb(&launches);
        launches.remove_until(moment);
        assert!(!launches.could_be(&found(&["a"], 32)) && launches.could_be(&found(&["b"], 32)));
        assert!(behind.could_be(&found(&["a"], 32)) && behind.could_be(&found(&["b"], 32)));
        behind.remove_until(behind.clock());
        assert!(!behind.could_be(&found(&[], 32)));
    }

    #[test]
    fn a_launch_that_is_noted_in_an_epoch_outlasts_the_waits_before_it() {
        let launches = Launches::default();
        let earlier = launches.clock();
        let noted = launches.add("a", &CONFIG);
        assert_eq!([launches.add("b", &CONFIG), launches.add("a", &CONFIG)], [noted; 2]);
        assert_eq!(launches.epoch(), noted);
        launches.remove_until(earlier);
        assert!(launches.could_be(&found(&["a"], 32)));
        // A launch after this has to be noted again, or the end of the wait would remove it.
        let moment = launches.clock();
        assert_ne!(launches.epoch(), noted);
        launches.add("a", &CONFIG);
        launches.remove_until(moment);
        assert!(launches.could_be(&found(&["a"], 32)));
        assert!(!launches.could_be(&found(&["b"], 32)));
        assert_ne!(Launches::default().epoch(), Launches::default().epoch());
    }

    #[test]
    fn very_many_different_launches_are_not_told_apart() {
        let launches = Launches::default();
        for x in 0..DIFFERENT as u32 + 1 {
            launches.add("a", &LaunchConfig { grid: (x, 1, 1), ..CONFIG });
        }
        assert!(launches.could_be(&found(&["b"], 1)));
    }
}
