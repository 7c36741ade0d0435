//! Which part of an array each rank has.

use ferrowarp::AsStream;

use crate::communicator::Communicator;
use crate::error::{DistError, DistResult};

/// The shares of an array that is split over the ranks: how many elements, or rows, each rank has, in the order of the ranks.
/// The same on all ranks. A share may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    lens: Vec<usize>,
}

impl Shares {
    /// Shares of these lengths, one for each rank.
    #[must_use]
    pub fn given(lens: Vec<usize>) -> Self {
        Self { lens }
    }

    /// `total` elements in shares that differ by one at most; the first ranks have the longer ones.
    #[must_use]
    pub fn even(total: usize, ranks: u32) -> Self {
        let ranks = ranks as usize;
        Self { lens: (0..ranks).map(|rank| (total + ranks - 1 - rank) / ranks).collect() }
    }

    /// Asks all ranks for the length of their share, of which this rank's is `own`. All ranks call it. Waits for them.
    ///
    /// # Errors
    /// As [`Communicator::all_gather_host`].
    pub fn gather(ranks: &Communicator, on: &impl AsStream, own: usize) -> DistResult<Self> {
        let lens = ranks.all_gather_host(on, &[own as u64])?;
        Ok(Self { lens: lens.into_iter().map(|len| len as usize).collect() })
    }

    /// The length of each share.
    #[must_use]
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// The length of a rank's share.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn len_of(&self, rank: u32) -> usize {
        self.lens[rank as usize]
    }

    /// The elements of all ranks before this one: where its share begins.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn start_of(&self, rank: u32) -> usize {
        self.lens[..rank as usize].iter().sum()
    }

    /// The elements of all ranks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.lens.iter().sum()
    }

    /// The longest share.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.lens.iter().copied().max().unwrap_or(0)
    }

    /// An error unless there is a share for each rank.
    pub(super) fn check(&self, ranks: &Communicator, operation: &'static str) -> DistResult<()> {
        same_len(operation, "the list of shares", ranks.size() as usize, self.lens.len())
    }
}

/// An error unless two lengths agree.
pub(super) fn same_len(
    operation: &'static str,
    what: &'static str,
    expected: usize,
    found: usize,
) -> DistResult<()> {
    match expected == found {
        true => Ok(()),
        false => Err(DistError::Length { operation, what, expected, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_shares_differ_by_one_at_most() {
        assert_eq!(Shares::even(10, 4).lens(), [3, 3, 2, 2]);
        assert_eq!(Shares::even(2, 3).lens(), [1, 1, 0]);
        assert_eq!(Shares::even(0, 2).lens(), [0, 0]);
        for total in 0..40 {
            assert_eq!(Shares::even(total, 7).total(), total);
        }
    }

    #[test]
    fn shares_begin_where_those_before_end() {
        let shares = Shares::given(vec![3, 0, 5]);
        assert_eq!([0, 1, 2].map(|rank| shares.start_of(rank)), [0, 3, 3]);
        assert_eq!((shares.total(), shares.longest(), shares.len_of(2)), (8, 5, 5));
    }
}
