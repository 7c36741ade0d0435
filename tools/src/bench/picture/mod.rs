//! Pictures of a report: bandwidth against size, and a roofline.

mod canvas;
mod chart;
mod lines;

use std::path::Path;

use image::{ImageFormat, RgbImage};
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;

use super::error::BenchError;
use super::report::Report;
use canvas::Canvas;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1680, 900);

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Lines.
    Svg,
}

impl Format {
    /// By the end of the file's name.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_lowercase();
        [("png", Self::Png), ("svg", Self::Svg)]
            .into_iter()
            .find_map(|(known, format)| (known == end).then_some(format))
    }
}

/// Draws the report.
///
/// # Errors
/// [`Picture`](BenchError::Picture).
pub fn draw(report: &Report, format: Format) -> Result<Vec<u8>, BenchError> {
    match format {
        Format::Svg => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            chart::draw(report, &area).map_err(BenchError::picture)?;
            drop(area);
            Ok(text.into_bytes())
        }
        Format::Png => {
            let mut pixels = vec![0; 3 * SIZE.0 as usize * SIZE.1 as usize];
            let bitmap = Canvas(BitMapBackend::with_buffer(&mut pixels, SIZE));
            chart::draw(report, &bitmap.into_drawing_area()).map_err(BenchError::picture)?;
            let image =
                RgbImage::from_raw(SIZE.0, SIZE.1, pixels).expect("the buffer has its size");
            let mut file = std::io::Cursor::new(Vec::new());
            image.write_to(&mut file, ImageFormat::Png).map_err(BenchError::picture)?;
            Ok(file.into_inner())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    fn drawn(format: Format, sizes: &[usize]) -> Vec<u8> {
        let rows = sizes.iter().map(|&n| row("copy/array/f32", &[n], n as f64 / 1e6));
        draw(&report(rows.collect()), format).unwrap()
    }

    #[test]
    fn a_png_shows_something_in_colour_and_in_black() {
        let image = image::load_from_memory(&drawn(Format::Png, &[1024, 4096, 65536])).unwrap();
        let image = image.into_rgb8();
        assert_eq!(image.dimensions(), SIZE);
        let dark =
            image.pixels().filter(|pixel| pixel.0.iter().all(|&channel| channel < 90)).count();
        assert!(dark > 2000, "{dark} dark pixels");
    }

    #[test]
    fn an_svg_names_its_lines() {
        let text = String::from_utf8(drawn(Format::Svg, &[1024, 4096])).unwrap();
        assert!(text.starts_with("<svg") && text.contains("copy/array/f32 (dashed: CUB (size_t))"));
    }

    #[test]
    fn a_report_of_nothing_and_one_of_a_single_size_are_drawn_too() {
        drawn(Format::Png, &[]);
        drawn(Format::Svg, &[1000]);
    }

    #[test]
    fn the_format_is_the_end_of_the_name() {
        let of = |name| Format::of(Path::new(name));
        assert_eq!(
            [of("a.PNG"), of("b.svg"), of("c.gif"), of("png")],
            [Some(Format::Png), Some(Format::Svg), None, None]
        );
    }
}
