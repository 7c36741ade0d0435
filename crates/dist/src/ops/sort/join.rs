//! Sorted runs as one.

use ferrowarp::AsStream;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::SortValue;

use super::Options;
use super::key::RankKey;
use super::table::Table;
use crate::error::DistResult;

/// Sorts a table of sorted runs that lie one after another; of equal keys those of earlier runs come first.
pub(super) fn join<K: RankKey, V: SortValue>(
    on: &impl AsStream,
    mut runs: Table<K, V>,
    lens: &[usize],
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<Table<K, V>> {
    let mut lens: Vec<usize> = lens.iter().copied().filter(|len| *len > 0).collect();
    if lens.len() > 1 && !is_merged::<K, V>(&runs, lens.len(), options) {
        runs.sort(on, options.local(), scratch)?;
        return Ok(runs);
    }
    while lens.len() > 1 {
        runs = merge_neighbours(on, &runs, &lens, scratch)?;
        lens = lens.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
    Ok(runs)
}

/// Whether there are kernels that merge, and they read the keys less often than a sort, which does it for each byte of a key.
fn is_merged<K: RankKey, V: SortValue>(table: &Table<K, V>, runs: usize, options: Options) -> bool {
    let merges = runs.next_power_of_two().ilog2() as usize;
    let fits = table.values.is_none() || size_of::<V>() == size_of::<u32>();
    K::MERGES && fits && !options.descending && merges < size_of::<K>()
}

/// Merges the first run with the second, the third with the fourth, and so on; a last one without a partner is copied.
fn merge_neighbours<K: RankKey, V: SortValue>(
    on: &impl AsStream,
    runs: &Table<K, V>,
    lens: &[usize],
    scratch: &mut Scratch,
) -> DistResult<Table<K, V>> {
    // SAFETY: the runs cover it.
    let mut merged = unsafe { Table::unwritten(on, runs.len(), runs.values.is_some()) }?;
    let mut start = 0;
    for pair in lens.chunks(2) {
        let (middle, end) = (start + pair[0], start + pair.iter().sum::<usize>());
        match pair {
            [_] => merged.copy(runs, start..end)?,
            _ => {
                let (a, b) = (runs.run(start..middle)?, runs.run(middle..end)?);
                K::merge_runs(on, a, b, &mut merged.run_mut(start..end)?, scratch)?;
            }
        }
        start = end;
    }
    Ok(merged)
}
