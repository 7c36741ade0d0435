//! What began and what ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::error::SoakError;

/// What has to end as often as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Memory from the pool, and its return.
    Allocations,
    /// Messages to persistent kernels, and their answers.
    Messages,
    /// Futures, and their results.
    Futures,
    /// Host callbacks, and their calls.
    Callbacks,
    /// Frames into pipelines, and out of them.
    Frames,
    /// Launches of graphs, and their ends.
    Graphs,
    /// Edits of a kernel, and new versions.
    Reloads,
    /// Faults of all kinds, and their reports.
    Faults,
    /// Contexts that a fault ended, each in a process of its own, and their reports.
    Contexts,
}

const FLOWS: [(Flow, &str); 9] = [
    (Flow::Allocations, "allocations"),
    (Flow::Messages, "messages"),
    (Flow::Futures, "futures"),
    (Flow::Callbacks, "host callbacks"),
    (Flow::Frames, "frames"),
    (Flow::Graphs, "graph launches"),
    (Flow::Reloads, "reloads"),
    (Flow::Faults, "planted faults"),
    (Flow::Contexts, "poisoned contexts"),
];

/// How often something began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowCount {
    /// What it is, in the plural.
    pub what: &'static str,
    /// How often it began.
    pub begun: u64,
    /// How often it ended.
    pub ended: u64,
}

/// All counts of a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    begun: [AtomicU64; FLOWS.len()],
    ended: [AtomicU64; FLOWS.len()],
    /// Values that were compared with the CPU's.
    values: AtomicU64,
}

impl Counts {
    pub(super) fn begin(&self, flow: Flow, n: usize) {
        self.begun[flow as usize].fetch_add(n as u64, Relaxed);
    }

    pub(super) fn end(&self, flow: Flow, n: usize) {
        self.ended[flow as usize].fetch_add(n as u64, Relaxed);
    }

    /// Sets both counts, where something else does the counting.
    pub(super) fn set(&self, flow: Flow, begun: u64, ended: u64) {
        self.begun[flow as usize].store(begun, Relaxed);
        self.ended[flow as usize].store(ended, Relaxed);
    }

    pub(super) fn values(&self) -> u64 {
        self.values.load(Relaxed)
    }

    /// The counts, in the order of the table.
    pub(super) fn flows(&self) -> Vec<FlowCount> {
        let count = |(flow, what): (Flow, &'static str)| FlowCount {
            what,
            begun: self.begun[flow as usize].load(Relaxed),
            ended: self.ended[flow as usize].load(Relaxed),
        };
        FLOWS.map(count).to_vec()
    }

    /// An error if something was lost. For a moment at which nothing runs.
    pub(super) fn check(&self) -> Result<(), SoakError> {
        match self.flows().into_iter().find(|flow| flow.begun != flow.ended) {
            Some(FlowCount { what, begun, ended }) => Err(SoakError::Lost { what, begun, ended }),
            None => Ok(()),
        }
    }

    /// Compares values with the CPU's, bit for bit as `PartialEq` sees them: no work makes a NaN.
    pub(super) fn same<T: PartialEq>(
        &self,
        what: &'static str,
        found: &[T],
        expected: &[T],
    ) -> Result<(), SoakError> {
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            return Err(SoakError::WrongLength { what, found, expected });
        }
        self.values.fetch_add(found.len() as u64, Relaxed);
        match found.iter().zip(expected).position(|(found, expected)| found != expected) {
            Some(index) => Err(SoakError::Wrong { what, index, len: found.len() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_names() {
        assert!(FLOWS.iter().enumerate().all(|(at, (flow, _))| *flow as usize == at));
    }

    #[test]
    fn what_did_not_end_is_lost() {
        let counts = Counts::default();
        counts.begin(Flow::Messages, 3);
        counts.end(Flow::Messages, 2);
        let error = counts.check().unwrap_err().to_string();
        assert_eq!(error, "3 messages began and 2 ended");
        counts.end(Flow::Messages, 1);
        assert!(counts.check().is_ok());
        counts.end(Flow::Frames, 1);
        assert!(counts.check().is_err(), "more ended than began");
    }

    #[test]
    fn a_wrong_value_is_found_and_right_ones_are_counted() {
        let counts = Counts::default();
        counts.same("sums", &[1, 2, 3], &[1, 2, 3]).unwrap();
        assert_eq!(counts.values(), 3);
        let error = counts.same("sums", &[1, 5, 3], &[1, 2, 4]).unwrap_err();
        assert!(matches!(error, SoakError::Wrong { index: 1, len: 3, .. }), "{error}");
        let error = counts.same("sums", &[1], &[1, 2]).unwrap_err();
        assert!(matches!(error, SoakError::WrongLength { found: 1, expected: 2, .. }), "{error}");
    }
}
