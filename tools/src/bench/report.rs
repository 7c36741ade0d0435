//! What a benchmark found: rows for a table, for a file, and for a later comparison.

use serde::{Deserialize, Serialize};

use super::case::{Unit, Work, size};
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
    /// 10^12 f32 operations a second that the device can do at its highest clock; 0 where that is not known.
    pub peak_tera_operations: f64,
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
    /// What one run does, at the least.
    pub work: Work,
    /// The unit of the speed.
    pub unit: Unit,
    /// How the samples were taken.
    pub batching: Batching,
    /// Our times.
    pub ours: Summary,
    /// The speed that ours should have on this device, in the unit.
    #[serde(default)]
    pub goal: Option<f64>,
    /// What is wrong with our result.
    pub fault: Option<String>,
    /// Those of the peers.
    pub peers: Vec<PeerRow>,
}

/// A goal of a case, and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal<'a> {
    /// The case.
    pub row: &'a Row,
    /// The peer whose time over ours it is about; nothing if it is about our speed.
    pub peer: Option<&'a str>,
    /// What was found.
    pub found: f64,
    /// What should be found, or more.
    pub least: f64,
}

impl Goal<'_> {
    /// Whether it is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.found >= self.least
    }
}

/// The results of a peer in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Its name.
    pub name: String,
    /// The variant of its call that was the fastest, where there are several: `int` or `size_t`, say.
    #[serde(default)]
    pub variant: String,
    /// That variant's times.
    pub times: Summary,
    /// How many times as fast as it ours should be.
    pub goal: Option<f64>,
    /// The other variants.
    #[serde(default)]
    pub slower: Vec<Variant>,
}

/// A variant of a peer's call, and its times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its times.
    pub times: Summary,
}

impl PeerRow {
    /// The results of the fastest of `variants`, which has the others behind it; `None` of none.
    #[must_use]
    pub fn fastest(name: &str, mut variants: Vec<Variant>, goal: Option<f64>) -> Option<Self> {
        variants.sort_by(|a, b| a.times.median_ms.total_cmp(&b.times.median_ms));
        let mut sorted = variants.into_iter();
        let Variant { name: variant, times } = sorted.next()?;
        Some(Self { name: name.to_owned(), variant, times, goal, slower: sorted.collect() })
    }

    /// Its name, with the variant's.
    #[must_use]
    pub fn title(&self) -> String {
        match self.variant.as_str() {
            "" => self.name.clone(),
            variant => format!("{} ({variant})", self.name),
        }
    }

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
        self.work.speed(self.unit, milliseconds)
    }

    /// The goal of our speed, if there is one.
    #[must_use]
    pub fn speed_goal(&self) -> Option<Goal<'_>> {
        let found = self.speed(self.ours.median_ms);
        self.goal.map(|least| Goal { row: self, peer: None, found, least })
    }

    /// The goal beside a peer, if there is one.
    #[must_use]
    pub fn peer_goal<'a>(&'a self, peer: &'a PeerRow) -> Option<Goal<'a>> {
        let found = peer.ratio(&self.ours);
        peer.goal.map(|least| Goal { row: self, peer: Some(&peer.name), found, least })
    }

    /// All goals.
    pub fn goals(&self) -> impl Iterator<Item = Goal<'_>> {
        let of_peers = self.peers.iter().filter_map(|peer| self.peer_goal(peer));
        self.speed_goal().into_iter().chain(of_peers)
    }
}

impl Report {
    /// The cases whose results are wrong.
    pub fn wrong(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.fault.is_some())
    }

    /// The goals of all cases.
    pub fn goals(&self) -> impl Iterator<Item = Goal<'_>> {
        self.rows.iter().flat_map(Row::goals)
    }
}

