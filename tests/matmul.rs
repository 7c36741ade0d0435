//! Matrix products against f64.
//!
//! Tolerance: `reference::matmul::Rounding`, derived there. Sums of products that f32 holds exactly (small integers) are compared bit for
//! bit.

use std::io::Write;
use std::process::Command;

use bytemuck::Pod;
use cuda_std::matrix::Tf32;
use cuda_std::number::E4m3;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    Choice, Kernel, Matrix, MatrixLayout, MatrixMut, Options, Order, Tile, Tuning, choices,
    explain_views, matmul, matmul_into, product as identity, scratch_bytes, scratch_bytes_of_views,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{ColumnBias, Factor, Gelu, Plain, Then};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::matmul as expected;
use reference::matmul::Rounding;

use crate::support::{gpu, poisoned, rng, upload};

const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColumnMajor];

/// Rows, columns and sums around tiles, halves of tiles and steps.
const SIZES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [1, 64, 8],
    [2, 3, 63],
    [63, 65, 64],
    [64, 63, 65],
    [65, 127, 40],
    [127, 128, 96],
    [128, 129, 128],
    [129, 256, 72],
    [130, 257, 200],
    [40, 300, 129],
    [256, 33, 264],
];

/// An element of a test.
pub(super) trait Element: Pod + PartialEq {
    const ROUNDING: Rounding;
    fn of(value: f32) -> Self;
    fn exact(self) -> f64;
}

macro_rules! elements {
    ($($ty:ident: $rounding:expr, $of:expr, $exact:expr;)*) => {$(
        impl Element for $ty {
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

elements! {
    bf16: Rounding::TENSOR.to_bf16(), bf16::from_f32, bf16::to_f32;
    f16: Rounding::TENSOR.to_f16(), f16::from_f32, f16::to_f32;
    f32: Rounding::TENSOR, core::convert::identity, core::convert::identity;
}

/// A matrix on the host, and its layout in memory.
pub(super) struct Host<T> {
    pub layout: MatrixLayout,
    pub values: Vec<T>,
}

impl<T: Element> Host<T> {
    /// Rows begin at multiples of 16 bytes, of which some are beyond the row; between matrices lies as much again. What is beyond
    /// is NaN.
    pub fn new(layout: MatrixLayout, value: impl FnMut() -> f32) -> Self {
        Self::aligned(layout, 8, value)
    }

    /// As `new`, with rows that begin at multiples of this many elements.
    fn aligned(layout: MatrixLayout, align: usize, mut value: impl FnMut() -> f32) -> Self {
        let (vectors, neighbours) = match layout.order {
            Order::RowMajor => (layout.rows, layout.columns),
            Order::ColumnMajor => (layout.columns, layout.rows),
        };
        let leading = (neighbours + 1).next_multiple_of(align);
        let batch_stride = vectors * leading + align;
        let layout = MatrixLayout { leading, batch_stride, ..layout };
        let mut values = vec![T::of(f32::NAN); batch_stride * layout.batches];
        for batch in 0..layout.batches {
            for vector in 0..vectors {
                let first = batch * batch_stride + vector * leading;
                values[first..first + neighbours].fill_with(|| T::of(value()));
            }
        }
        Self { layout, values }
    }

    fn exact(&self) -> Vec<f64> {
        self.values.iter().map(|value| value.exact()).collect()
    }

    fn index(&self, batch: usize, i: usize, j: usize) -> usize {
        let MatrixLayout { order, leading, batch_stride, batches, .. } = self.layout;
        let inside = if order == Order::RowMajor { i * leading + j } else { j * leading + i };
        if batches == 1 { inside } else { batch * batch_stride + inside }
    }

    fn reference<'a>(&self, exact: &'a [f64], batch: usize) -> expected::Matrix<'a> {
        let MatrixLayout { rows, columns, order, leading, batch_stride, batches } = self.layout;
        let matrix = expected::Matrix {
            values: exact,
            rows,
            columns,
            leading,
            is_column_major: order == Order::ColumnMajor,
        };
        matrix.batch(if batches == 1 { 0 } else { batch }, batch_stride)
    }
}

fn one(order: Order, rows: usize, columns: usize) -> MatrixLayout {
    MatrixLayout::new(order, rows, columns)
}

pub(super) fn many(order: Order, rows: usize, columns: usize, batches: usize) -> MatrixLayout {
    MatrixLayout { batches, ..one(order, rows, columns) }
}

/// Runs a product and compares it.
fn check<T: Element + Factor, D: Element>(
    a: &Host<T>,
    b: &Host<T>,
    c: Option<&Host<D>>,
    d_layout: MatrixLayout,
    (alpha, beta): (f32, f32),
) where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let before = Host::<D>::new(d_layout, || 7.0);
    let found = product(a, b, c, &before, (alpha, beta), None).unwrap();
    compare(a, b, c, &before, (alpha, beta), &found, "");
}

/// Compares every element of D, which was `before`; what lies between its rows must have stayed.
pub(super) fn compare<T: Element + Factor, D: Element>(
    a: &Host<T>,
    b: &Host<T>,
    c: Option<&Host<D>>,
    before: &Host<D>,
    (alpha, beta): (f32, f32),
    found: &[D],
    by: &str,
) {
    let (c, d_layout) = (c.unwrap_or(before), before.layout);
    let (x, y, z) = (a.exact(), b.exact(), c.exact());
    let what = format!("{:?} times {:?} to {:?} {by}", a.layout, b.layout, before.layout);
    let mut is_inside = vec![false; found.len()];
    for batch in 0..d_layout.batches {
        let (x, y, z) = (a.reference(&x, batch), b.reference(&y, batch), c.reference(&z, batch));
        let scales = (f64::from(alpha), f64::from(beta));
        let products = expected::matmul([&x, &y], scales, Some(&z));
        for (at, product) in products.iter().enumerate() {
            let (i, j) = (at / d_layout.columns, at % d_layout.columns);
            let place = before.index(batch, i, j);
            is_inside[place] = true;
            let (value, allowed) =
                (found[place].exact(), D::ROUNDING.bound(a.layout.columns, product));
            let is_near = (value - product.value).abs() <= allowed
                || value.is_nan() && product.value.is_nan();
            assert!(
                is_near,
                "({batch}, {i}, {j}): {value} and not {} within {allowed:e}: {what}",
                product.value
            );
        }
    }
    for (place, (found, before)) in found.iter().zip(&before.values).enumerate() {
        let same = bytemuck::bytes_of(found) == bytemuck::bytes_of(before);
        assert!(is_inside[place] || same, "element {place} is not D's, and was written: {what}");
    }
}

pub(super) fn product<T: Element + Factor, D: Element>(
    a: &Host<T>,
    b: &Host<T>,
    c: Option<&Host<D>>,
    d: &Host<D>,
    (alpha, beta): (f32, f32),
    choice: Option<Choice>,
) -> GpuResult<Vec<D>>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&d.values));
    let z = c.map(|c| upload(&c.values));
    let mut options = Options::new().alpha(alpha).beta(beta);
    if let (Some(z), Some(c)) = (&z, c) {
        options = options.c(Matrix::new(z, c.layout)?);
    }
    options = choice.map_or(options, |choice| options.choice(choice));
    let mut scratch = Scratch::new(gpu())?;
    let views = (Matrix::new(&x, a.layout)?, Matrix::new(&y, b.layout)?);
    matmul_into(
        gpu(),
        views.0,
        views.1,
        MatrixMut::new(&mut out, d.layout)?,
        options,
        &mut scratch,
    )?;
    out.to_vec()
}

