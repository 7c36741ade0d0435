//! Demos on a picture: the scene of [`super::scene`], in colour and in grey.

use super::{Check, Outcome, Scale, scene, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops;

/// Standard deviation of the blur, in pixels.
const SIGMA: f32 = 3.0;

/// Pixels to look at.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// The pixels, row by row from the top.
    pub pixels: Pixels,
}

/// What a picture is made of.
#[derive(Clone, Debug)]
pub enum Pixels {
    /// One grey level a pixel.
    Grey(Vec<u8>),
    /// Red, green, blue and alpha.
    Rgba(Vec<[u8; 4]>),
}

impl Picture {
    /// The picture that the demos work on, in colour.
    #[must_use]
    pub fn scene((width, height): (usize, usize)) -> Self {
        Self { width, height, pixels: Pixels::Rgba(scene::draw(width, height)) }
    }

    fn grey((width, height): (usize, usize), pixels: Vec<u8>) -> Option<Self> {
        Some(Self { width, height, pixels: Pixels::Grey(pixels) })
    }
}

pub(super) fn size((width, height): (usize, usize)) -> String {
    format!("{width} × {height}")
}

/// The scene in grey, made on the CPU.
fn grey_scene((width, height): (usize, usize)) -> Vec<u8> {
    reference::grayscale::grayscale(&scene::draw(width, height))
}

fn bytes_as_f64(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.iter().map(|&byte| f64::from(byte))
}

pub(super) fn grayscale(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    let rgba = scene::draw(image.0, image.1);
    let on_rgba = DeviceBuffer::from_slice(gpu, &rgba)?;
    let mut grey = DeviceBuffer::zeroed(gpu, rgba.len())?;
    let time = timed(gpu, || ops::grayscale(gpu, &on_rgba, &mut grey))?;
    let grey = grey.to_vec()?;
    let expected = reference::grayscale::grayscale(&rgba);
    // The kernel's fixed-point weights may round the other way at a half.
    let check = Check::within(1.0, bytes_as_f64(&grey).zip(bytes_as_f64(&expected)));
    let picture = Picture::grey(image, grey);
    Ok(Outcome { size: size(image), time, bytes: 5 * rgba.len(), check, picture })
}

pub(super) fn histogram(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    let grey = grey_scene(image);
    let on_grey = DeviceBuffer::from_slice(gpu, &grey)?;
    let time = timed(gpu, || ops::histogram::histogram_private(gpu, &on_grey).map(drop))?;
    let bins: Vec<u64> = ops::histogram::histogram_private(gpu, &on_grey)?
        .to_vec()?
        .into_iter()
        .map(u64::from)
        .collect();
    let check = Check::exact(&bins, &reference::histogram::histogram(&grey));
    Ok(Outcome { size: size(image), time, bytes: grey.len(), check, picture: None })
}

pub(super) fn equalize(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    filtered(
        gpu,
        image,
        |grey, out| ops::equalize(gpu, grey, out),
        |grey| reference::equalize::equalize(grey).into_iter().map(f64::from).collect(),
    )
}

pub(super) fn blur(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    let (width, height) = image;
    let run = |grey: &DeviceBuffer<u8>, out: &mut DeviceBuffer<u8>| {
        ops::blur(gpu, grey, out, width, height, SIGMA)
    };
    let exact = |grey: &[u8]| {
        let radius = ops::blur::radius(SIGMA);
        reference::blur::blur(grey, width, height, f64::from(SIGMA), radius)
    };
    let outcome = filtered(gpu, image, run, exact)?;
    // Half a level for the rounding to bytes, and what f32 sums lose.
    Ok(Outcome { check: Check { allowed: 0.502, ..outcome.check }, ..outcome })
}

pub(super) fn sobel(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    let (width, height) = image;
    filtered(
        gpu,
        image,
        |grey, out| ops::sobel(gpu, grey, out, width, height),
        |grey| reference::sobel::sobel(grey, width, height).into_iter().map(f64::from).collect(),
    )
}

/// Runs a filter from grey to grey and compares it with `expected`; the two must agree.
fn filtered(
    gpu: &Gpu,
    image: (usize, usize),
    run: impl Fn(&DeviceBuffer<u8>, &mut DeviceBuffer<u8>) -> GpuResult<()>,
    expected: impl Fn(&[u8]) -> Vec<f64>,
) -> GpuResult<Outcome> {
    let grey = grey_scene(image);
    let on_grey = DeviceBuffer::from_slice(gpu, &grey)?;
    let mut out = DeviceBuffer::zeroed(gpu, grey.len())?;
    let time = timed(gpu, || run(&on_grey, &mut out))?;
    let out = out.to_vec()?;
    let check = Check::within(0.0, bytes_as_f64(&out).zip(expected(&grey)));
    let picture = Picture::grey(image, out);
    Ok(Outcome { size: size(image), time, bytes: 2 * grey.len(), check, picture })
}
