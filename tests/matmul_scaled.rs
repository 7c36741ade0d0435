//! Products of 8-bit floats with scales, against f64.
//!
//! Numbers are small integers and scales powers of two, so that sums are exact and are compared bit for bit; or any, and the tolerance is that of
//! `reference::matmul::Rounding`, derived there.

use bytemuck::Pod;
use cuda_std::launch::Instance;
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    Choice, Matrix, MatrixLayout, MatrixMut, Options, Order, Scale, Scales, scaled_choices,
    scaled_into, scaled_scratch_bytes,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::matmul::form::{MIDDLE, SQUARE};
use kernels_gpu::matmul::hopper::{hopper_blocks, hopper_scaled};
use kernels_gpu::matmul::warps::warps_scaled;
use kernels_gpu::matmul::{Factor, Value};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reference::matmul::{self as expected, Product, Rounding};

use crate::support::{gpu, poisoned, rng, upload};

const ROW: Order = Order::RowMajor;
const COLUMN: Order = Order::ColumnMajor;
/// Elements along K, or columns of B, that have a scale in common.
const BLOCK: usize = 128;

/// An element of A or B.
trait Narrow: Factor {
    fn of(value: f64) -> Self;
    fn exact(self) -> f64;
}

/// An element of D.
trait Result8: Value + PartialEq + std::fmt::Debug {
    const ROUNDING: Rounding;
    /// The largest magnitude.
    const MOST: f64;
    fn exact(self) -> f64;
}

macro_rules! narrow {
    ($($t:ident)*) => {$(
        impl Narrow for $t {
            fn of(value: f64) -> Self {
                Self::saturating(value as f32)
            }
            fn exact(self) -> f64 {
                self.into()
            }
        }
    )*};
}

narrow! { E4m3 E5m2 }

macro_rules! results {
    ($($t:ident: $rounding:expr, $most:expr;)*) => {$(
        impl Result8 for $t {
            const ROUNDING: Rounding = $rounding;
            const MOST: f64 = $most;
            fn exact(self) -> f64 {
                self.widen().into()
            }
        }
    )*};
}

results! {
    f32: Rounding::SCALED_FP8, f64::INFINITY;
    bf16: Rounding::SCALED_FP8.to_bf16(), f64::INFINITY;
    f16: Rounding::SCALED_FP8.to_f16(), f64::INFINITY;
    E4m3: Rounding::SCALED_FP8.to_e4m3(), 448.0;
}

/// What an operand's scales are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    One,
    Tensor,
    Vector,
    Blocks(Order),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: [usize; 3],
    orders: [Order; 2],
    kinds: [Kind; 2],
    batches: usize,
    /// Elements beyond each row, or column, of A, B and D.
    gap: usize,
    factors: (f32, f32),
    of_d: Option<f32>,
}

const CASE: Case = Case {
    sizes: [129, 200, 272],
    orders: [ROW, COLUMN],
    kinds: [Kind::One; 2],
    batches: 1,
    gap: 0,
    factors: (1.0, 0.0),
    of_d: None,
};

/// Numbers on the host and on the device.
struct Both<T: Pod> {
    layout: MatrixLayout,
    host: Vec<T>,
    device: DeviceBuffer<T>,
}

impl<T: Pod> Both<T> {
    fn new(
        order: Order,
        [rows, columns]: [usize; 2],
        (batches, gap): (usize, usize),
        value: impl FnMut() -> T,
    ) -> Self {
        let tight = MatrixLayout::new(order, rows, columns);
        let leading = tight.leading + gap;
        let vectors = if order == ROW { rows } else { columns };
        let batch_stride = leading * vectors;
        let host: Vec<T> = std::iter::repeat_with(value).take(batch_stride * batches).collect();
        let layout = MatrixLayout { leading, batches, batch_stride, ..tight };
        Self { layout, device: upload(&host), host }
    }

    fn view(&self) -> Matrix<'_, T> {
        Matrix::new(&self.device, self.layout).unwrap()
    }

    fn at(&self, batch: usize, i: usize, j: usize) -> T {
        let MatrixLayout { order, leading, batch_stride, .. } = self.layout;
        let inside = if order == ROW { i * leading + j } else { j * leading + i };
        self.host[batch * batch_stride + inside]
    }
}