pub(super) fn uniform(rng: &mut StdRng) -> impl FnMut() -> f32 {
    || rng.random_range(-1.0..1.0)
}

fn every_size<T: Element + Factor>()
where
    Plain: MatmulKernel<T, T> + MatmulKernel<T, f32>,
{
    let mut rng = rng();
    for (which, [m, n, k]) in SIZES.into_iter().enumerate() {
        // Each size with one of the orders of A and B, so that each order meets many sizes.
        let (order_a, order_b) = (ORDERS[which % 2], ORDERS[which / 2 % 2]);
        let a = Host::<T>::new(one(order_a, m, k), uniform(&mut rng));
        let b = Host::<T>::new(one(order_b, k, n), uniform(&mut rng));
        check::<T, T>(&a, &b, None, one(Order::RowMajor, m, n), (1.0, 0.0));
        check::<T, f32>(&a, &b, None, one(ORDERS[which / 4 % 2], m, n), (1.0, 0.0));
    }
}

#[test]
fn bf16_of_every_size() {
    every_size::<bf16>();
}

#[test]
fn f16_of_every_size() {
    every_size::<f16>();
}

/// Every kernel, tile and division of K that there is for a product.
fn every_choice<T: Element + Factor, D: Element>(sizes: [usize; 3], orders: [Order; 3], beta: f32)
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (mut rng, [m, n, k]) = (rng(), sizes);
    let a = Host::<T>::new(one(orders[0], m, k), uniform(&mut rng));
    let b = Host::<T>::new(one(orders[1], k, n), uniform(&mut rng));
    let d = Host::<D>::new(one(orders[2], m, n), || 7.0);
    let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&d.values));
    let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let all = choices(gpu(), x, y, &MatrixMut::new(&mut out, d.layout).unwrap()).unwrap();
    for choice in all.into_iter().filter(|choice| choice.splits <= 3) {
        let run = || product(&a, &b, None, &d, (0.5, beta), Some(choice)).unwrap();
        let found = run();
        compare(&a, &b, None, &d, (0.5, beta), &found, &format!("by {choice}"));
        let bytes = |d: &[D]| bytemuck::cast_slice::<D, u8>(d).to_vec();
        assert_eq!(bytes(&found), bytes(&run()), "{choice}");
    }
}

