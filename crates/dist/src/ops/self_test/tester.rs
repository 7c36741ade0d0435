//! What all tests of operations need: data, shares, and a count of what differs.

use std::fmt::{Debug, Display};

use bytemuck::{Pod, bytes_of};
use ferrowarp::DeviceBuffer;
use ferrowarp::Gpu;
use ferrowarp::ops::Scratch;

use super::data::Random;
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::Shares;
use crate::self_test::Checked;

/// Compares results.
pub(super) struct Tester<'a> {
    pub(super) ranks: &'a Communicator,
    pub(super) scratch: Scratch,
    pub(super) random: Random,
    pub(super) checked: Vec<Checked>,
    seed: u64,
    report: &'a mut dyn FnMut(String),
}

impl<'a> Tester<'a> {
    pub(super) fn new(
        ranks: &'a Communicator,
        seed: u64,
        report: &'a mut dyn FnMut(String),
    ) -> DistResult<Self> {
        let (scratch, random) = (Scratch::new(ranks.gpu())?, Random::new(seed));
        Ok(Self { ranks, scratch, random, checked: Vec::new(), seed, report })
    }

    pub(super) fn gpu(&self) -> &'a Gpu {
        self.ranks.gpu()
    }

    /// Shares of about `scale` elements a rank: all the same; uneven ones, of which some are empty; all of it on the last rank.
    pub(super) fn splits(&self, scale: usize) -> [Shares; 3] {
        let ranks = self.ranks.size() as usize;
        let uneven = (0..ranks).map(|rank| [3, 0, 7, 1, 12, 0, 5][rank % 7] * scale / 4);
        let last = (0..ranks).map(|rank| if rank + 1 == ranks { scale } else { 0 });
        [
            Shares::given(vec![scale; ranks]),
            Shares::given(uneven.collect()),
            Shares::given(last.collect()),
        ]
    }

    /// This rank's share of an array.
    pub(super) fn share<'x, T>(&self, all: &'x [T], shares: &Shares) -> &'x [T] {
        let (start, len) = (shares.start_of(self.ranks.rank()), shares.len_of(self.ranks.rank()));
        &all[start..start + len]
    }

    /// That share on the device.
    pub(super) fn upload<T: Pod>(&self, all: &[T], shares: &Shares) -> DistResult<DeviceBuffer<T>> {
        Ok(DeviceBuffer::from_slice(self.gpu(), self.share(all, shares))?)
    }

    /// Compares what was found on the device, bit for bit.
    pub(super) fn compare<T: Pod + Debug>(
        &mut self,
        operation: &'static str,
        case: impl Display,
        found: &DeviceBuffer<T>,
        expected: &[T],
    ) -> DistResult<()> {
        self.ranks.synchronize(self.gpu())?;
        self.compare_host(operation, case, &found.to_vec()?, expected);
        Ok(())
    }

    /// Compares values of the host, bit for bit.
    pub(super) fn compare_host<T: Pod + Debug>(
        &mut self,
        operation: &'static str,
        case: impl Display,
        found: &[T],
        expected: &[T],
    ) {
        let differ = |(found, expected): (&T, &T)| bytes_of(found) != bytes_of(expected);
        let wrong = found.iter().zip(expected).filter(|pair| differ(*pair)).count()
            + found.len().abs_diff(expected.len());
        if wrong > 0 {
            let first = found.iter().zip(expected).position(differ);
            let values = first.map_or_else(
                || format!("{} elements in place of {}", found.len(), expected.len()),
                |at| format!("element {at} is {:?} and not {:?}", found[at], expected[at]),
            );
            (self.report)(format!(
                "{operation}, {case}, seed {}, rank {} of {}: {wrong} of {} are wrong; {values}",
                self.seed,
                self.ranks.rank(),
                self.ranks.size(),
                expected.len(),
            ));
        }
        self.count(operation, expected.len().max(1), wrong);
    }

    fn count(&mut self, operation: &'static str, elements: usize, wrong: usize) {
        let known = self.checked.iter().position(|row| row.operation == operation);
        let at = known.unwrap_or_else(|| {
            self.checked.push(Checked { operation, elements: 0, wrong: 0 });
            self.checked.len() - 1
        });
        self.checked[at].elements += elements as u64;
        self.checked[at].wrong += wrong as u64;
    }
}
