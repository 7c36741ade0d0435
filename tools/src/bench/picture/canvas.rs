//! Pixels with text on them, drawn from letters that are in the executable: no font of the system is needed.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::backend::BitMapBackend;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// A bitmap, whose text is in letters of two heights.
pub(super) struct Canvas<'a>(pub(super) BitMapBackend<'a>);

type Failure<'a> = DrawingErrorKind<<BitMapBackend<'a> as DrawingBackend>::ErrorType>;

fn height(size: f64) -> RasterHeight {
    if size >= 18.0 { RasterHeight::Size20 } else { RasterHeight::Size16 }
}

/// Width and height of a line, in pixels.
fn extent(text: &str, height: RasterHeight) -> (i32, i32) {
    let width = get_raster_width(FontWeight::Regular, height) * text.chars().count();
    (width as i32, height.val() as i32)
}

impl<'a> DrawingBackend for Canvas<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Result<(), Failure<'a>> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Result<(), Failure<'a>> {
        self.0.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Result<(), Failure<'a>> {
        self.0.draw_pixel(at, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), Failure<'a>> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        corner: BackendCoord,
        opposite: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), Failure<'a>> {
        self.0.draw_rect(corner, opposite, style, fill)
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), Failure<'a>> {
        let (width, height) = extent(text, height(style.size()));
        Ok((width as u32, height as u32))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), Failure<'a>> {
        let height = height(style.size());
        let (wide, high) = extent(text, height);
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -wide / 2,
            HPos::Right => -wide,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -high / 2,
            VPos::Bottom => -high,
        };
        let step = get_raster_width(FontWeight::Regular, height) as i32;
        for (i, letter) in text.chars().enumerate() {
            let known = |letter| get_raster(letter, FontWeight::Regular, height);
            let Some(raster) = known(letter).or_else(|| known('?')) else { continue };
            for (row, line) in raster.rows().enumerate() {
                for (column, &shade) in line.iter().enumerate().filter(|(_, shade)| **shade > 0) {
                    let place = (left + i as i32 * step + column as i32, top + row as i32);
                    let (dx, dy) = style.transform().transform(place.0, place.1);
                    let mut color = style.color();
                    color.alpha *= f64::from(shade) / 255.0;
                    self.0.draw_pixel((x + dx, y + dy), color)?;
                }
            }
        }
        Ok(())
    }
}
