//! `ferrowarp doctor`: what the machine has of what Ferrowarp needs, and the fix for what it lacks.
//!
//! Each line comes from one probe. A probe is a function of what it looks at (a folder in place of `/`, the result of a
//! program), so that each outcome has a test.

mod build;
mod driver;
mod host;
mod line;

use std::io::Write;
use std::path::Path;

use ferrowarp::device::{backend, devices};
use ferrowarp::memory::Platform;
use serde::Serialize;

use super::error::CliError;
use super::host_pages::Machine;
use line::{Line, State};

/// Options of `ferrowarp doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp doctor
  ferrowarp doctor --json | jq '.lines[] | select(.state == \"wrong\")'

A line is `right`, `wrong`, or `missing` if it is optional and not there; what is not right has a fix below it.
The exit status is 1 if a line is wrong. Optional lines (HMM, NCCL, ptxas) never are.

Run it in the folder of your project: rustup may select another compiler there.")]
pub(super) struct Args {
    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    /// Raised when a field changes its meaning or goes away.
    schema: u32,
    ferrowarp: &'static str,
    right: bool,
    lines: &'a [Line],
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let lines = examine();
    let wrong: Vec<_> =
        lines.iter().filter(|line| line.state == State::Wrong).map(|line| line.name).collect();
    if args.json {
        let (right, ferrowarp) = (wrong.is_empty(), env!("CARGO_PKG_VERSION"));
        let document = Document { schema: 1, ferrowarp, right, lines: &lines };
        serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        lines.iter().try_for_each(|line| line.print(out))?;
    }
    out.flush()?;
    if wrong.is_empty() { Ok(()) } else { Err(CliError::Unfit { lines: wrong }) }
}

/// All lines.
fn examine() -> Vec<Line> {
    let root = Path::new("/");
    let compiler = build::find_compiler();
    let wsl = host::wsl_version(root);
    let requested = std::env::var("FERROWARP_DEVICE").ok();
    let installed = cuda_driver::installed_driver();
    let needed = driver::Needed::of(requested.as_deref(), host::has_nvidia_gpu(root, wsl));
    let work = backend().and_then(|backend| Ok((backend, devices()?)));
    vec![
        build::compiler(&compiler),
        build::rust_src(&compiler),
        build::linker(build::link_a_program()),
        driver::driver(&installed, needed, wsl),
        driver::device(&work, cuda_driver::cuda_passed_over()),
        driver::hmm(&work, &Machine::of(root, Platform::detect())),
        host::permissions(root, host::may_read_and_write),
        host::wsl(root, wsl),
        host::nccl(host::nccl_version()),
        build::ptxas(build::ptxas_version()),
    ]
}
