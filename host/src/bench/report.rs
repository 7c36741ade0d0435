//! What a benchmark found: rows for a table, for a file, and for a later comparison.

use serde::{Deserialize, Serialize};

use super::case::{Unit, size};
use super::measure::Batching;
use super::stats::Summary;

/// All results of a run, and what they were found with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// Whether that is the emulator, whose times say nothing about a GPU.
    pub emulator: bool,
    /// The driver, clocks and libraries, a line each.
    pub versions: Vec<String>,
    /// A case each.
    pub rows: Vec<Row>,
}

/// The results of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `family/form/element`.
    pub case: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// Bytes that must move.
    pub bytes: u64,
    /// What the speed is told in.
    pub unit: Unit,
    /// How the samples were taken.
    pub batching: Batching,
    /// Our times.
    pub ours: Summary,
    /// What is wrong with our result.
    pub fault: Option<String>,
    /// Those of the peers.
    pub peers: Vec<PeerRow>,
}

/// The results of a peer in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Its name.
    pub name: String,
    /// Its times.
    pub times: Summary,
    /// How many times as fast as it ours should be.
    pub goal: Option<f64>,
}

impl PeerRow {
    /// How many times as fast as the peer ours is.
    #[must_use]
    pub fn ratio(&self, ours: &Summary) -> f64 {
        self.times.median_ms / ours.median_ms
    }
}

impl Row {
    /// The shape for people.
    #[must_use]
    pub fn size(&self) -> String {
        size(&self.shape)
    }

    /// A speed in the case's unit.
    #[must_use]
    pub fn speed(&self, milliseconds: f64) -> f64 {
        self.unit.speed(self.bytes, milliseconds)
    }
}

impl Report {
    /// The cases whose results are wrong.
    pub fn wrong(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.fault.is_some())
    }
}
