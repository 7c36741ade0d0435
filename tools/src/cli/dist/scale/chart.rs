//! The efficiency by the number of ranks, as a picture.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::combinators::IntoLogRange;
use plotters::element::PathElement;
use plotters::prelude::DrawingBackend;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{BLACK, Color, ShapeStyle, WHITE};

use super::measure::Row;
use crate::bench::picture::{Area, CAPTION, Drawing, Drawn, LABEL, colour};

/// What is drawn.
pub(super) struct Chart<'a> {
    pub(super) device: String,
    /// Those of one thing follow each other.
    pub(super) rows: &'a [Row],
}

impl Drawing for Chart<'_> {
    const SIZE: (u32, u32) = (1000, 620);

    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        area.fill(&WHITE)?;
        // One rank alone has an axis, too.
        let most = f64::from(self.rows.iter().map(|row| row.ranks).max().unwrap_or(1).max(2));
        let best = self.rows.iter().map(|row| row.efficiency).fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(format!("Efficiency of ranks: {}", self.device), CAPTION)
            .x_label_area_size(56)
            .y_label_area_size(86)
            .build_cartesian_2d((1.0..most).log_scale().base(2.0), 0.0..best * 115.0)?;
        chart
            .configure_mesh()
            .label_style(LABEL)
            .x_desc("ranks")
            .y_desc("% of what one rank has, times the ranks")
            .x_labels(most.log2().ceil() as usize + 1)
            .light_line_style(WHITE)
            .draw()?;
        let ideal = [(1.0, 100.0), (most, 100.0)];
        chart.draw_series(DashedLineSeries::new(ideal, 6, 5, BLACK.stroke_width(1)))?;
        for (i, rows) in self.rows.chunk_by(|a, b| a.what == b.what).enumerate() {
            let style =
                ShapeStyle { color: colour(i + 1).to_rgba(), filled: true, stroke_width: 2 };
            let points = rows.iter().map(|row| (f64::from(row.ranks), 100.0 * row.efficiency));
            let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style);
            let series = LineSeries::new(points, style).point_size(4);
            chart.draw_series(series)?.label(rows[0].what).legend(key);
        }
        let mut labels = chart.configure_series_labels();
        let labels = labels.position(SeriesLabelPosition::LowerLeft).label_font(LABEL);
        labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::picture::{Format, draw};

    #[test]
    fn each_kind_of_work_has_a_line() {
        let row = |what, ranks, efficiency| Row {
            what,
            ranks,
            size: String::new(),
            milliseconds: 1.0,
            efficiency,
        };
        let rows =
            [row("heat", 1, 1.0), row("heat", 2, 0.97), row("sort", 1, 1.0), row("sort", 2, 0.7)];
        let chart = |rows| Chart { device: "a device".to_owned(), rows };
        let text = String::from_utf8(draw(&chart(&rows), Format::Svg).unwrap()).unwrap();
        assert!(["heat", "sort", "a device", "ranks"].iter().all(|word| text.contains(word)));
        draw(&chart(&rows[..1]), Format::Png).unwrap();
    }
}