#[test]
fn every_choice_gives_the_product() {
    let [row, column] = ORDERS;
    // Few rows and few columns; two narrow tiles; all large tiles, each not full; as many steps along K as splits, and fewer.
    every_choice::<bf16, bf16>([9, 300, 264], [row, row, row], 0.0);
    every_choice::<bf16, f32>([9, 300, 264], [row, column, column], -2.0);
    every_choice::<f16, f16>([300, 16, 500], [column, column, row], -2.0);
    every_choice::<bf16, bf16>([300, 70, 200], [row, row, column], 0.0);
    every_choice::<f16, f32>([71, 130, 72], [column, row, row], 1.0);
    every_choice::<bf16, bf16>([137, 193, 330], [row, row, row], 0.0);
    every_choice::<bf16, f32>([137, 257, 130], [column, column, row], 1.0);
}

/// A thread that writes the last column of an odd number reads no other thread's element of C, which is D.
#[test]
fn c_may_be_d_with_an_odd_number_of_columns() {
    let [row, column] = ORDERS;
    every_choice::<bf16, bf16>([9, 21, 7], [row, row, row], 1.0);
    every_choice::<bf16, f32>([21, 9, 7], [row, column, column], 1.0);
    every_choice::<f16, f16>([70, 67, 40], [row, column, row], -2.0);
}

#[test]
fn every_tile_is_among_the_choices() {
    let x = upload(&vec![bf16::ONE; 300 * 512]);
    let few = Matrix::row_major(&x, 9, 512).unwrap();
    let many = Matrix::column_major(&x, 512, 300).unwrap();
    let mut d = poisoned::<bf16>(9 * 300);
    let view = MatrixMut::row_major(&mut d, 9, 300).unwrap();
    let all = choices(gpu(), few, many, &view).unwrap();
    assert!(all.windows(2).all(|two| two[0].cycles <= two[1].cycles));
    assert_eq!(all[0], explain_views(gpu(), few, many, &view).unwrap());
    let has = |tile, parts| {
        all.iter().any(|choice| {
            matches!(choice.kernel, Kernel::Hopper { tile: own, .. } if own == tile)
                && choice.parts == parts
        })
    };
    if all.iter().any(|choice| matches!(choice.kernel, Kernel::Hopper { .. })) {
        for (tile, most) in [
            (Tile::Wide, 1),
            (Tile::Middle, 1),
            (Tile::Square, 8),
            (Tile::Narrow, 8),
            (Tile::Slim, 8),
        ] {
            assert!(has(tile, 1) && has(tile, most), "{tile:?}");
        }
    }
    // Another product's choice is refused.
    let (turned, many) = (Matrix::row_major(&x, 512, 9).unwrap(), Matrix::row_major(&x, 300, 512));
    let mut d = poisoned::<bf16>(300 * 9);
    let view = MatrixMut::row_major(&mut d, 300, 9).unwrap();
    let mut scratch = Scratch::new(gpu()).unwrap();
    let options = Options::new().choice(Choice { blocks: 1 << 20, ..all[0] });
    let error = matmul_into(gpu(), many.unwrap(), turned, view, options, &mut scratch).unwrap_err();
    assert!(error.to_string().contains("not a choice for this product"), "{error}");
}

#[test]
fn no_more_scratch_is_taken_than_allowed() {
    let [row, column] = ORDERS;
    let mut rng = rng();
    // Rows that no copy engine addresses, which are copied; and a long sum, which may be divided.
    for ([m, n, k], order_of_b, align) in [([130, 70, 129], row, 1), ([40, 48, 1200], column, 8)] {
        let a = Host::<bf16>::aligned(one(row, m, k), align, uniform(&mut rng));
        let b = Host::<bf16>::aligned(one(order_of_b, k, n), align, uniform(&mut rng));
        let before = Host::<bf16>::new(one(row, m, n), || 7.0);
        let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&before.values));
        let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
        let mut scratch = Scratch::new(gpu()).unwrap();
        let least = scratch.size_bytes();
        let mut run = |choice: Option<Choice>| {
            let options = Options::new().most_scratch_bytes(0);
            let options = choice.map_or(options, |choice| options.choice(choice));
            let view = MatrixMut::new(&mut out, before.layout)?;
            matmul_into(gpu(), x, y, view, options, &mut scratch)?;
            out.to_vec()
        };
        let found = run(None).unwrap();
        compare(&a, &b, None, &before, (1.0, 0.0), &found, "without scratch");
        let mut other = upload(&before.values);
        let view = MatrixMut::new(&mut other, before.layout).unwrap();
        let mut all = choices(gpu(), x, y, &view).unwrap().into_iter();
        if let Some(needy) = all.find(|choice| choice.splits > 1 || choice.packs) {
            let error = run(Some(needy)).unwrap_err();
            assert!(error.to_string().contains("more than 0 bytes"), "{error}");
        }
        assert_eq!(scratch.size_bytes(), least);
    }
}

