//! Pictures: of a report, bandwidth against size and a roofline; of one of matrix products alone, their speed against shape and the staircase.

mod canvas;
mod chart;
mod lines;
mod products;

use std::path::Path;

use image::{ImageFormat, RgbImage};
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::DrawingBackend;
use plotters::style::WHITE;

use super::error::BenchError;
use super::report::Report;
use canvas::Canvas;
pub(crate) use chart::{CAPTION, LABEL, colour};

/// Where a picture is drawn.
pub type Area<B> = DrawingArea<B, Shift>;
/// Whether it was.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Something that can be drawn.
pub trait Drawing {
    /// Width and height in pixels.
    const SIZE: (u32, u32);

    /// Draws it.
    ///
    /// # Errors
    /// The backend's.
    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B>;
}

impl Drawing for Report {
    const SIZE: (u32, u32) = (1680, 900);

    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        area.fill(&WHITE)?;
        let note = if self.emulator { " (an emulator: no times of a GPU)" } else { "" };
        let area = area.titled(&format!("{}{note}", self.device), CAPTION)?;
        if products::are_all(self) { products::draw(self, &area) } else { chart::draw(self, &area) }
    }
}

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

/// Draws something as a file.
///
/// # Errors
/// [`Picture`](BenchError::Picture).
pub fn draw<D: Drawing>(drawing: &D, format: Format) -> Result<Vec<u8>, BenchError> {
    let (width, height) = D::SIZE;
    match format {
        Format::Svg => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, D::SIZE).into_drawing_area();
            drawing.draw(&area).map_err(BenchError::picture)?;
            drop(area);
            Ok(text.into_bytes())
        }
        Format::Png => {
            let mut pixels = vec![0; 3 * width as usize * height as usize];
            let bitmap = Canvas(BitMapBackend::with_buffer(&mut pixels, D::SIZE));
            drawing.draw(&bitmap.into_drawing_area()).map_err(BenchError::picture)?;
            let image = RgbImage::from_raw(width, height, pixels).expect("the buffer has its size");
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
        assert_eq!(image.dimensions(), Report::SIZE);
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
    fn products_alone_have_a_picture_of_their_own() {
        let rows = [[1, 4096, 64], [8, 4096, 64]].map(|shape| row("matmul/nn/bf16", &shape, 1.0));
        let text = String::from_utf8(draw(&report(rows.to_vec()), Format::Svg).unwrap()).unwrap();
        assert!(text.contains("N 4096, K 64") && text.contains("TFLOP/s"));
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
