//! Image filters: the edges of a picture, from a blurred grey copy of it.
//!
//! `cargo run --example 07_image -- photo.jpg edges.png`. Without arguments it draws a disc and writes
//! `edges.png` to the folder for temporary files.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use ferrowarp::ops::{blur, grayscale, sobel};
use ferrowarp::{DeviceBuffer, Gpu};
use image::{GrayImage, Rgba, RgbaImage};

/// An orange disc of radius 60 in front of dark blue.
fn disc() -> RgbaImage {
    RgbaImage::from_fn(320, 200, |x, y| {
        let (dx, dy) = (x.abs_diff(160), y.abs_diff(100));
        if dx * dx + dy * dy < 60 * 60 { Rgba([255, 160, 0, 255]) } else { Rgba([0, 0, 64, 255]) }
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let picture = match args.next() {
        Some(input) => image::open(input)?.to_rgba8(),
        None => disc(),
    };
    let output = args.next().map_or_else(|| env::temp_dir().join("edges.png"), PathBuf::from);
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let pixels: Vec<[u8; 4]> = picture.pixels().map(|pixel| pixel.0).collect();

    // The picture stays on the device between the filters.
    let gpu = Gpu::new()?;
    let rgba = DeviceBuffer::from_slice(&gpu, &pixels)?;
    let mut grey = DeviceBuffer::<u8>::zeroed(&gpu, pixels.len())?;
    let mut soft = DeviceBuffer::<u8>::zeroed(&gpu, pixels.len())?;
    let mut edges = DeviceBuffer::<u8>::zeroed(&gpu, pixels.len())?;
    grayscale(&gpu, &rgba, &mut grey)?;
    blur(&gpu, &grey, &mut soft, width, height, 1.5)?;
    sobel(&gpu, &soft, &mut edges, width, height)?;

    // Sobel's operator on the host, from the same blurred picture.
    let (soft, edges) = (soft.to_vec()?, edges.to_vec()?);
    let at = |x: usize, y: usize| i32::from(soft[y * width + x]);
    for (x, y) in (1..height - 1).flat_map(|y| (1..width - 1).map(move |x| (x, y))) {
        let column = |x: usize| at(x, y - 1) + 2 * at(x, y) + at(x, y + 1);
        let row = |y: usize| at(x - 1, y) + 2 * at(x, y) + at(x + 1, y);
        let (gx, gy) = (column(x + 1) - column(x - 1), row(y + 1) - row(y - 1));
        assert_eq!(i32::from(edges[y * width + x]), (gx.abs() + gy.abs()).min(255), "({x}, {y})");
    }

    let strong = edges.iter().filter(|edge| **edge > 128).count();
    let image = GrayImage::from_raw(width as u32, height as u32, edges).ok_or("wrong size")?;
    image.save(&output)?;
    println!("device: {}", gpu.name());
    println!("{width} x {height} pixels, {strong} of them on strong edges: {}", output.display());
    Ok(())
}
