//! `ferrowarp bench`: our operations beside the peers that the machine has.

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::output::Output;
use super::progress::Progress;
use super::table::{Side, Table};
use crate::bench::baseline::{self, Moved};
use crate::bench::measure::Plan;
use crate::bench::page;
use crate::bench::peers::SOURCES;
use crate::bench::picture::{self, Format};
use crate::bench::report::{Goal, PeerRow, Report, Row, number};
use crate::bench::session::{self, Notice, Options};
use crate::bench::{Scale, machine};
use ferrowarp::{Backend, Gpu};

/// Options of `ferrowarp bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp bench --quick
  ferrowarp bench --filter reduce,scan/inclusive --json today.json

Each time is the median of the device's own; the spread is from the slowest tenth to the fastest. The ratio is
the peer's time over ours: above 1 ours is faster. Peers are CUB (with nvcc on the machine), PyTorch and CuPy
(with python3); each runs in turns with ours, on random data of its own that outgrows the cache.")]
pub(super) struct Args {
    /// Only cases with one of these in their name or size
    #[arg(short, long, value_name = "PART,…", value_delimiter = ',')]
    filter: Vec<String>,
    /// Only list the cases
    #[arg(long)]
    list: bool,
    /// Fewer sizes and samples
    #[arg(long)]
    quick: bool,
    /// Lengths of arrays, as numbers or as powers of two: 1000000,2^28
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = length)]
    sizes: Option<Vec<usize>>,
    /// Samples of each side in a turn
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Ours alone
    #[arg(long)]
    no_peers: bool,
    /// Write all results into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw bandwidth against size, and a roofline, into this file: .png or .svg. A quick run then has all sizes of
    /// the curves
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write the whole table as one page, whose columns sort, into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure nothing, and take an earlier run's --json: for --picture, --html and --baseline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "json"])]
    from: Option<PathBuf>,
    /// Tell what moved since an earlier run's --json
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// A number, or 2^ and a number.
fn length(text: &str) -> Result<usize, &'static str> {
    const WHAT: &str = "a length is a number from 1, or 2^ and a number up to 40";
    let power = |power: &str| power.parse::<u32>().ok().filter(|p| *p <= 40).map(|p| 1 << p);
    let n: Option<usize> = text.strip_prefix("2^").map_or_else(|| text.parse().ok(), power);
    n.filter(|n| *n > 0).ok_or(WHAT)
}

impl Args {
    fn options(&self, backend: Backend) -> Options {
        let (sittings, rounds) = match (backend, self.quick) {
            (Backend::Emulator, _) => (1, 2),
            (Backend::Cuda, true) => (3, 5),
            (Backend::Cuda, false) => (5, 10),
        };
        Options {
            scale: Scale::new(backend, self.quick, self.sizes.clone())
                .with_curves(self.picture.is_some()),
            plan: Plan { sittings, rounds: self.rounds.map_or(rounds, NonZeroUsize::get) },
            filters: self.filter.clone(),
            peers: if self.no_peers || backend == Backend::Emulator { &[] } else { SOURCES },
        }
    }