/// Scales of an operand.
struct OfOperand {
    kind: Kind,
    numbers: Both<f32>,
}

impl OfOperand {
    /// Of a matrix whose rows are lines (A) or whose columns are, with so many in a block.
    fn new(
        kind: Kind,
        [lines, k]: [usize; 2],
        in_block: usize,
        batches: usize,
        value: impl FnMut() -> f32,
    ) -> Self {
        let of_k = k.div_ceil(BLOCK);
        let numbers = match kind {
            Kind::One | Kind::Tensor => Both::new(ROW, [1, 1], (1, 0), value),
            Kind::Vector => Both::new(ROW, [1, lines], (1, 0), value),
            Kind::Blocks(order) if in_block == 1 => {
                Both::new(order, [lines, of_k], (batches, 1), value)
            }
            Kind::Blocks(order) => {
                Both::new(order, [of_k, lines.div_ceil(in_block)], (batches, 0), value)
            }
        };
        Self { kind, numbers }
    }

    fn scale(&self) -> Scale<'_> {
        match self.kind {
            Kind::One => Scale::One,
            Kind::Tensor => Scale::Tensor(self.numbers.device.as_slice()),
            Kind::Vector => Scale::Vector(self.numbers.device.as_slice()),
            Kind::Blocks(_) => Scale::Blocks(self.numbers.view()),
        }
    }

    /// That of an element of A (`in_block == 1`) or of B.
    fn at(&self, batch: usize, line: usize, k: usize, in_block: usize) -> f64 {
        let k = k / BLOCK;
        f64::from(match self.kind {
            Kind::One => 1.0,
            Kind::Tensor => self.numbers.host[0],
            Kind::Vector => self.numbers.host[line],
            Kind::Blocks(_) if in_block == 1 => self.numbers.at(batch, line, k),
            Kind::Blocks(_) => self.numbers.at(batch, k, line / in_block),
        })
    }
}

/// All of a product.
struct Rig<T: Pod, U: Pod> {
    case: Case,
    a: Both<T>,
    b: Both<U>,
    of_a: OfOperand,
    of_b: OfOperand,
}

impl<T: Narrow, U: Narrow> Rig<T, U> {
    fn new(case: Case, mut value: impl FnMut() -> f64, mut scale: impl FnMut() -> f32) -> Self {
        let Case { sizes: [m, n, k], orders, kinds, batches, gap, .. } = case;
        Self {
            case,
            a: Both::new(orders[0], [m, k], (batches, gap), || T::of(value())),
            b: Both::new(orders[1], [k, n], (batches, gap), || U::of(value())),
            of_a: OfOperand::new(kinds[0], [m, k], 1, batches, &mut scale),
            of_b: OfOperand::new(kinds[1], [n, k], BLOCK, batches, &mut scale),
        }
    }

