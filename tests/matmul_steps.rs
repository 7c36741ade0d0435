//! The steps of matrix products, and the element types of the `mma` kernel, against f64.
//!
//! Where all products and sums are integers that f32 holds exactly, results are compared bit for bit. Elsewhere the tolerance is
//! that of `reference::matmul::Rounding`, derived there.

use bytemuck::Pod;
use cuda_std::launch::Instance;
use cuda_std::number::E4m3;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    self, Kernel, Matrix, MatrixLayout, MatrixMut, Options, Order, double_into,
    double_scratch_bytes, explain_views, integer_choices, integer_into, integer_scratch_bytes,
    matmul_into, naive_into, registers_into, three_tf32_choices, three_tf32_into,
    three_tf32_scratch_bytes, tiled_into, warps_into,
};
use ferrowarp::{Gpu, GpuResult};
use kernels_gpu::matmul::form::{MatmulKernel, SQUARE, WIDE};
use kernels_gpu::matmul::hopper::hopper_integer;
use kernels_gpu::matmul::warps::warps_integer;
use kernels_gpu::matmul::{Factor, Integer, Plain};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::matmul::{self as expected, Rounding};

use crate::support::{gpu, poisoned, rng, upload};

const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColumnMajor];

/// An element of a test.
trait Element: Pod + PartialEq + std::fmt::Debug {
    /// The nearest value.
    fn of(value: f64) -> Self;
    /// The same value.
    fn exact(self) -> f64;
}

macro_rules! elements {
    ($($ty:ty: $of:expr, $exact:expr;)*) => {$(
        impl Element for $ty {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn exact(self) -> f64 {
                $exact(self)
            }
        }
    )*};
}

elements! {
    bf16: bf16::from_f64, bf16::to_f64;
    f16: f16::from_f64, f16::to_f64;
    f32: |x| x as f32, f64::from;
    f64: |x| x, |x| x;
    E4m3: |x| E4m3::saturating(x as f32), |x: E4m3| x.widen().into();
    i32: |x| x as i32, f64::from;
    i8: |x| x as i8, f64::from;
    u8: |x| x as u8, f64::from;
}

/// Matrices on the host and on the device, with `gap` elements between rows and two more between matrices.
struct Both<T: Pod> {
    layout: MatrixLayout,
    host: Vec<T>,
    device: DeviceBuffer<T>,
}

impl<T: Element> Both<T> {
    fn new(layout: MatrixLayout, gap: usize, mut value: impl FnMut() -> f64) -> Self {
        let tight = MatrixLayout::new(layout.order, layout.rows, layout.columns);
        let leading = tight.leading + gap;
        let vectors = if layout.order == Order::RowMajor { layout.rows } else { layout.columns };
        let batch_stride = leading * vectors + 2 * usize::from(gap > 0);
        let layout = MatrixLayout { leading, batch_stride, ..layout };
        let host: Vec<T> = (0..batch_stride * layout.batches).map(|_| T::of(value())).collect();
        Self { layout, device: upload(&host), host }
    }

    fn view(&self) -> Matrix<'_, T> {
        Matrix::new(&self.device, self.layout).unwrap()
    }

    fn index(&self, batch: usize, row: usize, column: usize) -> usize {
        let (major, minor) =
            if self.layout.order == Order::RowMajor { (row, column) } else { (column, row) };
        batch * self.layout.batch_stride + major * self.layout.leading + minor
    }

    fn exact(&self) -> Vec<f64> {
        self.host.iter().map(|value| value.exact()).collect()
    }
}

fn reference(values: &[f64], layout: MatrixLayout, batch: usize) -> expected::Matrix<'_> {
    let MatrixLayout { rows, columns, order, leading, batch_stride, .. } = layout;
    let is_column_major = order == Order::ColumnMajor;
    expected::Matrix { values, rows, columns, leading, is_column_major }.batch(batch, batch_stride)
}

/// A product to be tested: sizes, orders of A, B and D, matrices, and elements between rows.
#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: [usize; 3],
    orders: [Order; 3],
    batches: usize,
    gap: usize,
    scales: (f64, f64),
}

