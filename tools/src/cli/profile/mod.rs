//! `ferrowarp profile`: what a kernel does and what it costs, counted on the emulator.

mod html;
mod json;
mod measure;
mod picture;
mod source;
mod text;

use std::io::Write;
use std::path::PathBuf;

use super::error::CliError;
use super::output::Output;
use crate::demo::Scale;
use ferrowarp::Gpu;
use source::Sources;

/// Options of `ferrowarp profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp profile transpose_naive
  ferrowarp profile histogram --html histogram.html
  ferrowarp profile reduce_tree_f32 --size 100000 --json
  ferrowarp profile blur --json blur.json --html blur.html

Counts are those of the emulator: instructions are of PTX, sectors and bank conflicts as a GPU has them.
On a machine with a GPU set FERROWARP_DEVICE=emulator. Lines of the source are shown where its files are found:
in a checkout of Ferrowarp, or with --source.")]
pub(super) struct Args {
    /// A demo, or a kernel that one of the demos launches
    #[arg(value_name = "DEMO|KERNEL")]
    name: String,
    /// Elements of arrays; or the side of matrices, or the width of pictures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    size: Option<u32>,
    /// Write a page with the source annotated and pictures of the accesses
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write everything as JSON, to standard output if no file is named, and then no table
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
    /// Where the paths of sources start [default: this directory, then those above it]
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

/// Sizes at which counting takes about a second.
const SMALL: Scale =
    Scale { n: 1 << 16, side: 256, product: 64, image: (320, 180), particles: 500 };

impl Args {
    fn scale(&self) -> Scale {
        self.size.map_or(SMALL, |size| Scale::of(size as usize))
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    // A file that cannot be written is an error before the work.
    let page = args.html.as_deref().map(Output::create).transpose()?;
    let document =
        args.json.iter().flatten().map(|path| Output::create(path)).next().transpose()?;
    let gpu = Gpu::new()?;
    let profile = measure::measure(&gpu, &args.name, args.scale())?;
    let mut sources = Sources::new(args.source.clone());
    match (document, &args.json) {
        (Some(document), _) => document.finish(|file| json::write(&profile, file))?,
        (None, Some(_)) => json::write(&profile, out)?,
        (None, None) => {}
    }
    if args.json.as_ref().is_none_or(Option::is_some) {
        text::print(&profile, &mut sources, out)?;
    }
    if let (Some(page), Some(path)) = (page, &args.html) {
        let text = html::page(&profile, &mut sources);
        page.finish(|file| file.write_all(text.as_bytes()).map_err(CliError::write(path)))?;
    }
    profile.check()
}
