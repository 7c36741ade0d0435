//! `ferrowarp dist scale`: how much faster many ranks are than one.

use std::io::Write;
use std::time::Instant;

use ferrowarp::ops::particles::{Particle, Particles};
use ferrowarp::ops::random;
use ferrowarp::ops::stencil::{Boundary, VolumeStencil};
use ferrowarp::{Backend as Driver, DeviceBuffer, Gpu};
use ferrowarp_dist::ops::particles::World as Law;
use ferrowarp_dist::ops::{Shares, SlabGrid, SlabParticles};
use ferrowarp_dist::{Communicator, DistResult, World};

use super::super::error::CliError;
use super::super::table::{Side, Table};
use super::{count, device, named};

/// Options of `ferrowarp dist scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp launch -n 2 -- ferrowarp dist scale
  mpirun -n 4 ferrowarp dist scale --side 48
  srun -n 16 --gpus-per-task=1 ferrowarp dist scale --side 2048

Weak scaling: each rank has as much as one alone; strong scaling: all ranks share what one has alone. \"Alone\" is measured in the
same run, on all devices at the same time, each with a communicator of its own. Times are medians over rounds of the slowest rank in
each. The efficiency is the time alone by the time of all: of strong scaling, by the number of ranks too.")]
pub(super) struct Args {
    /// Cells along each axis of the grid that all share, and that each has in weak scaling [default: 1024 on GPUs, 32 on emulated devices]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(8..=4096))]
    side: Option<u32>,
    /// Particles of each rank [default: 16777216 on GPUs, 1000 on emulated devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    particles: Option<u32>,
    /// Steps of a round [default: 100 on GPUs, 4 on emulated devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// Rounds, of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Run as a world of one rank, without a launcher
    #[arg(long)]
    alone: bool,
}

/// How large and how long.
#[derive(Clone, Copy)]
struct Scale {
    side: usize,
    particles: usize,
    steps: usize,
    rounds: usize,
}

impl Args {
    fn scale(&self, gpu: &Gpu) -> Scale {
        let (side, particles, steps) = match gpu.backend() {
            Driver::Cuda => (1024, 1 << 24, 100),
            Driver::Emulator => (32, 1000, 4),
        };
        let or = |given: Option<u32>, suited: usize| given.map_or(suited, |given| given as usize);
        Scale {
            side: or(self.side, side),
            particles: or(self.particles, particles),
            steps: or(self.steps, steps),
            rounds: self.rounds as usize,
        }
    }
}

/// A row of the table.
struct Row {
    what: &'static str,
    size: String,
    /// Milliseconds of a step.
    alone: f64,
    all: f64,
    efficiency: f64,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let world = if args.alone { World::alone() } else { World::from_env()? };
    run_in(&world, args, out).map_err(named(&world))
}

fn run_in(world: &World, args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    let scale = args.scale(&gpu);
    let rows = measure(&ranks, scale)?;
    if world.rank() == 0 {
        let (many, on) = (count(world.size()), device(&gpu));
        writeln!(out, "{many} by {}, over {}, on {on}", world.launcher(), ranks.backend())?;
        let Scale { steps, rounds, .. } = scale;
        writeln!(out, "medians of {rounds} rounds of {steps} steps\n")?;
        print(&rows, out)?;
    }
    drop(ranks);
    Ok(world.clone().finish()?)
}

fn measure(ranks: &Communicator, scale: Scale) -> DistResult<Vec<Row>> {
    let alone = ranks.split(Some(ranks.rank()), 0)?.expect("each rank has a colour");
    let (n, side) = (ranks.size() as usize, scale.side);
    let one = stencil(ranks, &alone, [side; 3], scale)?;
    let weak = stencil(ranks, ranks, [n * side, side, side], scale)?;
    let strong = stencil(ranks, ranks, [side; 3], scale)?;
    let one_box = particles(ranks, &alone, scale)?;
    let all_boxes = particles(ranks, ranks, scale)?;
    let row = |what, size, alone: f64, all: f64, of_ideal: f64| Row {
        what,
        size,
        alone,
        all,
        efficiency: alone / all / of_ideal,
    };
    let cells = |depth: usize| format!("{depth} x {side} x {side}");
    let of_each = format!("{} a rank", scale.particles);
    Ok(vec![
        row("3-D stencil, weak", cells(n * side), one, weak, 1.0),
        row("3-D stencil, strong", cells(side), one, strong, n as f64),
        row("particles, weak", of_each, one_box, all_boxes, 1.0),
    ])
}