    /// The scales of A and B.
    fn scales(&self) -> Scales<'_> {
        Scales::new().a(self.of_a.scale()).b(self.of_b.scale())
    }

    /// D, and its largest magnitude, by a choice.
    fn run<D: Result8>(&self, before: &Both<D>, choice: Option<Choice>) -> GpuResult<(Vec<D>, f32)>
    where
        warps_scaled<T, U, D>: Instance,
        hopper_scaled<T, U, D, MIDDLE>: Instance,
        hopper_scaled<T, U, D, SQUARE>: Instance,
        hopper_blocks<T, U, D>: Instance,
    {
        let mut d = upload(&before.host);
        let mut largest = upload(&[0.0f32]);
        let of_d = self.case.of_d.map(|scale| upload(&[scale]));
        let mut scales = self.scales().largest(&mut largest);
        if let Some(of_d) = &of_d {
            scales = scales.d(of_d);
        }
        let (alpha, beta) = self.case.factors;
        let options = Options::new().alpha(alpha).beta(beta);
        let options = choice.map_or(options, |choice| options.choice(choice));
        let view = MatrixMut::new(&mut d, before.layout)?;
        let (a, b, mut scratch) = (self.a.view(), self.b.view(), Scratch::new(gpu())?);
        scaled_into(gpu(), a, b, scales, view, options, &mut scratch)?;
        Ok((d.to_vec()?, largest.to_vec()?[0]))
    }

    /// The elements of a matrix of the batch, before D's scale.
    fn products(&self, batch: usize, c: &[f64]) -> Vec<Product> {
        let [m, n, k] = self.case.sizes;
        let mut a = vec![0.0; m * k];
        let mut b = vec![0.0; k * n];
        for i in 0..m {
            for s in 0..k {
                a[i * k + s] = self.a.at(batch, i, s).exact() * self.of_a.at(batch, i, s, 1);
            }
        }
        for s in 0..k {
            for j in 0..n {
                b[s * n + j] = self.b.at(batch, s, j).exact() * self.of_b.at(batch, j, s, BLOCK);
            }
        }
        let [a, b, c] = [(&a[..], m, k), (&b[..], k, n), (c, m, n)]
            .map(|(x, rows, columns)| expected::Matrix::row_major(x, rows, columns));
        let (alpha, beta) = self.case.factors;
        expected::matmul([&a, &b], (f64::from(alpha), f64::from(beta)), Some(&c))
    }

    /// Runs every choice, and compares D and its largest magnitude.
    fn check<D: Result8>(&self, is_exact: bool)
    where
        warps_scaled<T, U, D>: Instance,
        hopper_scaled<T, U, D, MIDDLE>: Instance,
        hopper_scaled<T, U, D, SQUARE>: Instance,
        hopper_blocks<T, U, D>: Instance,
    {
        let Case { sizes: [m, n, k], batches, gap, of_d, .. } = self.case;
        let mut count = 0;
        let before = Both::<D>::new(ROW, [m, n], (batches, gap), || {
            count += 1;
            D::narrow((count % 5) as f32)
        });
        let mut view = upload(&before.host);
        let view = MatrixMut::new(&mut view, before.layout).unwrap();
        let all =
            scaled_choices(gpu(), self.a.view(), self.b.view(), &self.scales(), &view).unwrap();
        let of_d = f64::from(of_d.unwrap_or(1.0));
        for choice in all {
            let what = format!("{:?} by {choice}", self.case);
            let (found, largest) = self.run::<D>(&before, Some(choice)).unwrap();
            let mut most = (0.0f64, 0.0f64);
            let mut inside = vec![false; found.len()];
            for batch in 0..batches {
                let c: Vec<f64> =
                    (0..m * n).map(|at| before.at(batch, at / n, at % n).exact()).collect();
                for (at, product) in self.products(batch, &c).iter().enumerate() {
                    let place = batch * before.layout.batch_stride
                        + at / n * before.layout.leading
                        + at % n;
                    inside[place] = true;
                    let allowed_before = Rounding::SCALED_FP8.bound(k, product);
                    most.0 = most.0.max(product.value.abs());
                    most.1 = most.1.max(allowed_before);
                    if is_exact {
                        let right = D::narrow((product.value * of_d) as f32);
                        assert_eq!(found[place], right, "element {at} of {batch}: {what}");
                        continue;
                    }
                    let scaled = Product {
                        value: (product.value * of_d).clamp(-D::MOST, D::MOST),
                        magnitude: product.magnitude * of_d,
                        addend: product.addend * of_d,
                    };
                    let (value, allowed) = (found[place].exact(), D::ROUNDING.bound(k, &scaled));
                    assert!(
                        (value - scaled.value).abs() <= allowed,
                        "element {at} of {batch} is {value} and not {} within {allowed:e}: {what}",
                        scaled.value
                    );
                }
            }
            let allowed = if is_exact { 0.0 } else { most.1 };
            assert!((f64::from(largest) - most.0).abs() <= allowed, "{largest}, {most:?}: {what}");
            for (place, value) in found.iter().enumerate().filter(|(place, _)| !inside[*place]) {
                assert_eq!(*value, before.host[place], "{place} is between rows: {what}");
            }
        }
    }
}

