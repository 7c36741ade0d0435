//! Panics of kernels: what they say, and who is told of them.
//!
//! A thread that panics leaves a record in memory that host and device share (see
//! [`cuda_std::panic`]) and ends; the device works on. After each wait the host looks there. A panic
//! is the error of the first wait that follows for a kernel which could have panicked: on its stream,
//! on a stream that was ordered behind it (through a buffer or an event), or on the device.

mod known;
mod launches;
mod message;
mod records;
mod text;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{GpuError, GpuResult};

pub(crate) use launches::Launches;
pub(crate) use records::ModuleRecords;

/// A panic in a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelPanic {
    /// The kernel's name; several with `or` between where it is one of them.
    pub kernel: String,
    /// What the panic says.
    pub message: String,
    /// The source file, from the package or workspace that it is part of.
    pub file: String,
    /// Its line, from 1; 0 if it is not known.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
    /// The index of the block in its grid.
    pub block: [u32; 3],
    /// The index of the thread in its block.
    pub thread: [u32; 3],
    /// How many more threads of the launch panicked after this one.
    pub others: u32,
}

impl fmt::Display for KernelPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.block;
        let [x, y, z] = self.thread;
        write!(f, "kernel `{}` panicked", self.kernel)?;
        if self.line > 0 {
            write!(f, " at {}:{}:{}", self.file, self.line, self.column)?;
        }
        write!(f, ", block ({a},{b},{c}), thread ({x},{y},{z}): {}", self.message)?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str(" (1 more thread panicked)"),
            n => write!(f, " ({n} more threads panicked)"),
        }
    }
}

impl std::error::Error for KernelPanic {}

impl From<KernelPanic> for GpuError {
    fn from(panic: KernelPanic) -> Self {
        Self::KernelPanic(Box::new(panic))
    }
}

/// A panic as a record has it: with what tells whose it is.
#[derive(Clone, Debug)]
struct Found {
    panic: KernelPanic,
    /// The kernels that it can be of; none where nothing is known.
    kernels: Vec<String>,
    grid: [u32; 3],
    block: [u32; 3],
}

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
    modules: Vec<Weak<ModuleRecords>>,
    launches: Vec<Weak<Launches>>,
    /// Panics that were taken, for the streams that have not been told.
    taken: VecDeque<(u64, Found)>,
    /// Panics of what no stream is known to have launched: for whoever waits next.
    orphans: VecDeque<Found>,
}

/// Panics that are kept for streams that have not been told.
const KEPT: usize = 64;

impl Panics {
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
    pub(crate) fn watch(&self, records: &Arc<ModuleRecords>) {
        self.lock().modules.push(Arc::downgrade(records));
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
        self.collect(&mut shared, |found| launches.could_be(found));
        let own = |(serial, found): &&(u64, Found)| launches.waits_for(*serial, found);
        let panic = shared.taken.iter().find(own).map(|(_, found)| found.panic.clone());
        if panic.is_some() {
            launches.told(self.serial());
        }
        let panic = panic.or_else(|| shared.orphans.pop_front().map(|found| found.panic));
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
        let untold = |(serial, found): &&(u64, Found)| {
            *serial > before || all.iter().any(|own| own.waits_for(*serial, found))
        };
        let first = shared.taken.iter().find(untold).map(|(_, found)| found.panic.clone());
        all.iter().for_each(|own| own.told(self.serial()));
        let orphan = std::mem::take(&mut shared.orphans).into_iter().next();
        first.or(orphan.map(|found| found.panic))
    }

    /// Takes all panics from the records, for the streams that have not been told: a module goes.
    pub(crate) fn keep_all(&self) {
        if self.possible.load(Ordering::Acquire) {
            self.collect(&mut self.lock(), |_| true);
        }
    }

    /// Takes from the records the panics that `which` says, and those that no stream's launches
    /// could be, as those of a graph.
    fn collect(&self, shared: &mut Shared, which: impl Fn(&Found) -> bool) {
        shared.modules.retain(|own| own.strong_count() > 0);
        let launches: Vec<_> = shared.launches.iter().filter_map(Weak::upgrade).collect();
        let is_orphan = |found: &Found| !launches.iter().any(|own| own.could_be(found));
        for records in shared.modules.iter().filter_map(Weak::upgrade) {
            for found in records.take(|found| which(found) || is_orphan(found)) {
                if is_orphan(&found) {
                    shared.orphans.push_back(found);
                } else {
                    let serial = self.serial.fetch_add(1, Ordering::AcqRel) + 1;
                    shared.taken.push_back((serial, found));
                }
            }
        }
        while shared.taken.len() > KEPT {
            shared.taken.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_sentence() {
        let mut panic = KernelPanic {
            kernel: "gather".to_owned(),
            message: "index out of bounds: the len is 5 but the index is 7".to_owned(),
            file: "kernels/src/lib.rs".to_owned(),
            line: 11,
            column: 16,
            block: [0, 1, 2],
            thread: [7, 0, 0],
            others: 0,
        };
        let text = "kernel `gather` panicked at kernels/src/lib.rs:11:16, block (0,1,2), \
                    thread (7,0,0): index out of bounds: the len is 5 but the index is 7";
        assert_eq!(panic.to_string(), text);
        panic.others = 3;
        assert_eq!(panic.to_string(), format!("{text} (3 more threads panicked)"));
        let error = GpuError::from(panic.clone());
        assert!(error.to_string().starts_with(text), "{error}");
        let fault = Box::new(GpuError::Unsupported { what: "a wild store" });
        let both = GpuError::FaultAfterPanic { panic: Box::new(panic.clone()), fault };
        assert!(both.to_string().starts_with(text), "{both}");
        assert!(
            both.to_string()
                .ends_with("; after the panic, this device does not support a wild store")
        );
        assert_eq!(both.panic(), Some(&panic));
    }
}
