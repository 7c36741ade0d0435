//! Matrix products over ranks against f64, with the bound that each documents.

use bytemuck::Pod;
use cuda_std::matrix::Tf32;
use cuda_std::{bf16, f16};
use ferrowarp::ops::matmul::{Matrix, MatrixLayout, MatrixMut, Options, Order};
use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::ops::{ColumnParallel, RowParallel, Shares};
use ferrowarp_dist::{Backend, Communicator, DistError, DistResult, Element};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{ColumnBias, Factor, Gelu, Plain, Then, gelu};
use reference::matmul as expected;
use reference::matmul::Rounding;

use super::samples::Samples;

/// What a rounding to nearest of f32 is off by.
const F32: f64 = 1.0 / (1u64 << 24) as f64;

/// A number of a product.
trait Number: Pod + PartialEq {
    const ROUNDING: Rounding;
    fn of(value: f32) -> Self;
    fn exact(self) -> f64;
}

macro_rules! numbers {
    ($($ty:ty: $rounding:expr, $of:expr, $exact:expr;)*) => {$(
        impl Number for $ty {
            const ROUNDING: Rounding = $rounding;
            fn of(value: f32) -> Self {
                $of(value)
            }
            fn exact(self) -> f64 {
                f64::from($exact(self))
            }
        }
    )*};
}

numbers! {
    bf16: Rounding::TENSOR.to_bf16(), bf16::from_f32, bf16::to_f32;
    f16: Rounding::TENSOR.to_f16(), f16::from_f32, f16::to_f32;
    f32: Rounding::TENSOR, core::convert::identity, core::convert::identity;
    Tf32: Rounding::TF32, Tf32::from_f32, Tf32::to_f32;
}

/// A matrix that all ranks know.
struct Known<T> {
    rows: usize,
    columns: usize,
    values: Vec<T>,
    exact: Vec<f64>,
}

impl<T: Number> Known<T> {
    fn new(samples: &mut Samples, rows: usize, columns: usize) -> Self {
        let values: Vec<T> = (0..rows * columns).map(|_| T::of(samples.unit())).collect();
        let exact = values.iter().map(|value| value.exact()).collect();
        Self { rows, columns, values, exact }
    }

    fn reference(&self) -> expected::Matrix<'_> {
        expected::Matrix::row_major(&self.exact, self.rows, self.columns)
    }

    /// Some rows and columns on the device, with gaps of NaN, in an order, and their layout.
    fn part(
        &self,
        gpu: &Gpu,
        (rows, columns): (std::ops::Range<usize>, std::ops::Range<usize>),
        order: Order,
        gap: usize,
    ) -> DistResult<(DeviceBuffer<T>, MatrixLayout)> {
        let tight = MatrixLayout::new(order, rows.len(), columns.len());
        let layout = MatrixLayout { leading: tight.leading + gap, ..tight };
        let vectors = if order == Order::RowMajor { rows.len() } else { columns.len() };
        let mut values = vec![T::of(f32::NAN); vectors * layout.leading];
        for (i, row) in rows.enumerate() {
            for (j, column) in columns.clone().enumerate() {
                values[place(&layout, i, j)] = self.values[row * self.columns + column];
            }
        }
        Ok((DeviceBuffer::from_slice(gpu, &values)?, layout))
    }
}

fn place(layout: &MatrixLayout, i: usize, j: usize) -> usize {
    match layout.order {
        Order::RowMajor => i * layout.leading + j,
        Order::ColumnMajor => j * layout.leading + i,
    }
}

/// Compares what a rank has of D with some rows and columns of all of it: `expected(row, column)` is a value and its bound.
fn compare<D: Number>(
    found: &[D],
    layout: &MatrixLayout,
    what: &str,
    expected: impl Fn(usize, usize) -> (f64, f64),
) {
    for i in 0..layout.rows {
        for j in 0..layout.columns {
            let (found, (value, bound)) = (found[place(layout, i, j)].exact(), expected(i, j));
            assert!(
                (found - value).abs() <= bound,
                "{what}, ({i}, {j}): {found} for {value}, off by more than {bound}"
            );
        }
    }
}

/// D in an order, full of a number that no product gives.
fn poisoned<D: Number>(
    gpu: &Gpu,
    order: Order,
    rows: usize,
    columns: usize,
) -> DistResult<(DeviceBuffer<D>, MatrixLayout)> {
    let tight = MatrixLayout::new(order, rows, columns);
    let layout = MatrixLayout { leading: tight.leading + 3, ..tight };
    let vectors = if order == Order::RowMajor { rows } else { columns };
    let values = vec![D::of(7e4); vectors * layout.leading];
    Ok((DeviceBuffer::from_slice(gpu, &values)?, layout))
}