/// Sizes around tiles, halves of tiles and stages; both orders of each matrix; aligned rows and rows that are not.
fn cases() -> Vec<Case> {
    let [row, column] = ORDERS;
    let one = |sizes, orders, gap| Case { sizes, orders, batches: 1, gap, scales: (1.0, 0.0) };
    let mut cases = Vec::new();
    for a in ORDERS {
        for b in ORDERS {
            // Whole tiles and stages, 16-byte rows; ragged in each direction; no row aligned.
            cases.push(one([128, 128, 64], [a, b, row], 0));
            cases.push(one([129, 72, 88], [a, b, row], 0));
            cases.push(one([33, 131, 37], [a, b, column], 1));
        }
    }
    cases.push(one([1, 1, 1], [row, row, row], 0));
    cases.push(one([1, 300, 16], [row, column, column], 0));
    cases.push(one([260, 5, 200], [column, row, row], 3));
    cases.push(one([7, 9, 0], [row, row, row], 0));
    let scaled = Case { scales: (2.0, -1.0), ..one([65, 34, 20], [row, row, row], 2) };
    cases.push(scaled);
    cases.push(Case { batches: 3, orders: [column, column, column], ..scaled });
    cases
}

/// Runs `op` and compares every element of D with `right(index, product, found)`; what lies between the rows of D must stay.
fn check<T: Element, D: Element>(
    case: Case,
    mut value: impl FnMut() -> f64,
    op: impl Fn(&Gpu, Matrix<T>, Matrix<T>, MatrixMut<D>, Case) -> GpuResult<()>,
    right: impl Fn(&expected::Product, D) -> bool,
) {
    let [m, n, k] = case.sizes;
    let layout = |order, rows, columns| MatrixLayout {
        batches: case.batches,
        ..MatrixLayout::new(order, rows, columns)
    };
    let a = Both::<T>::new(layout(case.orders[0], m, k), case.gap, &mut value);
    let b = Both::<T>::new(layout(case.orders[1], k, n), case.gap, &mut value);
    let mut d = Both::<D>::new(layout(case.orders[2], m, n), case.gap, || 3.0);
    let view = MatrixMut::new(&mut d.device, d.layout).unwrap();
    op(gpu(), a.view(), b.view(), view, case).unwrap();
    let found = d.device.to_vec().unwrap();
    let (x, y, z) = (a.exact(), b.exact(), d.exact());
    let mut is_inside = vec![false; found.len()];
    for batch in 0..case.batches {
        let (x, y) = (reference(&x, a.layout, batch), reference(&y, b.layout, batch));
        let z = reference(&z, d.layout, batch);
        for (i, product) in expected::matmul([&x, &y], case.scales, Some(&z)).iter().enumerate() {
            let at = d.index(batch, i / n, i % n);
            is_inside[at] = true;
            assert!(
                right(product, found[at]),
                "{case:?}: element {i} of matrix {batch} is {:?}; expected {product:?}",
                found[at]
            );
        }
    }
    for (at, is_inside) in is_inside.into_iter().enumerate() {
        assert!(is_inside || found[at] == d.host[at], "{case:?}: {at} between rows was written");
    }
}

/// Integers from -4 to 4: products and sums are exact.
fn integers(rng: &mut StdRng) -> impl FnMut() -> f64 {
    move || f64::from(rng.random_range(-4i32..=4))
}

/// Numbers in -1..1, most with all the bits that f32 has.
fn fractions(rng: &mut StdRng) -> impl FnMut() -> f64 {
    move || f64::from(rng.random_range(-1.0f32..1.0))
}

fn options<D: Pod>(case: Case) -> Options<'static, D> {
    Options::new().alpha(case.scales.0 as f32).beta(case.scales.1 as f32)
}

/// The product in scratch memory of its own.
fn own_scratch<T: Factor, D: Pod>(
    gpu: &Gpu,
    a: Matrix<T>,
    b: Matrix<T>,
    d: MatrixMut<D>,
    options: Options<D>,
) -> GpuResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    matmul_into(gpu, a, b, d, options, &mut Scratch::new(gpu)?)
}

/// The product of f32 rounded to TF32.
fn tf32_into(
    gpu: &Gpu,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: MatrixMut<f32>,
    options: Options<f32>,
) -> GpuResult<()> {
    own_scratch(gpu, a.as_tf32(), b.as_tf32(), d, options)
}

/// [`tf32_into`] by warps, on any device.
fn tf32_by_warps(
    gpu: &Gpu,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: MatrixMut<f32>,
    options: Options<f32>,
) -> GpuResult<()> {
    warps_into(gpu, a.as_tf32(), b.as_tf32(), d, options)
}

/// The product of f32 as three products of TF32.
fn three_tf32(
    gpu: &Gpu,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: MatrixMut<f32>,
    options: Options<f32>,
) -> GpuResult<()> {
    three_tf32_into(gpu, a, b, d, options, &mut Scratch::new(gpu)?)
}

