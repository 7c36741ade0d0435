//! The norms against f64.
//!
//! Tolerance. Mean and squares are sums over 32 terms of a thread, then 13 levels of a tree (and for long rows as
//! many steps as a thread takes), a rounding each: together below `60 * 2^-24`, relative to the sums of
//! magnitudes. A mean that is off moves a result by that much of `largest |x| / deviation`, which is `reach` here.
//! Root, quotients and the result itself are a few roundings more. So `2^-18 (|result| + |weight| reach)` before the bias.
//! Gradients multiply such results with means of `g`, of which no one exceeds the largest `|g|`.

use cuda_std::launch::Linear;
use cuda_std::{bf16, f16};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::norm::{
    self, Norm, WeightGradients, backward_into, backward_with_weights_into, norm_into,
    norm_with_sum_into, plain_into,
};
use kernels_gpu::rows::Shape;
use kernels_gpu::rows::norm::NormKind;
use kernels_gpu::rows::norm_backward::norm_backward_fused;
use kernels_gpu::rows::stages::shared_bytes;
use reference::norm::Norm as Reference;

use crate::rows::{
    Element, FORMS, LONG, SHAPES, assert_near, every_type, exact, random, rows_of, unwritten,
};
use crate::support::{gpu, rng, upload};

const PART: f64 = 1.0 / (1 << 18) as f64;
const EPSILON: f32 = 1e-5;

/// Which of the optional arguments a test gives.
#[derive(Clone, Copy, Debug)]
struct Given {
    is_layer: bool,
    weight: bool,
    bias: bool,
    residual: bool,
}

const ALL: Given = Given { is_layer: true, weight: true, bias: true, residual: true };
const ALL_BUT_RESIDUAL: Given = Given { residual: false, ..ALL };
const NONE: Given = Given { is_layer: true, weight: false, bias: false, residual: false };
const RMS: Given = Given { is_layer: false, weight: true, bias: false, residual: false };
const RMS_SUM: Given = Given { is_layer: false, weight: true, bias: true, residual: true };

/// The largest magnitude of a row, times the reciprocal of its deviation.
fn reach(row: &[f64], reciprocal: f64) -> f64 {
    row.iter().fold(0.0, |most: f64, x| most.max(x.abs())) * reciprocal
}

fn described<T: Element>(columns: usize, is_layer: bool) -> Norm<'static, T> {
    if is_layer { Norm::layer(columns) } else { Norm::rms(columns) }
}

fn assert_rows<T: Element>(found: &[T], x: &[f64], columns: usize, by: &Reference<'_>) {
    for (r, (found, x)) in rows_of(found, x, columns) {
        let ((normalised, reciprocal), expected) = (by.normalised(x), by.forward(x));
        let reach = reach(x, reciprocal);
        for (c, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let weight = by.weight.map_or(1.0, |weight| weight[c]).abs();
            let size = normalised[c].abs() + reach;
            let allowed = PART * (weight * size + by.bias.map_or(0.0, |bias| bias[c].abs()));
            assert_near(found, expected, allowed, || format!("row {r} of {columns}, column {c}"));
        }
    }
}

/// Runs a norm of `x` with random arguments, and compares it.
fn check<T: Element>(x: &[T], columns: usize, given: Given, seed: &mut rand::rngs::StdRng) {
    let weight = random::<T>(seed, columns, 2.0);
    let bias = random::<T>(seed, columns, 1.0);
    let residual = random::<T>(seed, x.len(), 1.0);
    let there = (upload(&weight), upload(&bias), upload(&residual));
    let mut norm = described(columns, given.is_layer);
    norm = if given.weight { norm.weight(there.0.as_slice()) } else { norm };
    norm = if given.bias { norm.bias(there.1.as_slice()) } else { norm };
    norm = if given.residual { norm.residual(there.2.as_slice()) } else { norm };

    let (mut out, mut sum) = (unwritten::<T>(x.len()), unwritten::<T>(x.len()));
    let sums: Vec<f64> = if given.residual {
        let to = sum.as_mut_slice();
        norm_with_sum_into(gpu(), &norm, &upload(x), &mut out, to).unwrap();
        exact(x).iter().zip(exact(&residual)).map(|(x, r)| x + r).collect()
    } else {
        norm_into(gpu(), &norm, &upload(x), &mut out).unwrap();
        exact(x)
    };
    let (weight, bias) = (exact(&weight), exact(&bias));
    let by = Reference {
        is_layer: given.is_layer,
        epsilon: EPSILON.into(),
        weight: given.weight.then_some(&weight),
        bias: given.bias.then_some(&bias),
    };
    assert_rows(&out.to_vec().unwrap(), &sums, columns, &by);
    if given.residual {
        for (i, (found, sum)) in sum.to_vec().unwrap().into_iter().zip(sums).enumerate() {
            assert_near(found, sum, sum.abs() * PART / 64.0, || format!("sum {i}"));
        }
    }
}

