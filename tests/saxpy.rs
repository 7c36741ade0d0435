//! `saxpy` against a plain loop in f64. The kernel fuses, so it rounds once; the reference rounds in f64 and
//! again to f32, which differs from one rounding by at most one unit in the last place.

use approx::assert_ulps_eq;
use ferrowarp::ops;

use crate::support::{SIZES, floats, gpu, rng, upload};

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        let (x, y) = (floats(&mut rng, n), floats(&mut rng, n));
        let mut on_device = upload(&y);
        ops::saxpy(gpu(), 1.75, &upload(&x), &mut on_device).unwrap();
        let expected = reference::saxpy::saxpy(1.75, &x, &y);
        for (found, expected) in on_device.to_vec().unwrap().iter().zip(&expected) {
            assert_ulps_eq!(found, expected, epsilon = 0.0, max_ulps = 1);
        }
    }
}

#[test]
fn the_product_is_not_rounded_by_itself() {
    // (1 + 2^-12)² = 1 + 2^-11 + 2^-24: the last term survives a fused subtraction of the first two only.
    let x = 1.0 + 2.0_f32.powi(-12);
    let mut y = upload(&[-(1.0 + 2.0_f32.powi(-11))]);
    ops::saxpy(gpu(), x, &upload(&[x]), &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0_f32.powi(-24)]);
}

#[test]
fn nan_and_infinity_go_through() {
    let mut y = upload(&[f32::NAN, f32::INFINITY, 1.0, 1.0]);
    ops::saxpy(gpu(), 2.0, &upload(&[1.0, f32::NEG_INFINITY, f32::NAN, f32::INFINITY]), &mut y)
        .unwrap();
    let y = y.to_vec().unwrap();
    assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_nan() && y[3] == f32::INFINITY);
}

#[test]
fn subnormals_and_the_signs_of_zeros_are_kept() {
    let tiny = f32::from_bits(1);
    let mut y = upload(&[0.0, tiny, -0.0, -tiny, f32::MIN_POSITIVE]);
    ops::saxpy(gpu(), 2.0, &upload(&[tiny, tiny, -0.0, 0.0, -tiny]), &mut y).unwrap();
    let bits: Vec<u32> = y.to_vec().unwrap().iter().map(|y| y.to_bits()).collect();
    let expected = [2, 3, 1 << 31, (1 << 31) + 1, f32::MIN_POSITIVE.to_bits() - 2];
    assert_eq!(bits, expected);
}