/// A file of measurements that takes the last of a product's choices; the environment of a child names it.
#[test]
fn measured_choices_are_taken() {
    let (a, b) = (upload(&[bf16::ONE; 300 * 264]), upload(&[bf16::ONE; 264 * 200]));
    let mut d = poisoned::<bf16>(300 * 200);
    let (a, b) = (Matrix::row_major(&a, 300, 264), Matrix::row_major(&b, 264, 200));
    let (a, b) = (a.unwrap(), b.unwrap());
    let view = MatrixMut::row_major(&mut d, 300, 200).unwrap();
    let last = *choices(gpu(), a, b, &view).unwrap().last().unwrap();
    let mut tuning = Tuning::new(gpu().name(), "a driver", "today");
    tuning.insert(identity(a, b, &view).unwrap().unwrap(), &last, 1.0, 2.0);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{tuning}").unwrap();
    assert_eq!(Tuning::read(file.path()).unwrap(), tuning);

    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "matmul::print_choices"]);
    let output = command.env("FERROWARP_TUNING", file.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let told = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin)).unwrap();
    let words = last.to_string();
    let launch = words.split(';').next().unwrap();
    assert_eq!(told("tuned: "), format!("{launch}; the fastest that was measured"));
    assert!(told("other: ").ends_with("by the cost model"), "{text}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn print_choices() {
    for (name, k) in [("tuned", 264), ("other", 256)] {
        let (a, b) = (upload(&vec![bf16::ONE; 300 * k]), upload(&vec![bf16::ONE; k * 200]));
        let mut d = poisoned::<bf16>(300 * 200);
        let (a, b) = (Matrix::row_major(&a, 300, k), Matrix::row_major(&b, k, 200));
        let (a, b) = (a.unwrap(), b.unwrap());
        let view = MatrixMut::row_major(&mut d, 300, 200).unwrap();
        println!("\n{name}: {}", explain_views(gpu(), a, b, &view).unwrap());
        let mut scratch = Scratch::new(gpu()).unwrap();
        matmul_into(gpu(), a, b, view, Options::new(), &mut scratch).unwrap();
        assert_eq!(d.to_vec().unwrap(), vec![bf16::from_f32(k as f32); 300 * 200]);
    }
}

#[test]
fn all_orders_of_all_matrices() {
    let mut rng = rng();
    for at in 0..16 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|bit| ORDERS[at >> bit & 1]);
        let (m, n, k) = (137, 141, 150);
        let x = Host::<bf16>::new(one(a, m, k), uniform(&mut rng));
        let y = Host::<bf16>::new(one(b, k, n), uniform(&mut rng));
        let z = Host::<bf16>::new(one(c, m, n), uniform(&mut rng));
        check::<bf16, bf16>(&x, &y, Some(&z), one(d, m, n), (0.5, -2.0));
    }
}

#[test]
fn batches_and_one_matrix_for_all_of_them() {
    let mut rng = rng();
    let (m, n, k, batches) = (70, 136, 72, 3);
    for (of_a, of_b) in [(3, 3), (1, 3), (3, 1), (1, 1)] {
        let a = Host::<bf16>::new(many(Order::RowMajor, m, k, of_a), uniform(&mut rng));
        let b = Host::<bf16>::new(many(Order::ColumnMajor, k, n, of_b), uniform(&mut rng));
        let c = Host::<f32>::new(many(Order::RowMajor, m, n, of_b), uniform(&mut rng));
        check::<bf16, f32>(&a, &b, Some(&c), many(Order::RowMajor, m, n, batches), (1.0, 1.0));
    }
}

#[test]
fn a_long_sum_is_split_and_the_same_again() {
    let mut rng = rng();
    let (m, n, k) = (65, 130, 2100);
    let a = Host::<bf16>::new(one(Order::RowMajor, m, k), uniform(&mut rng));
    let b = Host::<bf16>::new(one(Order::ColumnMajor, k, n), uniform(&mut rng));
    let d = Host::<f32>::new(one(Order::ColumnMajor, m, n), uniform(&mut rng));
    let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&d.values));
    let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let all = choices(gpu(), x, y, &MatrixMut::new(&mut out, d.layout).unwrap()).unwrap();
    // Splits that a cluster adds, and, where there are such kernels, splits that a second kernel adds.
    let split = all.iter().find(|choice| choice.splits > 3).copied();
    for choice in [Some(all[0]), split].into_iter().flatten() {
        let [first, second] =
            [(); 2].map(|()| product(&a, &b, None, &d, (3.0, 0.5), Some(choice)).unwrap());
        compare(&a, &b, None, &d, (3.0, 0.5), &first, &format!("by {choice}"));
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&first), bits(&second));
    }
}

