//! The picture of matrix products: speed against shape beside the peer, and the staircase.

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::combinators::IntoLogRange;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{BLACK, Color, ShapeStyle, WHITE};

use super::chart::{CAPTION, LABEL, colour, range};
use super::lines::Point;
use super::{Area, Drawn};
use crate::bench::case::Unit;
use crate::bench::report::{Report, Row};

/// The products whose shapes vary, and the peer that stands beside them.
const SHAPES: &str = "matmul/nn/bf16";
const PEER: &str = "cuBLASLt";
/// The staircase, step by step, and what each bar is called.
const STEPS: [(&str, &str); 5] = [
    ("matmul/naive/bf16", "naive"),
    ("matmul/tiled/bf16", "tiled"),
    ("matmul/registers/bf16", "registers"),
    ("matmul/warps/bf16", "warps"),
    (SHAPES, "Hopper"),
];
/// Of the staircase.
const SIDE: [usize; 3] = [4096; 3];

/// The products of one pair of columns and length of sums, by their rows: (rows, 10^12 operations a second).
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    name: String,
    ours: Vec<Point>,
    peer: Vec<Point>,
}

/// Whether a report is of matrix products and nothing else.
pub(super) fn are_all(report: &Report) -> bool {
    !report.rows.is_empty() && report.rows.iter().all(|row| row.case.starts_with("matmul/"))
}

fn speed(row: &Row, milliseconds: f64) -> f64 {
    row.work.speed(Unit::Operations, milliseconds)
}

fn peer_of(row: &Row) -> Option<f64> {
    let peer = row.peers.iter().find(|peer| peer.name == PEER)?;
    Some(speed(row, peer.times.median_ms))
}

/// Squares are one curve, and each pair of columns and length of sums with several numbers of rows.
fn curves(report: &Report) -> Vec<Curve> {
    let mut found: Vec<Curve> = Vec::new();
    for row in report.rows.iter().filter(|row| row.case == SHAPES) {
        let &[m, n, k] = &row.shape[..] else { continue };
        let name = if m == n && n == k { "squares".to_owned() } else { format!("N {n}, K {k}") };
        let at = found.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
            found.push(Curve { name, ours: Vec::new(), peer: Vec::new() });
            found.len() - 1
        });
        found[at].ours.push((m as f64, speed(row, row.ours.median_ms)));
        found[at].peer.extend(peer_of(row).map(|speed| (m as f64, speed)));
    }
    found.retain(|curve| curve.ours.len() > 1);
    found
}

/// The steps that were measured, and the peer: 10^12 operations a second.
fn staircase(report: &Report) -> Vec<(&'static str, f64)> {
    let row = |case: &str| report.rows.iter().find(|row| row.case == case && row.shape == SIDE);
    let steps = STEPS.iter().filter_map(|(case, name)| {
        let row = row(case)?;
        Some((*name, speed(row, row.ours.median_ms)))
    });
    steps.chain(row(SHAPES).and_then(peer_of).map(|speed| (PEER, speed))).collect()
}

/// Draws both.
pub(super) fn draw<B: DrawingBackend>(report: &Report, area: &Area<B>) -> Drawn<B> {
    let (left, right) = area.split_horizontally(area.dim_in_pixel().0 * 68 / 100);
    draw_curves(&curves(report), &left)?;
    draw_staircase(&staircase(report), &right)
}