/// [`three_tf32`] by choice `WHICH` of those that there are, the fastest first: warps, and both tiles of warpgroups.
fn three_tf32_by<const WHICH: usize>(
    gpu: &Gpu,
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: MatrixMut<f32>,
    options: Options<f32>,
) -> GpuResult<()> {
    let choices = three_tf32_choices(gpu, a, b, &d)?;
    three_tf32(gpu, a, b, d, options.choice(choices[WHICH % choices.len()]))
}

/// Every case with integers, bit for bit, and two with fractions, within the bound.
macro_rules! step_tests {
    ($($test:ident: $op:ident, $t:ty, $d:ty, $rounding:expr;)*) => {$(
        #[test]
        fn $test() {
            let mut rng = rng();
            let run = |gpu: &Gpu, a: Matrix<$t>, b: Matrix<$t>, d: MatrixMut<$d>, case: Case| {
                $op(gpu, a, b, d, options(case))
            };
            for case in cases() {
                let exact = |product: &expected::Product, found: $d| found == <$d>::of(product.value);
                check::<$t, $d>(case, integers(&mut rng), run, exact);
            }
            for case in [cases()[1], cases()[8]] {
                let near = |product: &expected::Product, found: $d| {
                    let bound = $rounding.bound(case.sizes[2], product);
                    (found.exact() - product.value).abs() <= bound
                };
                check::<$t, $d>(case, fractions(&mut rng), run, near);
            }
        }
    )*};
}

step_tests! {
    naive_products_of_bf16: naive_into, bf16, bf16, Rounding::ORDINARY.to_bf16();
    naive_products_of_f32: naive_into, f32, f32, Rounding::ORDINARY;
    tiled_products_of_f16: tiled_into, f16, f16, Rounding::ORDINARY.to_f16();
    tiled_products_of_f32: tiled_into, f32, f32, Rounding::ORDINARY;
    register_products_of_bf16: registers_into, bf16, bf16, Rounding::ORDINARY.to_bf16();
    register_products_of_f32: registers_into, f32, f32, Rounding::ORDINARY;
    warps_of_bf16: warps_into, bf16, bf16, Rounding::TENSOR.to_bf16();
    warps_of_f16_to_f32: warps_into, f16, f32, Rounding::TENSOR;
    tf32_products: tf32_into, f32, f32, Rounding::TF32;
    warps_of_tf32: tf32_by_warps, f32, f32, Rounding::TF32;
    fp8_products: own_scratch, E4m3, bf16, Rounding::FP8.to_bf16();
    fp8_products_to_f32: own_scratch, E4m3, f32, Rounding::FP8;
    warps_of_fp8: warps_into, E4m3, f32, Rounding::TENSOR;
    three_tf32_products: three_tf32, f32, f32, Rounding::THREE_TF32;
}

fn double(
    gpu: &Gpu,
    a: Matrix<f64>,
    b: Matrix<f64>,
    d: MatrixMut<f64>,
    case: Case,
) -> GpuResult<()> {
    let mut scratch = Scratch::new(gpu)?;
    scratch.reserve(gpu, double_scratch_bytes(gpu, a, b, &d)?)?;
    let reserved = scratch.size_bytes();
    double_into(gpu, a, b, d, case.scales, None, &mut scratch)?;
    assert_eq!(scratch.size_bytes(), reserved);
    Ok(())
}

#[test]
fn products_of_f64() {
    let mut rng = rng();
    let [row, column] = ORDERS;
    // Tiles in the middle and at the ends; so many columns that B is copied.
    let along = Case { sizes: [270, 150, 100], orders: [row, column, row], ..cases()[0] };
    let large = Case { sizes: [520, 514, 70], orders: [row, row, row], ..cases()[0] };
    for case in cases().into_iter().chain([along, large]) {
        check::<f64, f64>(case, integers(&mut rng), double, |product, found| {
            found == product.value
        });
        let value = || rng.random_range(-1.0f64..1.0);
        check::<f64, f64>(case, value, double, |product, found| {
            (found - product.value).abs() <= Rounding::DOUBLE.bound(case.sizes[2], product)
        });
    }
}

