//! `histogram` against a count on the CPU: exact.

use ferrowarp::{ops, reference};

use crate::support::{SIZES, bytes, gpu, rng, upload};

fn assert_counts(image: &[u8]) {
    let found = ops::histogram(gpu(), &upload(image)).unwrap().to_vec().unwrap();
    let found: Vec<u64> = found.into_iter().map(u64::from).collect();
    assert_eq!(found, reference::histogram::histogram(image));
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        assert_counts(&bytes(&mut rng, n));
    }
}

#[test]
fn one_value_only_so_every_thread_wants_the_same_bin() {
    assert_counts(&[200; 100_000]);
}