/// Four digits, if that makes sense.
#[must_use]
pub fn number(value: f64) -> String {
    match value {
        v if v >= 1000.0 => format!("{v:.0}"),
        v if v >= 100.0 => format!("{v:.1}"),
        v if v >= 10.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn row(case: &str, shape: &[usize], median_ms: f64) -> Row {
        let summary = |median_ms| {
            let (fast_ms, slow_ms) = (0.875 * median_ms, 1.125 * median_ms);
            let quartiles_ms = [fast_ms, slow_ms];
            Summary { median_ms, fast_ms, slow_ms, quartiles_ms, samples: 9 }
        };
        let elements = shape.iter().product::<usize>() as u64;
        Row {
            case: case.to_owned(),
            shape: shape.to_vec(),
            work: Work { bytes: 8 * elements, elements, operations: elements },
            unit: Unit::Bandwidth,
            batching: Batching { copies: 3, runs: 20 },
            ours: summary(median_ms),
            goal: None,
            fault: None,
            peers: vec![PeerRow {
                name: "CUB".to_owned(),
                variant: "size_t".to_owned(),
                times: summary(2.0 * median_ms),
                goal: Some(1.25),
                slower: vec![Variant { name: "int".to_owned(), times: summary(3.0 * median_ms) }],
            }],
        }
    }

    pub fn report(rows: Vec<Row>) -> Report {
        Report { device: "a device".to_owned(), rows, ..Report::default() }
    }

    #[test]
    fn a_report_comes_back_from_its_text() {
        let mut written = report(vec![row("a/b/f32", &[4, 5], 0.375), row("c/d/u8", &[7], 0.0625)]);
        written.rows[1].fault = Some("element 3 is 4".to_owned());
        written.versions = vec!["CUB 3.0.1".to_owned()];
        let text = serde_json::to_string(&written).unwrap();
        let read: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.wrong().map(Row::size).collect::<Vec<_>>(), ["7"]);
    }

    #[test]
    fn a_goal_is_met_from_its_figure_on() {
        let mut row = row("a/b/f32", &[1 << 20], 0.008);
        let speed = row.speed(0.008);
        (row.goal, row.peers[0].goal) = (Some(speed), Some(2.5));
        let goals = report(vec![row]);
        let found: Vec<_> = goals.goals().map(|goal| (goal.peer, goal.is_met())).collect();
        assert_eq!(found, [(None, true), (Some("CUB"), false)]);
        let mut above = goals.clone();
        above.rows[0].goal = Some(1.001 * speed);
        assert!(above.goals().all(|goal| !goal.is_met()));
    }

    #[test]
    fn a_report_from_before_there_were_speeds_to_reach_is_read() {
        let mut text = serde_json::to_value(report(vec![row("a/b/f32", &[8], 0.5)])).unwrap();
        let row = text["rows"][0].as_object_mut().unwrap();
        row.remove("goal").unwrap();
        row["ours"].as_object_mut().unwrap().remove("quartiles_ms").unwrap();
        let peer = row["peers"][0].as_object_mut().unwrap();
        ["variant", "slower"].iter().for_each(|&key| drop(peer.remove(key).unwrap()));
        let read: Report = serde_json::from_value(text).unwrap();
        assert_eq!((read.rows[0].goal, read.rows[0].peers[0].title()), (None, "CUB".to_owned()));
    }

    #[test]
    fn the_fastest_variant_is_the_one_that_is_quoted() {
        let times = |median_ms| row("a/b/f32", &[8], median_ms).ours;
        let variants = [("int", 2.0), ("size_t", 1.0), ("short", 3.0)];
        let variants = variants.map(|(name, ms)| Variant { name: name.into(), times: times(ms) });
        let peer = PeerRow::fastest("CUB", variants.to_vec(), None).unwrap();
        assert_eq!((peer.title().as_str(), peer.times.median_ms), ("CUB (size_t)", 1.0));
        let slower: Vec<_> = peer.slower.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(slower, ["int", "short"]);
        assert_eq!(PeerRow::fastest("CUB", Vec::new(), None), None);
    }

    #[test]
    fn a_ratio_above_one_is_ours_faster() {
        let row = row("a/b/f32", &[8], 0.5);
        assert_eq!(row.peers[0].ratio(&row.ours), 2.0);
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(
            [0.01234, 1.23456, 12.3456, 123.456, 1234.56].map(number),
            ["0.012", "1.235", "12.35", "123.5", "1235"]
        );
    }
}
