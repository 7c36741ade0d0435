//! Softmax against f64.
//!
//! Tolerance. An exponential is off by 2 ulp for the instruction, and by 2^-24 of its argument for each of the
//! difference, the product and the constant: `(4 + 2.25 d) 2^-24`, `d` the distance to the maximum. The sum adds up to
//! 32 terms of a thread, then 13 levels of a tree with a factor that is off by 5 units at three of them, and for long rows
//! as many steps as a thread takes. Terms count by their size, and `d e^-d` is below 1/2. Together below
//! `(96 + 3 d) 2^-24` of a result; a result below 2^-126 may be 0. A log-softmax is off by 2 roundings of itself and
//! by the sum's relative error and 16 units of its logarithm, together below `(128 + 2 |y|) 2^-24`.

use ferrowarp::GpuError;
use ferrowarp::ops::softmax::{
    log_softmax_backward_into, log_softmax_into, plain_into, softmax_backward_into, softmax_into,
};

use crate::rows::{
    Element, FORMS, LONG, SHAPES, assert_near, every_type, exact, random, rows_of, unwritten,
};
use crate::support::{gpu, rng, upload};

const ULP: f64 = 1.0 / (1 << 24) as f64;
/// 2^-126, below which results may be 0.
const FLUSHED: f64 = 1.18e-38;

fn run<T: Element>(x: &[T], columns: usize, is_log: bool) -> Vec<T> {
    let (x, mut out) = (upload(x), unwritten(x.len()));
    if is_log {
        log_softmax_into(gpu(), &x, columns, &mut out).unwrap();
    } else {
        softmax_into(gpu(), &x, columns, &mut out).unwrap();
    }
    out.to_vec().unwrap()
}

fn assert_rows<T: Element>(found: &[T], x: &[T], columns: usize, is_log: bool) {
    for (r, (found, x)) in rows_of(found, x, columns) {
        let x = exact(x);
        let expected = reference::softmax::softmax(&x, is_log);
        let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (c, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let allowed = match is_log {
                true => (128.0 + 2.0 * expected.abs()) * ULP,
                false if x[c] == f64::NEG_INFINITY => 0.0,
                false => (96.0 + 3.0 * (max - x[c])) * ULP * expected + FLUSHED,
            };
            assert_near(found, expected, allowed, || format!("row {r} of {columns}, column {c}"));
        }
    }
}

fn every_shape<T: Element>() {
    let mut rng = rng();
    for (rows, columns) in SHAPES.into_iter().chain(LONG) {
        let x = random::<T>(&mut rng, rows * columns, 8.0);
        for is_log in [false, true] {
            assert_rows(&run(&x, columns, is_log), &x, columns, is_log);
        }
    }
}

every_type!(every_shape: f32_every_shape f16_every_shape bf16_every_shape);

#[test]
fn plain_every_shape() {
    let mut rng = rng();
    for (rows, columns) in SHAPES {
        let x = random::<f32>(&mut rng, rows * columns, 8.0);
        for is_log in [false, true] {
            let mut out = unwritten(x.len());
            plain_into(gpu(), &upload(&x), columns, is_log, &mut out).unwrap();
            assert_rows(&out.to_vec().unwrap(), &x, columns, is_log);
        }
    }
}

#[test]
fn more_long_rows_than_are_held_at_once() {
    // Of 64 KiB and 224 KiB, and a vector. On a device of 132 multiprocessors or fewer some block has a third one, and some
    // pair a second one, which take stages for the second time.
    let mut rng = rng();
    for (rows, columns) in [(265, 16_388), (68, 57_348)] {
        let x = random::<f32>(&mut rng, rows * columns, 8.0);
        let found = run(&x, columns, false);
        for row in [0, 1, 65, 66, 67, rows - 1] {
            let range = row * columns..(row + 1) * columns;
            assert_rows(&found[range.clone()], &x[range], columns, false);
        }
    }
}

#[test]
fn every_alignment_of_the_first_element() {
    let mut rng = rng();
    let (rows, columns) = (5, 264);
    let x = random::<f32>(&mut rng, rows * columns + 8, 5.0);
    let on_device = upload(&x);
    for (from, to) in [(0, 1), (1, 0), (1, 1), (2, 4), (4, 4), (3, 7)] {
        let mut out = unwritten::<f32>(rows * columns + 8);
        let input = on_device.slice(from..from + rows * columns);
        let mut part = out.slice_mut(to..to + rows * columns);
        softmax_into(gpu(), &input, columns, &mut part).unwrap();
        let found = out.to_vec().unwrap();
        assert_rows(
            &found[to..to + rows * columns],
            &x[from..from + rows * columns],
            columns,
            false,
        );
        let poison = unwritten::<f32>(1).to_vec().unwrap()[0];
        let around = found[..to].iter().chain(&found[to + rows * columns..]);
        assert!(around.copied().eq(std::iter::repeat_n(poison, 8)), "written outside");
    }
}