#[test]
fn few_rows_in_every_order() {
    let mut rng = rng();
    // Rows around 8 and 16, columns around a block's 32, sums around chunks of 32 and runs of two.
    let sizes = [
        [1, 1, 1],
        [1, 33, 31],
        [3, 32, 64],
        [7, 31, 33],
        [8, 40, 520],
        [9, 100, 1111],
        [15, 65, 96],
        [16, 130, 200],
    ];
    for (which, [m, n, k]) in sizes.into_iter().enumerate() {
        for orders in 0..4 {
            let (of_a, of_b) = (ORDERS[orders % 2], ORDERS[orders / 2]);
            let of_d = ORDERS[(which + orders) % 2];
            // Rows at multiples of 16 bytes, and of two.
            let align = [8, 1][(which + orders / 2) % 2];
            let a = Host::<bf16>::aligned(one(of_a, m, k), align, uniform(&mut rng));
            let b = Host::<bf16>::aligned(one(of_b, k, n), align, uniform(&mut rng));
            let c = Host::<bf16>::new(one(of_a, m, n), uniform(&mut rng));
            check::<bf16, bf16>(&a, &b, Some(&c), one(of_d, m, n), (0.5, -2.0));
            // The same as few columns.
            let turned = |order: Order| order.transposed();
            let a = Host::<f16>::aligned(one(turned(of_b), n, k), align, uniform(&mut rng));
            let b = Host::<f16>::aligned(one(turned(of_a), k, m), align, uniform(&mut rng));
            check::<f16, f32>(&a, &b, None, one(of_d, n, m), (1.0, 0.0));
        }
    }
}

#[test]
fn few_rows_of_many_matrices() {
    let mut rng = rng();
    let (m, n, k, batches) = (5, 40, 72, 3);
    for (of_a, of_b) in [(3, 3), (1, 3), (3, 1)] {
        let a = Host::<bf16>::new(many(Order::RowMajor, m, k, of_a), uniform(&mut rng));
        let b = Host::<bf16>::new(many(Order::ColumnMajor, k, n, of_b), uniform(&mut rng));
        let c = Host::<f32>::new(many(Order::RowMajor, m, n, of_b), uniform(&mut rng));
        check::<bf16, f32>(&a, &b, Some(&c), many(Order::RowMajor, m, n, batches), (1.0, 1.0));
    }
}

#[test]
fn long_sums_of_few_rows_are_split_and_the_same_again() {
    let mut rng = rng();
    // More splits than one thread adds, and fewer.
    for (m, n, k, is_shared) in [(3, 22, 9000, true), (2, 45, 6000, false)] {
        // Rows that the copy engine does not address.
        let a = Host::<bf16>::aligned(one(Order::RowMajor, m, k), 1, uniform(&mut rng));
        let b = Host::<bf16>::aligned(one(Order::ColumnMajor, k, n), 1, uniform(&mut rng));
        let (x, y) = (upload(&a.values), upload(&b.values));
        let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
        let mut d = poisoned::<bf16>(m * n);
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        let skinny = |choice: &Choice| matches!(choice.kernel, Kernel::Skinny { .. });
        let all = choices(gpu(), x, y, &view).unwrap();
        let choice = all.into_iter().find(skinny).expect("few rows");
        assert_eq!((choice.splits > 1, choice.splits >= 16), (true, is_shared), "{choice}");
        check::<bf16, bf16>(&a, &b, None, one(Order::ColumnMajor, m, n), (3.0, 0.5));
        let turned = Host::<bf16>::aligned(one(Order::ColumnMajor, n, k), 1, uniform(&mut rng));
        let few = Host::<bf16>::aligned(one(Order::RowMajor, k, m), 1, uniform(&mut rng));
        check::<bf16, f32>(&turned, &few, None, one(Order::RowMajor, n, m), (1.0, 0.5));
        let d = Host::<f32>::new(one(Order::RowMajor, m, n), || 0.0);
        let [first, second] =
            [(); 2].map(|()| product(&a, &b, None, &d, (1.0, 0.0), None).unwrap());
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&first), bits(&second));
    }
}

#[test]
fn operands_may_lie_anywhere() {
    let mut rng = rng();
    for at in 0..4 {
        let [a, b] = [0, 1].map(|bit| ORDERS[at >> bit & 1]);
        let (m, n, k) = (67, 71, 75);
        let x = Host::<bf16>::aligned(one(a, m, k), 1, uniform(&mut rng));
        let y = Host::<bf16>::aligned(one(b, k, n), 1, uniform(&mut rng));
        check::<bf16, bf16>(&x, &y, None, one(ORDERS[at % 2], m, n), (0.5, -2.0));
    }
    // The address alone: by any kernel, of which some multiply a copy.
    let (m, n, k) = (40, 24, 64);
    let odd = upload(&vec![bf16::ONE; m * k + 1]);
    let b = upload(&vec![bf16::from_f32(0.5); n * k]);
    let mut d = poisoned::<bf16>(m * n);
    let view = MatrixMut::row_major(&mut d, m, n).unwrap();
    let a = Matrix::row_major(odd.slice(1..), m, k).unwrap();
    let b = Matrix::row_major(&b, n, k).unwrap().transposed();
    let all = choices(gpu(), a, b, &view).unwrap();
    assert!(all.iter().any(|choice| choice.to_string().contains("any alignment")), "{all:?}");
    assert!(all.iter().filter(|choice| choice.packs).count() > 3, "{all:?}");
    let mut scratch = Scratch::new(gpu()).unwrap();
    for choice in all {
        d.copy_from_host(&vec![bf16::NAN; m * n]).unwrap();
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        matmul_into(gpu(), a, b, view, Options::new().choice(choice), &mut scratch).unwrap();
        assert!(d.to_vec().unwrap().iter().all(|x| x.to_f32() == 32.0), "{choice}");
    }
}