pub fn check(ranks: &Communicator, seed: u64) -> DistResult<()> {
    let mut samples = Samples::new(seed);
    let size = ranks.size();
    for (number, [m, n, k]) in [[150, 40, 72], [67, 9, 130], [300, 33, 5]].into_iter().enumerate() {
        for rows in [Shares::even(m, size), samples.slabs(m, size, 0)] {
            let columns = samples.slabs(n, size, 0);
            for pieces in [Some(1), Some(2), [None, Some(3), Some(5)][number]] {
                let case =
                    Case { ranks, seed: samples.seed, rows: &rows, columns: &columns, k, pieces };
                column::<bf16, bf16>(&case, &mut samples, Order::RowMajor, number)?;
                column::<Tf32, f32>(&case, &mut samples, Order::ColumnMajor, number)?;
                let inner = samples.slabs(k, size, 0);
                row::<bf16, f32>(&case, &mut samples, (n, &inner), Order::RowMajor)?;
                row::<f16, f16>(&case, &mut samples, (n, &inner), Order::ColumnMajor)?;
                row::<Tf32, f32>(&case, &mut samples, (n, &inner), Order::RowMajor)?;
            }
        }
    }
    for pieces in [1, 3] {
        epilogues_come_after_all_sums(ranks, &mut samples, pieces)?;
        whole(ranks, &mut samples, pieces)?;
    }
    if matches!(ranks.backend(), Backend::Nccl { .. }) {
        large(ranks, &mut samples)?;
    }
    refusals(ranks)
}

/// Pieces of more than a megabyte, which copy engines move where they can. They take long where the devices are emulated.
fn large(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    let size = ranks.size();
    for pieces in [None, Some(2), Some(3)] {
        let mut lens = vec![1600; size as usize];
        lens[0] += 3;
        let (rows, columns) = (Shares::given(lens), samples.slabs(40, size, 0));
        let case =
            Case { ranks, seed: samples.seed, rows: &rows, columns: &columns, k: 1040, pieces };
        column::<bf16, bf16>(&case, samples, Order::RowMajor, 0)?;
        column::<bf16, bf16>(&case, samples, Order::ColumnMajor, 8)?;
        let (n, inner) = (840, samples.slabs(48, size, 0));
        row::<bf16, bf16>(&Case { k: 48, ..case }, samples, (n, &inner), Order::RowMajor)?;
        row::<Tf32, f32>(&Case { k: 48, ..case }, samples, (n, &inner), Order::ColumnMajor)?;
    }
    Ok(())
}

/// What the products of a test have in common.
#[derive(Clone, Copy)]
struct Case<'a> {
    ranks: &'a Communicator,
    seed: u64,
    rows: &'a Shares,
    columns: &'a Shares,
    k: usize,
    pieces: Option<usize>,
}

impl Case<'_> {
    fn name(&self) -> String {
        let Self { ranks, seed, rows, columns, k, pieces } = self;
        let (rank, rows, columns) = (ranks.rank(), rows.lens(), columns.lens());
        format!(
            "rank {rank}, rows {rows:?}, columns {columns:?}, K {k}, pieces {pieces:?}, seed {seed}"
        )
    }
}

