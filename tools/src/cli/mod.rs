//! The command line: what the program `ferrowarp` does.
//!
//! A failure is one line on standard error and the exit status 1, or that of the program that `launch`
//! has started; a command line that makes no sense is 2. Results go to standard output, progress to standard error and only to a terminal.

mod bench;
mod demo;
mod devices;
mod dist;
mod doctor;
mod error;
mod film;
mod generate;
mod heat;
mod host_pages;
mod input;
mod interrupt;
#[cfg(unix)]
mod launch;
mod memory;
mod names;
mod new;
mod numbers;
mod output;
mod picture;
mod pixels;
mod profile;
pub mod progress;
mod reduce;
mod rows;
mod soak;
mod sort;
mod table;
mod tune;
mod watch;
mod watch_folder;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use error::CliError;

/// Runs CUDA kernels written in Rust, on a GPU or on an emulated one.
#[derive(Debug, Parser)]
#[command(name = "ferrowarp", version, after_help = ENVIRONMENT, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const ENVIRONMENT: &str = "\
Environment:
  FERROWARP_DEVICE=auto      a GPU if there is one, else the emulator (the default)
  FERROWARP_DEVICE=cuda      a GPU, or an error
  FERROWARP_DEVICE=emulator  the emulator, also where there is a GPU

Examples:
  ferrowarp devices
  ferrowarp doctor
  ferrowarp demo
  ferrowarp demo particles -o particles.gif
  ferrowarp bench --quick
  ferrowarp generate --length 1000
  ferrowarp heat -o heat.gif
  ferrowarp launch -n 4 -- ferrowarp dist demo
  ferrowarp profile transpose_naive --html page.html
  ferrowarp image blur photo.jpg -o soft.png --sigma 4
  ferrowarp reduce prices.csv --column price
  ferrowarp soak --minutes 9
  ferrowarp sort prices.csv --column price -o sorted.csv
  ferrowarp tune matmul 4096x4096x4096
  ferrowarp watch --run saxpy --compare
  ferrowarp new own";

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what work runs on, and why
    Devices,
    /// Check what this machine has of what is needed, and name the fix for what it lacks
    Doctor(doctor::Args),
    /// Run the demos and check each against the CPU
    Demo(demo::Args),
    /// Measure our operations, and the peers that the machine has, side by side
    Bench(bench::Args),
    /// Count what a kernel does and what it costs, line by line
    Profile(profile::Args),
    /// Train a small language model of characters, and let it write
    Generate(generate::Args),
    /// Heat that spreads over a plate, or waves on one, as a film
    Heat(heat::Args),
    /// Filter a picture: PNG or JPEG in, PNG or JPEG out
    Image(picture::Args),
    /// Add up a column of numbers, or a file of raw 32-bit floats
    Reduce(reduce::Args),
    /// Run mixed work for minutes or months, with everything checked: results, reports of faults, memory
    Soak(soak::Args),
    /// Sort the rows of a table by a column of numbers, or a file of raw numbers
    Sort(sort::Args),
    /// Run and measure collectives and operations among ranks that a launcher has started
    Dist(dist::Args),
    /// Start processes of a program on this machine as the ranks of a world
    #[cfg(unix)]
    Launch(launch::Args),
    /// Make a project with kernels of your own
    New(new::Args),
    /// Measure which kernel is the fastest for given matrix products
    Tune(tune::Args),
    /// Build, load and run kernels again whenever they are edited
    Watch(watch::Args),
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    for misspelt in names::misspelt_variables() {
        // It is no reason to stop: it may be somebody's own.
        let _ = writeln!(io::stderr(), "warning: {misspelt}");
    }
    let mut out = io::stdout().lock();
    match run(cli, &mut out).and_then(|()| out.flush().map_err(CliError::from)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(CliError::Print(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            interrupt::let_signal_end();
            // Nothing is left to do if standard error is closed.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(cli: Cli, out: &mut impl Write) -> Result<(), CliError> {
    match cli.command {
        Command::Devices => devices::run(out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Bench(args) => bench::run(&args, out),
        Command::Profile(args) => profile::run(&args, out),
        Command::Generate(args) => generate::run(&args, out),
        Command::Heat(args) => heat::run(&args, out),
        Command::Image(args) => picture::run(&args, out),
        Command::Reduce(args) => reduce::run(&args, out),
        Command::Soak(args) => soak::run(&args, out),
        Command::Sort(args) => sort::run(&args, out),
        Command::Dist(args) => dist::run(&args, out),
        #[cfg(unix)]
        Command::Launch(args) => launch::run(&args, out),
        Command::New(args) => new::run(&args, out),
        Command::Tune(args) => tune::run(&args, out),
        Command::Watch(args) => watch::run(&args, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