/// Every choice for elements of other sizes than 16 bits, in the orders that warpgroups multiply and in those that they do not.
#[test]
fn every_choice_multiplies_other_elements() {
    let mut rng = rng();
    let mut small = || rng.random_range(-4..=4) as f32;
    // More than one step of either, and one that is not full.
    let (m, n, k) = (144, 152, 272);
    let [x, y] = [m * k, k * n].map(|len| (0..len).map(|_| small()).collect::<Vec<_>>());
    let exact = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (wide_x, wide_y) = (exact(&x), exact(&y));
    for [of_a, of_b] in
        [[Order::RowMajor, Order::ColumnMajor], [Order::ColumnMajor, Order::RowMajor]]
    {
        let matrix = |values, rows, columns, order| expected::Matrix {
            is_column_major: order == Order::ColumnMajor,
            leading: MatrixLayout::new(order, rows, columns).leading,
            ..expected::Matrix::row_major(values, rows, columns)
        };
        let (a, b) = (matrix(&wide_x, m, k, of_a), matrix(&wide_y, k, n, of_b));
        let right = expected::matmul([&a, &b], (1.0, 0.0), None);
        let (layout_a, layout_b) = (one(of_a, m, k), one(of_b, k, n));
        let bytes = |x: &[f32]| upload(&x.iter().map(|x| E4m3::saturating(*x)).collect::<Vec<_>>());
        let ((p, q), (r, s)) = ((upload(&x), upload(&y)), (bytes(&x), bytes(&y)));
        let [wide_a, wide_b] =
            [(&p, layout_a), (&q, layout_b)].map(|(x, layout)| Matrix::new(x, layout).unwrap());
        every_choice_is_exact::<Tf32>(wide_a.as_tf32(), wide_b.as_tf32(), &right);
        let [a, b] =
            [(&r, layout_a), (&s, layout_b)].map(|(x, layout)| Matrix::new(x, layout).unwrap());
        every_choice_is_exact::<E4m3>(a, b, &right);
    }
}

fn every_choice_is_exact<T: Factor>(a: Matrix<T>, b: Matrix<T>, right: &[expected::Product])
where
    Plain: MatmulKernel<T, f32>,
{
    let (m, n) = (a.layout().rows, b.layout().columns);
    let (mut d, mut scratch) = (poisoned::<f32>(m * n), Scratch::new(gpu()).unwrap());
    let all = choices(gpu(), a, b, &MatrixMut::row_major(&mut d, m, n).unwrap()).unwrap();
    for choice in all {
        d.copy_from_host(&vec![f32::NAN; m * n]).unwrap();
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        matmul_into(gpu(), a, b, view, Options::new().choice(choice), &mut scratch).unwrap();
        let found = d.to_vec().unwrap();
        let wrong = found.iter().zip(right).position(|(x, y)| f64::from(*x) != y.value);
        assert_eq!(wrong, None, "{choice}");
    }
}

#[test]
fn integers_are_exact() {
    let mut rng = rng();
    let (m, n, k) = (129, 257, 192);
    let mut small = || rng.random_range(-8..=8) as f32;
    let a = Host::<f16>::new(one(Order::ColumnMajor, m, k), &mut small);
    let b = Host::<f16>::new(one(Order::RowMajor, k, n), &mut small);
    let d = Host::<f32>::new(one(Order::RowMajor, m, n), || 0.0);
    let found = product(&a, &b, None, &d, (1.0, 0.0), None).unwrap();
    let (x, y) = (a.exact(), b.exact());
    let products = expected::matmul([&a.reference(&x, 0), &b.reference(&y, 0)], (1.0, 0.0), None);
    for (at, product) in products.iter().enumerate() {
        assert_eq!(f64::from(found[d.index(0, at / n, at % n)]), product.value, "element {at}");
    }
}

#[test]
fn d_is_written_wherever_it_is() {
    // Rows of D that the copy engine cannot store, which threads do.
    let (m, n, k) = (70, 131, 64);
    let a = upload(&vec![bf16::ONE; m * k]);
    let b = upload(&vec![bf16::from_f32(0.5); n * k]);
    let mut d = poisoned::<bf16>(m * n + 1);
    let poison = d.to_vec().unwrap()[0];
    let view = MatrixMut::row_major(d.slice_mut(1..), m, n).unwrap();
    let (a, b) = (Matrix::row_major(&a, m, k).unwrap(), Matrix::row_major(&b, n, k).unwrap());
    let mut scratch = Scratch::new(gpu()).unwrap();
    matmul_into(gpu(), a, b.transposed(), view, Options::new(), &mut scratch).unwrap();
    let found = d.to_vec().unwrap();
    assert_eq!(found[0].to_bits(), poison.to_bits());
    assert!(found[1..].iter().all(|x| x.to_f32() == 32.0));
}

