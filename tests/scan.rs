//! The scans against a running sum on the CPU: exact, whatever order the blocks start in.

use ferrowarp::ops::scan;
use ferrowarp::reference;
use kernels_gpu::grid::scan::TILE;
use rand::RngExt;

use crate::support::{SIZES, gpu, poisoned, rng, upload};

/// Around one tile, and around the 32 tiles that a warp looks back on at a time.
fn sizes() -> Vec<usize> {
    let tiles =
        [1, 2, 32, 33, 34, 65].into_iter().flat_map(|n| [n * TILE - 1, n * TILE, n * TILE + 1]);
    SIZES.into_iter().chain(tiles).collect()
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in sizes() {
        let x: Vec<u32> = (0..n).map(|_| rng.random()).collect();
        let found = scan::exclusive(gpu(), &upload(&x)).unwrap().to_vec().unwrap();
        assert_eq!(found, reference::scan::exclusive(&x), "{n} elements");
    }
}

#[test]
fn plain_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x: Vec<u32> = (0..n).map(|_| rng.random()).collect();
        let mut out = poisoned(n);
        scan::running_into(gpu(), &upload(&x), &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), reference::scan::exclusive(&x), "{n} elements");
    }
}

#[test]
fn scratch_serves_again_and_again() {
    let mut scratch = scan::Scratch::new(gpu(), 5 * TILE).unwrap();
    for n in [5 * TILE, 17, 3 * TILE + 1, 5 * TILE] {
        let x = vec![3u32; n];
        let mut out = poisoned(n);
        scan::exclusive_into(gpu(), &upload(&x), &mut out, &mut scratch).unwrap();
        assert_eq!(out.to_vec().unwrap(), reference::scan::exclusive(&x), "{n} elements");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32; 100]);
    let mut scratch = scan::Scratch::new(gpu(), 100).unwrap();
    let short = scan::exclusive_into(gpu(), &x, &mut poisoned(99), &mut scratch);
    assert_eq!(short.unwrap_err().to_string(), "scan: 100 elements are needed, 99 were given");
    let long = vec![1u32; TILE + 1];
    let small = scan::exclusive_into(gpu(), &upload(&long), &mut poisoned(TILE + 1), &mut scratch);
    let expected = "the scratch of a scan: 3 elements are needed, 2 were given";
    assert_eq!(small.unwrap_err().to_string(), expected);
}