/// The product by choice `which` of those that there are, the fastest first.
fn by_choice<T: Pod, D: Integer>(
    which: usize,
) -> impl Fn(&Gpu, Matrix<T>, Matrix<T>, MatrixMut<D>, Case) -> GpuResult<()>
where
    warps_integer<T, D>: Instance,
    hopper_integer<T, D, WIDE>: Instance,
    hopper_integer<T, D, SQUARE>: Instance,
{
    move |gpu, a, b, d, case| {
        let choices = integer_choices(gpu, a, b, &d)?;
        let options = options(case).choice(choices[which % choices.len()]);
        integer_into(gpu, a, b, d, options, &mut Scratch::new(gpu)?)
    }
}

/// Warps, and both tiles of warpgroups: with copies of the operands, there are three choices.
#[test]
fn products_of_bytes_are_exact() {
    let mut rng = rng();
    let [row, column] = ORDERS;
    // Several tiles of either width for one block after the other, several stages, and ragged ends.
    let large = Case { sizes: [270, 530, 400], orders: [row, column, row], ..cases()[0] };
    for (case, which) in
        cases().into_iter().chain([large]).flat_map(|case| (0..3).map(move |which| (case, which)))
    {
        let (low, high) = (f64::from(i8::MIN), f64::from(i8::MAX));
        let value = || [low, high, f64::from(rng.random::<i8>())][rng.random_range(0..3)];
        let exact = |product: &expected::Product, found: i32| f64::from(found) == product.value;
        check::<i8, i32>(case, value, by_choice(which), exact);
        check::<u8, i32>(case, || f64::from(rng.random::<u8>()), by_choice(which), exact);
    }
}

/// To the nearest, ties to even, and limited: the scales are powers of two, so that ties occur.
#[test]
fn products_of_bytes_are_scaled_to_bytes() {
    let mut rng = rng();
    for (case, which) in
        cases().into_iter().take(6).flat_map(|case| (0..3).map(move |which| (case, which)))
    {
        let case = Case { scales: (0.125, 1.0), ..case };
        check::<i8, i8>(case, integers(&mut rng), by_choice(which), |product, found| {
            f64::from(found) == product.value.round_ties_even().clamp(-128.0, 127.0)
        });
    }
}

/// B lies across K, and its copy pays.
#[test]
fn products_of_bytes_say_what_scratch_they_take() {
    let row = ORDERS[0];
    let (a, b) = (upload(&[1i8; 512 * 512]), upload(&[1i8; 512 * 512]));
    let mut d = poisoned::<i8>(512 * 512);
    let a = Matrix::new(&a, MatrixLayout::new(row, 512, 512)).unwrap();
    let b = Matrix::new(&b, MatrixLayout::new(row, 512, 512)).unwrap();
    let d = MatrixMut::new(&mut d, MatrixLayout::new(row, 512, 512)).unwrap();
    let (gpu, mut scratch) = (gpu(), Scratch::new(gpu()).unwrap());
    let choice = integer_choices(gpu, a, b, &d).unwrap()[0];
    let bytes = integer_scratch_bytes(gpu, a, b, &d).unwrap();
    assert_eq!(bytes, if choice.packs { 512 * 512 } else { 0 });
    scratch.reserve(gpu, bytes).unwrap();
    let reserved = scratch.size_bytes();
    integer_into(gpu, a, b, d, Options::new(), &mut scratch).unwrap();
    assert_eq!(scratch.size_bytes(), reserved);
}

/// A choice that is none of the product's, and scratch that is not allowed.
#[test]
fn products_of_bytes_keep_to_their_choices() {
    let row = ORDERS[0];
    let (a, b) = (upload(&[1i8; 128 * 128]), upload(&[1i8; 128 * 128]));
    let mut d = poisoned::<i32>(128 * 128);
    let a = Matrix::new(&a, MatrixLayout::new(row, 128, 128)).unwrap();
    let b = Matrix::new(&b, MatrixLayout::new(row, 128, 128)).unwrap();
    let mut run = |options| {
        let d = MatrixMut::new(&mut d, MatrixLayout::new(row, 128, 128)).unwrap();
        integer_into(gpu(), a, b, d, options, &mut Scratch::new(gpu()).unwrap())
    };
    // B is copied for warpgroups; without a copy warps multiply.
    run(Options::new().most_scratch_bytes(0)).unwrap();
    let other = matmul::explain(gpu(), [4096, 4096, 4096], 1);
    let error = run(Options::new().choice(other)).unwrap_err();
    assert!(error.to_string().contains("not a choice for this product"), "{error}");
}