fn every_shape<T: Element>() {
    let mut rng = rng();
    for (i, (rows, columns)) in SHAPES.into_iter().chain(LONG).enumerate() {
        let x = random::<T>(&mut rng, rows * columns, 4.0);
        let half = if i % 2 == 0 { [ALL, RMS] } else { [NONE, RMS_SUM] };
        half.into_iter().for_each(|given| check(&x, columns, given, &mut rng));
        if columns > 16_384 {
            check(&x, columns, ALL_BUT_RESIDUAL, &mut rng);
        }
    }
}

every_type!(every_shape: f32_every_shape f16_every_shape bf16_every_shape);

#[test]
fn plain_every_shape() {
    let mut rng = rng();
    for (rows, columns) in SHAPES {
        let x = random::<f32>(&mut rng, rows * columns, 4.0);
        let [weight, bias] = [0, 1].map(|_| random::<f32>(&mut rng, columns, 2.0));
        let there = (upload(&weight), upload(&bias));
        for is_layer in [false, true] {
            let norm = described(columns, is_layer);
            let norm = norm.weight(there.0.as_slice()).bias(there.1.as_slice());
            let mut out = unwritten::<f32>(x.len());
            plain_into(gpu(), &norm, &upload(&x), &mut out).unwrap();
            let (weight, bias) = (exact(&weight), exact(&bias));
            let (weight, bias) = (Some(&weight[..]), Some(&bias[..]));
            let by = Reference { is_layer, epsilon: EPSILON.into(), weight, bias };
            assert_rows(&out.to_vec().unwrap(), &exact(&x), columns, &by);
        }
    }
}

#[test]
fn more_long_rows_than_are_held_at_once() {
    // On a device of 132 multiprocessors or fewer: clusters of four, of which some have a second row, and of eight, of which
    // some have an eighth, which takes stages for the second time.
    let mut rng = rng();
    for (rows, columns, given) in [(34, 16_400, RMS), (113, 32_792, ALL_BUT_RESIDUAL)] {
        let x = random::<f32>(&mut rng, rows * columns, 4.0);
        check(&x, columns, given, &mut rng);
    }
}

#[test]
fn a_mean_far_from_zero_costs_no_digits_of_the_variance() {
    // A sum of squares minus the square of the sum would lose all digits but one.
    let mut rng = rng();
    for columns in FORMS {
        let mut x = random::<f32>(&mut rng, 2 * columns, 1.0);
        x.iter_mut().for_each(|x| *x += 3000.0);
        check(&x, columns, NONE, &mut rng);
    }
}

#[test]
fn a_row_of_one_value_has_no_variance() {
    for columns in FORMS {
        let norm = Norm::layer(columns).epsilon(1.0);
        let out = norm::norm(gpu(), &norm, &upload(&vec![3.0f32; columns])).unwrap();
        assert_eq!(out.to_vec().unwrap(), vec![0.0; columns], "{columns} columns");
    }
}

#[test]
fn what_is_not_finite() {
    for columns in FORMS {
        for (value, is_layer) in [(f32::NAN, true), (f32::NAN, false), (f32::INFINITY, true)] {
            let mut x = vec![1.0f32; 2 * columns];
            x[columns / 2] = value;
            let out = norm::norm(gpu(), &described(columns, is_layer), &upload(&x)).unwrap();
            let out = out.to_vec().unwrap();
            assert!(out[..columns].iter().all(|y| y.is_nan()), "{value} in a row of {columns}");
            assert!(out[columns..].iter().all(|y| y.is_finite()), "the row behind");
        }
        let mut x = vec![1.0f32; columns];
        x[columns - 1] = f32::INFINITY;
        let out = norm::norm(gpu(), &Norm::rms(columns), &upload(&x)).unwrap().to_vec().unwrap();
        assert!(out[..columns - 1].iter().all(|&y| y == 0.0) && out[columns - 1].is_nan());
    }
}

