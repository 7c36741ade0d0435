//! `ferrowarp dist bench`: what collectives and operations over ranks take.

mod collectives;
mod measure;
mod operations;
mod products;
mod sizes;

use std::io::Write;

use ferrowarp::Backend as Driver;
use ferrowarp_dist::{Communicator, DistResult, World};

use super::super::error::CliError;
use super::{count, device};
use measure::Bench;
use sizes::{Size, doubled};

/// Options of `ferrowarp dist bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp launch -n 2 -- ferrowarp dist bench
  torchrun --nproc-per-node 8 --no-python ferrowarp dist bench --max 256M
  mpirun -n 4 ferrowarp dist bench --sizes 1K,64K

Rank 0 prints the tables. Times are those of the slowest rank, of one call in a batch of calls between two events of the device; a
sample is a batch, and the median of the samples is shown. Algorithm and bus bandwidth are those of nccl-tests: the size divided by
the time, and that times the part of the size that crosses the link (all-reduce 2 (n - 1) / n; all-gather, reduce-scatter,
all-to-all, gather and scatter (n - 1) / n; others 1). GB/s are 10^9 bytes a second.

The rate of a transpose is compared with that of a send and a receive of as many bytes as a rank sends to others.

Products are timed alone, without an exchange; with the exchange before or after; and with the exchange beside them, in pieces. The
ratio is that of the latter two.

On emulated devices sizes are small, and the times are the host's, not those of any GPU.")]
pub(super) struct Args {
    /// Run as a world of one rank, without a launcher
    #[arg(long)]
    alone: bool,
    /// The sizes of messages, in bytes or with K, M or G; by default every fourth power of two up to the largest
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// The largest size: 1G, and 16K on emulated devices
    #[arg(long, value_name = "SIZE", conflicts_with = "sizes")]
    max: Option<Size>,
    /// How many samples of each: 15, and 3 on emulated devices
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// The keys of each rank that are sorted: 1G (2^30), and 4K on emulated devices
    #[arg(long, value_name = "KEYS")]
    keys: Option<Size>,
    /// The size of each rank's part of the matrix that is transposed: 1G, and 16K on emulated devices
    #[arg(long, value_name = "SIZE")]
    matrix: Option<Size>,
    /// The rows, columns and sums of all ranks in matrix products: 8K, and 256 on emulated devices
    #[arg(long, value_name = "SIDE")]
    product: Option<Size>,
}

/// What is measured.
struct Plan {
    sizes: Vec<usize>,
    repetitions: u32,
    keys: usize,
    matrix_bytes: usize,
    product_side: usize,
}

impl Args {
    fn plan(&self, is_emulated: bool) -> Plan {
        let or = |size: Option<Size>, real: usize, emulated: usize| {
            size.map_or(if is_emulated { emulated } else { real }, |size| size.0)
        };
        let sizes = match self.sizes.as_slice() {
            [] => doubled(or(self.max, 1 << 30, 16 << 10)),
            sizes => sizes.iter().map(|size| size.0).collect(),
        };
        Plan {
            sizes,
            repetitions: self.repetitions.unwrap_or(if is_emulated { 3 } else { 15 }),
            keys: or(self.keys, 1 << 30, 4 << 10),
            matrix_bytes: or(self.matrix, 1 << 30, 16 << 10),
            product_side: or(self.product, 8 << 10, 256),
        }
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let world = if args.alone { World::alone() } else { World::from_env()? };
    let named = |source| CliError::OfRank { rank: world.to_string(), source };
    let gpu = world.gpu().map_err(named)?;
    let ranks = Communicator::new(&world, &gpu).map_err(named)?;
    let plan = args.plan(matches!(gpu.backend(), Driver::Emulator));
    if world.rank() == 0 {
        let (size, launcher) = (count(world.size()), world.launcher());
        writeln!(out, "{size} by {launcher}, over {}, on {}", ranks.backend(), device(&gpu))?;
        writeln!(out, "medians of {} samples of the slowest rank\n", plan.repetitions)?;
        out.flush()?;
    }
    let bench = Bench::new(&ranks, plan.repetitions);
    let print = &mut |lines: String| -> Result<(), CliError> {
        if world.rank() == 0 {
            out.write_all(lines.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    };
    collectives::run(&bench, &plan.sizes, print)?;
    operations::run(&bench, &plan, print)?;
    products::run(&bench, plan.product_side, print)?;
    end(ranks, &world).map_err(named)
}

fn end(ranks: Communicator, world: &World) -> DistResult<()> {
    drop(ranks);
    world.clone().finish()
}

/// Takes lines of a table; rank 0 prints them.
type Print<'a> = &'a mut dyn FnMut(String) -> Result<(), CliError>;
