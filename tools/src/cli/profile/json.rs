//! A profile for machines. The book's chapter on profiles has the schema.

use std::io::{self, Write};

use cuda_driver::counters::{Counters, Counts, SourceLocation, Space};
use serde::Serialize;

use super::super::error::CliError;
use super::measure::{Launches, Profile};

#[derive(Serialize)]
struct Document<'a> {
    /// Raised when a field changes its meaning or goes away.
    schema: u32,
    ferrowarp: &'static str,
    profiled: &'a str,
    demo: &'a str,
    device: &'a str,
    launches: Vec<Launch<'a>>,
}

#[derive(Serialize)]
struct Launch<'a> {
    kernel: &'a str,
    grid: [u32; 3],
    block: [u32; 3],
    static_shared_bytes: u32,
    dynamic_shared_bytes: u32,
    equal_launches: usize,
    emulator_seconds: f64,
    derived: Derived,
    lines: Vec<Line<'a>>,
    #[serde(flatten)]
    counters: &'a Counters,
}

#[derive(Serialize)]
struct Line<'a> {
    source: Option<&'a SourceLocation>,
    derived: Derived,
    counts: Counts,
}

/// What follows from the counts.
#[derive(Serialize)]
struct Derived {
    lanes_per_instruction: f64,
    working_lanes_per_instruction: f64,
    global_sectors_per_request: Option<f64>,
    ideal_global_sectors_per_request: Option<f64>,
    shared_conflicts: u64,
    global_bytes_asked: u64,
    global_bytes_moved: u64,
    arithmetic_intensity: Option<f64>,
}

impl Derived {
    fn of(counts: &Counts) -> Self {
        let (global, shared) = (counts.of_space(Space::Global), counts.of_space(Space::Shared));
        let any = global.requests > 0;
        Self {
            lanes_per_instruction: counts.lanes_per_instruction(),
            working_lanes_per_instruction: counts.working_lanes_per_instruction(),
            global_sectors_per_request: any.then(|| global.sectors_per_request()),
            ideal_global_sectors_per_request: any.then(|| global.ideal_sectors_per_request()),
            shared_conflicts: shared.conflicts(),
            global_bytes_asked: global.bytes,
            global_bytes_moved: global.moved_bytes(),
            arithmetic_intensity: counts.arithmetic_intensity(),
        }
    }
}

fn launch(Launches { count, first }: &Launches) -> Launch<'_> {
    let lines = first.counters.by_line().into_iter().map(|line| Line {
        source: line.source,
        derived: Derived::of(&line.counts),
        counts: line.counts,
    });
    Launch {
        kernel: &first.kernel,
        grid: first.grid,
        block: first.block,
        static_shared_bytes: first.static_shared_bytes,
        dynamic_shared_bytes: first.dynamic_shared_bytes,
        equal_launches: *count,
        emulator_seconds: first.elapsed.as_secs_f64(),
        derived: Derived::of(&first.counters.totals),
        lines: lines.collect(),
        counters: &first.counters,
    }
}

/// Writes a profile.
pub(super) fn write(profile: &Profile, out: &mut (impl Write + ?Sized)) -> Result<(), CliError> {
    let document = Document {
        schema: 1,
        ferrowarp: env!("CARGO_PKG_VERSION"),
        profiled: &profile.name,
        demo: profile.demo,
        device: &profile.device,
        launches: profile.launches.iter().map(launch).collect(),
    };
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
    Ok(writeln!(out, "{text}")?)
}