    /// What is written at the end, opened now, so that a bad name costs no time.
    fn outputs(&self) -> Result<Outputs, CliError> {
        let json = self.json.as_deref().map(Output::create).transpose()?;
        let html = self.html.as_deref().map(Output::create).transpose()?;
        let baseline = self.baseline.as_deref().map(read_report).transpose()?;
        let picture = self.picture.as_deref().map(Output::create_chart).transpose()?;
        Ok(Outputs { json, html, picture, baseline })
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    if let Some(from) = &args.from {
        let report = read_report(from)?;
        return args.outputs()?.finish(&report, out);
    }
    let gpu = Gpu::new()?;
    let options = args.options(gpu.backend());
    if args.list {
        return list(&options, out);
    }
    let outputs = args.outputs()?;
    let report = measure(&gpu, &options, out)?;
    outputs.finish(&report, out)?;
    let wrong: Vec<_> = report.wrong().map(|row| format!("{} {}", row.case, row.size())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(CliError::WrongCases { names: wrong }) }
}

struct Outputs {
    json: Option<Output>,
    html: Option<Output>,
    picture: Option<(Format, Output)>,
    baseline: Option<Report>,
}

impl Outputs {
    fn finish(self, report: &Report, out: &mut impl Write) -> Result<(), CliError> {
        if let Some(json) = self.json {
            let text = serde_json::to_vec_pretty(report).expect("a report is plain data");
            json.finish(|file| Ok(file.write_all(&text)?))?;
        }
        if let Some(html) = self.html {
            let text = page::of(report);
            html.finish(|file| Ok(file.write_all(text.as_bytes())?))?;
        }
        if let Some((format, output)) = self.picture {
            let picture = picture::draw(report, format)?;
            output.finish(|file| Ok(file.write_all(&picture)?))?;
        }
        self.baseline.map_or(Ok(()), |before| Ok(compare(&before, report, out)?))
    }
}

fn read_report(path: &Path) -> Result<Report, CliError> {
    let text = fs::read(path).map_err(CliError::read(path))?;
    serde_json::from_slice(&text)
        .map_err(|error| CliError::NotAReport { path: path.to_owned(), reason: error.to_string() })
}

/// Prints what moved.
fn compare(before: &Report, now: &Report, out: &mut impl Write) -> std::io::Result<()> {
    let changes = baseline::changes(before, now);
    writeln!(out)?;
    if before.device != now.device {
        writeln!(out, "The earlier run was on another device: {}", before.device)?;
    }
    let right = ["size", "us before", "us now", "factor", "peers'"].map(|name| (name, Side::Right));
    let [size, earlier, later, factor, peers] = right;
    let mut table = Table::new([
        ("moved", Side::Left),
        ("case", Side::Left),
        size,
        earlier,
        later,
        factor,
        peers,
    ]);
    for change in &changes {
        let word = match change.moved() {
            Moved::Faster => "faster",
            Moved::Slower => "SLOWER",
            Moved::Within => continue,
        };
        let us = |row: &Row| number(row.ours.median_ms * 1e3);
        table.add([
            word.to_owned(),
            change.now.case.clone(),
            change.now.size(),
            us(change.before),
            us(change.now),
            format!("{:.3}", change.factor()),
            change.peers_factor().map(|factor| format!("{factor:.3}")).unwrap_or_default(),
        ]);
    }
    table.print(out)?;
    let within = changes.iter().filter(|change| change.moved() == Moved::Within).count();
    writeln!(
        out,
        "{within} of {} cases are where they were; {} of this run are new, {} of the earlier one are gone",
        changes.len(),
        now.rows.len() - changes.len(),
        before.rows.len() - changes.len()
    )
}

fn list(options: &Options, out: &mut impl Write) -> Result<(), CliError> {
    let mut table = Table::new([("case", Side::Left), ("size", Side::Right)]);
    options.cases()?.iter().for_each(|case| table.add([case.name.clone(), case.size()]));
    Ok(table.print(out)?)
}

/// Runs and prints a table for each family as it is done.
fn measure(gpu: &Gpu, options: &Options, out: &mut impl Write) -> Result<Report, CliError> {
    let emulator = gpu.backend() == Backend::Emulator;
    let mut report = Report { device: gpu.name().to_owned(), emulator, ..Report::default() };
    writeln!(out, "{}", report.device)?;
    if emulator {
        writeln!(out, "An emulator: results are checked, and its times say nothing about a GPU.")?;
    }
    report.peak_tera_operations = machine::peak_tera_operations(gpu.info());
    let ordinal = gpu.info().ordinal;
    if !emulator {
        report.versions.extend(machine::driver(ordinal));
        report.versions.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let mut clocks = Vec::new();
    let progress = Progress::steps("measuring", options.cases()?.len());
    let mut page = Page { out, table: table(), failed: None };
    let versions = &mut report.versions;
    report.rows = session::run(gpu, options, &mut |notice| match notice {
        Notice::Begins(case) => progress.set_message(format!("{case:?}")),
        Notice::Versions(lines) => {
            for line in lines {
                if !versions.contains(line) {
                    page.line(line);
                    versions.push(line.clone());
                }
            }
        }
        Notice::NoPeer(source, why) => {
            page.line(&format!(
                "no peers in {}.{}: {why}",
                source.family,
                source.language.extension()
            ));
        }
        Notice::NoTime(case, peer, why) => {
            page.line(&format!("no time of {peer} in {} {}: {why}", case.name, case.size()));
        }
        Notice::Unsupported(case, why) => {
            progress.advance();
            page.line(&format!("not on this device: {} {}: {why}", case.name, case.size()));
        }
        Notice::Row(row) => {
            progress.advance();
            page.row(row);
        }
        Notice::FamilyEnds(_) => {
            clocks.extend((!emulator).then(|| machine::clock_mhz(ordinal)).flatten());
            page.end_table();
        }
    })?;
    if let (Some(least), Some(most)) = (clocks.iter().min(), clocks.iter().max()) {
        let line = format!("clock after each family: {least}..{most} MHz");
        page.line(&format!("\n{line}"));
        report.versions.push(line);
    }
    page.goals(&report);
    page.failed.map_or(Ok(report), |error| Err(error.into()))
}

const COLUMNS: usize = 9;

fn table() -> Table<COLUMNS> {
    let left = [("case", Side::Left)];
    let right = ["size", "us", "speed", "", "10%..90%", "peer", "its speed", "ratio"];
    let mut columns = [left[0]; COLUMNS];
    columns[1..].copy_from_slice(&right.map(|name| (name, Side::Right)));
    Table::new(columns)
}

/// Standard output, whose first failure is kept for the end.
struct Page<'a, W: Write> {
    out: &'a mut W,
    table: Table<COLUMNS>,
    failed: Option<std::io::Error>,
}

impl<W: Write> Page<'_, W> {
    fn line(&mut self, line: &str) {
        self.keep(|page| writeln!(page.out, "{line}"));
    }

