//! `ferrowarp demo`: every demo, timed and checked against the CPU.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::film::FilmArgs;
use super::pixels::{Pixels as Image, write_image};
use super::progress::Progress;
use super::table::{Side, Table};
use crate::demo::{self, Demo, Ending, GROUPS, Lack, Outcome, Picture, Pixels, Scale};
use crate::error::GpuContext;
use crate::{Backend, Gpu};

/// Options of `ferrowarp demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp demo
  ferrowarp demo saxpy transpose_tiled
  ferrowarp demo blur sobel --pictures out
  ferrowarp demo particles -o particles.gif

The time is the median of several runs on the device; GB/s counts each input and output once.

A demo for which the device lacks something (a second device, say) has a row that says what. That is an error only
if the demo was named.")]
pub(super) struct Args {
    /// The demos to run [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only list the demos
    #[arg(long, conflicts_with_all = ["names", "pictures", "size", "output"])]
    list: bool,
    /// Elements of arrays; or the side of matrices, the width of pictures, the number of particles
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    size: Option<u32>,
    /// Write the pictures that the demos make, and the scene they start from, into this directory as PNG
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    film: FilmArgs,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    if args.list {
        return list(out);
    }
    let demos = chosen(&args.names)?;
    let gpu = Gpu::new()?;
    if args.film.is_wanted() {
        let is_film = args.names.iter().eq(["particles"]);
        return if is_film { args.film.run(&gpu, args.size, out) } else { Err(CliError::NoFilm) };
    }
    let suited = || Scale::suited_to(Some(gpu.backend()));
    let scale = args.size.map_or_else(suited, |size| Scale::of(size as usize));
    let mut ended = Vec::new();
    let stopped = run_all(&gpu, &demos, scale, &mut ended).err();
    if !ended.is_empty() {
        print(&gpu, &ended, args.names.is_empty(), out)?;
    }
    if let Some(error) = stopped {
        return Err(error);
    }
    if let Some(dir) = &args.pictures {
        save(dir, &ended, out)?;
    }
    judge(&ended, !args.names.is_empty())
}

/// An error for wrong results, and for demos that could not run although they were asked for.
fn judge(ended: &[Ended], are_named: bool) -> Result<(), CliError> {
    let wrong = |(demo, ending): &Ended| ending.is_wrong().then_some(demo.name);
    let names: Vec<_> = ended.iter().filter_map(wrong).collect();
    if !names.is_empty() {
        return Err(CliError::WrongDemos { names });
    }
    let missing = ended.iter().find_map(|(demo, ending)| match ending {
        Ending::NotHere(lack) if are_named => Some((demo.name, *lack)),
        _ => None,
    });
    missing.map_or(Ok(()), |(name, lack)| Err(CliError::DemoNotHere { name, lack }))
}

fn list(out: &mut impl Write) -> Result<(), CliError> {
    let mut table = Table::new([("demo", Side::Left), ("what it shows", Side::Left)]);
    for group in GROUPS {
        table.begin(group.title);
        group.demos.iter().for_each(|demo| table.add([demo.name, demo.about].map(str::to_owned)));
    }
    Ok(table.print(out)?)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Demo>, CliError> {
    if names.is_empty() {
        return Ok(demo::demos().collect());
    }
    let find = |name: &String| {
        demo::named(name).ok_or_else(|| CliError::NoDemo {
            name: name.clone(),
            known: demo::demos().map(|demo| demo.name).collect(),
        })
    };
    names.iter().map(find).collect()
}

/// A demo, and how it ended.
type Ended = (&'static Demo, Ending);

/// Runs the demos up to the first that fails.
fn run_all(
    gpu: &Gpu,
    demos: &[&'static Demo],
    scale: Scale,
    ended: &mut Vec<Ended>,
) -> Result<(), CliError> {
    let progress = Progress::steps("demos", demos.len());
    for demo in demos {
        progress.set_message(demo.name);
        let ending = demo.run(gpu, scale).with_gpu_context(|| format!("demo {}", demo.name))?;
        progress.advance();
        ended.push((demo, ending));
    }
    Ok(())
}

fn print(
    gpu: &Gpu,
    ended: &[Ended],
    in_groups: bool,
    out: &mut impl Write,
) -> Result<(), CliError> {
    use Side::{Left, Right};
    let device = match gpu.backend() {
        Backend::Cuda => "GPU",
        Backend::Emulator => "emulator",
    };
    let (major, minor) = gpu.compute_capability();
    writeln!(out, "{} (compute capability {major}.{minor}, {device})\n", gpu.name())?;
    let mut table = Table::new([
        ("demo", Left),
        ("device", Left),
        ("size", Right),
        ("time", Right),
        ("GB/s", Right),
        ("largest error", Right),
        ("what it shows", Left),
    ]);
    for (demo, ending) in ended {
        let is_first = |group: &&demo::Group| group.demos[0].name == demo.name;
        if let Some(group) = GROUPS.iter().find(is_first).filter(|_| in_groups) {
            table.begin(group.title);
        }
        table.add(match ending {
            Ending::Ran(outcome) => row(demo, device, outcome),
            Ending::NotHere(lack) => empty_row(demo, device, lack),
        });
    }
    Ok(table.print(out)?)
}

fn row(demo: &Demo, device: &str, outcome: &Outcome) -> [String; 7] {
    [
        demo.name.to_owned(),
        device.to_owned(),
        outcome.size.clone(),
        format!("{:.3} ms", outcome.time.as_secs_f64() * 1e3),
        bandwidth(outcome.gigabytes_per_second()),
        outcome.check.to_string(),
        demo.about.to_owned(),
    ]
}

/// Of a demo that could not run: why not.
fn empty_row(demo: &Demo, device: &str, lack: &Lack) -> [String; 7] {
    let none = || "–".to_owned();
    let (name, why) = (demo.name.to_owned(), format!("not here: {lack}"));
    [name, device.to_owned(), none(), none(), none(), none(), why]
}

/// Three digits or more: an emulator moves less than one gigabyte a second, a GPU thousands.
fn bandwidth(gb_per_s: f64) -> String {
    let decimals = if gb_per_s < 10.0 { 2 } else { 0 };
    format!("{gb_per_s:.decimals$}")
}

/// Writes what the demos made, and the scene that they started from.
fn save(dir: &Path, ended: &[Ended], out: &mut impl Write) -> Result<(), CliError> {
    fs::create_dir_all(dir).map_err(CliError::write(dir))?;
    let made = ended
        .iter()
        .filter_map(|(demo, ending)| Some((demo.name, ending.outcome()?.picture.clone()?)));
    let mut pictures: Vec<_> = made.collect();
    if let Some((_, Picture { width, height, .. })) = pictures.first() {
        pictures.insert(0, ("scene", Picture::scene((*width, *height))));
    }
    for (name, picture) in &pictures {
        let path = dir.join(name).with_extension("png");
        write_image(&path, image_of(picture))?;
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

fn image_of(picture: &Picture) -> Image {
    let (width, height) = (picture.width, picture.height);
    let channels = match &picture.pixels {
        Pixels::Grey(grey) => vec![grey.clone()],
        Pixels::Rgba(rgba) => {
            (0..4).map(|channel| rgba.iter().map(|pixel| pixel[channel]).collect()).collect()
        }
    };
    Image { width, height, channels }
}
