//! The backward pass of matrix products against differences in f64.
//!
//! Tolerance: the gradient before the activation is computed in f32, from inputs that are exact, and rounded to its type; functions of the library are within
//! 2^-20 of their slopes, which are at most 1.13. Those of A and B sum what was rounded so, with the error of `reference::matmul::Rounding`.

use cuda_std::launch::Instance;
use cuda_std::{bf16, f16};
use ferrowarp::GpuError;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    Activation, Matrix, MatrixLayout, MatrixMut, Options, Order, activation_gradient_into,
    activation_gradient_scratch_bytes, backward_into, matmul_into,
};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::gradient::{activation_gradient, bias_gradient};
use kernels_gpu::matmul::{ColumnBias, Factor, GeluGradient, Plain, Value};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::matmul::{self as expected, Rounding};

use crate::support::{gpu, poisoned, rng, upload};

const ROW: Order = Order::RowMajor;
const COLUMN: Order = Order::ColumnMajor;
const ACTIVATIONS: [Activation; 5] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
];

/// The activation in f64.
fn apply(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => {
            let erf = cuda_std::math::double_erf::erf(x * std::f64::consts::FRAC_1_SQRT_2);
            0.5 * x * (1.0 + erf)
        }
        Activation::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + u.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// Its slope as a difference: off by some 1e-11 of the third derivative and of rounding. (No number of the tests is so near to the corner of
/// `Relu`.)
fn slope(activation: Activation, x: f64) -> f64 {
    let step = 1e-5;
    (apply(activation, x + step) - apply(activation, x - step)) / (2.0 * step)
}

/// Rows of numbers with a gap behind each, in either order.
struct Host<T> {
    layout: MatrixLayout,
    values: Vec<T>,
}

impl<T: Value> Host<T> {
    fn new(
        order: Order,
        [rows, columns]: [usize; 2],
        gap: usize,
        mut value: impl FnMut() -> f32,
    ) -> Self {
        let tight = MatrixLayout::new(order, rows, columns);
        let leading = tight.leading + gap;
        let vectors = if order == ROW { rows } else { columns };
        let values = (0..leading * vectors).map(|_| T::narrow(value())).collect();
        Self { layout: MatrixLayout { leading, ..tight }, values }
    }

    fn index(&self, i: usize, j: usize) -> usize {
        let MatrixLayout { order, leading, .. } = self.layout;
        if order == ROW { i * leading + j } else { j * leading + i }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.values[self.index(i, j)].widen().into()
    }

    /// Row by row, without gaps.
    fn exact(&self) -> Vec<f64> {
        let (m, n) = (self.layout.rows, self.layout.columns);
        (0..m * n).map(|at| self.at(at / n, at % n)).collect()
    }
}

/// Numbers in -4..4, of which none is nearer to 0 than 2^-9.
fn away_from_zero(rng: &mut StdRng) -> impl FnMut() -> f32 {
    || {
        let magnitude = rng.random_range(1.0f32 / 512.0..4.0);
        if rng.random() { magnitude } else { -magnitude }
    }
}

/// Half of the distance between subnormal numbers of f16; those of the other types are smaller than any error here.
const LEAST: f64 = 1.0 / (1u64 << 25) as f64;

/// dZ and the gradient of the bias, of every activation, in these orders and with gaps.
fn gradients_of<T: Value>(sizes: [usize; 2], orders: [Order; 3], gap: usize, half_ulp: f64)
where
    activation_gradient<T>: Instance,
    bias_gradient<T>: Instance,
{
    let mut rng = rng();
    let of_d = Host::<T>::new(orders[0], sizes, gap, away_from_zero(&mut rng));
    let z = Host::<T>::new(orders[1], sizes, gap, away_from_zero(&mut rng));
    let before = Host::<T>::new(orders[2], sizes, gap, || 7.0);
    let (x, y) = (upload(&of_d.values), upload(&z.values));
    let (rows, columns) = (sizes[0], sizes[1]);
    let least = if size_of::<T>() == 2 { LEAST } else { 0.0 };
    for activation in ACTIVATIONS {
        let what = format!("{activation:?} {sizes:?} {orders:?} {gap}");
        let (mut out, mut bias) = (upload(&before.values), poisoned::<T>(columns));
        let mut scratch = Scratch::new(gpu()).unwrap();
        scratch.reserve(gpu(), activation_gradient_scratch_bytes(rows, columns)).unwrap();
        let reserved = scratch.size_bytes();
        let views = (Matrix::new(&x, of_d.layout).unwrap(), Matrix::new(&y, z.layout).unwrap());
        let to = MatrixMut::new(&mut out, before.layout).unwrap();
        let of_bias = Some((&mut bias).into());
        activation_gradient_into(gpu(), activation, views.0, views.1, to, of_bias, &mut scratch)
            .unwrap();
        assert_eq!(scratch.size_bytes(), reserved);
        let (found, bias) = (out.to_vec().unwrap(), bias.to_vec().unwrap());
        let mut is_inside = vec![false; found.len()];
        for (j, found_bias) in bias.iter().enumerate() {
            let (mut total, mut magnitude) = (0.0, 0.0);
            for i in 0..rows {
                let right = of_d.at(i, j) * slope(activation, z.at(i, j));
                let error = of_d.at(i, j).abs() * 2f64.powi(-18);
                let at = before.index(i, j);
                is_inside[at] = true;
                let value = f64::from(found[at].widen());
                let allowed = error + (right.abs() + error) * half_ulp + least;
                assert!((value - right).abs() <= allowed, "({i}, {j}): {value}, {right}: {what}");
                total += right;
                magnitude += of_d.at(i, j).abs();
            }
            let error = magnitude * (2f64.powi(-18) + rows as f64 * 2f64.powi(-24));
            let allowed = error + (total.abs() + error) * half_ulp + least;
            let value = f64::from(found_bias.widen());
            assert!((value - total).abs() <= allowed, "bias {j}: {value} and not {total}: {what}");
        }
        for (at, value) in found.iter().enumerate().filter(|(at, _)| !is_inside[*at]) {
            assert_eq!(value.widen(), 7.0, "{at} is between rows: {what}");
        }
    }
}

#[test]
fn gradients_before_activations() {
    let half = 2f64.powi(-8);
    gradients_of::<bf16>([1, 1], [ROW; 3], 0, half);
    gradients_of::<bf16>([200, 300], [ROW; 3], 0, half);
    gradients_of::<f16>([65, 257], [ROW, COLUMN, ROW], 1, 2f64.powi(-10));
    gradients_of::<f32>([130, 33], [ROW; 3], 2, 2f64.powi(-23));
    gradients_of::<f32>([63, 515], [COLUMN, ROW, COLUMN], 0, 2f64.powi(-23));
}

#[test]
fn empty_gradients_are_sums_of_nothing() {
    let nothing = upload::<bf16>(&[]);
    let mut bias = poisoned::<bf16>(5);
    let (mut out, mut scratch) = (upload::<bf16>(&[]), Scratch::new(gpu()).unwrap());
    let view = Matrix::row_major(&nothing, 0, 5).unwrap();
    let to = MatrixMut::row_major(&mut out, 0, 5).unwrap();
    let of_bias = Some((&mut bias).into());
    let activation = Activation::Gelu;
    activation_gradient_into(gpu(), activation, view, view, to, of_bias, &mut scratch).unwrap();
    assert_eq!(bias.to_vec().unwrap(), [bf16::ZERO; 5]);
    let view = Matrix::row_major(&nothing, 5, 0).unwrap();
    let to = MatrixMut::row_major(&mut out, 5, 0).unwrap();
    activation_gradient_into(gpu(), activation, view, view, to, None, &mut scratch).unwrap();
}

#[test]
fn nan_and_infinity_have_gradients() {
    let z = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
    let (of_d, z) = (upload(&[2.0f32, 2.0, 2.0, f32::NAN]), upload(&z));
    let mut scratch = Scratch::new(gpu()).unwrap();
    for activation in ACTIVATIONS {
        let mut out = poisoned::<f32>(4);
        let [of_d, z] = [&of_d, &z].map(|x| Matrix::row_major(x, 1, 4).unwrap());
        let to = MatrixMut::row_major(&mut out, 1, 4).unwrap();
        activation_gradient_into(gpu(), activation, of_d, z, to, None, &mut scratch).unwrap();
        let found = out.to_vec().unwrap();
        let is_identity = activation == Activation::Identity;
        assert_eq!(found[0].is_nan(), !is_identity, "{activation:?}: {found:?}");
        let below = if is_identity { 2.0 } else { 0.0 };
        assert_eq!((found[1], found[2]), (2.0, below), "{activation:?}");
        assert!(found[3].is_nan());
    }
}

/// The whole pass: the loss is the sum of D's elements times factors, and each gradient its difference, in f64.
fn whole_pass<T: Factor + Value>(activation: Activation, half_ulp: f64, rounding: Rounding)
where
    Plain: MatmulKernel<T, T> + MatmulKernel<T, f32>,
    activation_gradient<T>: Instance,
    bias_gradient<T>: Instance,
{
    let mut rng = rng();
    let (m, n, k) = (10, 24, 15);
    // Odd numbers of sixteenths, of which an odd number of products are never 0 in sum: `Relu` has a corner there.
    let mut value = || (2 * rng.random_range(-4i32..=4) + 1) as f32 / 16.0;
    let a = Host::<T>::new(ROW, [m, k], 0, &mut value);
    let b = Host::<T>::new(COLUMN, [k, n], 0, &mut value);
    let of_d = Host::<T>::new(ROW, [m, n], 0, &mut value);
    let (x, y) = (a.exact(), b.exact());
    let (left, right) =
        (expected::Matrix::row_major(&x, m, k), expected::Matrix::row_major(&y, k, n));
    let z: Vec<f64> =
        expected::matmul([&left, &right], (1.0, 0.0), None).iter().map(|z| z.value).collect();
    let of_z: Vec<T> = z.iter().map(|z| T::narrow(*z as f32)).collect();

    let (of_a, of_b, of_bias) = {
        let (mut of_a, mut of_b) = (poisoned::<f32>(m * k), poisoned::<f32>(k * n));
        let (mut dz, mut bias) = (poisoned::<T>(m * n), poisoned::<T>(n));
        let mut scratch = Scratch::new(gpu()).unwrap();
        let (p, q, g, h) =
            (upload(&a.values), upload(&b.values), upload(&of_d.values), upload(&of_z));
        let [g, h] = [&g, &h].map(|x| Matrix::row_major(x, m, n).unwrap());
        let to = MatrixMut::row_major(&mut dz, m, n).unwrap();
        let bias_view = Some((&mut bias).into());
        activation_gradient_into(gpu(), activation, g, h, to, bias_view, &mut scratch).unwrap();
        let dz = Matrix::row_major(&dz, m, n).unwrap();
        let operands = [Matrix::new(&p, a.layout).unwrap(), Matrix::new(&q, b.layout).unwrap()];
        let gradients = (
            Some(MatrixMut::row_major(&mut of_a, m, k).unwrap()),
            Some(MatrixMut::column_major(&mut of_b, k, n).unwrap()),
        );
        backward_into(gpu(), operands, dz, gradients, (1.0, 0.0), &mut scratch).unwrap();
        (of_a.to_vec().unwrap(), of_b.to_vec().unwrap(), bias.to_vec().unwrap())
    };

    // The loss changes with an element of A by a row of Z, with one of B by a column, and with one of the bias likewise.
    let loss =
        |i: usize, j: usize, change: f64| of_d.at(i, j) * apply(activation, z[i * n + j] + change);
    let step = 1e-5;
    let difference = |i: usize, j: usize, by: f64| {
        (loss(i, j, step * by) - loss(i, j, -step * by)) / (2.0 * step)
    };
    // An element of dZ is off by the rounding of Z (the second derivatives are below 1.2), by that of its own type, and by 2^-18.
    let error = |i: usize, j: usize| {
        let of_z = 1.2 * z[i * n + j].abs() * half_ulp;
        of_d.at(i, j).abs() * (of_z + 1.2 * half_ulp + 2f64.powi(-18)) + LEAST
    };
    let near = |found: f64, terms: &[(f64, f64)], what: String| {
        let right: f64 = terms.iter().map(|(term, _)| term).sum();
        let magnitude: f64 = terms.iter().map(|(term, error)| term.abs() + error).sum();
        let errors: f64 = terms.iter().map(|(_, error)| error).sum();
        let product = expected::Product { value: right, magnitude, addend: 0.0 };
        let allowed = errors + rounding.bound(terms.len(), &product) + 1e-9;
        assert!(
            (found - right).abs() <= allowed,
            "{what}: {found} and not {right} within {allowed:e}"
        );
    };
    for i in 0..m {
        for s in 0..k {
            let of = |j| (difference(i, j, b.at(s, j)), error(i, j) * b.at(s, j).abs());
            let terms: Vec<_> = (0..n).map(of).collect();
            near(of_a[i * k + s].into(), &terms, format!("{activation:?}: dA ({i}, {s})"));
        }
    }
    for j in 0..n {
        for s in 0..k {
            let of = |i| (difference(i, j, a.at(i, s)), error(i, j) * a.at(i, s).abs());
            let terms: Vec<_> = (0..m).map(of).collect();
            near(of_b[j * k + s].into(), &terms, format!("{activation:?}: dB ({s}, {j})"));
        }
        let terms: Vec<_> = (0..m).map(|i| (difference(i, j, 1.0), error(i, j))).collect();
        let found = f64::from(of_bias[j].widen());
        // It is rounded to its own type beside.
        let more = (found.abs() * half_ulp, 0.0);
        let terms: Vec<_> = terms.into_iter().chain([(0.0, 2.0 * more.0)]).collect();
        near(found, &terms, format!("{activation:?}: bias {j}"));
    }
}

#[test]
fn gradients_of_operands_are_differences_of_the_loss() {
    for activation in ACTIVATIONS {
        whole_pass::<bf16>(activation, 2f64.powi(-8), Rounding::TENSOR);
        whole_pass::<f16>(activation, 2f64.powi(-10), Rounding::TENSOR);
    }
}

/// Gradients of several products are added up, and those that are not asked for are not computed.
#[test]
fn gradients_are_added_up() {
    let (a, b) = (upload(&[bf16::ONE; 16]), upload(&[bf16::from_f32(2.0); 16]));
    let operands = [&a, &b].map(|x| Matrix::row_major(x, 4, 4).unwrap());
    let mut of_a = upload(&[3.0f32; 16]);
    let to = MatrixMut::row_major(&mut of_a, 4, 4).unwrap();
    let mut scratch = Scratch::new(gpu()).unwrap();
    let none: Option<MatrixMut<f32>> = None;
    backward_into(gpu(), operands, operands[0], (Some(to), none), (0.5, 1.0), &mut scratch)
        .unwrap();
    assert_eq!(of_a.to_vec().unwrap(), [3.0 + 0.5 * 8.0; 16]);
}

/// The derivative as the epilogue of the product before: the same as by a kernel of its own, but for a rounding.
#[test]
fn a_derivative_is_an_epilogue_of_the_product() {
    let mut rng = rng();
    let (m, n, k) = (70, 136, 64);
    for align in [0, 1] {
        let a = Host::<bf16>::new(ROW, [m, k], align, away_from_zero(&mut rng));
        let b = Host::<bf16>::new(COLUMN, [k, n], align, away_from_zero(&mut rng));
        let z = Host::<bf16>::new(ROW, [m, n], align, away_from_zero(&mut rng));
        let (x, y, c) = (upload(&a.values), upload(&b.values), upload(&z.values));
        let mut d = poisoned::<bf16>(m * n);
        let options = Options::new().c(Matrix::new(&c, z.layout).unwrap()).epilogue(GeluGradient);
        let (left, right) =
            (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
        let view = MatrixMut::row_major(&mut d, m, n).unwrap();
        let mut scratch = Scratch::new(gpu()).unwrap();
        matmul_into(gpu(), left, right, view, options, &mut scratch).unwrap();
        let found = d.to_vec().unwrap();
        let (x, y) = (a.exact(), b.exact());
        let [x, y] = [(&x, m, k), (&y, k, n)]
            .map(|(values, rows, columns)| expected::Matrix::row_major(values, rows, columns));
        for (at, product) in expected::matmul([&x, &y], (1.0, 0.0), None).iter().enumerate() {
            let by = slope(Activation::Gelu, z.at(at / n, at % n));
            let right = product.value * by;
            let before =
                1.13 * Rounding::TENSOR.bound(k, product) + product.value.abs() * 2f64.powi(-18);
            let allowed = before + (right.abs() + before) * 2f64.powi(-8);
            let value = found[at].to_f64();
            assert!((value - right).abs() <= allowed, "{at}: {value} and not {right}");
        }
    }
    // What a bias alone stores is the Z that the derivative is taken at.
    let _: Options<'_, bf16, ColumnBias> = Options::new().epilogue(ColumnBias);
}

#[test]
fn misuse_is_refused() {
    let (x, mut out) = (upload(&[bf16::ONE; 64]), poisoned::<bf16>(64));
    let view = |rows, columns| Matrix::row_major(&x, rows, columns).unwrap();
    let mut scratch = Scratch::new(gpu()).unwrap();
    let mut run = |of_d, z, bias: Option<usize>| {
        let mut of_bias = poisoned::<bf16>(bias.unwrap_or(0));
        let of_bias = bias.map(|_| (&mut of_bias).into());
        let to = MatrixMut::row_major(&mut out, 4, 8).unwrap();
        activation_gradient_into(gpu(), Activation::Silu, of_d, z, to, of_bias, &mut scratch)
            .unwrap_err()
    };
    let error = run(view(4, 8), view(8, 4), None).to_string();
    assert!(error.contains("dD is 4 × 8, and Z is 8 × 4"), "{error}");
    let error = run(view(4, 8).batched(2, 32).unwrap(), view(4, 8), None).to_string();
    assert!(error.contains("dD is 2 × (4 × 8)"), "{error}");
    let error = run(view(4, 8), view(4, 8), Some(7));
    assert!(matches!(error, GpuError::SizeMismatch { expected: 8, found: 7, .. }), "{error}");
}