/// `alpha · A·B + beta · C`, twice, with the same bits. A in `order`; `gap` elements between its rows.
fn column<T: Number + Factor, D: Number>(
    case: &Case<'_>,
    samples: &mut Samples,
    order: Order,
    gap: usize,
) -> DistResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let Case { ranks, rows, columns, k, pieces, .. } = *case;
    let (gpu, rank, m) = (ranks.gpu(), ranks.rank(), rows.total());
    let (own_rows, own_columns) = (rows.range(rank), columns.range(rank));
    let a = Known::<T>::new(samples, m, k);
    let b = Known::<T>::new(samples, k, columns.total());
    let c = Known::<D>::new(samples, m, columns.total());
    let (x, x_layout) = a.part(gpu, (own_rows, 0..k), order, gap)?;
    let (y, y_layout) = b.part(gpu, (0..k, own_columns.clone()), Order::ColumnMajor, 1)?;
    let (z, z_layout) = c.part(gpu, (0..m, own_columns.clone()), order.transposed(), 2)?;
    let n = own_columns.len();
    let mut plan = match pieces {
        Some(pieces) => ColumnParallel::in_pieces(ranks, rows, [n, k], pieces)?,
        None => ColumnParallel::new(ranks, rows, [n, k])?,
    };
    let mut results = Vec::new();
    for _ in 0..2 {
        let (mut out, layout) = poisoned::<D>(gpu, order, m, n)?;
        let d = MatrixMut::new(&mut out, layout)?;
        let options = Options::new().alpha(0.5).beta(-2.0).c(Matrix::new(&z, z_layout)?);
        plan.multiply_into(
            gpu,
            Matrix::new(&x, x_layout)?,
            Matrix::new(&y, y_layout)?,
            d,
            options,
        )?;
        ranks.synchronize(gpu)?;
        let found = out.to_vec()?;
        compare(&found, &layout, &case.name(), |i, j| {
            let (a, b, c) = (a.reference(), b.reference(), c.reference());
            let at = (i, own_columns.start + j);
            let sum = expected::element([&a, &b], (0.5, -2.0), Some(&c), at);
            // Inputs are of the type already: nothing is rounded on its way to the multiplication.
            (sum.value, Rounding { input: 0.0, ..D::ROUNDING }.bound(k, &sum))
        });
        results.push(found);
    }
    assert!(
        bytemuck::cast_slice::<D, u8>(&results[0]) == bytemuck::cast_slice::<D, u8>(&results[1]),
        "{}",
        case.name()
    );
    Ok(())
}

/// The bound on a sum that goes around `ranks` ranks in type `D`. Each of the other ranks' sums is scaled (two roundings of f32), and rounded
/// to `D`, relative to what has been summed until then: factors of the whole, like the rounding of each product; and by half of the least number of `D`.
fn row_bound<D: Number>(ranks: u32, k: usize, sum: &expected::Product) -> f64 {
    let others = f64::from(ranks - 1);
    let of_each = D::ROUNDING.output.ln_1p() + 2.0 * F32.ln_1p();
    let rounding = Rounding { input: 0.0, product: (others * of_each).exp_m1(), ..D::ROUNDING };
    rounding.bound(k, sum) + others * rounding.least
}

/// `alpha · A·B`, twice, with the same bits. D in `order`.
fn row<T: Number + Factor, D: Number + Element>(
    case: &Case<'_>,
    samples: &mut Samples,
    (n, inner): (usize, &Shares),
    order: Order,
) -> DistResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let Case { ranks, rows, k, pieces, .. } = *case;
    let (gpu, rank, m) = (ranks.gpu(), ranks.rank(), rows.total());
    let (own_rows, own_inner) = (rows.range(rank), inner.range(rank));
    let (a, b) = (Known::<T>::new(samples, m, k), Known::<T>::new(samples, k, n));
    let (x, x_layout) = a.part(gpu, (0..m, own_inner.clone()), order, 2)?;
    let (y, y_layout) = b.part(gpu, (own_inner, 0..n), order.transposed(), 0)?;
    let mut plan = match pieces {
        Some(pieces) => RowParallel::<D>::in_pieces(ranks, rows, n, pieces)?,
        None => RowParallel::<D>::new(ranks, rows, n)?,
    };
    let mut results = Vec::new();
    for _ in 0..2 {
        let (mut out, layout) = poisoned::<D>(gpu, order, own_rows.len(), n)?;
        let d = MatrixMut::new(&mut out, layout)?;
        let options = Options::new().alpha(-0.75);
        plan.multiply_into(
            gpu,
            Matrix::new(&x, x_layout)?,
            Matrix::new(&y, y_layout)?,
            d,
            options,
        )?;
        ranks.synchronize(gpu)?;
        let found = out.to_vec()?;
        let what = format!("{}, K in {:?}", case.name(), inner.lens());
        compare(&found, &layout, &what, |i, j| {
            let (a, b) = (a.reference(), b.reference());
            let at = (own_rows.start + i, j);
            let sum = expected::element([&a, &b], (-0.75, 0.0), None, at);
            (sum.value, row_bound::<D>(ranks.size(), k, &sum))
        });
        results.push(found);
    }
    assert!(
        bytemuck::cast_slice::<D, u8>(&results[0]) == bytemuck::cast_slice::<D, u8>(&results[1]),
        "{}",
        case.name()
    );
    Ok(())
}

