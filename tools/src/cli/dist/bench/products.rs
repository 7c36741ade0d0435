//! Matrix products over ranks, with the exchange beside the product and one after the other.

use cuda_std::bf16;
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, matmul_into};
use ferrowarp_dist::DistResult;
use ferrowarp_dist::ops::{ColumnParallel, RowParallel, Shares};

use super::super::super::error::CliError;
use super::super::super::table::{Side, Table};
use super::Print;
use super::measure::Bench;
use super::operations::printed;
use crate::bench::data::normal;

/// The fewest pieces that overlap, for products which the model would not cut.
const LEAST_PIECES: usize = 2;

/// Square products of `bf16`, of which all ranks have equal shares. Of each: the product alone, without an exchange; the exchange and the
/// product one after the other; and beside each other.
pub(super) fn run(bench: &Bench<'_>, side: usize, print: Print<'_>) -> Result<(), CliError> {
    let size = bench.ranks.size() as usize;
    let sizes = Sizes { side: side.next_multiple_of(size), part: side.div_ceil(size) };
    let mut table = Table::new([
        ("product", Side::Left),
        ("alone ms", Side::Right),
        ("one after the other ms", Side::Right),
        ("overlapped ms", Side::Right),
        ("pieces", Side::Right),
        ("ratio", Side::Right),
        ("TFLOP/s of all ranks", Side::Right),
    ]);
    for (name, times) in [
        ("all-gather and product", column(bench, sizes)?),
        ("product and reduce-scatter", row(bench, sizes)?),
    ] {
        let Times { alone, after, beside, pieces } = times;
        let [alone_ms, after_ms, beside_ms] =
            [alone, after, beside].map(|seconds| format!("{:.3}", seconds * 1e3));
        let rate = 2.0 * (sizes.side as f64).powi(3) / beside / 1e12;
        table.add([
            format!("{name}, {}³ bf16", sizes.side),
            alone_ms,
            after_ms,
            beside_ms,
            pieces.to_string(),
            format!("{:.3}", after / beside),
            format!("{rate:.3}"),
        ]);
    }
    printed(&table, print)
}

/// The rows, columns and sums of all ranks, and a rank's share of each.
#[derive(Clone, Copy)]
struct Sizes {
    side: usize,
    part: usize,
}

/// Seconds.
struct Times {
    alone: f64,
    after: f64,
    beside: f64,
    pieces: usize,
}

/// Normal numbers, for which a product takes more power, and so perhaps more time, than for zeros.
fn random(bench: &Bench<'_>, len: usize) -> DistResult<DeviceBuffer<bf16>> {
    Ok(normal(bench.gpu(), len, 7 + bench.ranks.rank())?)
}

/// Seconds of the product of a rank by itself.
fn alone(bench: &Bench<'_>, a: Matrix<'_, bf16>, b: Matrix<'_, bf16>) -> DistResult<f64> {
    let (m, n) = (a.layout().rows, b.layout().columns);
    let mut out = DeviceBuffer::<bf16>::zeroed(bench.gpu(), m * n)?;
    let mut scratch = Scratch::new(bench.gpu())?;
    bench.seconds(1, || {
        let d = MatrixMut::row_major(&mut out, m, n)?;
        Ok(matmul_into(bench.gpu(), a, b, d, Options::new(), &mut scratch)?)
    })
}

fn column(bench: &Bench<'_>, Sizes { side, part }: Sizes) -> DistResult<Times> {
    let (ranks, gpu) = (bench.ranks, bench.gpu());
    let (x, y) = (random(bench, side * side)?, random(bench, side * part)?);
    let b = Matrix::row_major(&y, side, part)?;
    let alone = alone(bench, Matrix::row_major(&x, side, side)?, b)?;
    let (a, rows) = (Matrix::row_major(&x, part, side)?, Shares::even(side, ranks.size()));
    let mut out = DeviceBuffer::<bf16>::zeroed(gpu, side * part)?;
    let mut seconds = |plan: &mut ColumnParallel<bf16>| {
        bench.seconds(1, || {
            let d = MatrixMut::row_major(&mut out, side, part)?;
            plan.multiply_into(gpu, a, b, d, Options::new())
        })
    };
    let after = seconds(&mut ColumnParallel::in_pieces(ranks, &rows, [part, side], 1)?)?;
    let mut plan = ColumnParallel::new(ranks, &rows, [part, side])?;
    if !plan.overlaps() {
        plan = ColumnParallel::in_pieces(ranks, &rows, [part, side], LEAST_PIECES)?;
    }
    Ok(Times { alone, after, beside: seconds(&mut plan)?, pieces: plan.pieces() })
}

fn row(bench: &Bench<'_>, Sizes { side, part }: Sizes) -> DistResult<Times> {
    let (ranks, gpu) = (bench.ranks, bench.gpu());
    let (x, y) = (random(bench, side * part)?, random(bench, part * side)?);
    let (a, b) = (Matrix::row_major(&x, side, part)?, Matrix::row_major(&y, part, side)?);
    let alone = alone(bench, a, b)?;
    let rows = Shares::even(side, ranks.size());
    let mut out = DeviceBuffer::<bf16>::zeroed(gpu, part * side)?;
    let mut seconds = |plan: &mut RowParallel<bf16>| {
        bench.seconds(1, || {
            let d = MatrixMut::row_major(&mut out, part, side)?;
            plan.multiply_into(gpu, a, b, d, Options::new())
        })
    };
    let after = seconds(&mut RowParallel::in_pieces(ranks, &rows, side, 1)?)?;
    let mut plan = RowParallel::new(ranks, &rows, side)?;
    if !plan.overlaps() {
        plan = RowParallel::in_pieces(ranks, &rows, side, LEAST_PIECES)?;
    }
    Ok(Times { alone, after, beside: seconds(&mut plan)?, pieces: plan.pieces() })
}