#[test]
fn what_is_not_finite() {
    let inf = f32::INFINITY;
    for columns in FORMS {
        let row = |place: usize, value: f32| {
            let mut row: Vec<f32> = (0..columns).map(|i| (i % 7) as f32).collect();
            row[place] = value;
            row
        };
        let masked = |keep: usize| {
            (0..columns).map(|i| if i == keep { -900.0 } else { -inf }).collect::<Vec<_>>()
        };
        let rows = [
            row(columns / 2, f32::NAN),
            row(1, inf),
            row(columns - 1, -inf),
            vec![-inf; columns],
            masked(columns - 2),
        ];
        let x = rows.concat();
        for is_log in [false, true] {
            let found = run(&x, columns, is_log);
            assert!(found[..2 * columns].iter().all(|y| y.is_nan()), "NaN and infinity, {columns}");
            assert!(found[3 * columns..4 * columns].iter().all(|y| y.is_nan()), "all masked");
            assert_rows(&found[2 * columns..], &x[2 * columns..], columns, is_log);
            let (one, none) = if is_log { (0.0, -inf) } else { (1.0, 0.0) };
            let expected = (0..columns).map(|i| if i == columns - 2 { one } else { none });
            assert!(found[4 * columns..].iter().copied().eq(expected), "one of {columns}");
        }
    }
}

#[test]
fn far_from_zero_and_far_apart() {
    for columns in FORMS {
        // Each thread meets a larger maximum than the one before, and all is far from 0.
        let rising = |i: usize| 5000.0 + 90.0 * (i as f32 / columns as f32);
        let falling = |i: usize| -3000.0 - 200.0 * (i as f32 / columns as f32);
        let x: Vec<f32> = (0..columns).map(rising).chain((0..columns).map(falling)).collect();
        for is_log in [false, true] {
            assert_rows(&run(&x, columns, is_log), &x, columns, is_log);
        }
    }
}

/// Products are off by a rounding each, their sum by one for each of 32 + 13 levels and steps of long rows: 80 units of
/// the sum of magnitudes, and 8 for the result.
fn gradients<T: Element>() {
    let mut rng = rng();
    for (rows, columns) in SHAPES {
        let x = random::<T>(&mut rng, rows * columns, 3.0);
        let dy = random::<T>(&mut rng, rows * columns, 2.0);
        for is_log in [false, true] {
            let y = run(&x, columns, is_log);
            let (y_there, dy_there) = (upload(&y), upload(&dy));
            let mut dx = unwritten::<T>(x.len());
            if is_log {
                log_softmax_backward_into(gpu(), &y_there, &dy_there, columns, &mut dx).unwrap();
            } else {
                softmax_backward_into(gpu(), &y_there, &dy_there, columns, &mut dx).unwrap();
            }
            let dx = dx.to_vec().unwrap();
            for row in 0..rows {
                let range = row * columns..(row + 1) * columns;
                let (y, dy) = (exact(&y[range.clone()]), exact(&dy[range.clone()]));
                let expected = reference::softmax::softmax_backward(&y, &dy, is_log);
                let sum: f64 =
                    y.iter().zip(&dy).map(|(y, dy)| if is_log { *dy } else { y * dy }.abs()).sum();
                for (c, (&found, expected)) in dx[range].iter().zip(expected).enumerate() {
                    let p = if is_log { y[c].exp() } else { y[c] };
                    let direct = if is_log { dy[c].abs() } else { p * dy[c].abs() };
                    let by_exp = if is_log { 4.0 * y[c].abs() } else { 0.0 };
                    let allowed = ((80.0 + by_exp) * p * sum + 8.0 * direct) * ULP + FLUSHED;
                    assert_near(found, expected, allowed, || format!("{row}, {c} of {columns}"));
                }
            }
        }
    }
}

every_type!(gradients: f32_gradients f16_gradients bf16_gradients);

#[test]
fn the_same_bits_again() {
    let mut rng = rng();
    for columns in FORMS {
        let x = random::<f32>(&mut rng, 2 * columns, 8.0);
        let first = run(&x, columns, false);
        assert_eq!(first, run(&x, columns, false), "rows of {columns}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1.0f32; 12]);
    let wrong = softmax_into(gpu(), &x, 5, &mut unwritten(12)).unwrap_err();
    assert_eq!(wrong.to_string(), "softmax: 12 elements are no whole number of rows of 5 elements");
    let short = softmax_into(gpu(), &x, 4, &mut unwritten(8)).unwrap_err();
    assert_eq!(short.to_string(), "softmax: 12 elements are needed, 8 were given");
    let none = softmax_into(gpu(), &x, 0, &mut unwritten(12)).unwrap_err();
    assert_eq!(none.to_string(), "softmax: 12 elements are no whole number of rows of 0 elements");
    let long = softmax_into(gpu(), &x, 1 << 31, &mut unwritten(12)).unwrap_err();
    assert_eq!(long.to_string(), "softmax: a row has at most 2^31 - 1 elements");
    let gradient = softmax_backward_into(gpu(), &x, &upload(&[1.0f32; 8]), 4, &mut unwritten(12));
    assert!(matches!(gradient, Err(GpuError::SizeMismatch { expected: 12, found: 8, .. })));
}
