//! `ferrowarp dist`: what several ranks do together.

mod bench;
mod demo;
mod heat;
mod scale;

use std::io::Write;

use ferrowarp::{Backend as Driver, Gpu};
use ferrowarp_dist::World;

use super::error::CliError;

/// Options of `ferrowarp dist`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run every collective and every operation over ranks, and check each against the CPU or one device
    Demo(demo::Args),
    /// Measure collectives by size, sorts, transposes, and matrix products with and without overlap
    Bench(bench::Args),
    /// Heat that spreads over a plate, or waves on one, in slabs on all ranks: one film
    Heat(heat::Args),
    /// Time stencils and particles on all ranks, beside one rank alone: weak and strong scaling
    Scale(scale::Args),
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    match &args.command {
        Command::Demo(args) => demo::run(args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::Heat(args) => heat::run(args, out),
        Command::Scale(args) => scale::run(args, out),
    }
}

/// An error of work with other ranks, with the rank's name.
fn named(world: &World) -> impl Fn(CliError) -> CliError {
    let rank = world.to_string();
    move |error| match error {
        CliError::Dist(source) => CliError::OfRank { rank: rank.clone(), source },
        error => error,
    }
}

/// "4 ranks"
fn count(ranks: u32) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

fn device(gpu: &Gpu) -> String {
    match gpu.backend() {
        Driver::Emulator => format!("emulated devices ({})", gpu.name()),
        Driver::Cuda => gpu.name().to_owned(),
    }
}
