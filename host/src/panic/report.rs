//! What a record says of a panic, and where records are read.

use crate::error::KernelPanic;

/// A panic as a record has it, with what tells which launch it is of.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) panic: KernelPanic,
    /// The kernels that it can be of; empty where none is known.
    pub(super) kernels: Vec<String>,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
}

/// Records that the kernels of a module write.
pub(super) trait ReportSource: std::fmt::Debug + Send + Sync {
    /// Takes the panics that `which` wants out of the records.
    fn take(&self, which: &dyn Fn(&Report) -> bool) -> Vec<Report>;
}