/// Integers from -4 to 4, which all formats hold, and powers of two.
fn exact(rng: &mut StdRng, case: Case) -> Rig<E4m3, E4m3> {
    exact_of(rng, case)
}

fn exact_of<T: Narrow, U: Narrow>(rng: &mut StdRng, case: Case) -> Rig<T, U> {
    let mut other = StdRng::seed_from_u64(rng.random());
    let scale = || [0.5, 1.0, 2.0][other.random_range(0..3usize)];
    Rig::new(case, || f64::from(rng.random_range(-4i32..=4)), scale)
}

fn any_of<T: Narrow, U: Narrow>(rng: &mut StdRng, case: Case) -> Rig<T, U> {
    let mut other = StdRng::seed_from_u64(rng.random());
    let scale = || other.random_range(0.001f32..3.0);
    Rig::new(case, || rng.random_range(-2.0..2.0), scale)
}

/// Both operands' scales, each of every kind; blocks in both orders.
fn kinds() -> [[Kind; 2]; 5] {
    let [rows, columns] = [Kind::Blocks(ROW), Kind::Blocks(COLUMN)];
    [
        [Kind::One, Kind::One],
        [Kind::Tensor, Kind::Vector],
        [Kind::Vector, Kind::Tensor],
        [rows, columns],
        [columns, rows],
    ]
}

#[test]
fn scales_of_every_kind_are_exact_where_sums_are() {
    let mut rng = rng();
    for kinds in kinds() {
        exact(&mut rng, Case { kinds, ..CASE }).check::<f32>(true);
    }
    // The columns of a tile of 192 begin in the middle of a block; rows of tiles, and two tiles for a block.
    let blocks = [Kind::Blocks(COLUMN), Kind::Blocks(ROW)];
    exact(&mut rng, Case { kinds: blocks, sizes: [140, 600, 400], ..CASE }).check::<f32>(true);
}

#[test]
fn every_pair_and_every_result() {
    let mut rng = rng();
    let sizes = [65, 136, 144];
    macro_rules! pairs {
        ($(($t:ty, $u:ty))*) => {$(
            let blocks = Case { kinds: [Kind::Blocks(COLUMN), Kind::Blocks(ROW)], sizes, ..CASE };
            let lines = Case { kinds: [Kind::Vector; 2], sizes, ..CASE };
            exact_of::<$t, $u>(&mut rng, blocks).check::<f32>(true);
            any_of::<$t, $u>(&mut rng, blocks).check::<f32>(false);
            any_of::<$t, $u>(&mut rng, lines).check::<bf16>(false);
            any_of::<$t, $u>(&mut rng, blocks).check::<f16>(false);
            let of_d = Some(0.25);
            any_of::<$t, $u>(&mut rng, Case { of_d, ..lines }).check::<E4m3>(false);
            any_of::<$t, $u>(&mut rng, Case { of_d, ..blocks }).check::<E4m3>(false);
        )*};
    }
    pairs! { (E4m3, E4m3) (E4m3, E5m2) (E5m2, E4m3) (E5m2, E5m2) }
}

#[test]
fn sizes_orders_and_batches() {
    let mut rng = rng();
    let blocks = [Kind::Blocks(ROW), Kind::Blocks(ROW)];
    for (which, sizes) in
        [[1, 1, 1], [1, 130, 16], [200, 3, 129], [33, 131, 37], [128, 192, 128], [64, 64, 0]]
            .into_iter()
            .enumerate()
    {
        for (orders, gap) in [([ROW, COLUMN], 0), ([COLUMN, ROW], 0), ([ROW, COLUMN], 3)] {
            let kinds = [blocks, [Kind::Vector; 2]][which % 2];
            let case = Case { sizes, orders, kinds, gap, factors: (2.0, -1.0), ..CASE };
            exact(&mut rng, case).check::<f32>(true);
        }
    }
    for kinds in [blocks, [Kind::Vector, Kind::Tensor]] {
        let case = Case { sizes: [70, 136, 144], batches: 3, kinds, factors: (1.0, 2.0), ..CASE };
        exact(&mut rng, case).check::<f32>(true);
        exact(&mut rng, case).check::<bf16>(false);
    }
}