fn gradients<T: Element>(shapes: impl IntoIterator<Item = (usize, usize)>) {
    let mut rng = rng();
    let mut scratch = Scratch::new(gpu()).unwrap();
    for (i, (rows, columns)) in shapes.into_iter().enumerate() {
        let len = rows * columns;
        let [x, dy, addend] = [0, 1, 2].map(|_| random::<T>(&mut rng, len, 2.0));
        let weight = random::<T>(&mut rng, columns, 2.0);
        let there = (upload(&x), upload(&dy), upload(&weight), upload(&addend));
        let (is_layer, has_weight, has_addend) = (i % 2 == 0, i % 3 != 0, i % 5 == 0);
        let mut norm = described(columns, is_layer);
        norm = if has_weight { norm.weight(there.2.as_slice()) } else { norm };
        norm = if has_addend { norm.residual(there.3.as_slice()) } else { norm };

        let mut dx = unwritten::<T>(len);
        let (mut dweight, mut dbias) = (unwritten::<T>(columns), unwritten::<T>(columns));
        let weights = WeightGradients {
            weight: Some(dweight.as_mut_slice()),
            bias: (i % 4 != 3).then_some(dbias.as_mut_slice()),
        };
        let (on_x, on_dy) = (&there.0, &there.1);
        backward_with_weights_into(gpu(), &norm, on_x, on_dy, &mut dx, weights, &mut scratch)
            .unwrap();
        let mut again = unwritten::<T>(len);
        backward_into(gpu(), &norm, on_x, on_dy, &mut again).unwrap();
        let dx = dx.to_vec().unwrap();
        assert!(dx == again.to_vec().unwrap(), "with and without the weights");

        let (x, dy, addend) = (exact(&x), exact(&dy), exact(&addend));
        let weight = exact(&weight);
        let weight = has_weight.then_some(&weight[..]);
        let by = Reference { is_layer, epsilon: EPSILON.into(), weight, bias: None };
        let mut sums = vec![[0.0f64; 4]; columns];
        for row in 0..rows {
            let range = row * columns..(row + 1) * columns;
            let (x, dy) = (&x[range.clone()], &dy[range.clone()]);
            let (normalised, reciprocal) = by.normalised(x);
            let reach = reach(x, reciprocal);
            let g = dy.iter().enumerate().map(|(c, dy)| dy * by.weight.map_or(1.0, |w| w[c]));
            let largest = g.fold(0.0, |most: f64, g| most.max(g.abs()));
            for (c, expected) in by.backward(x, dy).into_iter().enumerate() {
                let addend = if has_addend { addend[row * columns + c] } else { 0.0 };
                let size = largest * reciprocal * (1.0 + reach) * (1.0 + normalised[c].abs());
                let allowed = 4.0 * PART * (size + addend.abs());
                let what = || format!("dx {row}, {c} of {columns}");
                assert_near(dx[row * columns + c], expected + addend, allowed, what);
                let term = dy[c] * normalised[c];
                let near = dy[c].abs() * (1.0 + normalised[c].abs() + reach);
                let [w, b, size, of_b] = sums[c];
                sums[c] = [w + term, b + dy[c], size + near, of_b + dy[c].abs()];
            }
        }
        let (dweight, dbias) = (dweight.to_vec().unwrap(), dbias.to_vec().unwrap());
        for (c, [w, b, size, of_b]) in sums.into_iter().enumerate() {
            assert_near(dweight[c], w, 2.0 * PART * size, || format!("dweight {c} of {columns}"));
            if i % 4 != 3 {
                assert_near(dbias[c], b, 2.0 * PART * of_b, || format!("dbias {c} of {columns}"));
            }
        }
    }
}

/// Many rows for the sums over them: chunks of 64, and more rows than chunks times 64; several rows for each block of
/// the kernel that sums on the way.
const TALL: [(usize, usize); 7] =
    [(64, 40), (65, 300), (130, 129), (1000, 33), (9000, 5), (200, 512), (130, 8192)];

/// More rows for each block than its shared memory holds at a time.
const STAGES_AGAIN: (usize, usize) = (400, 8192);