#[test]
fn nan_and_infinity_go_through() {
    // By tiles, and by the kernel for few rows.
    nan_and_infinity_go_through_rows(66);
    nan_and_infinity_go_through_rows(7);
}

fn nan_and_infinity_go_through_rows(m: usize) {
    let (n, k) = (72, 64);
    let special = |at: usize, value: f32| {
        let mut count = 0;
        move || {
            count += 1;
            if count == at { value } else { 1.0 }
        }
    };
    let b = Host::<bf16>::new(one(Order::RowMajor, k, n), || 1.0);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let a = Host::<bf16>::new(one(Order::RowMajor, m, k), special(5 * k + 3, value));
        let d = Host::<bf16>::new(one(Order::RowMajor, m, n), || 0.0);
        for alpha in [1.0, 0.0] {
            let found = product(&a, &b, None, &d, (alpha, 0.0), None).unwrap();
            let at = |i, j| found[d.index(0, i, j)].to_f32();
            let expected = alpha * value;
            assert!(
                at(5, 7) == expected || at(5, 7).is_nan() && expected.is_nan(),
                "{value} {alpha}"
            );
            assert_eq!((at(4, 7), at(6, 0)), (alpha * 64.0, alpha * 64.0));
        }
    }
}

#[test]
fn a_bias_and_an_activation_are_part_of_the_product() {
    // By tiles of warpgroups, and of warps; with few rows, few columns, and a K that is split.
    for (sizes, align) in [
        ([70, 131, 64], 8),
        ([70, 131, 64], 1),
        ([9, 131, 64], 8),
        ([131, 9, 64], 8),
        ([9, 131, 64], 1),
        ([131, 9, 64], 1),
        ([2, 45, 6000], 8),
        ([2, 45, 6000], 1),
    ] {
        a_bias_and_an_activation(sizes, align);
    }
}

fn a_bias_and_an_activation([m, n, k]: [usize; 3], align: usize) {
    let mut rng = rng();
    let a = Host::<bf16>::aligned(one(Order::RowMajor, m, k), align, uniform(&mut rng));
    let b = Host::<bf16>::aligned(one(Order::ColumnMajor, k, n), align, uniform(&mut rng));
    let bias: Vec<bf16> = (0..n).map(|_| bf16::from_f32(rng.random_range(-2.0..2.0))).collect();
    let (x, y, vector) = (upload(&a.values), upload(&b.values), upload(&bias));
    let (left, right) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let mut scratch = Scratch::new(gpu()).unwrap();
    let products = {
        let (x, y) = (a.exact(), b.exact());
        expected::matmul([&a.reference(&x, 0), &b.reference(&y, 0)], (0.5, 0.0), None)
    };
    for order in ORDERS {
        let layout = MatrixLayout::new(order, m, n);
        let mut d = poisoned::<bf16>(m * n);
        let options = Options::new().alpha(0.5).per_column(&vector);
        let options = options.epilogue(Then(ColumnBias, Gelu));
        let view = MatrixMut::new(&mut d, layout).unwrap();
        matmul_into(gpu(), left, right, view, options, &mut scratch).unwrap();
        let found = d.to_vec().unwrap();
        for (at, product) in products.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let place = if order == Order::RowMajor { i * n + j } else { j * m + i };
            let value = product.value + bias[j].exact();
            let erf = cuda_std::math::double_erf::erf(value * std::f64::consts::FRAC_1_SQRT_2);
            let expected = 0.5 * value * (1.0 + erf);
            // The slope of GELU is below 1.13; its own error is below |x| 2^-22; the result is rounded to bf16.
            let before =
                1.13 * Rounding::TENSOR.bound(k, product) + (value.abs() + 1.0) * 2f64.powi(-21);
            let allowed = before + (expected.abs() + before) * 2f64.powi(-8);
            let found = found[place].exact();
            assert!(
                (found - expected).abs() <= allowed,
                "({i}, {j}) {order:?}: {found} and not {expected}"
            );
        }
    }
    // The vector has an element for each column, and is there.
    let mut refused = |options: Options<'_, bf16, ColumnBias>| {
        let mut d = poisoned::<bf16>(m * n);
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        matmul_into(gpu(), left, right, view, options, &mut scratch).unwrap_err()
    };
    let short = upload(&bias[1..]);
    let error = refused(Options::new().epilogue(ColumnBias).per_column(&short));
    assert!(matches!(error, GpuError::SizeMismatch { expected, .. } if expected == n), "{error}");
    let error = refused(Options::new().epilogue(ColumnBias));
    assert!(error.to_string().contains("`Options::per_column`"), "{error}");
}

#[test]
fn c_is_not_read_where_beta_is_zero() {
    let mut rng = rng();
    for k in [0, 64] {
        let a = Host::<bf16>::new(one(Order::RowMajor, 65, k), uniform(&mut rng));
        let b = Host::<bf16>::new(one(Order::RowMajor, k, 72), uniform(&mut rng));
        let c = Host::<bf16>::new(one(Order::RowMajor, 65, 72), || f32::NAN);
        check::<bf16, bf16>(&a, &b, Some(&c), one(Order::RowMajor, 65, 72), (1.0, 0.0));
    }
}

