//! What the charts show of a report.

use crate::bench::case::Unit;
use crate::bench::report::{PeerRow, Report, Row};

/// (x, y).
pub(super) type Point = (f64, f64);

/// The copies, which show what the memory gives.
const COPY: &str = "copy/array/f32";
/// More would not be told apart.
const MOST_LINES: usize = 12;
/// Fewer sizes are no curve, if another case has so many.
const CURVE: usize = 8;

/// A case at several sizes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub name: String,
    /// (log2 of the elements, GB/s).
    pub ours: Vec<Point>,
    /// Those of the peer that is the fastest at the greatest size.
    pub peer: Vec<Point>,
}

fn bandwidth(row: &Row, milliseconds: f64) -> f64 {
    row.work.speed(Unit::Bandwidth, milliseconds)
}

/// The cases with the most sizes, the copies first.
pub(super) fn lines(report: &Report) -> Vec<Line> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        match groups.iter_mut().find(|(case, _)| *case == row.case) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((&row.case, vec![row])),
        }
    }
    groups.retain(|(_, rows)| rows.len() > 1 && rows[0].work.elements != rows[1].work.elements);
    let most = groups.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    groups.retain(|(_, rows)| rows.len() >= most.min(CURVE));
    groups.sort_by_key(|(case, rows)| (*case != COPY, usize::MAX - rows.len()));
    groups.truncate(MOST_LINES);
    groups.into_iter().map(|(case, rows)| line(case, &rows)).collect()
}

fn line(case: &str, rows: &[&Row]) -> Line {
    let x = |row: &Row| (row.work.elements as f64).log2();
    let ours = rows.iter().map(|row| (x(row), bandwidth(row, row.ours.median_ms))).collect();
    let best = rows.iter().max_by_key(|row| row.work.elements).and_then(|row| {
        row.peers.iter().min_by(|a, b| a.times.median_ms.total_cmp(&b.times.median_ms))
    });
    let of_best = |row: &&Row| {
        let same = |peer: &&PeerRow| best.is_some_and(|best| best.name == peer.name);
        let peer = row.peers.iter().find(same)?;
        Some((x(row), bandwidth(row, peer.times.median_ms)))
    };
    let name = best.map_or(case.to_owned(), |peer| format!("{case} (dashed: {})", peer.title()));
    Line { name, ours, peer: rows.iter().filter_map(of_best).collect() }
}

/// Points under a roof.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Roofline {
    /// The corners of the roof: (operations a byte, 10^12 operations a second).
    pub roof: Vec<Point>,
    /// Each family's cases at their largest size, without those of [`ELSEWHERE`], and the plain kernels, which are there to be
    /// read.
    pub families: Vec<(String, Vec<Point>)>,
}

pub(super) fn roofline(report: &Report) -> Roofline {
    let mut families: Vec<(String, Vec<Point>)> = Vec::new();
    let is_shown = |row: &&Row| {
        let is_below = !ELSEWHERE.contains(&family_of(row)) && !is_plain(row);
        row.work.operations > 0 && is_below && is_largest(report, row)
    };
    for row in report.rows.iter().filter(is_shown) {
        let family = family_of(row);
        let speed = row.work.speed(Unit::Operations, row.ours.median_ms);
        let point = (row.work.operations as f64 / row.work.bytes.max(1) as f64, speed);
        match families.iter_mut().find(|(name, _)| name == family) {
            Some((_, points)) => points.push(point),
            None => families.push((family.to_owned(), vec![point])),
        }
    }
    Roofline { roof: roof(report), families }
}

/// Families that this roof is not over: tensor cores have one of their own, and the others are bound by the host or the bus.
const ELSEWHERE: [&str; 5] = ["matmul", "memory", "out_of_core", "particles", "startup"];

fn family_of(row: &Row) -> &str {
    row.case.split('/').next().unwrap_or_default()
}

fn is_plain(row: &Row) -> bool {
    row.case.split('/').nth(1).is_some_and(|form| form.ends_with("plain"))
}

fn is_largest(report: &Report, row: &Row) -> bool {
    let same = report.rows.iter().filter(|other| other.case == row.case);
    same.map(|other| other.work.elements).max() == Some(row.work.elements)
}

/// Up with the bandwidth of the copies, then flat at what the device computes.
fn roof(report: &Report) -> Vec<Point> {
    let speeds = |rows: &mut dyn Iterator<Item = &Row>| {
        rows.map(|row| bandwidth(row, row.ours.median_ms)).fold(0.0, f64::max)
    };
    let copies = speeds(&mut report.rows.iter().filter(|row| row.case == COPY));
    let all = speeds(&mut report.rows.iter());
    // From GB/s to 10^12 bytes a second, which is 10^12 operations a second at one a byte.
    let slope = if copies > 0.0 { copies } else { all } / 1e3;
    if slope == 0.0 {
        return Vec::new();
    }
    let peak = report.peak_tera_operations;
    let edge = peak / slope;
    if peak > 0.0 {
        vec![(0.05, 0.05 * slope), (edge, peak), (2.0 * edge, peak)]
    } else {
        vec![(0.05, 0.05 * slope), (10.0, 10.0 * slope)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    #[test]
    fn lines_are_cases_of_several_sizes_and_copies_come_first() {
        let found = lines(&report(vec![
            row("a/b/f32", &[1024], 1.0),
            row("a/b/f32", &[4096], 1.0),
            row("lone/b/f32", &[4096], 1.0),
            row(COPY, &[1024], 1.0),
            row(COPY, &[2048], 1.0),
        ]));
        assert_eq!(found.len(), 2);
        assert!(
            found[0].name.starts_with(COPY) && found[1].name == "a/b/f32 (dashed: CUB (size_t))"
        );
        // 8 bytes an element: 32,768 bytes in a millisecond; the peer takes two.
        assert_eq!(found[1].ours[1], (12.0, 0.032_768));
        assert_eq!(found[1].peer[1], (12.0, 0.016_384));
    }

    #[test]
    fn a_case_of_two_sizes_is_no_curve_beside_one_of_eight() {
        let long = (10..18).map(|power| row("a/b/f32", &[1 << power], 1.0));
        let short = (10..12).map(|power| row("c/d/f32", &[1 << power], 1.0));
        let found = lines(&report(long.chain(short).collect()));
        assert_eq!(found.iter().map(|line| line.ours.len()).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn plain_kernels_and_tensor_cores_are_not_under_the_roof() {
        let rows = ["a/b/f32", "a/plain/f32", "rows/softmax_plain/f32", "matmul/nn/bf16"]
            .map(|case| row(case, &[1024], 1.0));
        let found = roofline(&report(rows.to_vec())).families;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.as_str(), found[0].1.len()), ("a", 1));
    }

    #[test]
    fn the_roof_bends_where_memory_and_arithmetic_meet() {
        let mut run = report(vec![row(COPY, &[1 << 20], 1.0), row("a/b/f32", &[1 << 10], 1.0)]);
        run.peak_tera_operations = 60.0;
        let found = roofline(&run);
        let slope = 8.0 * f64::from(1 << 20) / 1e-3 / 1e12;
        assert!((found.roof[1].0 * slope - 60.0).abs() < 1e-9);
        assert_eq!(found.families.len(), 2);
        assert_eq!(found.families[1].1[0].0, 0.125);
    }
}