/// NaN and infinity go through, and with a beta of 0 what D held does not.
#[test]
fn nan_and_infinity_go_through() {
    let (mut x, y) = (vec![1.0f32; 40 * 24], vec![1.0f32; 24 * 17]);
    (x[24], x[2 * 24 + 5]) = (f32::NAN, f32::INFINITY);
    let (a, b) = (upload(&x), upload(&y));
    type Op = fn(&Gpu, Matrix<f32>, Matrix<f32>, MatrixMut<f32>, Options<f32>) -> GpuResult<()>;
    let ops: [(Op, bool); 8] = [
        (naive_into, true),
        (tiled_into, true),
        (registers_into, true),
        (tf32_into, true),
        (tf32_by_warps, true),
        // An infinity is not the sum of two TF32: it gives NaN.
        (three_tf32, false),
        (three_tf32_by::<1>, false),
        (three_tf32_by::<2>, false),
    ];
    for (op, has_infinity) in ops {
        let mut d = upload(&[f32::NAN; 40 * 17]);
        let [a, b] =
            [Matrix::row_major(&a, 40, 24), Matrix::row_major(&b, 24, 17)].map(Result::unwrap);
        op(gpu(), a, b, MatrixMut::row_major(&mut d, 40, 17).unwrap(), Options::new()).unwrap();
        let found = d.to_vec().unwrap();
        assert!(found[17..2 * 17].iter().all(|x| x.is_nan()));
        let is_right = |x: &f32| if has_infinity { *x == f32::INFINITY } else { x.is_nan() };
        assert!(found[2 * 17..3 * 17].iter().all(is_right));
        assert!(found[..17].iter().chain(&found[3 * 17..]).all(|x| *x == 24.0));
    }
}

/// Over a long K, three TF32 are as near as f32 is, and TF32 is not.
#[test]
fn three_tf32_have_an_accuracy_of_their_own() {
    let mut rng = rng();
    let (m, n, k) = (32, 32, 2048);
    let x: Vec<f32> = (0..m * k).map(|_| rng.random_range(-1.0..1.0)).collect();
    let y: Vec<f32> = (0..k * n).map(|_| rng.random_range(-1.0..1.0)).collect();
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (wide_x, wide_y) = (wide(&x), wide(&y));
    let [left, right] = [(&wide_x, m, k), (&wide_y, k, n)]
        .map(|(values, rows, columns)| expected::Matrix::row_major(values, rows, columns));
    let products = expected::matmul([&left, &right], (1.0, 0.0), None);
    let (a, b) = (upload(&x), upload(&y));
    type Op = fn(&Gpu, Matrix<f32>, Matrix<f32>, MatrixMut<f32>, Options<f32>) -> GpuResult<()>;
    let error = |op: Op| {
        let mut d = upload(&vec![f32::NAN; m * n]);
        let [a, b] = [Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n)].map(Result::unwrap);
        op(gpu(), a, b, MatrixMut::row_major(&mut d, m, n).unwrap(), Options::new()).unwrap();
        let found = d.to_vec().unwrap();
        let square = |(found, product): (&f32, &expected::Product)| {
            (f64::from(*found) - product.value).powi(2)
        };
        (found.iter().zip(&products).map(square).sum::<f64>() / (m * n) as f64).sqrt()
    };
    let [single, tf32] = [registers_into as Op, tf32_into].map(error);
    for by in [three_tf32_by::<0> as Op, three_tf32_by::<1>, three_tf32_by::<2>] {
        let three = error(by);
        assert!(three <= 1.5 * single, "three TF32 {three:.2e}, f32 {single:.2e}");
        assert!(tf32 > 50.0 * three, "TF32 {tf32:.2e}, three TF32 {three:.2e}");
    }
}

/// Every kernel for three TF32: operands that are copied by vectors, by elements and transposed, several tiles and pairs of stages, ragged ends, batches,
/// C and an empty K.
#[test]
fn three_tf32_products_by_every_kernel() {
    let mut rng = rng();
    let [row, column] = ORDERS;
    let large = Case { sizes: [270, 530, 100], orders: [row, column, row], ..cases()[0] };
    let all = cases();
    let some = [all[1], all[2], all[5], all[9], all[15], all[16], all[17], large];
    for case in some {
        for by in [three_tf32_by::<0>, three_tf32_by::<1>, three_tf32_by::<2>] {
            let run = |gpu: &Gpu, a: Matrix<f32>, b: Matrix<f32>, d: MatrixMut<f32>, case: Case| {
                by(gpu, a, b, d, options(case))
            };
            check::<f32, f32>(case, integers(&mut rng), run, |product, found| {
                f64::from(found) == product.value
            });
            check::<f32, f32>(case, fractions(&mut rng), run, |product, found| {
                let bound = Rounding::THREE_TF32.bound(case.sizes[2], product);
                (f64::from(found) - product.value).abs() <= bound
            });
        }
    }
}

