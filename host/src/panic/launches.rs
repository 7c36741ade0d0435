//! What a stream has launched since it was last waited for.

use std::sync::{Mutex, MutexGuard};

use cuda_std::launch::LaunchConfig;

use super::report::Report;
use crate::lock::lock;

/// Different launches that are told apart; with more, any panic could be the stream's.
const DIFFERENT: usize = 256;

/// The launches that a stream's next wait is for: its own, and those that it was ordered behind.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    /// Counts launches, so that a wait removes none that came after it began.
    clock: u64,
}

/// Launches of one kernel with one shape.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` for launches that are not told apart any more.
    what: Option<(&'static str, [u32; 3], [u32; 3])>,
    /// Panics up to this serial were before the first of them, or were told.
    since: u64,
    /// When the last of them came.
    clock: u64,
}

impl Launches {
    /// A launch, after `serial` panics.
    pub(crate) fn add(&self, kernel: &'static str, config: &LaunchConfig, serial: u64) {
        let [grid, block] = [config.grid, config.block].map(|(x, y, z)| [x, y, z]);
        self.lock().add(Some((kernel, grid, block)), serial);
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

    /// The moment at which a wait begins.
    pub(crate) fn now(&self) -> u64 {
        self.lock().clock
    }

    /// A wait that began at `moment` is over.
    pub(crate) fn done(&self, moment: u64) {
        self.lock().entries.retain(|entry| entry.clock > moment);
    }

    /// All panics up to `serial` were told.
    pub(super) fn told(&self, serial: u64) {
        self.lock().entries.iter_mut().for_each(|entry| entry.since = entry.since.max(serial));
    }

    /// Whether one of these launches could have panicked so.
    pub(super) fn could_be(&self, report: &Report) -> bool {
        self.lock().entries.iter().any(|entry| entry.could_be(report))
    }

    /// Whether one of these launches could have panicked so, and nobody was told of it here.
    pub(super) fn waits_for(&self, serial: u64, report: &Report) -> bool {
        let list = self.lock();
        // A panic that no launch could be is for whoever asks first; see `Panics::check`.
        list.entries.iter().any(|entry| entry.since < serial && entry.could_be(report))
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }
}

impl List {
    fn add(&mut self, what: Option<(&'static str, [u32; 3], [u32; 3])>, since: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.what == what) {
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
    fn could_be(&self, report: &Report) -> bool {
        let Some((kernel, grid, block)) = self.what else { return true };
        let named = report.kernels.is_empty() || report.kernels.iter().any(|own| own == kernel);
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
        };
        let kernels = kernels.iter().map(|&name| name.to_owned()).collect();
        Report { panic, kernels, grid: [2, 1, 1], block: [block, 1, 1] }
    }

    #[test]
    fn names_and_shapes_tell_whose_a_panic_is() {
        let launches = Launches::default();
        launches.add("a", &CONFIG, 0);
        assert!(launches.could_be(&found(&["b", "a"], 32)));
        assert!(launches.could_be(&found(&[], 32)));
        assert!(!launches.could_be(&found(&["b"], 32)));
        assert!(!launches.could_be(&found(&["a"], 64)));
    }

    #[test]
    fn a_panic_is_told_once_and_only_to_launches_before_it() {
        let launches = Launches::default();
        launches.add("a", &CONFIG, 3);
        assert!(!launches.waits_for(3, &found(&["a"], 32)));
        assert!(launches.waits_for(4, &found(&["a"], 32)));
        launches.told(4);
        assert!(!launches.waits_for(4, &found(&["a"], 32)));
    }

    #[test]
    fn a_wait_is_for_what_was_launched_before_it() {
        let (launches, behind) = (Launches::default(), Launches::default());
        launches.add("a", &CONFIG, 0);
        let moment = launches.now();
        launches.add("b", &CONFIG, 0);
        behind.absorb(&launches);
        launches.done(moment);
        assert!(!launches.could_be(&found(&["a"], 32)) && launches.could_be(&found(&["b"], 32)));
        assert!(behind.could_be(&found(&["a"], 32)) && behind.could_be(&found(&["b"], 32)));
        behind.done(behind.now());
        assert!(!behind.could_be(&found(&[], 32)));
    }

    #[test]
    fn very_many_different_launches_are_not_told_apart() {
        let launches = Launches::default();
        for x in 0..DIFFERENT as u32 + 1 {
            launches.add("a", &LaunchConfig { grid: (x, 1, 1), ..CONFIG }, 0);
        }
        assert!(launches.could_be(&found(&["b"], 1)));
    }
}
