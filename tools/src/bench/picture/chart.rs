//! The two charts.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::combinators::IntoLogRange;
use plotters::element::{Circle, PathElement};
use plotters::prelude::DrawingBackend;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{BLACK, Color, RGBColor, ShapeStyle, WHITE};

use super::lines::{Line, Roofline, lines, roofline};
use super::{Area, Drawn};
use crate::bench::report::Report;

/// One for each family, at least.
const COLOURS: [RGBColor; 19] = [
    BLACK,
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(23, 190, 207),
    RGBColor(170, 170, 20),
    RGBColor(90, 90, 220),
    RGBColor(0, 100, 60),
    RGBColor(150, 150, 150),
    RGBColor(0, 60, 130),
    RGBColor(180, 40, 110),
    RGBColor(100, 180, 20),
    RGBColor(120, 60, 200),
    RGBColor(200, 120, 60),
    RGBColor(110, 40, 0),
];
/// The letters of titles.
pub(crate) const CAPTION: (&str, u32) = ("sans-serif", 20);
/// The letters at axes and lines.
pub(crate) const LABEL: (&str, u32) = ("sans-serif", 15);

/// The colour of a line by its number.
pub(crate) fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Both charts of a report.
pub(super) fn draw<B: DrawingBackend>(report: &Report, area: &Area<B>) -> Drawn<B> {
    let (left, right) = area.split_horizontally(area.dim_in_pixel().0 * 57 / 100);
    draw_lines(&lines(report), &left)?;
    draw_roofline(&roofline(report), &right)
}

/// Bandwidth against size: ours as lines, the best peer of each dashed in the same colour.
fn draw_lines<B: DrawingBackend>(lines: &[Line], area: &Area<B>) -> Drawn<B> {
    let all = || lines.iter().flat_map(|line| line.ours.iter().chain(&line.peer));
    let [first, last] = range(all().map(|point| point.0), [16.0, 30.0]);
    let [low, top] = range(all().map(|point| point.1), [0.1, 10.0]);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption("Bandwidth by size; dashed: the fastest peer", CAPTION)
        .x_label_area_size(56)
        .y_label_area_size(86)
        .build_cartesian_2d(first..last, (low / 1.5..top * 8.0).log_scale())?;
    chart
        .configure_mesh()
        .label_style(LABEL)
        .x_desc("elements")
        .y_desc("GB/s")
        .x_labels((last - first) as usize + 1)
        .x_label_formatter(&|power| format!("2^{power:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    for (i, line) in lines.iter().enumerate() {
        let style = ShapeStyle { color: colour(i).to_rgba(), filled: true, stroke_width: 2 };
        let ours = LineSeries::new(line.ours.iter().copied(), style).point_size(3);
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style);
        chart.draw_series(ours)?.label(line.name.as_str()).legend(key);
        let thin = style.stroke_width(1);
        chart.draw_series(DashedLineSeries::new(line.peer.iter().copied(), 6, 5, thin))?;
    }
    if lines.is_empty() {
        return Ok(());
    }
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperLeft).label_font(LABEL);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()
}

/// What bounds each case at its largest size, memory or arithmetic, and how near to it the case is.
fn draw_roofline<B: DrawingBackend>(roofline: &Roofline, area: &Area<B>) -> Drawn<B> {
    let points = || roofline.families.iter().flat_map(|(_, points)| points).chain(&roofline.roof);
    let [left, right] = range(points().map(|point| point.0), [0.1, 10.0]);
    let [low, high] = range(points().map(|point| point.1), [0.1, 10.0]);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption("Roofline: each case at its largest size", CAPTION)
        .x_label_area_size(56)
        .y_label_area_size(86)
        .build_cartesian_2d(
            (left / 1.5..right * 1.5).log_scale(),
            (low / 2.0..high * 2.0).log_scale(),
        )?;
    let mut mesh = chart.configure_mesh();
    let mesh = mesh.x_desc("operations per byte").y_desc("10^12 operations per second");
    // The axis is made of powers of ten by multiplication, which are not exact below 1.
    let power = |value: &f64| format!("{}", (value * 1e6).round() / 1e6);
    mesh.y_label_formatter(&power).x_label_formatter(&power);
    mesh.label_style(LABEL).light_line_style(WHITE).draw()?;
    let roof = LineSeries::new(roofline.roof.iter().copied(), BLACK.stroke_width(2));
    chart.draw_series(roof)?;
    for (i, (family, points)) in roofline.families.iter().enumerate() {
        let style = colour(i).filled();
        let dots = points.iter().map(|&point| Circle::new(point, 4, style));
        let key = move |(x, y)| Circle::new((x + 10, y), 4, style);
        chart.draw_series(dots)?.label(family.as_str()).legend(key);
    }
    if roofline.families.is_empty() {
        return Ok(());
    }
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::LowerRight).label_font(LABEL);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()
}

/// The least and the greatest of `values`; `otherwise` for fewer than two that differ.
pub(super) fn range(values: impl Iterator<Item = f64>, otherwise: [f64; 2]) -> [f64; 2] {
    let start = [f64::INFINITY, f64::NEG_INFINITY];
    let found = values.fold(start, |[least, most], value| [least.min(value), most.max(value)]);
    if found[0] < found[1] { found } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::{Case, Scale};
    use crate::bench::cases;
    use ferrowarp::Backend;

    #[test]
    fn each_family_has_a_colour() {
        let cases = cases::all(&Scale::new(Backend::Emulator, false, None));
        let mut families: Vec<_> = cases.iter().map(Case::family).collect();
        families.dedup();
        assert!(families.len() <= COLOURS.len(), "{families:?}");
    }

    #[test]
    fn a_range_needs_two_values() {
        assert_eq!(range([2.0, 1.0, 3.0].into_iter(), [0.0, 9.0]), [1.0, 3.0]);
        assert_eq!(range([2.0].into_iter(), [0.0, 9.0]), [0.0, 9.0]);
        assert_eq!(range([].into_iter(), [0.0, 9.0]), [0.0, 9.0]);
    }
}
