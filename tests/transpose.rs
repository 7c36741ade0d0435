//! The transposes against a plain loop: they move bits, so bit for bit.

use ferrowarp::{ops, reference};

use crate::support::{assert_same_bits, floats, gpu, poisoned, rng, upload};

const SHAPES: [(usize, usize); 10] = [
    (0, 0),
    (1, 1),
    (1, 300),
    (300, 1),
    (32, 32),
    (33, 31),
    (31, 65),
    (64, 96),
    (257, 129),
    (127, 512),
];

#[test]
fn tiled_every_shape() {
    let mut rng = rng();
    for (width, height) in SHAPES {
        let input = floats(&mut rng, width * height);
        let mut out = poisoned(input.len());
        ops::transpose(gpu(), &upload(&input), &mut out, width, height).unwrap();
        assert_same_bits(
            &out.to_vec().unwrap(),
            &reference::transpose::transpose(&input, width, height),
        );
    }
}

#[test]
fn naive_every_shape() {
    let mut rng = rng();
    for (width, height) in SHAPES {
        let input = floats(&mut rng, width * height);
        let mut out = poisoned(input.len());
        ops::transpose::transpose_naive(gpu(), &upload(&input), &mut out, width, height).unwrap();
        assert_same_bits(
            &out.to_vec().unwrap(),
            &reference::transpose::transpose(&input, width, height),
        );
    }
}

#[test]
fn a_shape_that_does_not_fit_is_an_error() {
    let mut out = poisoned(12);
    let error = ops::transpose(gpu(), &upload(&[0.0; 12]), &mut out, 3, 5).unwrap_err();
    assert!(error.to_string().contains("15"), "{error}");
}
