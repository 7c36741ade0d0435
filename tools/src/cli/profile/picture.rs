//! Pictures of requests: which lane touched which sector or bank.

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_driver::counters::{Access, Sample, Space};

/// Width of a cell.
const CELL: f64 = 19.0;
/// Left margin.
const LEFT: f64 = 62.0;
/// Where the lanes stand.
const LANES_Y: f64 = 16.0;
/// Where the sectors or banks stand.
const CELLS_Y: f64 = 92.0;
/// Height of a cell.
const HIGH: f64 = 18.0;
/// Height of a picture.
const HEIGHT: f64 = 128.0;
/// The most sectors that a picture has room for: as many as lanes can touch.
const ROOM: usize = 32;

/// A sector or a bank.
#[derive(Default)]
struct Cell {
    /// What it does for them: 1 for a sector, wavefronts for a bank.
    load: u64,
    label: String,
    about: String,
}

/// Cells, and for each lane those that it touches.
struct Layout {
    name: &'static str,
    cells: Vec<Cell>,
    touched: Vec<(usize, Vec<usize>)>,
}

/// The request as an SVG picture.
pub(super) fn draw(sample: &Sample) -> String {
    let layout = if sample.space == Space::Shared { banks(sample) } else { sectors(sample) };
    let columns = layout.cells.len().max(sample.lanes.len());
    let width = LEFT + columns as f64 * CELL + 2.0;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" role=\"img\" aria-label=\"{}\">",
        summary(sample)
    );
    row_name(&mut out, LANES_Y, "lane");
    row_name(&mut out, CELLS_Y, layout.name);
    let shift = (columns - layout.cells.len()) as f64 / 2.0;
    let x_of = |cell: usize| LEFT + (cell as f64 + shift) * CELL;
    for (lane, cells) in &layout.touched {
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        let to = (x_of(first) + x_of(last) + CELL) / 2.0;
        let from = LEFT + (*lane as f64 + 0.5) * CELL;
        let _ = write!(
            out,
            "<line class=\"reach\" x1=\"{from}\" y1=\"{}\" x2=\"{to}\" y2=\"{CELLS_Y}\"/>",
            LANES_Y + HIGH
        );
    }
    for (lane, place) in sample.lanes.iter().enumerate() {
        lane_box(&mut out, sample, lane, *place);
    }
    for (index, cell) in layout.cells.iter().enumerate() {
        cell_box(&mut out, x_of(index), cell);
    }
    out.push_str("</svg>");
    out
}

/// What the picture shows, in a sentence.
pub(super) fn summary(sample: &Sample) -> String {
    let lanes = sample.lanes.iter().flatten().count();
    let verb = match sample.access {
        Access::Load => "load",
        Access::Store => "store",
        Access::Atomic => "update",
    };
    let unit = if sample.space == Space::Shared { "wavefronts" } else { "sectors" };
    format!(
        "Block {}, warp {}: {lanes} lanes {verb} {} bytes each; {} {unit}, at best {}",
        sample.block, sample.warp, sample.bytes, sample.cost, sample.ideal
    )
}

fn row_name(out: &mut String, y: f64, name: &str) {
    let _ = write!(out, "<text class=\"row\" x=\"0\" y=\"{}\">{name}</text>", y + HIGH - 5.0);
}

fn lane_box(out: &mut String, sample: &Sample, lane: usize, place: Option<u64>) {
    let x = LEFT + lane as f64 * CELL;
    let (class, about) = match place {
        Some(at) => ("lane", format!("lane {lane}: bytes {at} to {}", at + sample.bytes - 1)),
        None => ("lane off", format!("lane {lane} takes no part")),
    };
    rectangle(out, (x, LANES_Y), class, &lane.to_string(), &about);
}

fn cell_box(out: &mut String, x: f64, cell: &Cell) {
    let class = match cell.load {
        0 => "cell off",
        1 => "cell",
        2..=7 => "cell busy",
        _ => "cell jam",
    };
    rectangle(out, (x, CELLS_Y), class, &cell.label, &cell.about);
    if cell.load > 1 {
        let (x, y) = (x + CELL / 2.0, CELLS_Y + HIGH + 13.0);
        let _ = write!(out, "<text class=\"load\" x=\"{x}\" y=\"{y}\">{}×</text>", cell.load);
    }
}

fn rectangle(out: &mut String, (x, y): (f64, f64), class: &str, label: &str, about: &str) {
    let _ = write!(
        out,
        "<g><title>{about}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" \
         height=\"{HIGH}\"/><text class=\"label\" x=\"{}\" y=\"{}\">{label}</text></g>",
        CELL - 2.0,
        x + CELL / 2.0 - 1.0,
        y + HIGH - 5.0
    );
}

