//! Which elements of the vector a rank needs of others, and which others need of it: found once for a matrix.

use std::ops::Range;

use ferrowarp::AsStream;
use ferrowarp::memory::DeviceBuffer;

use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::shares::Shares;

/// What is exchanged for each product.
#[derive(Debug)]
pub(super) struct Plan {
    /// How many elements each rank gets of this one.
    pub(super) sent: Vec<usize>,
    /// Which of this rank's elements these are, rank after rank.
    pub(super) elements: Vec<u32>,
    /// How many elements this one gets of each rank.
    pub(super) received: Vec<usize>,
}

impl Plan {
    /// The plan for the columns that this rank needs of others: `needed` rises. All ranks call it.
    pub(super) fn new(ranks: &Communicator, columns: &Shares, needed: &[u64]) -> DistResult<Self> {
        let on = ranks.gpu();
        let received = counts(columns, needed);
        let lens: Vec<u64> = received.iter().map(|count| *count as u64).collect();
        let given = DeviceBuffer::from_slice(on, &lens)?;
        let mut asked = DeviceBuffer::zeroed(on, lens.len())?;
        ranks.all_to_all(on, &given, &mut asked)?;
        ranks.synchronize(on)?;
        let sent: Vec<usize> = asked.to_vec()?.into_iter().map(|count| count as usize).collect();
        let own = columns.range(ranks.rank());
        let elements = asked_of(ranks, on, (needed, &received), &sent, own)?;
        Ok(Self { sent, elements, received })
    }
}

/// How many of the columns, which rise, are in each rank's share.
fn counts(columns: &Shares, needed: &[u64]) -> Vec<usize> {
    let first = |bound: &usize| needed.partition_point(|column| *column < *bound as u64);
    let starts: Vec<usize> = columns.bounds().iter().map(first).collect();
    starts.windows(2).map(|ends| ends[1] - ends[0]).collect()
}

/// Tells each rank which of its elements this one needs, and returns which of this one's elements, counted from the first, are
/// needed by others.
fn asked_of(
    ranks: &Communicator,
    on: &impl AsStream,
    (needed, received): (&[u64], &[usize]),
    sent: &[usize],
    own: Range<usize>,
) -> DistResult<Vec<u32>> {
    let given = DeviceBuffer::from_slice(on, needed)?;
    let mut asked = DeviceBuffer::<u64>::zeroed(on, sent.iter().sum())?;
    ranks.all_to_all_uneven(on, &given, received, &mut asked, sent)?;
    ranks.synchronize(on)?;
    let place = |column: u64| (column - own.start as u64) as u32;
    Ok(asked.to_vec()?.into_iter().map(place).collect())
}

/// A matrix's entries in two parts: in the columns of a rank's own elements, counted from the first of them, and in others.
#[derive(Debug, Default)]
pub(super) struct Parts<T> {
    pub(super) near: Rows<T>,
    pub(super) far: Rows<T>,
    /// The columns of the far part, each once, rising: its columns are numbers in this list.
    pub(super) needed: Vec<u64>,
}

/// Compressed rows.
#[derive(Debug)]
pub(super) struct Rows<T> {
    pub(super) offsets: Vec<u32>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { offsets: vec![0], columns: Vec::new(), values: Vec::new() }
    }
}

impl<T> Rows<T> {
    fn push(&mut self, column: u32, value: T) {
        self.columns.push(column);
        self.values.push(value);
    }

    fn end_row(&mut self) {
        self.offsets.push(self.columns.len() as u32);
    }
}

impl<T: Copy> Parts<T> {
    /// The parts of compressed rows for the rank that owns the elements `own`. The order of entries in a row stays.
    pub(super) fn new(offsets: &[u32], columns: &[u64], values: &[T], own: Range<usize>) -> Self {
        let own = own.start as u64..own.end as u64;
        let mut needed: Vec<u64> =
            columns.iter().copied().filter(|column| !own.contains(column)).collect();
        needed.sort_unstable();
        needed.dedup();
        let (mut near, mut far) = (Rows::default(), Rows::default());
        for ends in offsets.windows(2) {
            for entry in ends[0] as usize..ends[1] as usize {
                let (column, value) = (columns[entry], values[entry]);
                match needed.binary_search(&column) {
                    Ok(place) => far.push(place as u32, value),
                    Err(_) => near.push((column - own.start) as u32, value),
                }
            }
            near.end_row();
            far.end_row();
        }
        Self { near, far, needed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_near_or_far_and_keep_their_order() {
        let (offsets, columns) = ([0, 3, 3, 6], [9_u64, 4, 0, 5, 9, 7]);
        let parts = Parts::new(&offsets, &columns, &[1, 2, 3, 4, 5, 6], 4..6);
        assert_eq!(parts.needed, [0, 7, 9]);
        assert_eq!((parts.near.offsets, parts.near.columns), (vec![0, 1, 1, 2], vec![0, 1]));
        assert_eq!((parts.far.offsets, parts.far.columns), (vec![0, 2, 2, 4], vec![2, 0, 2, 1]));
        assert_eq!((parts.near.values, parts.far.values), (vec![2, 4], vec![1, 3, 5, 6]));
    }

    #[test]
    fn columns_are_counted_by_the_rank_that_has_them() {
        let slabs = Shares::given(vec![4, 0, 2, 5]);
        assert_eq!(counts(&slabs, &[0, 3, 6, 7, 10]), [2, 0, 0, 3]);
        assert_eq!(counts(&slabs, &[]), [0; 4]);
    }
}