    fn keep(&mut self, write: impl FnOnce(&mut Self) -> std::io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(self).err();
        }
    }

    fn row(&mut self, row: &Row) {
        let mut ours = ours(row);
        for peer in &row.peers {
            ours[6..].clone_from_slice(&theirs(row, peer));
            self.table.add(std::mem::take(&mut ours));
        }
        if row.peers.is_empty() {
            self.table.add(ours);
        }
        if let Some(fault) = &row.fault {
            self.line(&format!("WRONG {} {}: {fault}", row.case, row.size()));
        }
    }

    /// How many goals are met, and which are not.
    fn goals(&mut self, report: &Report) {
        let (met, missed): (Vec<Goal<'_>>, Vec<_>) = report.goals().partition(Goal::is_met);
        if met.is_empty() && missed.is_empty() {
            return;
        }
        self.line(&format!("goals: {} met, {} missed", met.len(), missed.len()));
        for Goal { row, peer, found, least } in missed {
            let (case, size) = (&row.case, row.size());
            let goal = match peer {
                Some(peer) => format!("{found:.3} beside {peer}, goal {least:.2}"),
                None => {
                    let unit = row.unit.sign();
                    format!("{} {unit}, goal {} {unit}", number(found), number(least))
                }
            };
            self.line(&format!("MISSED {case} {size}: {goal}"));
        }
    }

    fn end_table(&mut self) {
        let table = std::mem::replace(&mut self.table, self::table());
        self.keep(|page| {
            writeln!(page.out)?;
            table.print(page.out)?;
            page.out.flush()
        });
    }
}

/// The cells of our side; those of a peer are empty.
fn ours(row: &Row) -> [String; COLUMNS] {
    let speed = |ms| number(row.speed(ms));
    let times = row.ours;
    let mut cells = [const { String::new() }; COLUMNS];
    cells[..6].clone_from_slice(&[
        row.case.clone(),
        row.size(),
        number(times.median_ms * 1e3),
        speed(times.median_ms) + &verdict(row.speed_goal(), number),
        row.unit.sign().to_owned(),
        format!("{}..{}", speed(times.slow_ms), speed(times.fast_ms)),
    ]);
    cells
}

fn theirs(row: &Row, peer: &PeerRow) -> [String; 3] {
    let ratio = peer.ratio(&row.ours);
    let verdict = verdict(row.peer_goal(peer), |ratio| format!("{ratio:.2}"));
    let speed = number(row.speed(peer.times.median_ms));
    [peer.title(), speed, format!("{ratio:.3}{verdict}")]
}

/// What stands behind a figure that has a goal.
fn verdict(goal: Option<Goal<'_>>, number: impl Fn(f64) -> String) -> String {
    goal.map_or_else(String::new, |goal| {
        let word = if goal.is_met() { "met" } else { "MISSED" };
        format!(" {word} {}", number(goal.least))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_numbers_or_powers() {
        assert_eq!(length("2^20"), Ok(1 << 20));
        assert_eq!(length("1000"), Ok(1000));
        for bad in ["0", "2^41", "-1", "2^", "x", ""] {
            length(bad).unwrap_err();
        }
    }

    #[test]
    fn missed_goals_are_the_last_lines() {
        let times = |median_ms| {
            let (fast_ms, slow_ms) = (median_ms, median_ms);
            let quartiles_ms = [median_ms; 2];
            crate::bench::stats::Summary { median_ms, fast_ms, slow_ms, quartiles_ms, samples: 3 }
        };
        let peer = |name: &str, goal| PeerRow {
            name: name.to_owned(),
            variant: if name == "CUB" { "size_t".to_owned() } else { String::new() },
            times: times(2.0),
            goal,
            slower: Vec::new(),
        };
        let row = Row {
            case: "rows/softmax/f32".to_owned(),
            shape: vec![1 << 20],
            work: crate::bench::case::Work { bytes: 8_000_000_000, elements: 1, operations: 1 },
            unit: crate::bench::case::Unit::Bandwidth,
            batching: crate::bench::measure::Batching { copies: 1, runs: 1 },
            ours: times(2.5),
            goal: Some(4000.0),
            fault: None,
            peers: vec![peer("torch", Some(0.75)), peer("CUB", Some(1.0)), peer("driver", None)],
        };
        let report = Report { rows: vec![row], ..Report::default() };
        let mut out = Vec::new();
        let mut page = Page { out: &mut out, table: table(), failed: None };
        page.row(&report.rows[0]);
        page.end_table();
        page.goals(&report);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("3200 MISSED 4000  GB/s"), "{text}");
        assert!(text.contains("CUB (size_t)"), "{text}");
        assert!(text.contains("0.800 met 0.75") && text.contains("0.800 MISSED 1.00"), "{text}");
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        assert_eq!(
            lines,
            [
                "MISSED rows/softmax/f32 2^20: 0.800 beside CUB, goal 1.00",
                "MISSED rows/softmax/f32 2^20: 3200 GB/s, goal 4000 GB/s",
                "goals: 1 met, 2 missed",
            ]
        );
    }
}
