//! Pictures that move, as GIF, APNG or a directory of PNG files: `ferrowarp demo particles -o FILE` and others.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use image::codecs::gif::{GifEncoder, Repeat};
use image::{Delay, Frame, ImageError, ImageFormat, RgbaImage};

use super::error::CliError;
use super::output::{Output, OutputFolder, WriteSeek};
use super::pixels::{Pixels, encode_image};
use super::progress::Progress;
use crate::demo::{Film, FilmReport};
use ferrowarp::Gpu;

/// Options of the film.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Film of the particles")]
pub(super) struct FilmArgs {
    /// Write a film of the particles: .gif, .png or .apng (animated), else a directory of PNG files
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Pictures of the film [default: 300 on a GPU, 60 on the emulator]
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: Option<u32>,
    /// Steps of the simulation from one picture to the next [default: 16]
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: Option<u32>,
    /// Width of a picture in pixels; its height is nine sixteenths
    #[arg(long, value_name = "PIXELS", requires = "output", value_parser = clap::value_parser!(u32).range(16..=7680))]
    width: Option<u32>,
    /// Pictures a second when the film is shown
    #[arg(long, value_name = "N", requires = "output", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=100))]
    fps: u16,
    /// Keep places and speeds in unified memory, which host and device share
    #[arg(long, requires = "output")]
    unified: bool,
}

/// What a film on disk is told of its pictures.
pub(super) struct Reel {
    /// Width and height in pixels.
    pub(super) size: [u32; 2],
    /// The number of pictures.
    pub(super) frames: usize,
    /// Pictures a second.
    pub(super) fps: u16,
}

/// A film on disk.
enum Kind {
    Gif,
    Apng,
    Pictures,
}

impl FilmArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.output.is_some()
    }

    /// Makes the film, and says what it is.
    pub(super) fn run(
        &self,
        gpu: &Gpu,
        n_particles: Option<u32>,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        let Some(path) = &self.output else { return Ok(()) };
        let film = self.film(gpu, n_particles);
        let reel = Reel { size: film.size, frames: film.frames, fps: self.fps };
        let report = record(&reel, path, |show| film.run(gpu, show))?;
        describe(gpu, &report, out)?;
        writeln!(out, "wrote {}", path.display())?;
        if report.n_particles < film.n_particles {
            let lost = film.n_particles - report.n_particles;
            return Err(CliError::LostParticles { lost, of: film.n_particles });
        }
        Ok(())
    }

    fn film(&self, gpu: &Gpu, n_particles: Option<u32>) -> Film {
        let suited = Film::suited_to(gpu);
        let or = |given: Option<u32>, suited| given.map_or(suited, |given| given as usize);
        Film {
            n_particles: or(n_particles, suited.n_particles),
            frames: or(self.frames, suited.frames),
            steps_per_frame: or(self.steps, suited.steps_per_frame),
            size: self.width.map_or(suited.size, |width| [width, (width * 9).div_ceil(16)]),
            is_unified: self.unified,
        }
    }
}

fn describe(gpu: &Gpu, report: &FilmReport, out: &mut impl Write) -> Result<(), CliError> {
    let steps = report.steps as f64 / report.steps_time.as_secs_f64();
    let (seconds, FilmReport { n_particles, first_energy, last_energy, .. }) =
        (report.time.as_secs_f64(), report);
    writeln!(out, "{}: {n_particles} particles, {steps:.0} steps a second", gpu.name())?;
    let frames = report.frames as f64 / seconds;
    writeln!(out, "{} pictures in {seconds:.2} s, {frames:.1} a second", report.frames)?;
    writeln!(out, "energy {first_energy:.4e}, damped to {last_energy:.4e}")?;
    Ok(())
}

fn kind_of(path: &Path) -> Result<Kind, CliError> {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_deref().and_then(|extension| extension.to_str()) {
        Some("gif") => Ok(Kind::Gif),
        Some("png" | "apng") => Ok(Kind::Apng),
        None => Ok(Kind::Pictures),
        Some(_) => Err(CliError::UnknownFilm { path: path.to_owned() }),
    }
}

