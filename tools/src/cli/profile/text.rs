//! A profile for people at a terminal.

use std::io::{self, Write};

use cuda_driver::counters::{
    Access, Counters, Counts, LaunchReport, LineCounts, MemoryCounts, Space,
};

use super::super::table::{Side, Table};
use super::measure::{Launches, Profile};
use super::source::Sources;

/// The longest piece of a source line in the table.
const SOURCE_CHARS: usize = 48;

/// Prints all launches.
pub(super) fn print(
    profile: &Profile,
    sources: &mut Sources,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}, demo {}", profile.device, profile.demo)?;
    for launches in &profile.launches {
        writeln!(out, "\n{}\n", headline(launches))?;
        lines(&launches.first.counters, sources, out)?;
        writeln!(out)?;
        memory(&launches.first.counters.totals, out)?;
        writeln!(out)?;
        for (name, value) in facts(&launches.first) {
            writeln!(out, "{name:<22}{value}")?;
        }
    }
    Ok(())
}

/// What was launched, in a line.
pub(super) fn headline(Launches { count, first }: &Launches) -> String {
    let product = |sizes: [u32; 3]| {
        let last = sizes.iter().rposition(|size| *size != 1).unwrap_or(0);
        sizes[..=last].iter().map(u32::to_string).collect::<Vec<_>>().join(" × ")
    };
    let shared = first.static_shared_bytes + first.dynamic_shared_bytes;
    let times = match count {
        1 => String::new(),
        count => format!("; the first of {count} such launches"),
    };
    format!(
        "{}: {} blocks of {} threads, {shared} bytes of shared memory{times}",
        first.kernel,
        product(first.grid),
        product(first.block),
    )
}

fn lines(counters: &Counters, sources: &mut Sources, out: &mut impl Write) -> io::Result<()> {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("line", Left),
        ("instr", Right),
        ("lanes", Right),
        ("sectors/req", Right),
        ("ideal", Right),
        ("conflicts/req", Right),
        ("diverging", Right),
        ("source", Left),
    ]);
    for line in counters.by_line() {
        let [sectors, ideal] = sectors(&line.counts);
        table.add([
            place(&line),
            line.counts.instructions.to_string(),
            format!("{:.1}", line.counts.lanes_per_instruction()),
            sectors,
            ideal,
            conflicts(&line.counts),
            diverging(&line.counts),
            snippet(&line, sources),
        ]);
    }
    table.print(out)
}

fn place(line: &LineCounts<'_>) -> String {
    line.source.map_or("(no line)".to_owned(), |own| format!("{}:{}", own.file, own.line))
}

fn snippet(line: &LineCounts<'_>, sources: &mut Sources) -> String {
    let text = line.source.and_then(|own| sources.line(&own.file, own.line)).unwrap_or("");
    text.trim().chars().take(SOURCE_CHARS).collect()
}

/// Sectors of a request to global memory, and the ideal; empty where there are none.
pub(super) fn sectors(counts: &Counts) -> [String; 2] {
    let own = counts.of_space(Space::Global);
    match own.requests {
        0 => [String::new(), String::new()],
        _ => [own.sectors_per_request(), own.ideal_sectors_per_request()]
            .map(|value| format!("{value:.2}")),
    }
}

/// Passes that conflicts cost a request to shared memory; empty where there are none.
pub(super) fn conflicts(counts: &Counts) -> String {
    let own = counts.of_space(Space::Shared);
    match own.requests {
        0 => String::new(),
        requests => format!("{:.2}", own.conflicts() as f64 / requests as f64),
    }
}

/// Branches that parted lanes, of all branches; empty where there are none.
pub(super) fn diverging(counts: &Counts) -> String {
    match counts.branches {
        0 => String::new(),
        branches => format!("{}/{branches}", counts.divergent_branches),
    }
}

/// The name of a space and a kind of access.
pub(super) fn traffic(own: &MemoryCounts) -> String {
    let space = match own.space {
        Space::Generic => "generic",
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Const => "constant",
        Space::Param => "parameter",
    };
    let access = match own.access {
        Access::Load => "loads",
        Access::Store => "stores",
        Access::Atomic => "atomics",
    };
    format!("{space} {access}")
}

/// What the columns of [`memory_row`] are.
pub(super) const MEMORY_COLUMNS: [&str; 9] = [
    "memory",
    "requests",
    "bytes asked",
    "bytes moved",
    "sectors",
    "ideal",
    "wavefronts",
    "conflicts",
    "worst conflict",
];

/// A row of the table of memory.
pub(super) fn memory_row(own: &MemoryCounts) -> [String; 9] {
    let banks = own.space == Space::Shared;
    let sectors = matches!(own.space, Space::Global | Space::Local);
    let shown = |is: bool, value: u64| if is { value.to_string() } else { String::new() };
    [
        traffic(own),
        own.requests.to_string(),
        own.bytes.to_string(),
        own.moved_bytes().to_string(),
        shown(sectors, own.sectors),
        shown(sectors, own.ideal_sectors),
        shown(!sectors, own.wavefronts),
        shown(banks, own.conflicts()),
        shown(own.access == Access::Atomic, own.worst_conflict),
    ]
}

fn memory(totals: &Counts, out: &mut impl Write) -> io::Result<()> {
    let mut columns = MEMORY_COLUMNS.map(|name| (name, Side::Right));
    columns[0].1 = Side::Left;
    let mut table = Table::new(columns);
    totals.memory.iter().for_each(|own| table.add(memory_row(own)));
    table.print(out)
}

/// The totals, by name.
pub(super) fn facts(report: &LaunchReport) -> Vec<(&'static str, String)> {
    let (counters, totals) = (&report.counters, &report.counters.totals);
    let own = &counters.occupancy;
    let classes: Vec<String> = counters
        .classes
        .iter()
        .map(|class| format!("{} {}", class.class.name(), class.instructions))
        .collect();
    let intensity = totals.arithmetic_intensity();
    vec![
        ("warp instructions", format!("{} of PTX", totals.instructions)),
        (
            "lanes",
            format!(
                "{:.2} at an instruction, {:.2} with those left out whose guard does not hold",
                totals.lanes_per_instruction(),
                totals.working_lanes_per_instruction()
            ),
        ),
        ("classes", classes.join(", ")),
        ("branches", format!("{}, {} diverge", totals.branches, totals.divergent_branches)),
        (
            "barriers",
            format!("{} arrivals of warps, {} openings", totals.barriers, counters.barriers_opened),
        ),
        (
            "operations",
            format!(
                "{}, {} a byte of global memory",
                totals.operations(),
                intensity.map_or("-".to_owned(), |value| format!("{value:.3}"))
            ),
        ),
        (
            "theoretical occupancy",
            format!(
                "{} of {} warps, {:.0} % ({} blocks: {} by threads, {} by shared memory, {} by slots; \
                 registers are left aside)",
                own.warps,
                own.max_warps,
                100.0 * own.fraction(),
                own.blocks,
                own.by_threads,
                own.by_shared,
                own.by_slots
            ),
        ),
        (
            "emulated in",
            format!(
                "{:.3} s, {:.1} million lane-instructions a second",
                report.elapsed.as_secs_f64(),
                totals.lanes as f64 / report.elapsed.as_secs_f64() / 1e6
            ),
        ),
    ]
}