fn draw_curves<B: DrawingBackend>(curves: &[Curve], area: &Area<B>) -> Drawn<B> {
    let all = || curves.iter().flat_map(|curve| curve.ours.iter().chain(&curve.peer));
    let [first, last] = range(all().map(|point| point.0), [1.0, 8192.0]);
    let [low, top] = range(all().map(|point| point.1), [1.0, 1000.0]);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption("Products of bf16 by the rows of D; dashed: cuBLASLt", CAPTION)
        .x_label_area_size(56)
        .y_label_area_size(86)
        .build_cartesian_2d(
            (first / 1.1..last * 1.1).log_scale().base(2.0),
            (low / 1.3..top * 1.5).log_scale(),
        )?;
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&|rows| format!("{rows:.0}"));
    mesh.y_label_formatter(&|speed| format!("{}", (speed * 1e3).round() / 1e3));
    mesh.x_desc("rows").y_desc("TFLOP/s").label_style(LABEL).light_line_style(WHITE).draw()?;
    for (i, curve) in curves.iter().enumerate() {
        let style = ShapeStyle { color: colour(i).to_rgba(), filled: true, stroke_width: 2 };
        let ours = LineSeries::new(curve.ours.iter().copied(), style).point_size(3);
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style);
        chart.draw_series(ours)?.label(curve.name.as_str()).legend(key);
        let thin = style.stroke_width(1);
        chart.draw_series(DashedLineSeries::new(curve.peer.iter().copied(), 6, 5, thin))?;
    }
    if curves.is_empty() {
        return Ok(());
    }
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::LowerRight).label_font(LABEL);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()
}

fn draw_staircase<B: DrawingBackend>(steps: &[(&str, f64)], area: &Area<B>) -> Drawn<B> {
    let [low, top] = range(steps.iter().map(|step| step.1), [1.0, 1000.0]);
    let bottom = low / 2.0;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption("The staircase at 4096^3, bf16", CAPTION)
        .x_label_area_size(56)
        .y_label_area_size(86)
        .build_cartesian_2d(
            0.0..steps.len().max(1) as f64 + 0.3,
            (bottom..top * 2.5).log_scale(),
        )?;
    let mut mesh = chart.configure_mesh();
    mesh.y_label_formatter(&|speed| format!("{}", (speed * 1e3).round() / 1e3));
    mesh.disable_x_mesh().disable_x_axis().y_desc("TFLOP/s");
    mesh.label_style(LABEL).light_line_style(WHITE).draw()?;
    for (i, (name, speed)) in steps.iter().enumerate() {
        let (left, style) = (i as f64, colour(i).filled());
        chart
            .draw_series([Rectangle::new([(left + 0.15, bottom), (left + 0.85, *speed)], style)])?;
        let number = if *speed < 10.0 { format!("{speed:.1}") } else { format!("{speed:.0}") };
        let at = |factor: f64| (left + 0.15, speed * factor);
        chart.draw_series([Text::new(number, at(1.2), LABEL)])?;
        chart.draw_series([Text::new((*name).to_owned(), at(1.45), LABEL)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    #[test]
    fn rows_of_a_layer_are_a_curve_and_squares_are_another() {
        let shapes = [[256; 3], [512; 3], [1, 4096, 64], [8, 4096, 64], [128, 128, 1 << 20]];
        let rows = shapes.iter().map(|shape| row(SHAPES, shape, 1.0)).collect();
        let found = curves(&report(rows));
        let names: Vec<_> = found.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["squares", "N 4096, K 64"]);
        assert_eq!(found[1].ours.iter().map(|point| point.0).collect::<Vec<_>>(), [1.0, 8.0]);
    }

    #[test]
    fn the_staircase_has_the_steps_that_were_measured() {
        let rows = vec![row("matmul/naive/bf16", &SIDE, 9.0), row(SHAPES, &SIDE, 1.0)];
        let names: Vec<_> = staircase(&report(rows)).into_iter().map(|step| step.0).collect();
        assert_eq!(names, ["naive", "Hopper"]);
    }

    #[test]
    fn only_reports_of_products_alone_have_this_picture() {
        let product = row(SHAPES, &SIDE, 1.0);
        assert!(are_all(&report(vec![product.clone()])));
        assert!(!are_all(&report(vec![product, row("copy/array/f32", &[1], 1.0)])));
        assert!(!are_all(&report(Vec::new())));
    }
}