#[test]
fn an_empty_sum_is_beta_times_c() {
    let mut rng = rng();
    for order in ORDERS {
        let a = Host::<f16>::new(one(Order::RowMajor, 65, 0), || 0.0);
        let b = Host::<f16>::new(one(Order::RowMajor, 0, 72), || 0.0);
        let c = Host::<f32>::new(one(order, 65, 72), uniform(&mut rng));
        check::<f16, f32>(&a, &b, Some(&c), one(Order::RowMajor, 65, 72), (1.0, 2.0));
        // Without C it is D's own values.
        check::<f16, f32>(&a, &b, None, one(order, 65, 72), (1.0, 2.0));
    }
}

#[test]
fn empty_matrices_are_left_alone() {
    for [m, n] in [[0, 5], [5, 0], [0, 0]] {
        let a = Host::<bf16>::new(one(Order::RowMajor, m, 8), || 1.0);
        let b = Host::<bf16>::new(one(Order::RowMajor, 8, n), || 1.0);
        check::<bf16, bf16>(&a, &b, None, one(Order::RowMajor, m, n), (1.0, 1.0));
    }
    let x = upload(&[bf16::ONE; 64]);
    let empty = Matrix::row_major(&x, 8, 0).unwrap();
    let d = matmul(gpu(), empty, empty.transposed()).unwrap();
    assert_eq!(d.to_vec().unwrap(), [bf16::ZERO; 64]);
}

/// The message of a product that is refused.
fn refused(a: MatrixLayout, b: MatrixLayout, d: MatrixLayout) -> String {
    let (x, y) = (upload(&vec![bf16::ONE; 4096]), upload(&vec![bf16::ONE; 4096]));
    let mut out = poisoned::<bf16>(4096);
    let (x, y) = (Matrix::new(&x, a).unwrap(), Matrix::new(&y, b).unwrap());
    let out = MatrixMut::new(&mut out, d).unwrap();
    let mut scratch = Scratch::new(gpu()).unwrap();
    matmul_into(gpu(), x, y, out, Options::new(), &mut scratch).unwrap_err().to_string()
}

#[test]
fn misuse_is_refused() {
    let row = |m, n| one(Order::RowMajor, m, n);
    assert_eq!(
        refused(row(16, 32), row(16, 8), row(16, 8)),
        "multiplying matrices: A is 16 × 32 and B is 16 × 8: A has 32 columns, and B 16 rows"
    );
    let shared = MatrixLayout { batches: 2, batch_stride: 8, ..row(16, 8) };
    assert!(refused(row(16, 32), row(32, 8), shared).contains("are at the same place"));
    let x = upload(&[bf16::ONE; 100]);
    let short = Matrix::row_major(&x, 10, 11).unwrap_err();
    assert!(matches!(short, GpuError::SizeMismatch { expected: 110, found: 100, .. }), "{short}");
    let narrow = Matrix::row_major(&x, 5, 10).unwrap().with_leading_dimension(9).unwrap_err();
    assert!(narrow.to_string().contains("a leading dimension of 9"), "{narrow}");
}

#[test]
fn scratch_is_as_large_as_it_says() {
    // One tile with a long sum: blocks divide K, and a second kernel adds their sums. Aligned rows, and rows that are copied first.
    let [m, n, k] = [100, 90, 40_000];
    for leading in [k, k + 1] {
        let (a, b) = (upload(&vec![bf16::ONE; m * leading]), upload(&vec![bf16::ONE; n * leading]));
        let [a, b] = [Matrix::row_major(&a, m, k), Matrix::row_major(&b, n, k)].map(|matrix| {
            matrix.and_then(|matrix| matrix.with_leading_dimension(leading)).unwrap()
        });
        let b = b.transposed();
        let mut d: DeviceBuffer<f32> = poisoned(m * n);
        let view = MatrixMut::column_major(&mut d, m, n).unwrap();
        let choice = explain_views(gpu(), a, b, &view).unwrap();
        assert!(choice.splits > 1 && choice.packs == (leading > k), "{choice}");
        let bytes = scratch_bytes_of_views(gpu(), a, b, &view).unwrap();
        let copies = if choice.packs { (m + n) * k * size_of::<bf16>() } else { 0 };
        assert!(bytes >= 2 * m * n * 4 + copies, "{bytes}");
        if !choice.packs {
            assert!(bytes <= scratch_bytes(gpu(), [m, n, k], 1));
        }
        let mut scratch = Scratch::new(gpu()).unwrap();
        scratch.reserve(gpu(), bytes).unwrap();
        let before = scratch.size_bytes();
        matmul_into(gpu(), a, b, view, Options::new(), &mut scratch).unwrap();
        assert_eq!(scratch.size_bytes(), before);
        assert!(d.to_vec().unwrap().iter().all(|x| *x == k as f32), "{choice}");
    }
}
