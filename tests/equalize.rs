//! Equalisation against exact integers: bit for bit.

use ferrowarp::ops;
use rand::RngExt;

use crate::support::{SIZES, bytes, gpu, poisoned, rng, upload};

fn assert_equalized(image: &[u8]) {
    let mut out = poisoned(image.len());
    ops::equalize(gpu(), &upload(image), &mut out).unwrap();
    assert_eq!(out.to_vec().unwrap(), reference::equalize::equalize(image));
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        assert_equalized(&bytes(&mut rng, n));
    }
}

#[test]
fn few_and_crowded_levels() {
    let mut rng = rng();
    assert_equalized(&(0..10_000).map(|_| rng.random_range(90..110)).collect::<Vec<u8>>());
    assert_equalized(&[7; 1000]);
    assert_equalized(&[0, 255]);
    assert_equalized(&[255; 33]);
}