/// What takes the pictures of a film, one after the other.
type Show<'a> = &'a mut dyn FnMut(Vec<[u8; 4]>) -> Result<(), CliError>;

/// Lets `run` make the pictures on this thread, and encodes them on another one. Two pictures at most wait between them.
pub(super) fn record<R>(
    reel: &Reel,
    path: &Path,
    run: impl FnOnce(Show<'_>) -> Result<R, CliError>,
) -> Result<R, CliError> {
    let kind = kind_of(path)?;
    let progress = Progress::steps("frames", reel.frames);
    let (sender, pictures) = sync_channel(2);
    thread::scope(|scope| {
        let encoder = scope.spawn(|| encode(kind, path, reel, pictures));
        let report = run(&mut |picture| {
            progress.advance();
            // An encoder that is gone has an error to tell.
            sender.send(picture).map_err(|_| CliError::FilmStopped)
        });
        drop(sender);
        let encoded = encoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match report {
            Err(CliError::FilmStopped) => Err(encoded.err().unwrap_or(CliError::FilmStopped)),
            report => encoded.and(report),
        }
    })
}

fn encode(
    kind: Kind,
    path: &Path,
    reel: &Reel,
    pictures: Receiver<Vec<[u8; 4]>>,
) -> Result<(), CliError> {
    match kind {
        Kind::Pictures => write_pictures(path, reel, pictures),
        Kind::Gif => Output::create(path)?
            .finish(|file| write_gif(file, reel, pictures).map_err(CliError::encode(path))),
        Kind::Apng => Output::create(path)?
            .finish(|file| write_apng(file, reel, pictures).map_err(CliError::encode(path))),
    }
}

fn write_gif(
    file: &mut (dyn WriteSeek + '_),
    reel: &Reel,
    pictures: Receiver<Vec<[u8; 4]>>,
) -> Result<(), ImageError> {
    // A picture of 256 colours keeps them. For one of more, 1 is the slowest of 30 ways to choose.
    let mut encoder = GifEncoder::new_with_speed(file, 20);
    encoder.set_repeat(Repeat::Infinite)?;
    let [width, height] = reel.size;
    for picture in pictures {
        let image = RgbaImage::from_raw(width, height, picture.into_flattened());
        let image = image.expect("a picture has width times height pixels");
        let delay = Delay::from_numer_denom_ms(1000, reel.fps.into());
        encoder.encode_frame(Frame::from_parts(image, 0, 0, delay))?;
    }
    Ok(())
}

fn write_apng(
    file: &mut (dyn WriteSeek + '_),
    reel: &Reel,
    pictures: Receiver<Vec<[u8; 4]>>,
) -> Result<(), png::EncodingError> {
    let [width, height] = reel.size;
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_animated(reel.frames as u32, 0)?;
    encoder.set_frame_delay(1, reel.fps)?;
    let mut writer = encoder.write_header()?;
    for picture in pictures {
        let rgb: Vec<u8> = picture.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect();
        writer.write_image_data(&rgb)?;
    }
    writer.finish()
}

fn write_pictures(
    dir: &Path,
    reel: &Reel,
    pictures: Receiver<Vec<[u8; 4]>>,
) -> Result<(), CliError> {
    let folder = OutputFolder::create(dir)?;
    let [width, height] = reel.size.map(|side| side as usize);
    for (number, picture) in pictures.into_iter().enumerate() {
        let channels = (0..3).map(|k| picture.iter().map(|pixel| pixel[k]).collect()).collect();
        let (name, pixels) = (format!("{number:05}.png"), Pixels { width, height, channels });
        let path = dir.join(&name);
        folder.add(&name, |file| encode_image(file, &path, ImageFormat::Png, pixels))?;
    }
    folder.finish()
}