/// Milliseconds of a step: the median over rounds, in each of which the slowest of `all` counts.
fn time(
    all: &Communicator,
    scale: Scale,
    mut steps: impl FnMut(usize) -> DistResult<()>,
) -> DistResult<f64> {
    // A first round loads kernels, connects the ranks, and lets memory grow.
    steps(scale.steps)?;
    let mut rounds = Vec::new();
    for _ in 0..scale.rounds {
        all.barrier(all.gpu())?;
        let start = Instant::now();
        steps(scale.steps)?;
        let own = start.elapsed().as_secs_f64() * 1e3 / scale.steps as f64;
        let of_all = all.all_gather_host(all.gpu(), &[own])?;
        rounds.push(of_all.into_iter().fold(0.0, f64::max));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[rounds.len() / 2])
}

/// Steps of heat in a grid that `ranks` share; all ranks of `all` do so at the same time.
fn stencil(
    all: &Communicator,
    ranks: &Communicator,
    shape: [usize; 3],
    scale: Scale,
) -> DistResult<f64> {
    let (gpu, slabs) = (ranks.gpu(), Shares::even(shape[0], ranks.size()));
    let own = slabs.scaled(shape[1] * shape[2]).range(ranks.rank());
    let mut cells = DeviceBuffer::zeroed(gpu, own.len())?;
    random::uniform_into(gpu, &mut cells, 1, own.start as u64)?;
    let heat = VolumeStencil::diffusion(0.1f32, Boundary::Fixed);
    let mut grid = SlabGrid::from_local(ranks, heat, shape, &slabs, cells)?;
    time(all, scale, |steps| {
        grid.step(steps)?;
        grid.synchronize()
    })
}

/// Steps of particles: each rank of `ranks` begins with a block of them behind a dam, and the blocks touch.
fn particles(all: &Communicator, ranks: &Communicator, scale: Scale) -> DistResult<f64> {
    let (rank, size) = (ranks.rank() as usize, ranks.size() as usize);
    let (cells, positions) = Particles::dam(scale.particles);
    // The block's own layers; behind the last block the box has one more.
    let layers = cells[2] as usize - 1;
    let mut shares = vec![layers; size];
    shares[size - 1] += 1;
    let slabs = Shares::given(shares);
    let cells = [cells[0], cells[1], slabs.total() as u32];
    let law = Law { cells, stiffness: 2000.0, damping: 20.0, gravity: 1.0, time_step: 0.004 };
    let first = rank * positions.len();
    // Names are only carried along: beyond 2^32 they begin again.
    let moved = |(i, [x, y, z]): (usize, [f32; 3])| Particle {
        name: (first + i) as u32,
        position: [x, y, z + (rank * layers) as f32],
        velocity: [0.0; 3],
    };
    let own: Vec<_> = positions.into_iter().enumerate().map(moved).collect();
    let mut particles = SlabParticles::from_local(ranks, law, &slabs, &own)?;
    drop(own);
    time(all, scale, |steps| {
        particles.step(steps)?;
        ranks.synchronize(ranks.gpu())
    })
}

fn print(rows: &[Row], out: &mut impl Write) -> Result<(), CliError> {
    let mut table = Table::new([
        ("what", Side::Left),
        ("size", Side::Right),
        ("alone, ms a step", Side::Right),
        ("all ranks, ms a step", Side::Right),
        ("efficiency", Side::Right),
    ]);
    for row in rows {
        let (alone, all) = (format!("{:.4}", row.alone), format!("{:.4}", row.all));
        let efficiency = format!("{:.1} %", 100.0 * row.efficiency);
        table.add([row.what.to_owned(), row.size.clone(), alone, all, efficiency]);
    }
    Ok(table.print(out)?)
}
