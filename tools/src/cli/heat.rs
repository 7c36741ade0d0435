//! `ferrowarp heat`: a plate on which heat spreads, or waves, as a film.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::film::{Reel, record};
use crate::demo::{Motion, Plate, PlateReport};
use ferrowarp::Gpu;

/// Options of `ferrowarp heat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp heat -o heat.gif
  ferrowarp heat --wave -o wave.gif --frames 120
  ferrowarp heat -o pictures --width 1920 --height 1080")]
pub(super) struct Args {
    /// The film: .gif, .png or .apng (animated), else a directory of PNG files
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Waves instead of heat
    #[arg(long)]
    wave: bool,
    /// Width of the plate in cells, each of them a pixel [default: 640 on a GPU, 320 on the emulator]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(16..=7680))]
    width: Option<u32>,
    /// Height of the plate in cells [default: nine sixteenths of the width]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(16..=7680))]
    height: Option<u32>,
    /// Pictures of the film
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: Option<u32>,
    /// Steps from one picture to the next
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: Option<u32>,
    /// Pictures a second when the film is shown
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=100))]
    fps: u16,
}

impl Args {
    /// The film that is wanted.
    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// What the film is told of its pictures.
    pub(super) fn reel(&self, plate: &Plate) -> Reel {
        Reel { size: plate.size, frames: plate.frames, fps: self.fps }
    }

    pub(super) fn plate(&self, gpu: &Gpu) -> Plate {
        let motion = if self.wave { Motion::Wave } else { Motion::Heat };
        let suited = Plate::suited_to(gpu, motion);
        let or = |given: Option<u32>, suited| given.map_or(suited, |given| given as usize);
        let width = self.width.unwrap_or(suited.size[0]);
        Plate {
            motion,
            size: [width, self.height.unwrap_or_else(|| (width * 9).div_ceil(16))],
            frames: or(self.frames, suited.frames),
            steps_per_frame: or(self.steps, suited.steps_per_frame),
        }
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let gpu = Gpu::new()?;
    let plate = args.plate(&gpu);
    let reel = args.reel(&plate);
    let report = record(&reel, &args.output, |show| plate.run(&gpu, show))?;
    describe(&gpu, &plate, &report, out)?;
    writeln!(out, "wrote {}", args.output.display())?;
    Ok(())
}

fn describe(
    gpu: &Gpu,
    plate: &Plate,
    report: &PlateReport,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let ([width, height], [least, largest]) = (plate.size, report.range);
    let seconds = report.steps_time.as_secs_f64();
    let steps = report.steps as f64 / seconds;
    let cells = steps * f64::from(width) * f64::from(height);
    writeln!(out, "{}: {width} x {height} cells, {steps:.0} steps a second", gpu.name())?;
    writeln!(out, "{:.3} G cells a second", cells / 1e9)?;
    let frames = report.frames as f64 / report.time.as_secs_f64();
    let time = report.time.as_secs_f64();
    writeln!(out, "{} pictures in {time:.2} s, {frames:.1} a second", report.frames)?;
    writeln!(out, "values from {least:.3} to {largest:.3} at the end")?;
    Ok(())
}