/// The parts of both operands: twice their elements, K filled up to a stage.
#[test]
fn three_tf32_products_say_what_scratch_they_take() {
    let (m, n, k) = (300, 520, 33);
    let (x, y) = (upload(&vec![1.5f32; m * k]), upload(&vec![-2.0f32; k * n]));
    let mut d = poisoned::<f32>(m * n);
    let a = Matrix::row_major(&x, m, k).unwrap();
    let b = Matrix::row_major(&y, k, n).unwrap();
    let mut view = MatrixMut::row_major(&mut d, m, n).unwrap();
    let (gpu, mut scratch) = (gpu(), Scratch::new(gpu()).unwrap());
    let is_hopper = |choice: &matmul::Choice| matches!(choice.kernel, Kernel::Hopper { .. });
    let choices = three_tf32_choices(gpu, a, b, &view).unwrap();
    let bytes = three_tf32_scratch_bytes(gpu, a, b, &view).unwrap();
    assert_eq!(bytes > 0, is_hopper(&choices[0]));
    // Where nothing may be copied, warps multiply.
    let none = Options::new().most_scratch_bytes(0);
    let before = scratch.size_bytes();
    three_tf32_into(gpu, a, b, view, none, &mut scratch).unwrap();
    assert_eq!(scratch.size_bytes(), before);
    for choice in choices.into_iter().filter(is_hopper) {
        view = MatrixMut::row_major(&mut d, m, n).unwrap();
        scratch = Scratch::new(gpu).unwrap();
        let parts = 2 * 64 * (m + n) * size_of::<f32>();
        scratch.reserve(gpu, parts + 256).unwrap();
        let reserved = scratch.size_bytes();
        three_tf32_into(gpu, a, b, view, Options::new().choice(choice), &mut scratch).unwrap();
        assert_eq!(scratch.size_bytes(), reserved);
        assert!(d.to_vec().unwrap().iter().all(|x| *x == -3.0 * k as f32));
        view = MatrixMut::row_major(&mut d, m, n).unwrap();
        let refused = Options::new().choice(choice).most_scratch_bytes(parts / 2);
        let error = three_tf32_into(gpu, a, b, view, refused, &mut scratch).unwrap_err();
        assert!(error.to_string().contains("the scratch would be more"), "{error}");
    }
}

/// To the nearest; ties to even where the copy engine rounds, as an H100's does, else away from zero.
#[test]
fn tf32_is_rounded_to_nearest() {
    let pairs = [
        (0x3f80_0fff, 0x3f80_0000),
        (0x3f80_1000, 0x3f80_0000),
        (0x3f80_1001, 0x3f80_2000),
        (0x3f80_3000, 0x3f80_4000),
        (0xbf80_1000, 0xbf80_0000),
        (0xbf80_3000, 0xbf80_4000),
        (0x3f9f_ffff, 0x3fa0_0000),
        (0x7f7f_efff, 0x7f7f_e000),
        (0x7f7f_ffff, 0x7f80_0000),
    ];
    let (m, n, k) = (pairs.len(), 4, 4);
    // The first element of each row, times 1.
    let x: Vec<_> =
        pairs.iter().flat_map(|(bits, _)| [f32::from_bits(*bits), 0.0, 0.0, 0.0]).collect();
    let (a, b) = (upload(&x), upload(&[1.0f32, 0.0, 0.0, 0.0].repeat(n)));
    let mut d = upload(&vec![f32::NAN; m * n]);
    let a = Matrix::row_major(&a, m, k).unwrap().as_tf32();
    let b = Matrix::column_major(&b, k, n).unwrap().as_tf32();
    let view = MatrixMut::row_major(&mut d, m, n).unwrap();
    let choice = explain_views(gpu(), a, b, &view).unwrap();
    let by_copy_engine = matches!(choice.kernel, Kernel::Hopper { .. });
    own_scratch(gpu(), a, b, view, Options::new()).unwrap();
    for (row, (bits, to_even)) in d.to_vec().unwrap().chunks(n).zip(pairs) {
        let is_tie = bits & 0x1fff == 0x1000;
        let expected = if is_tie && !by_copy_engine { bits + 0x1000 } else { to_even };
        assert!(row.iter().all(|x| x.to_bits() == expected), "{bits:#x}: {row:?}");
    }
}
