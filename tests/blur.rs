//! `blur` against one two-dimensional sum a pixel in f64.
//!
//! The kernel sums twice in f32: at most 65 products of bytes with weights of sum 1 a pass, each rounded by 2^-24
//! of at most 255, so a pixel is off by less than 2 · 65 · 255 · 2^-24 < 0.002 before it is rounded to a byte.

use ferrowarp::ops;

use crate::support::{bytes, gpu, poisoned, rng, upload};

fn assert_blurred(image: &[u8], width: usize, height: usize, sigma: f32) {
    let mut out = poisoned(image.len());
    ops::blur(gpu(), &upload(image), &mut out, width, height, sigma).unwrap();
    let radius = ops::blur::radius(sigma);
    let exact = reference::blur::blur(image, width, height, f64::from(sigma), radius);
    for (i, (found, exact)) in out.to_vec().unwrap().into_iter().zip(exact).enumerate() {
        let error = (f64::from(found) - exact).abs();
        assert!(
            error <= 0.5 + 0.002,
            "pixel {i} of {width}×{height}, sigma {sigma}: {found}, exactly {exact}"
        );
    }
}

#[test]
fn every_shape() {
    let mut rng = rng();
    for (width, height) in
        [(0, 0), (1, 1), (1, 40), (129, 1), (128, 32), (127, 33), (8, 65), (150, 61)]
    {
        assert_blurred(&bytes(&mut rng, width * height), width, height, 1.5);
    }
}

#[test]
fn every_radius_up_to_the_largest() {
    let mut rng = rng();
    let image = bytes(&mut rng, 70 * 35);
    for sigma in [0.1, 0.5, 3.0, 7.9, ops::blur::MAX_SIGMA] {
        assert_blurred(&image, 70, 35, sigma);
    }
}

#[test]
fn a_sigma_out_of_range_is_an_error() {
    for sigma in [0.0, -1.0, f32::NAN, f32::INFINITY, ops::blur::MAX_SIGMA * 1.01] {
        let error = ops::blur(gpu(), &upload(&[0]), &mut poisoned(1), 1, 1, sigma).unwrap_err();
        assert!(error.to_string().contains("sigma"), "{error}");
    }
}
