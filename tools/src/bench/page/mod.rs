//! A report as one page, with nothing loaded from elsewhere: the whole table, which sorts by a click on a column.

use std::fmt::Write;

use super::report::{PeerRow, Report, Row, number};
use super::stats::Summary;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("sort.js");

/// The columns: names, whether they hold numbers, and what a pointer over them is told.
const COLUMNS: [(&str, bool, &str); 12] = [
    ("case", false, "family/form/element"),
    ("size", true, "The shape; sorted by its number of elements"),
    ("ours, µs", true, "Median of the device's time for one run of ours"),
    (
        "quartiles, µs",
        true,
        "A quarter of the samples lies below, a quarter above; sorted by their distance \
        as a share of the median",
    ),
    ("our speed", true, "By the median"),
    ("unit", false, "GB/s of the bytes that must move, 10⁹ elements or 10¹² operations a second"),
    ("peer", false, "The peer, and the fastest variant of its call where there are several"),
    ("its µs", true, "Median of the peer's time for one run"),
    ("its quartiles, µs", true, "As those of ours"),
    ("ratio", true, "The peer's time over ours: above 1 ours is faster"),
    ("goal", true, "What the ratio should be"),
    ("slower variants", false, "The peer's other variants, with their medians in µs"),
];

/// The page.
#[must_use]
pub fn of(report: &Report) -> String {
    let mut out = String::new();
    let note =
        if report.emulator { "An emulator: its times say nothing about a GPU. " } else { "" };
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{device}: benchmark</title>\
         <style>{STYLE}</style></head><body>\n<h1>{device}</h1>\n<p class=\"faint\">{note}{versions}; ferrowarp \
         {}. A click on a column sorts by it, another one the other way round.</p>\n\
         <div class=\"wide\"><table><thead><tr>",
        env!("CARGO_PKG_VERSION"),
        device = escaped(&report.device),
        versions = escaped(&report.versions.join("; ")),
    );
    for (name, is_number, told) in COLUMNS {
        let class = if is_number { " class=\"number\"" } else { "" };
        let _ = write!(out, "<th{class} title=\"{told}\"><button>{name}</button></th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &report.rows {
        for peer in &row.peers {
            line(&mut out, row, Some(peer));
        }
        if row.peers.is_empty() {
            line(&mut out, row, None);
        }
    }
    let _ = write!(out, "</tbody></table></div>\n<script>{SCRIPT}</script>\n</body></html>\n");
    out
}

fn line(out: &mut String, row: &Row, peer: Option<&PeerRow>) {
    let class = if row.fault.is_some() { " class=\"wrong\"" } else { "" };
    let _ = write!(out, "<tr{class}>");
    text(out, &row.case);
    cell(out, row.work.elements as f64, &row.size());
    time(out, &row.ours);
    let speed = row.speed(row.ours.median_ms);
    cell(out, speed, &number(speed));
    text(out, row.unit.sign());
    match peer {
        Some(peer) => {
            text(out, &peer.title());
            time(out, &peer.times);
            let ratio = peer.ratio(&row.ours);
            cell(out, ratio, &format!("{ratio:.3}"));
            match peer.goal {
                Some(goal) => cell(out, goal, &format!("{goal:.2}")),
                None => text(out, ""),
            }
            let slower = peer.slower.iter();
            let slower = slower.map(|v| format!("{} {}", v.name, number(v.times.median_ms * 1e3)));
            text(out, &slower.collect::<Vec<_>>().join(", "));
        }
        None => (0..6).for_each(|_| text(out, "")),
    }
    out.push_str("</tr>\n");
}

/// A median and its quartiles.
fn time(out: &mut String, times: &Summary) {
    let [low, high] = times.quartiles_ms;
    let us = |ms: f64| number(ms * 1e3);
    cell(out, times.median_ms * 1e3, &us(times.median_ms));
    cell(out, (high - low) / times.median_ms, &format!("{}..{}", us(low), us(high)));
}

/// A cell that is sorted by a number.
fn cell(out: &mut String, value: f64, shown: &str) {
    let _ = write!(out, "<td class=\"number\" data-value=\"{value}\">{}</td>", escaped(shown));
}

/// A cell that is sorted as text.
fn text(out: &mut String, shown: &str) {
    let _ = write!(out, "<td>{}</td>", escaped(shown));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    #[test]
    fn each_peer_of_a_case_has_a_line_with_its_variants_and_quartiles() {
        let page = of(&report(vec![row("a/b/f32", &[1 << 20], 0.25)]));
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with("<tr>")).collect();
        let [line] = lines[..] else { panic!("{lines:?}") };
        let shown = [">2^20<", ">250.0<", ">218.8..281.2<", ">CUB (size_t)<", ">500.0<", ">2.000<"];
        for part in shown.into_iter().chain([">1.25<", ">int 750.0<"]) {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(line.matches("<td").count(), COLUMNS.len());
    }

    #[test]
    fn a_case_without_peers_has_a_line_too_and_a_wrong_one_is_marked() {
        let mut alone = row("a/b/f32", &[8], 0.25);
        alone.peers.clear();
        alone.fault = Some("element 3 is 4".to_owned());
        let page = of(&report(vec![alone]));
        let line = page.lines().find(|line| line.starts_with("<tr class=\"wrong\">")).unwrap();
        assert_eq!(line.matches("<td").count(), COLUMNS.len());
    }

    #[test]
    fn the_page_loads_nothing_and_names_are_escaped() {
        let mut run = report(vec![row("a/b/f32", &[8], 0.25)]);
        run.device = "<b>&".to_owned();
        let page = of(&run);
        assert!(page.contains("<h1>&lt;b>&amp;</h1>"));
        for outside in ["src=", "href=", "url(", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
