//! `ferrowarp demo`: every demo, timed and checked against the CPU.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::film::FilmArgs;
use super::names;
use super::pixels::{Pixels as Image, write_image};
use super::progress::Progress;
use super::table::{Side, Table};
use crate::demo::{self, Demo, Ending, GROUPS, Outcome, Picture, Pixels, Scale};
use ferrowarp::error::GpuError;
use ferrowarp::{Backend, Gpu};

/// Options of `ferrowarp demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp demo
  ferrowarp demo saxpy transpose_tiled
  ferrowarp demo blur sobel --pictures out
  ferrowarp demo particles -o particles.gif
  ferrowarp demo --dot

The time is the median of several runs on the device; GB/s counts each input and output once.

A demo for which the device lacks something (a second device, say) has a row that says what. That is an error only
if the demo was named.

A demo that fails has a row too, its error stands behind the table, and the others run on. After a fault that ends the
device's context they cannot: then they are left out, and the last line is the command that runs them.")]
pub(super) struct Args {
    /// The demos to run [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only list the demos
    #[arg(long, conflicts_with_all = ["names", "pictures", "size", "output"])]
    list: bool,
    /// Only print a graph in Graphviz's language, as it is recorded and as `optimize` makes it, with the changes
    #[arg(long, conflicts_with_all = ["names", "list", "pictures", "size", "output"])]
    dot: bool,
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
    if args.dot {
        return Ok(write!(out, "{}", demo::drawn_graphs(&gpu)?)?);
    }
    if args.film.is_wanted() {
        let is_film = args.names.iter().eq(["particles"]);
        return if is_film { args.film.run(&gpu, args.size, out) } else { Err(CliError::NoFilm) };
    }
    let suited = || Scale::suited_to(Some(gpu.backend()));
    let scale = args.size.map_or_else(suited, |size| Scale::of(size as usize));
    let tried = run_all(&gpu, &demos, scale);
    print(&gpu, &tried, args.names.is_empty(), out)?;
    if let Some(dir) = &args.pictures {
        save(dir, &tried, out)?;
    }
    judge(&tried, !args.names.is_empty())
}

/// An error for demos that failed or were left out, for wrong results, and for demos that could not run
/// although they were asked for.
fn judge(tried: &[Tried], are_named: bool) -> Result<(), CliError> {
    let failed = names(tried, |end| matches!(end, End::Failed(_)));
    let left_out = names(tried, |end| matches!(end, End::LeftOut));
    let wrong = names(tried, |end| matches!(end, End::Of(ending) if ending.is_wrong()));
    if !failed.is_empty() || !left_out.is_empty() {
        return Err(CliError::FailedDemos { failed, wrong, left_out });
    }
    if !wrong.is_empty() {
        return Err(CliError::WrongDemos { names: wrong });
    }
    let missing = tried.iter().find_map(|(demo, end)| match end {
        End::Of(Ending::NotHere(lack)) if are_named => Some((demo.name, *lack)),
        _ => None,
    });
    missing.map_or(Ok(()), |(name, lack)| Err(CliError::DemoNotHere { name, lack }))
}

/// The demos that ended so.
fn names(tried: &[Tried], which: impl Fn(&End) -> bool) -> Vec<&'static str> {
    tried.iter().filter(|(_, end)| which(end)).map(|(demo, _)| demo.name).collect()
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
            meant: names::meant(name, demo::demos().map(|demo| demo.name)),
        })
    };
    names.iter().map(find).collect()
}

/// A demo, and what became of it.
type Tried = (&'static Demo, End);

/// What became of a demo.
enum End {
    /// It ended by itself.
    Of(Ending),
    /// An error ended it.
    Failed(GpuError),
    /// The device was lost before it.
    LeftOut,
}

fn run_all(gpu: &Gpu, demos: &[&'static Demo], scale: Scale) -> Vec<Tried> {
    let progress = Progress::steps("demos", demos.len());
    let run = |demo: &&'static Demo| {
        progress.set_message(demo.name);
        let end = run_one(gpu, demo, scale);
        progress.advance();
        (*demo, end)
    };
    demos.iter().map(run).collect()
}

fn run_one(gpu: &Gpu, demo: &Demo, scale: Scale) -> End {
    if gpu.is_lost() {
        return End::LeftOut;
    }
    demo.run(gpu, scale).map_or_else(
        |error| {
            // What it left in its streams, and whatever comes of that, must not be the next demo's.
            let _ = gpu.synchronize();
            End::Failed(error)
        },
        End::Of,
    )
}

fn print(
    gpu: &Gpu,
    tried: &[Tried],
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
    for (demo, end) in tried {
        let is_first = |group: &&demo::Group| group.demos[0].name == demo.name;
        if let Some(group) = GROUPS.iter().find(is_first).filter(|_| in_groups) {
            table.begin(group.title);
        }
        table.add(match end {
            End::Of(Ending::Ran(outcome)) => row(demo, device, outcome),
            End::Of(Ending::NotHere(lack)) => empty_row(demo, device, format!("not here: {lack}")),
            End::Failed(_) => empty_row(demo, device, "failed".to_owned()),
            End::LeftOut => empty_row(demo, device, "left out: the device is lost".to_owned()),
        });
    }
    table.print(out)?;
    print_errors(tried, out)
}

/// The errors of the demos that failed, a line each.
fn print_errors(tried: &[Tried], out: &mut impl Write) -> Result<(), CliError> {
    let mut gap = "\n";
    for (demo, end) in tried {
        if let End::Failed(error) = end {
            writeln!(out, "{gap}{} failed: {error}", demo.name)?;
            gap = "";
        }
    }
    Ok(())
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

/// Of a demo that came to no end: why not.
fn empty_row(demo: &Demo, device: &str, why: String) -> [String; 7] {
    let none = || "–".to_owned();
    [demo.name.to_owned(), device.to_owned(), none(), none(), none(), none(), why]
}

/// Three digits or more: an emulator moves less than one gigabyte a second, a GPU thousands.
fn bandwidth(gb_per_s: f64) -> String {
    let decimals = if gb_per_s < 10.0 { 2 } else { 0 };
    format!("{gb_per_s:.decimals$}")
}

/// Writes what the demos made, and the scene that they started from.
fn save(dir: &Path, tried: &[Tried], out: &mut impl Write) -> Result<(), CliError> {
    fs::create_dir_all(dir).map_err(CliError::write(dir))?;
    let made = |(demo, end): &Tried| match end {
        End::Of(ending) => Some((demo.name, ending.outcome()?.picture.clone()?)),
        _ => None,
    };
    let mut pictures: Vec<_> = tried.iter().filter_map(made).collect();
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
