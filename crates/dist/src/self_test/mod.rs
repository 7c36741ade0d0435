//! All operations of a communicator, compared with what the CPU finds: a test of a cluster before a long run.
//!
//! Each rank knows what every rank gives, and computes what it should get by itself.

#[cfg(feature = "ops")]
mod domains;
mod graph;
mod moves;
mod reductions;
mod samples;
mod tester;

use crate::communicator::Communicator;
use crate::error::DistResult;
use tester::Tester;

/// An operation that was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Its name.
    pub operation: &'static str,
    /// How many elements this rank got, over all types and sizes.
    pub elements: u64,
    /// How many of them were wrong.
    pub wrong: u64,
}

/// Runs every operation with all types and reductions, with sizes of 0 and more, even and uneven shares, on the device's stream
/// and another; with the feature `ops` also those on distributed data, against the same ones on one device. All ranks call it. Returns what this rank has found.
///
/// # Errors
/// What an operation returns; wrong results are no error here.
pub fn self_test(ranks: &Communicator) -> DistResult<Vec<Checked>> {
    let mut tester = Tester::new(ranks);
    reductions::run(&mut tester)?;
    moves::run(&mut tester)?;
    graph::run(&mut tester)?;
    #[cfg(feature = "ops")]
    domains::run(&mut tester)?;
    Ok(tester.checked)
}