/// A scale of D of 2 makes most of it too large.
#[test]
fn results_of_8_bits_saturate() {
    let mut rng = rng();
    let case = Case { sizes: [70, 140, 256], of_d: Some(2.0), factors: (1.0, 1.0), ..CASE };
    exact(&mut rng, case).check::<E4m3>(true);
    exact(&mut rng, Case { gap: 5, ..case }).check::<E4m3>(true);
}

/// NaN and infinity go through, whatever the scales: by rows and by blocks. What is beside them does not change.
#[test]
fn nan_infinity_and_zero_scales() {
    let (m, n, k) = (40, 48, 256);
    let mut x = vec![E5m2::of(1.0); m * k];
    (x[k], x[2 * k + 5]) = (E5m2::from_bits(0x7f), E5m2::from_bits(0x7c));
    let (a, b) = (upload(&x), upload(&vec![E4m3::of(1.0); n * k]));
    let view_a = Matrix::row_major(&a, m, k).unwrap();
    let view_b = Matrix::column_major(&b, k, n).unwrap();
    let mut rows = vec![1.0f32; m];
    (rows[3], rows[4], rows[5]) = (0.0, f32::INFINITY, f32::NAN);
    let blocks: Vec<f32> = rows.iter().flat_map(|scale| [*scale, 1.0]).collect();
    let (of_rows, of_blocks, ones) = (upload(&rows), upload(&blocks), upload(&[1.0f32; 2]));
    for is_blocks in [false, true] {
        let (scale, of_b) = if is_blocks {
            let of_b = Scale::Blocks(Matrix::row_major(&ones, 2, 1).unwrap());
            (Scale::Blocks(Matrix::row_major(&of_blocks, m, 2).unwrap()), of_b)
        } else {
            (Scale::Vector(of_rows.as_slice()), Scale::One)
        };
        let mut d = poisoned::<f32>(m * n);
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        let scales = Scales::new().a(scale).b(of_b);
        for choice in scaled_choices(gpu(), view_a, view_b, &scales, &view).unwrap() {
            let mut d = poisoned::<f32>(m * n);
            let mut largest = upload(&[0.0f32]);
            let view = MatrixMut::row_major(&mut d, m, n).unwrap();
            let scales = Scales::new().a(scale).b(of_b).largest(&mut largest);
            let (options, mut scratch) =
                (Options::new().choice(choice), Scratch::new(gpu()).unwrap());
            scaled_into(gpu(), view_a, view_b, scales, view, options, &mut scratch).unwrap();
            let found = d.to_vec().unwrap();
            let zero = if is_blocks { 128.0 } else { 0.0 };
            let expected = [256.0, f32::NAN, f32::INFINITY, zero, f32::INFINITY, f32::NAN, 256.0];
            for (row, expected) in expected.into_iter().enumerate() {
                for found in &found[row * n..(row + 1) * n] {
                    let is_same = *found == expected || found.is_nan() && expected.is_nan();
                    assert!(is_same, "row {row}: {found}, {expected}: {choice}, {is_blocks}");
                }
            }
            assert!(largest.to_vec().unwrap()[0].is_nan());
            // As 8 bits: NaN is NaN, and infinity the largest.
        }
        let mut d = poisoned::<E4m3>(m * n);
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        let scales = Scales::new().a(scale).b(of_b);
        let mut scratch = Scratch::new(gpu()).unwrap();
        scaled_into(gpu(), view_a, view_b, scales, view, Options::new(), &mut scratch).unwrap();
        let found = d.to_vec().unwrap();
        assert!(found[n].widen().is_nan() && found[5 * n].widen().is_nan());
        assert_eq!([0, 2, 4].map(|row| found[row * n].widen()), [256.0, 448.0, 448.0]);
    }
}

