//! Matrix products of small whole numbers, which every type has exact sums of in any order.

use std::any::type_name;
use std::fmt::Debug;

use cuda_std::matrix::Tf32;
use cuda_std::{bf16, f16};
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::matmul::{Matrix, MatrixLayout, MatrixMut, Options, Order};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};
use reference::matmul as expected;

use super::tester::Tester;
use crate::element::Element;
use crate::error::DistResult;
use crate::ops::{ColumnParallel, RowParallel, Shares};

/// Rows of D a rank, columns and sums; of the sums those of a rank, where they are divided.
const SIZES: [[usize; 3]; 6] =
    [[0, 3, 5], [1, 1, 1], [31, 16, 8], [5, 7, 0], [40, 24, 33], [130, 17, 12]];

/// A number that holds small whole ones.
trait Whole: bytemuck::Pod {
    fn of(value: f64) -> Self;
}

macro_rules! whole {
    ($($ty:ty: $of:expr;)*) => {$(
        impl Whole for $ty {
            fn of(value: f64) -> Self {
                $of(value)
            }
        }
    )*};
}

whole! {
    bf16: bf16::from_f64;
    f16: f16::from_f64;
    f32: |value| value as f32;
    Tf32: |value| Tf32::from_f32(value as f32);
}

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    for (number, [m, n, k]) in SIZES.into_iter().enumerate() {
        for (which, rows) in tester.splits(m).iter().enumerate() {
            let pieces = 1 + (number + which) % 3;
            column::<bf16, bf16>(tester, rows, [n, k], pieces)?;
            column::<Tf32, f32>(tester, rows, [n, k], 3 - pieces / 2)?;
            let inner = &tester.splits(k)[(which + number) % 3];
            row::<f16, f32>(tester, rows, (n, inner), pieces)?;
            row::<bf16, bf16>(tester, rows, (n, inner), 3 - pieces / 2)?;
        }
    }
    Ok(())
}

/// Numbers of which every sum of products of the tests is below 256: -1, 0 and 1.
fn numbers(tester: &mut Tester<'_>, len: usize) -> Vec<f64> {
    tester.random.values(len, |word| (word % 3) as f64 - 1.0)
}

fn typed<T: Whole>(values: &[f64]) -> Vec<T> {
    values.iter().map(|value| T::of(*value)).collect()
}

/// A product, row by row.
fn product([a, b]: [&[f64]; 2], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let (a, b) = (expected::Matrix::row_major(a, m, k), expected::Matrix::row_major(b, k, n));
    expected::matmul([&a, &b], (1.0, 0.0), None).iter().map(|sum| sum.value).collect()
}

/// Columns of a row-major matrix that all ranks have, in its memory.
fn columns_of<'a, T: bytemuck::Pod>(
    all: &'a DeviceBuffer<T>,
    rows: usize,
    columns: &Shares,
    rank: u32,
) -> DistResult<Matrix<'a, T>> {
    let (width, own) = (columns.total(), columns.range(rank));
    let len = if rows == 0 || own.is_empty() { 0 } else { (rows - 1) * width + own.len() };
    let memory = if len == 0 { all.slice(..0) } else { all.slice(own.start..own.start + len) };
    let layout =
        MatrixLayout { leading: width, ..MatrixLayout::new(Order::RowMajor, rows, own.len()) };
    Ok(Matrix::new(memory, layout)?)
}

fn column<T: Whole + Factor, D: Whole + Debug>(
    tester: &mut Tester<'_>,
    rows: &Shares,
    [n, k]: [usize; 2],
    pieces: usize,
) -> DistResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (ranks, gpu, rank) = (tester.ranks, tester.gpu(), tester.ranks.rank());
    let columns = Shares::given((0..ranks.size() as usize).map(|rank| n + rank % 3).collect());
    let (m, width) = (rows.total(), columns.total());
    let (a, b) = (numbers(tester, m * k), numbers(tester, k * width));
    let whole = product([&a, &b], [m, width, k]);
    let own_columns = columns.range(rank);
    let expected: Vec<f64> =
        whole.chunks(width.max(1)).flat_map(|row| &row[own_columns.clone()]).copied().collect();
    let x = tester.upload::<T>(&typed(&a), &rows.scaled(k))?;
    let y = DeviceBuffer::from_slice(gpu, &typed::<T>(&b))?;
    let mut out = DeviceBuffer::from_slice(gpu, &vec![D::of(77.0); expected.len()])?;
    let (a, b) = (Matrix::row_major(&x, rows.len_of(rank), k)?, columns_of(&y, k, &columns, rank)?);
    let d = MatrixMut::row_major(&mut out, m, own_columns.len())?;
    let mut plan = ColumnParallel::in_pieces(ranks, rows, [own_columns.len(), k], pieces)?;
    plan.multiply_into(gpu, a, b, d, Options::new())?;
    let case = format!("{}, rows {:?}, K {k}, {pieces} pieces", type_name::<T>(), rows.lens());
    tester.compare("column-parallel product", case, &out, &typed::<D>(&expected))
}

fn row<T: Whole + Factor, D: Whole + Element + Debug>(
    tester: &mut Tester<'_>,
    rows: &Shares,
    (n, inner): (usize, &Shares),
    pieces: usize,
) -> DistResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (ranks, gpu, rank) = (tester.ranks, tester.gpu(), tester.ranks.rank());
    let (m, k) = (rows.total(), inner.total());
    let (a, b) = (numbers(tester, m * k), numbers(tester, k * n));
    let whole = product([&a, &b], [m, n, k]);
    let expected = typed::<D>(tester.share(&whole, &rows.scaled(n)));
    let x = DeviceBuffer::from_slice(gpu, &typed::<T>(&a))?;
    let y = tester.upload::<T>(&typed(&b), &inner.scaled(n))?;
    let mut out = DeviceBuffer::from_slice(gpu, &vec![D::of(77.0); expected.len()])?;
    let (a, b) = (columns_of(&x, m, inner, rank)?, Matrix::row_major(&y, inner.len_of(rank), n)?);
    let d = MatrixMut::row_major(&mut out, rows.len_of(rank), n)?;
    let mut plan = RowParallel::<D>::in_pieces(ranks, rows, n, pieces)?;
    plan.multiply_into(gpu, a, b, d, Options::new())?;
    let case = format!(
        "{} to {}, rows {:?}, K {:?}, {pieces} pieces",
        type_name::<T>(),
        type_name::<D>(),
        rows.lens(),
        inner.lens()
    );
    tester.compare("row-parallel product", case, &out, &expected)
}
