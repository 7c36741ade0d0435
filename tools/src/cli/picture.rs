//! `ferrowarp image`: filters on pictures.

use std::io::Write;
use std::path::PathBuf;

use super::error::CliError;
use super::output::Output;
use super::pixels::{Pixels, finish_image, format_of, read_image};
use super::progress::Progress;
use ferrowarp::error::{GpuContext, GpuResult};
use ferrowarp::ops::{self, blur::MAX_SIGMA};
use ferrowarp::{DeviceBuffer, Gpu};

/// Options of `ferrowarp image`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  ferrowarp image blur photo.jpg -o soft.png --sigma 4
  ferrowarp image sobel photo.jpg -o edges.png
  ferrowarp image equalize scan.png -o scan.png

The output's name says what it becomes: .png, or .jpg and .jpeg (quality 90, without alpha). It
is written beside the target and put in its place at the end, so a failure destroys nothing, and
input and output may be the same file."
)]
pub(super) struct Args {
    #[command(subcommand)]
    filter: Filter,
}

#[derive(Debug, clap::Subcommand)]
enum Filter {
    /// Soften: a Gaussian blur of each channel, alpha too
    Blur {
        #[command(flatten)]
        files: Files,
        /// Standard deviation in pixels
        #[arg(short, long, default_value_t = 2.0, value_parser = sigma, allow_negative_numbers = true)]
        sigma: f32,
    },
    /// Find edges: Sobel's gradient of the grey levels, as a grey picture
    Sobel(Files),
    /// Spread the brightness evenly (histogram equalisation); colours keep their hue, alpha stays
    Equalize(Files),
    /// Turn colours to grey (BT.601 weights); alpha is dropped
    Grayscale(Files),
}

#[derive(Debug, clap::Args)]
struct Files {
    /// A PNG or JPEG
    input: PathBuf,
    /// Where the result goes: .png, .jpg or .jpeg
    #[arg(short, long)]
    output: PathBuf,
}

impl Filter {
    fn files(&self) -> &Files {
        match self {
            Self::Blur { files, .. } => files,
            Self::Sobel(files) | Self::Equalize(files) | Self::Grayscale(files) => files,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Blur { .. } => "blur",
            Self::Sobel(_) => "sobel",
            Self::Equalize(_) => "equalize",
            Self::Grayscale(_) => "grayscale",
        }
    }

    fn apply(&self, gpu: &Gpu, picture: &Pixels) -> GpuResult<Pixels> {
        match *self {
            Self::Blur { sigma, .. } => blur(gpu, picture, sigma),
            Self::Sobel(_) => sobel(gpu, picture),
            Self::Equalize(_) => equalize(gpu, picture),
            Self::Grayscale(_) => Ok(picture.grey(grey(gpu, picture)?.to_vec()?)),
        }
    }
}

/// A sigma that the kernel takes.
fn sigma(text: &str) -> Result<f32, String> {
    let sigma: f32 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if sigma > 0.0 && sigma <= MAX_SIGMA {
        return Ok(sigma);
    }
    Err(format!("it must be above 0 and at most {:.2}", MAX_SIGMA))
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let (filter, files) = (&args.filter, args.filter.files());
    let format = format_of(&files.output)?;
    let picture = read_image(&files.input)?;
    let output = Output::create(&files.output)?;
    let gpu = Gpu::new()?;
    let (result, milliseconds) = {
        let _progress = Progress::unknown(format!("{} on {}", filter.name(), gpu.name()));
        // A pixel takes the kernels that the picture does: they are loaded here, not while it is timed.
        filter.apply(&gpu, &picture.first_pixel())?;
        let work = || filter.apply(&gpu, &picture);
        gpu.time(work).gpu_context(format!("filtering {}", files.input.display()))?
    };
    finish_image(output, &files.output, format, result)?;
    let (width, height) = (picture.width, picture.height);
    let (path, name) = (files.output.display(), filter.name());
    writeln!(out, "{path}: {name} of {width} × {height}, {milliseconds:.1} ms on {}", gpu.name())?;
    Ok(())
}

/// The grey levels, on the device.
fn grey(gpu: &Gpu, picture: &Pixels) -> GpuResult<DeviceBuffer<u8>> {
    if picture.colours() == 1 {
        return DeviceBuffer::from_slice(gpu, &picture.channels[0]);
    }
    let rgba = DeviceBuffer::from_slice(gpu, &picture.rgba())?;
    let mut grey = DeviceBuffer::zeroed(gpu, rgba.len())?;
    ops::grayscale(gpu, &rgba, &mut grey)?;
    Ok(grey)
}

fn blur(gpu: &Gpu, picture: &Pixels, sigma: f32) -> GpuResult<Pixels> {
    let &Pixels { width, height, .. } = picture;
    let blurred = |plane: &Vec<u8>| {
        let plane = DeviceBuffer::from_slice(gpu, plane)?;
        let mut out = DeviceBuffer::zeroed(gpu, plane.len())?;
        ops::blur(gpu, &plane, &mut out, width, height, sigma)?;
        out.to_vec()
    };
    let channels = picture.channels.iter().map(blurred).collect::<GpuResult<_>>()?;
    Ok(Pixels { channels, ..*picture })
}

fn sobel(gpu: &Gpu, picture: &Pixels) -> GpuResult<Pixels> {
    let grey = grey(gpu, picture)?;
    let mut edges = DeviceBuffer::zeroed(gpu, grey.len())?;
    ops::sobel(gpu, &grey, &mut edges, picture.width, picture.height)?;
    Ok(picture.grey(edges.to_vec()?))
}

fn equalize(gpu: &Gpu, picture: &Pixels) -> GpuResult<Pixels> {
    let grey = grey(gpu, picture)?;
    let mut even = DeviceBuffer::zeroed(gpu, grey.len())?;
    ops::equalize(gpu, &grey, &mut even)?;
    let (before, after) = (grey.to_vec()?, even.to_vec()?);
    let mut result = picture.clone();
    for plane in result.channels.iter_mut().take(picture.colours()) {
        brighten(plane, &before, &after);
    }
    Ok(result)
}

/// Moves each pixel's brightness from `before` to `after`. All colours move by as much, so the
/// differences between them, which are the hue, stay.
fn brighten(plane: &mut [u8], before: &[u8], after: &[u8]) {
    for (value, (&before, &after)) in plane.iter_mut().zip(before.iter().zip(after)) {
        let moved = i16::from(*value) + i16::from(after) - i16::from(before);
        *value = moved.clamp(0, 255) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brightness_moves_and_stays_in_range() {
        let mut plane = [10, 100, 250];
        brighten(&mut plane, &[20, 100, 240], &[5, 130, 255]);
        assert_eq!(plane, [0, 130, 255]);
    }

    #[test]
    fn a_grey_plane_becomes_the_equalised_one() {
        let mut plane = [10, 100, 250];
        brighten(&mut plane, &[10, 100, 250], &[0, 128, 255]);
        assert_eq!(plane, [0, 128, 255]);
    }

    #[test]
    fn sigma_has_limits() {
        assert_eq!(sigma("1.5"), Ok(1.5));
        for bad in ["0", "-1", "nan", "inf", "1e9", "wide"] {
            assert!(sigma(bad).is_err(), "{bad}");
        }
    }
}