/// As [`STAGES_AGAIN`], with one block of few warps: nine rows go through two stages.
#[test]
fn stages_serve_row_after_row() {
    let (mut rng, rows, columns) = (rng(), 9, 1024);
    let x = upload(&random::<f32>(&mut rng, rows * columns, 2.0));
    let dy: Vec<f32> = (0..rows * columns).map(|i| (i * i % 31) as f32 - 15.0).collect();
    let (dy, none) = (upload(&dy), upload::<f32>(&[]));
    let (mut dx, mut partials) = (unwritten::<f32>(x.len()), unwritten::<f32>(2 * columns));
    let launch = Linear::new(1, 64).shared_mem(shared_bytes(2, 8 * columns as u32));
    let shape = Shape { rows, columns: columns as u32, threads: 0 };
    let kind = NormKind { is_centered: 1, epsilon: EPSILON };
    // SAFETY: all have the stated shapes; 64 threads hold a row, and the shared memory two of both inputs.
    unsafe {
        norm_backward_fused::<f32, 4, 4>::launch(
            gpu(),
            launch,
            shape,
            kind,
            &x,
            &dy,
            &none,
            &none,
            &mut dx,
            &mut partials,
        )
    }
    .unwrap();
    let mut expected = unwritten::<f32>(x.len());
    backward_into(gpu(), &Norm::layer(columns), &x, &dy, &mut expected).unwrap();
    assert!(dx.to_vec().unwrap() == expected.to_vec().unwrap(), "as with a block for each row");
    let (partials, dy) = (partials.to_vec().unwrap(), dy.to_vec().unwrap());
    let sum = |c: usize| (0..rows).map(|row| dy[row * columns + c]).sum::<f32>();
    assert!(partials[columns..].iter().copied().eq((0..columns).map(sum)), "whole numbers add up");
}

#[test]
fn f32_gradients() {
    gradients::<f32>(SHAPES.into_iter().chain(TALL).chain([STAGES_AGAIN]));
}

#[test]
fn f16_gradients() {
    gradients::<f16>(SHAPES.into_iter().step_by(2).chain(TALL));
}

#[test]
fn bf16_gradients() {
    gradients::<bf16>(SHAPES.into_iter().skip(1).step_by(2).chain(TALL));
}

/// From matrices that begin at no multiple of 16 bytes, by kernels of another order of summation.
#[test]
fn gradients_of_rows_at_any_alignment() {
    let (mut rng, rows, columns) = (rng(), 5, 1024);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let len = rows * columns;
    let [x, dy] = [0, 1].map(|_| random::<f32>(&mut rng, len, 2.0));
    let mut run = |at: [usize; 3]| {
        let shifted = |values: &[f32], at: usize| upload(&[&vec![0.0; at], values].concat());
        let (x, dy) = (shifted(&x, at[0]), shifted(&dy, at[1]));
        let (mut dx, mut dweight) = (unwritten::<f32>(len + at[2]), unwritten::<f32>(columns));
        let weights = WeightGradients { weight: Some(dweight.as_mut_slice()), bias: None };
        let (x, dy, to) = (x.slice(at[0]..), dy.slice(at[1]..), &mut dx.slice_mut(at[2]..));
        let norm = Norm::layer(columns);
        backward_with_weights_into(gpu(), &norm, &x, &dy, to, weights, &mut scratch).unwrap();
        [dx.slice(at[2]..).to_vec().unwrap(), dweight.to_vec().unwrap()].concat()
    };
    let aligned = run([0, 0, 0]);
    for at in [[1, 0, 0], [0, 2, 0], [0, 0, 3], [4, 8, 4]] {
        for (found, &expected) in run(at).into_iter().zip(&aligned) {
            let allowed = 8.0 * PART * (4.0 + f64::from(expected.abs()));
            assert_near(found, expected.into(), allowed, || format!("matrices at {at:?}"));
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let (x, short) = (upload(&[1.0f32; 12]), upload(&[1.0f32; 3]));
    let error = |norm: &Norm<'_, f32>, out| {
        norm_into(gpu(), norm, &x, &mut unwritten(out)).unwrap_err().to_string()
    };
    assert_eq!(
        error(&Norm::layer(5), 12),
        "norm: 12 elements are no whole number of rows of 5 elements"
    );
    assert_eq!(error(&Norm::rms(4), 8), "norm: 12 elements are needed, 8 were given");
    let weights = "the weights of a norm: 4 elements are needed, 3 were given";
    assert_eq!(error(&Norm::layer(4).weight(short.as_slice()), 12), weights);
    assert_eq!(error(&Norm::layer(4).bias(short.as_slice()), 12), weights);
    let residual = "the residual of a norm: 12 elements are needed, 3 were given";
    assert_eq!(error(&Norm::layer(4).residual(short.as_slice()), 12), residual);
}