/// What several products raise.
#[test]
fn the_largest_magnitude_is_raised() {
    let (a, b) = (upload(&[E4m3::of(1.0); 64]), upload(&[E4m3::of(-2.0); 64]));
    let (a, b) = (Matrix::row_major(&a, 4, 16).unwrap(), Matrix::column_major(&b, 16, 4).unwrap());
    let mut largest = upload(&[0.0f32]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    for (alpha, expected) in [(1.0, 32.0), (0.5, 32.0), (-2.0, 64.0)] {
        let mut d = poisoned::<bf16>(16);
        let view = MatrixMut::row_major(&mut d, 4, 4).unwrap();
        let scales = Scales::new().largest(&mut largest);
        let options = Options::new().alpha(alpha);
        scaled_into(gpu(), a, b, scales, view, options, &mut scratch).unwrap();
        assert_eq!(largest.to_vec().unwrap(), [expected]);
    }
}

#[test]
fn the_same_product_has_the_same_bits_and_takes_the_scratch_that_it_says() {
    let mut rng = rng();
    let kinds = [Kind::Blocks(ROW), Kind::Blocks(ROW)];
    let case = Case { sizes: [300, 392, 512], orders: [COLUMN, ROW], kinds, ..CASE };
    let rig = any_of::<E4m3, E5m2>(&mut rng, case);
    let before = Both::<f32>::new(ROW, [300, 392], (1, 0), || 0.0);
    let (first, second) =
        (rig.run::<f32>(&before, None).unwrap().0, rig.run::<f32>(&before, None).unwrap().0);
    assert_eq!(bytemuck::cast_slice::<f32, u8>(&first), bytemuck::cast_slice::<f32, u8>(&second));

    let mut d = poisoned::<f32>(300 * 392);
    let view = MatrixMut::row_major(&mut d, 300, 392).unwrap();
    let (a, b, scales) = (rig.a.view(), rig.b.view(), rig.scales());
    let bytes = scaled_scratch_bytes(gpu(), a, b, &scales, &view).unwrap();
    let mut scratch = Scratch::new(gpu()).unwrap();
    scratch.reserve(gpu(), bytes).unwrap();
    let reserved = scratch.size_bytes();
    scaled_into(gpu(), a, b, scales, view, Options::new(), &mut scratch).unwrap();
    assert_eq!((scratch.size_bytes(), d.to_vec().unwrap() == first), (reserved, true));
}

#[test]
fn misuse_is_refused() {
    let numbers = upload(&vec![E4m3::of(1.0); 256 * 256]);
    let (a, b) =
        (Matrix::row_major(&numbers, 16, 256).unwrap(), Matrix::column_major(&numbers, 256, 32));
    let (b, scales) = (b.unwrap(), upload(&[1.0f32; 64]));
    let refused = |of: Scales<'_>, order: Order| {
        let mut d = poisoned::<bf16>(16 * 32);
        let view = MatrixMut::new(&mut d, MatrixLayout::new(order, 16, 32)).unwrap();
        let mut scratch = Scratch::new(gpu()).unwrap();
        scaled_into(gpu(), a, b, of, view, Options::new(), &mut scratch).unwrap_err()
    };
    let error = refused(Scales::new(), COLUMN).to_string();
    assert!(error.contains("is column-major"), "{error}");
    let blocks = |rows, columns| Scale::Blocks(Matrix::row_major(&scales, rows, columns).unwrap());
    let error = refused(Scales::new().a(blocks(2, 16)), ROW).to_string();
    assert!(error.contains("the scales of A are 2 × 16, and its blocks 16 × 2"), "{error}");
    let error = refused(Scales::new().b(blocks(1, 2)), ROW).to_string();
    assert!(error.contains("the scales of B are 1 × 2, and its blocks 2 × 1"), "{error}");
    let error = refused(Scales::new().a(blocks(16, 2)), ROW).to_string();
    assert!(error.contains("A has scales of blocks, and B has none"), "{error}");
    for (of, expected) in [
        (Scales::new().a(Scale::Vector(scales.slice(..15))), 16),
        (Scales::new().b(Scale::Vector(scales.slice(..33))), 32),
        (Scales::new().b(Scale::Tensor(scales.slice(..2))), 1),
        (Scales::new().d(scales.slice(..0)), 1),
    ] {
        let error = refused(of, ROW);
        let is_right =
            matches!(error, GpuError::SizeMismatch { expected: found, .. } if found == expected);
        assert!(is_right, "{error}");
    }
}
