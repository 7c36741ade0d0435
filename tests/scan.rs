//! The scans against a running sum on the CPU: exact, whatever order the blocks start in.

use ferrowarp::ops::{Scratch, scan};
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
fn scratch_grows_and_serves_again() {
    let mut scratch = Scratch::new(gpu()).unwrap();
    for n in [17, 5 * TILE, 3 * TILE + 1, 40 * TILE] {
        let x = vec![3u32; n];
        let mut out = poisoned(n);
        scan::exclusive_into(gpu(), &upload(&x), &mut out, &mut scratch).unwrap();
        assert_eq!(out.to_vec().unwrap(), reference::scan::exclusive(&x), "{n} elements");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32; 100]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let short = scan::exclusive_into(gpu(), &x, &mut poisoned(99), &mut scratch);
    assert_eq!(short.unwrap_err().to_string(), "scan: 100 elements are needed, 99 were given");
}
