//! What all tests need: buffers that hold what they should not, and a count of what differs.

use ferrowarp::{DeviceBuffer, Stream};

use super::Checked;
use super::samples::{Number, moved};
use crate::communicator::Communicator;
use crate::error::DistResult;

/// Compares results.
pub(super) struct Tester<'a> {
    pub(super) ranks: &'a Communicator,
    pub(super) checked: Vec<Checked>,
}

impl<'a> Tester<'a> {
    pub(super) fn new(ranks: &'a Communicator) -> Self {
        Self { ranks, checked: Vec::new() }
    }

    /// The device's own stream.
    pub(super) fn stream(&self) -> &'a Stream {
        self.ranks.gpu().stream()
    }

    /// A buffer of words that no rank gives.
    pub(super) fn poisoned(&self, len: usize) -> DistResult<DeviceBuffer<u64>> {
        Ok(DeviceBuffer::from_slice(self.ranks.gpu(), &vec![0xdead_beef_dead_beef; len])?)
    }

    /// `len` words of this rank.
    pub(super) fn own(&self, len: usize) -> DistResult<DeviceBuffer<u64>> {
        self.words(len, |index| moved(self.ranks.rank(), index))
    }

    pub(super) fn words(
        &self,
        len: usize,
        word: impl Fn(usize) -> u64,
    ) -> DistResult<DeviceBuffer<u64>> {
        let words: Vec<_> = (0..len).map(word).collect();
        Ok(DeviceBuffer::from_slice(self.ranks.gpu(), &words)?)
    }

    /// Counts the elements of a result, and those that differ from `expected`.
    pub(super) fn compare<T: Number>(
        &mut self,
        operation: &'static str,
        found: &DeviceBuffer<T>,
        expected: impl Fn(usize) -> T,
    ) -> DistResult<()> {
        self.compare_within(operation, found, expected, 0.0)
    }

    /// Like [`compare`](Self::compare), with results that may differ by `tolerance`.
    pub(super) fn compare_within<T: Number>(
        &mut self,
        operation: &'static str,
        found: &DeviceBuffer<T>,
        expected: impl Fn(usize) -> T,
        tolerance: f64,
    ) -> DistResult<()> {
        self.ranks.check()?;
        let found = found.to_vec()?;
        let differs = |(index, found): (usize, &T)| {
            let expected = expected(index);
            let distance = (found.to_f64() - expected.to_f64()).abs();
            // A NaN is at no distance.
            *found != expected && !(distance <= tolerance && tolerance > 0.0)
        };
        let wrong = found.iter().enumerate().filter(|own| differs(*own)).count();
        self.count(operation, found.len(), wrong);
        Ok(())
    }

    /// Counts elements that were compared otherwise.
    pub(super) fn count(&mut self, operation: &'static str, elements: usize, wrong: usize) {
        let known = self.checked.iter_mut().find(|own| own.operation == operation);
        let row = match known {
            Some(row) => row,
            None => {
                self.checked.push(Checked { operation, elements: 0, wrong: 0 });
                self.checked.last_mut().expect("it was pushed")
            }
        };
        row.elements += elements as u64;
        row.wrong += wrong as u64;
    }
}
