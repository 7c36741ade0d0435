//! What a record says of a panic, where records are read, and when they are free.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::error::KernelPanic;

/// A panic as a record has it, with what tells which launch it is of.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) panic: KernelPanic,
    /// The kernels that it can be of; empty where none is known.
    pub(super) kernels: Vec<String>,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// The record; `None` where there was none for it.
    pub(super) claim: Option<Claim>,
}

/// A record, as long as it is that of one panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) slot: usize,
    /// Which panic of the record it is, from 1.
    pub(super) generation: u64,
}

/// Records that the kernels of a module write.
pub(super) trait ReportSource: Debug + Send + Sync {
    /// Takes the panics that `which` wants out of the records, each once.
    fn take(&self, which: &dyn Fn(&Report) -> bool) -> Vec<Report>;

    /// Frees the record of a panic that was taken, after the end of its grid: until then other threads of the grid, which wait
    /// for the one that panicked, look for the record, and end when they find it.
    fn free(&self, claim: Claim);
}

/// What a list of launches was enqueued on.
pub(crate) trait LaunchQueue: Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Whether all that was enqueued there is certainly done.
    fn is_done(&self) -> bool;
}
