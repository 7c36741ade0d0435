//! All operations, compared with plain loops over the whole array, which every rank makes for itself.

mod data;
mod products;
mod reductions;
mod scans;
mod sorts;
mod tester;
mod transposes;

use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::self_test::Checked;
use tester::Tester;

/// Runs every operation of this module on all ranks: all types, even and uneven shares, empty ones too, lengths of 0 and more.
/// All ranks call it with the same `seed`, which the data come of. Calls `report` with a line for each wrong result, and returns
/// what this rank has found.
///
/// # Errors
/// What an operation returns; wrong results are no error here.
pub fn self_test(
    ranks: &Communicator,
    seed: u64,
    report: &mut dyn FnMut(String),
) -> DistResult<Vec<Checked>> {
    let mut tester = Tester::new(ranks, seed, report)?;
    reductions::run(&mut tester)?;
    scans::run(&mut tester)?;
    sorts::run(&mut tester)?;
    transposes::run(&mut tester)?;
    products::run(&mut tester)?;
    Ok(tester.checked)
}