/// D whole on every rank.
fn whole(ranks: &Communicator, samples: &mut Samples, pieces: usize) -> DistResult<()> {
    let (gpu, rank, size) = (ranks.gpu(), ranks.rank(), ranks.size());
    let [m, n, k] = [61, 10, 44];
    let (rows, inner) = (samples.slabs(m, size, 0), samples.slabs(k, size, 0));
    let (a, b) = (Known::<Tf32>::new(samples, m, k), Known::<Tf32>::new(samples, k, n));
    let (x, x_layout) = a.part(gpu, (0..m, inner.range(rank)), Order::RowMajor, 0)?;
    let (y, y_layout) = b.part(gpu, (inner.range(rank), 0..n), Order::RowMajor, 0)?;
    let (x, y) = (Matrix::new(&x, x_layout)?, Matrix::new(&y, y_layout)?);
    let mut plan = RowParallel::<f32>::in_pieces(ranks, &rows, n, pieces)?;
    let mut out = DeviceBuffer::from_slice(gpu, &vec![7e4f32; m * n])?;
    let d = MatrixMut::row_major(&mut out, m, n)?;
    plan.multiply_whole_into(gpu, x, y, d, Options::new().alpha(3.0))?;
    ranks.synchronize(gpu)?;
    let layout = MatrixLayout::new(Order::RowMajor, m, n);
    compare(&out.to_vec()?, &layout, &format!("whole, rows {:?}", rows.lens()), |i, j| {
        let sum = expected::element([&a.reference(), &b.reference()], (3.0, 0.0), None, (i, j));
        (sum.value, row_bound::<f32>(size, k, &sum))
    });
    let d = MatrixMut::row_major(&mut out, m - 1, n)?;
    let text = plan.multiply_whole_into(gpu, x, y, d, Options::new()).unwrap_err().to_string();
    assert!(text.contains("D of rank") && text.contains("60 × 10, and must be 61 × 10"), "{text}");
    Ok(())
}

/// A bias and an activation, which are not linear: to apply them to partial sums would give another result.
fn epilogues_come_after_all_sums(
    ranks: &Communicator,
    samples: &mut Samples,
    pieces: usize,
) -> DistResult<()> {
    let (gpu, rank, size) = (ranks.gpu(), ranks.rank(), ranks.size());
    let [m, n, k] = [90, 24, 56];
    let (rows, inner) = (samples.slabs(m, size, 0), samples.slabs(k, size, 0));
    let (a, b) = (Known::<bf16>::new(samples, m, k), Known::<bf16>::new(samples, k, n));
    let bias: Vec<bf16> = samples.units::<f32>(n).into_iter().map(bf16::from_f32).collect();
    let of_bias = DeviceBuffer::from_slice(gpu, &bias)?;
    let activation = Then(ColumnBias, Gelu);
    // The derivative of GELU is below 1.13, and its own error below 2^-20 beside that of f32.
    let expected = |i: usize, j: usize, bound: &dyn Fn(&expected::Product) -> f64| {
        let (a, b) = (a.reference(), b.reference());
        let sum = expected::element([&a, &b], (1.0, 0.0), None, (i, j));
        let value = gelu((sum.value + bias[j].exact()) as f32);
        (f64::from(value), 1.13 * bound(&sum) + f64::from(value).abs() / 256.0 + 1e-5)
    };
    let (x, x_layout) = a.part(gpu, (0..m, inner.range(rank)), Order::RowMajor, 0)?;
    let (y, y_layout) = b.part(gpu, (inner.range(rank), 0..n), Order::RowMajor, 0)?;
    let (mut out, layout) = poisoned::<bf16>(gpu, Order::RowMajor, rows.len_of(rank), n)?;
    let mut plan = RowParallel::in_pieces(ranks, &rows, n, pieces)?;
    let options = Options::new().per_column(&of_bias).epilogue(activation);
    let d = MatrixMut::new(&mut out, layout)?;
    plan.multiply_into(gpu, Matrix::new(&x, x_layout)?, Matrix::new(&y, y_layout)?, d, options)?;
    ranks.synchronize(gpu)?;
    let start = rows.start_of(rank);
    compare(&out.to_vec()?, &layout, "row-parallel", |i, j| {
        expected(start + i, j, &|sum| row_bound::<bf16>(size, k, sum) + F32 * bias[j].exact().abs())
    });
    // The same product by columns, of which each rank has all, in its own rows of A.
    let (x, x_layout) = a.part(gpu, (rows.range(rank), 0..k), Order::RowMajor, 0)?;
    let (y, y_layout) = b.part(gpu, (0..k, 0..n), Order::RowMajor, 0)?;
    let (mut out, layout) = poisoned::<bf16>(gpu, Order::RowMajor, m, n)?;
    let mut plan = ColumnParallel::in_pieces(ranks, &rows, [n, k], pieces)?;
    let d = MatrixMut::new(&mut out, layout)?;
    plan.multiply_into(gpu, Matrix::new(&x, x_layout)?, Matrix::new(&y, y_layout)?, d, options)?;
    ranks.synchronize(gpu)?;
    compare(&out.to_vec()?, &layout, "column-parallel", |i, j| {
        expected(i, j, &|sum| Rounding::TENSOR.bound(k, sum) + F32 * bias[j].exact().abs())
    });
    Ok(())
}