/// The sectors that are touched, in order.
fn sectors(sample: &Sample) -> Layout {
    let bytes = sample.bytes.max(1);
    let span = |at: u64| at / 32..=(at + bytes - 1) / 32;
    let mut lanes_of: BTreeMap<u64, u64> = BTreeMap::new();
    for sector in sample.lanes.iter().flatten().flat_map(|at| span(*at)) {
        *lanes_of.entry(sector).or_default() += 1;
    }
    let order: Vec<u64> = lanes_of.keys().copied().take(2 * ROOM).collect();
    let cells = order.iter().map(|sector| Cell {
        load: 1,
        // A longer number has no room; the tooltip has it.
        label: if *sector < 1000 { sector.to_string() } else { String::new() },
        about: format!(
            "sector {sector}: bytes {} to {}, {} lanes",
            32 * sector,
            32 * sector + 31,
            lanes_of[sector]
        ),
    });
    let index = |sector: u64| order.iter().position(|own| *own == sector);
    let touched = sample.lanes.iter().enumerate().filter_map(|(lane, at)| {
        let cells: Vec<usize> = span((*at)?).filter_map(index).collect();
        (!cells.is_empty()).then_some((lane, cells))
    });
    let name = if sample.space == Space::Const { "words" } else { "sector" };
    Layout { name, touched: touched.collect(), cells: cells.collect() }
}

/// The 32 banks, and how many different words each has to serve; of atomics, how many lanes.
fn banks(sample: &Sample) -> Layout {
    let mut words: Vec<Vec<u64>> = vec![Vec::new(); 32];
    let span = |at: u64| at / 4..=(at + sample.bytes.max(1) - 1) / 4;
    for word in sample.lanes.iter().flatten().flat_map(|at| span(*at)) {
        words[(word % 32) as usize].push(word);
    }
    let cells = words.iter_mut().enumerate().map(|(bank, own)| {
        let lanes = own.len() as u64;
        own.sort_unstable();
        if sample.access != Access::Atomic {
            own.dedup();
        }
        let load = own.len() as u64;
        let about = format!("bank {bank}: {lanes} lanes, {load} to serve one after the other");
        Cell { load, label: bank.to_string(), about }
    });
    let touched = sample.lanes.iter().enumerate().filter_map(|(lane, at)| {
        Some((lane, span((*at)?).map(|word| (word % 32) as usize).collect()))
    });
    Layout { name: "bank", touched: touched.collect(), cells: cells.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(space: Space, bytes: u64, place: impl Fn(u64) -> Option<u64>) -> Sample {
        Sample {
            block: 0,
            warp: 0,
            space,
            access: Access::Load,
            bytes,
            lanes: (0..32).map(place).collect(),
            cost: 0,
            ideal: 0,
        }
    }

    #[test]
    fn lanes_reach_the_sectors_that_hold_their_bytes() {
        let layout = sectors(&sample(Space::Global, 4, |lane| Some(4 * lane)));
        assert_eq!(layout.cells.len(), 4);
        assert!(layout.cells.iter().all(|cell| cell.about.ends_with(", 8 lanes")));
        assert_eq!(layout.touched[31], (31, vec![3]));
        let strided = sectors(&sample(Space::Global, 4, |lane| (lane < 3).then_some(128 * lane)));
        let labels: Vec<_> = strided.cells.iter().map(|cell| cell.label.as_str()).collect();
        assert_eq!(labels, ["0", "4", "8"]);
        assert_eq!(strided.touched.len(), 3);
    }

    #[test]
    fn a_banks_load_is_its_different_words() {
        let column = banks(&sample(Space::Shared, 4, |lane| Some(128 * lane)));
        assert_eq!((column.cells[0].load, column.cells[1].load), (32, 0));
        let same = banks(&sample(Space::Shared, 4, |_| Some(8)));
        assert_eq!(same.cells[2].load, 1);
        assert!(same.cells[2].about.starts_with("bank 2: 32 lanes"));
        let wide = banks(&sample(Space::Shared, 8, |lane| Some(8 * lane)));
        assert!(wide.cells.iter().all(|cell| cell.load == 2));
        let svg = draw(&sample(Space::Shared, 4, |lane| Some(128 * lane)));
        assert!(svg.contains("cell jam") && svg.contains(">32×<"), "{svg}");
    }
}
