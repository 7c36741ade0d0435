//! `vecadd` against a plain loop: one rounding, so bit for bit.

use ferrowarp::ops;

use crate::support::{SIZES, assert_same_bits, floats, gpu, poisoned, rng, upload};

fn sum(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = poisoned(a.len());
    ops::vecadd(gpu(), &upload(a), &upload(b), &mut out).unwrap();
    out.to_vec().unwrap()
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        let (a, b) = (floats(&mut rng, n), floats(&mut rng, n));
        assert_same_bits(&sum(&a, &b), &reference::vecadd::vecadd(&a, &b));
    }
}

#[test]
fn values_that_hurt() {
    let odd =
        [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in odd {
        for y in odd {
            a.push(x);
            b.push(y);
        }
    }
    assert_same_bits(&sum(&a, &b), &reference::vecadd::vecadd(&a, &b));
}

#[test]
fn lengths_that_differ_are_an_error() {
    let mut out = poisoned(3);
    let error = ops::vecadd(gpu(), &upload(&[0.0; 3]), &upload(&[0.0; 4]), &mut out).unwrap_err();
    assert!(error.to_string().contains('4'), "{error}");
}
