//! `ferrowarp dist heat`: the plate of `ferrowarp heat` in slabs on all ranks, as one film.

use std::io::Write;
use std::time::{Duration, Instant};

use ferrowarp::DeviceBuffer;
use ferrowarp_dist::ops::{Shares, SlabGrid, SlabRule, Wave};
use ferrowarp_dist::{Communicator, World};

use super::super::error::CliError;
use super::super::film::record;
use super::super::heat;
use super::{count, device, named};
use crate::demo::{Motion, Plate};

/// Options of `ferrowarp dist heat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mpirun -n 4 ferrowarp dist heat -o heat.gif
  ferrowarp launch -n 2 -- ferrowarp dist heat --wave -o wave.gif

Each rank has some rows of the plate. Rank 0 gathers them for each picture, and writes the film: the same file, bit for bit, as that
of `ferrowarp heat`.")]
// The options of `ferrowarp heat` are a group of the name of their type already.
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    plate: heat::Args,
    /// Run as a world of one rank, without a launcher
    #[arg(long)]
    alone: bool,
}

/// What takes the pictures: rank 0's film, or nothing.
type Show<'a> = &'a mut dyn FnMut(Vec<[u8; 4]>) -> Result<(), CliError>;

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let world = if args.alone { World::alone() } else { World::from_env()? };
    run_in(&world, args, out).map_err(named(&world))
}

fn run_in(world: &World, args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let gpu = world.gpu()?;
    let plate = args.plate.plate(&gpu);
    let ranks = Communicator::new(world, &gpu)?;
    let time = if world.rank() == 0 {
        record(&args.plate.reel(&plate), args.plate.output(), |show| film(&ranks, &plate, show))?
    } else {
        film(&ranks, &plate, &mut |_| Ok(()))?
    };
    if world.rank() == 0 {
        let [width, height] = plate.size;
        let (many, on) = (count(world.size()), device(&gpu));
        writeln!(
            out,
            "{width} x {height} cells in slabs of {many}, over {}, on {on}",
            ranks.backend()
        )?;
        writeln!(out, "{} pictures in {:.2} s", plate.frames, time.as_secs_f64())?;
        writeln!(out, "wrote {}", args.plate.output().display())?;
    }
    drop(ranks);
    Ok(world.clone().finish()?)
}

fn film(ranks: &Communicator, plate: &Plate, show: Show<'_>) -> Result<Duration, CliError> {
    let stencil = plate.motion.stencil();
    match plate.motion {
        Motion::Heat => film_of(ranks, plate, stencil, show),
        Motion::Wave => film_of(ranks, plate, Wave(stencil), show),
    }
}

/// Makes the steps on all ranks, and shows rank 0's pictures of all slabs.
fn film_of<R: SlabRule<2, Cell = f32>>(
    ranks: &Communicator,
    plate: &Plate,
    rule: R,
    show: Show<'_>,
) -> Result<Duration, CliError> {
    let [width, height] = plate.size.map(|side| side as usize);
    let slabs = Shares::even(height, ranks.size());
    let own = slabs.scaled(width).range(ranks.rank());
    let cells = DeviceBuffer::from_slice(ranks.gpu(), &plate.start()[own])?;
    let mut grid = SlabGrid::from_local(ranks, rule, [height, width], &slabs, cells)?;
    let start = Instant::now();
    for _ in 0..plate.frames {
        if let Some(cells) = grid.gather()? {
            show(plate.motion.picture(&cells))?;
        }
        grid.step(plate.steps_per_frame)?;
    }
    grid.synchronize()?;
    Ok(start.elapsed())
}