/// Shapes that do not fit are errors that name both, and the rank; all ranks refuse them, and the communicator works on.
fn refusals(ranks: &Communicator) -> DistResult<()> {
    let (gpu, rank, size) = (ranks.gpu(), ranks.rank(), ranks.size());
    let rows = Shares::given(vec![4; size as usize]);
    let x = DeviceBuffer::from_slice(gpu, &[bf16::ONE; 1000])?;
    let of = |m, k| Matrix::row_major(&x, m, k);
    let refused = |result: DistResult<()>, says: &[&str]| {
        let text = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(says.iter().all(|says| text.contains(says)), "{says:?}: {text}");
    };
    let own = format!("of rank {rank} is");
    let m = rows.total();
    let mut out = DeviceBuffer::<bf16>::zeroed(gpu, 4096)?;
    let mut plan = ColumnParallel::<bf16>::new(ranks, &rows, [6, 5])?;
    let mut multiply = |a, b, d: [usize; 2]| {
        let d = MatrixMut::row_major(&mut out, d[0], d[1])?;
        plan.multiply_into(gpu, a, b, d, Options::new())
    };
    refused(multiply(of(3, 5)?, of(5, 6)?, [m, 6]), &["A", &own, "3 × 5", "4 × 5"]);
    refused(multiply(of(4, 5)?, of(4, 6)?, [m, 6]), &["B", &own, "4 × 6", "5 × 6"]);
    refused(multiply(of(4, 5)?, of(5, 6)?, [m, 7]), &["D", &own, &format!("{m} × 7"), "5 × 6"]);
    multiply(of(4, 5)?, of(5, 6)?, [m, 6])?;
    let (a, b, c) = (of(4, 5)?, of(5, 6)?, of(m, 5)?);
    let mut multiply =
        |options| plan.multiply_into(gpu, a, b, MatrixMut::row_major(&mut out, m, 6)?, options);
    refused(multiply(Options::new().beta(1.0).c(c)), &[&format!("C is {m} × 5, and D is {m} × 6")]);
    multiply(Options::new().c(c))?;

    let mut plan = RowParallel::<bf16>::in_pieces(ranks, &rows, 6, 2)?;
    let mut multiply = |a, b, d: [usize; 2], options| {
        let d = MatrixMut::row_major(&mut out, d[0], d[1])?;
        plan.multiply_into::<bf16, Plain>(gpu, a, b, d, options)
    };
    let (none, bias) = (Options::new(), x.slice(..5));
    refused(multiply(of(m + 1, 2)?, of(2, 6)?, [4, 6], none), &["A", &own, &format!("{m} × 2")]);
    refused(multiply(of(m, 2)?, of(3, 6)?, [4, 6], none), &["B", &own, "3 × 6", "2 × 6"]);
    refused(multiply(of(m, 2)?, of(2, 6)?, [4, 5], none), &["D", &own, "4 × 5", "4 × 6"]);
    refused(multiply(of(m, 2)?, of(2, 6)?, [4, 6], none.beta(1.0)), &["reads C"]);
    multiply(of(m, 2)?, of(2, 6)?, [4, 6], none)?;
    let options = Options::new().epilogue(ColumnBias).per_column(bias);
    let d = MatrixMut::row_major(&mut out, 4, 6)?;
    refused(plan.multiply_into(gpu, of(m, 2)?, of(2, 6)?, d, options), &["6", "5"]);

    let list = Shares::given(vec![4; size as usize + 1]);
    refused(RowParallel::<f32>::new(ranks, &list, 6).map(drop), &["the list of shares"]);
    if size > 1 {
        let last = size - 1;
        let unlike = RowParallel::<f32>::new(ranks, &rows, if rank == last { 7 } else { 6 });
        let says = format!("rank {last} says N = 7");
        assert!(matches!(unlike, Err(DistError::UnlikeShapes { .. })));
        refused(unlike.map(drop), &[&says, "rank 0 N = 6"]);
        let unlike = ColumnParallel::<f16>::in_pieces(ranks, &rows, [6, 5], 1 + rank as usize);
        refused(unlike.map(drop), &["rank 1 says K = 5", "in 2 pieces", "in 1 pieces"]);
    }
    ranks.synchronize(gpu)
}
