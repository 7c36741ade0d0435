//! `ferrowarp dist scale`: how much faster many ranks are than one.

mod chart;
mod measure;

use std::io::Write;
use std::path::PathBuf;

use ferrowarp::{Backend as Driver, Gpu};
use ferrowarp_dist::{Communicator, World};

use super::super::error::CliError;
use super::super::output::Output;
use super::super::table::{Side, Table};
use super::{count, device, named};
use crate::bench::picture;
use chart::Chart;
use measure::{Row, measure};

/// Options of `ferrowarp dist scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp launch -n 4 -- ferrowarp dist scale --picture scaling.png
  mpirun -n 4 ferrowarp dist scale --side 48
  srun -n 16 --gpus-per-task=1 ferrowarp dist scale --side 2048

Weak scaling: each rank has as much as one alone; strong scaling: all ranks share what one has alone. Measured with 1, 2, 4 and so on
ranks, and with all: groups of so many, each with a communicator of its own, work at the same time. Times are medians over rounds
of the slowest rank in each. The efficiency is the time alone by the time of the group: of strong scaling, by the number of its ranks
too.")]
pub(super) struct Args {
    /// Cells along each axis of the grid that all share, and that each has in weak scaling [default: 1024 on GPUs, 32 on emulated devices]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(8..=4096))]
    side: Option<u32>,
    /// Particles of each rank [default: 16777216 on GPUs, 1000 on emulated devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    particles: Option<u32>,
    /// Keys of 32 bits of each rank, which are sorted [default: 1073741824 on GPUs, 4096 on emulated devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_147_483_648))]
    keys: Option<u32>,
    /// Steps of a round [default: 100 on GPUs, 4 on emulated devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// Rounds, of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Draw the efficiency by the number of ranks into this file: .png or .svg
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Run as a world of one rank, without a launcher
    #[arg(long)]
    alone: bool,
}

/// How large and how long.
#[derive(Clone, Copy)]
struct Scale {
    side: usize,
    particles: usize,
    keys: usize,
    steps: usize,
    rounds: usize,
}

impl Args {
    fn scale(&self, gpu: &Gpu) -> Scale {
        let (side, particles, keys, steps) = match gpu.backend() {
            Driver::Cuda => (1024, 1 << 24, 1 << 30, 100),
            Driver::Emulator => (32, 1000, 4096, 4),
        };
        let or = |given: Option<u32>, suited: usize| given.map_or(suited, |given| given as usize);
        Scale {
            side: or(self.side, side),
            particles: or(self.particles, particles),
            keys: or(self.keys, keys),
            steps: or(self.steps, steps),
            rounds: self.rounds as usize,
        }
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let world = if args.alone { World::alone() } else { World::from_env()? };
    run_in(&world, args, out).map_err(named(&world))
}

fn run_in(world: &World, args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let first = world.rank() == 0;
    let picture =
        args.picture.as_deref().filter(|_| first).map(Output::create_chart).transpose()?;
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    let scale = args.scale(&gpu);
    let rows = measure(&ranks, scale)?;
    if first {
        let (many, on) = (count(world.size()), device(&gpu));
        writeln!(out, "{many} by {}, over {}, on {on}", world.launcher(), ranks.backend())?;
        let Scale { steps, rounds, .. } = scale;
        writeln!(out, "medians of {rounds} rounds of {steps} steps, or of one sort\n")?;
        print(&rows, out)?;
    }
    if let Some((format, output)) = picture {
        let drawn = picture::draw(&Chart { device: device(&gpu), rows: &rows }, format)?;
        output.finish(|file| Ok(file.write_all(&drawn)?))?;
    }
    drop(ranks);
    Ok(world.clone().finish()?)
}

fn print(rows: &[Row], out: &mut impl Write) -> Result<(), CliError> {
    let mut table = Table::new([
        ("ranks", Side::Right),
        ("size", Side::Right),
        ("ms a step", Side::Right),
        ("efficiency", Side::Right),
    ]);
    let mut group = "";
    for row in rows {
        if row.what != group {
            table.begin(row.what);
            group = row.what;
        }
        let milliseconds = format!("{:.4}", row.milliseconds);
        let efficiency = format!("{:.1} %", 100.0 * row.efficiency);
        table.add([row.ranks.to_string(), row.size.clone(), milliseconds, efficiency]);
    }
    Ok(table.print(out)?)
}
