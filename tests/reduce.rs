//! The sums against compensated f64 sums.
//!
//! Tolerance of an f32 sum: each addition rounds by at most 2^-24 of the running sum, which never exceeds the
//! sum of magnitudes; no element passes through more than `n / 270,000 + 64` additions in these kernels, so the
//! error is below that many times 2^-24 of the sum of magnitudes. Sums of small integers are exact.

use ferrowarp::ops::reduce::{Reducer, sum_f32, sum_i32, sum_tree_f32};
use ferrowarp::reference;
use rand::RngExt;

use crate::support::{SIZES, floats, gpu, rng, upload};

/// Past one tile for every block of the largest grid, with a ragged end: the grid steps on.
const PAST_ONE_GRID: usize = 1056 * 4096 + 4096 + 5;

fn assert_close(found: f32, x: &[f32]) {
    let additions = x.len() as f64 / 270_000.0 + 64.0;
    let allowed = additions * 2.0_f64.powi(-24) * reference::reduce::sum_of_magnitudes(x);
    let error = (f64::from(found) - reference::reduce::sum_f32(x)).abs();
    assert!(error <= allowed, "{} elements: off by {error:e}, allowed {allowed:e}", x.len());
}

#[test]
fn f32_every_size() {
    let mut rng = rng();
    for n in SIZES.into_iter().chain([PAST_ONE_GRID]) {
        let x = floats(&mut rng, n);
        assert_close(sum_f32(gpu(), &upload(&x)).unwrap(), &x);
    }
}

#[test]
fn f32_integers_are_exact() {
    let mut rng = rng();
    for n in SIZES {
        let x: Vec<f32> = (0..n).map(|_| rng.random_range(-8..=8) as f32).collect();
        assert_eq!(f64::from(sum_f32(gpu(), &upload(&x)).unwrap()), reference::reduce::sum_f32(&x));
    }
}

#[test]
fn i32_every_size_wraps() {
    let mut rng = rng();
    for n in SIZES.into_iter().chain([PAST_ONE_GRID]) {
        let x: Vec<i32> = (0..n).map(|_| rng.random()).collect();
        assert_eq!(sum_i32(gpu(), &upload(&x)).unwrap(), reference::reduce::sum_i32(&x), "n = {n}");
    }
}

#[test]
fn f32_tree_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        assert_close(sum_tree_f32(gpu(), &upload(&x)).unwrap(), &x);
    }
}

#[test]
fn every_alignment_of_the_first_element() {
    let mut rng = rng();
    let x = floats(&mut rng, 20_000);
    let on_device = upload(&x);
    for start in 0..9 {
        let found = sum_f32(gpu(), &on_device.slice(start..19_999)).unwrap();
        assert_close(found, &x[start..19_999]);
    }
}

#[test]
fn the_same_bits_again_and_again() {
    let mut rng = rng();
    let x = upload(&floats(&mut rng, 1_000_003));
    let mut reducer = Reducer::new(gpu()).unwrap();
    let mut sums = (0..5).map(|_| {
        reducer.queue_f32(gpu(), &x).unwrap();
        reducer.bits().unwrap()
    });
    let first = sums.next().unwrap();
    assert!(sums.all(|sum| sum == first));
}

#[test]
fn the_same_bits_on_every_device() {
    // The order of additions depends on the length alone, so this sum is one number, found once on the emulator.
    let mut state = 1_u32;
    let x: Vec<f32> = (0..100_003)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0 - 0.5
        })
        .collect();
    let sum = sum_f32(gpu(), &upload(&x)).unwrap();
    assert_close(sum, &x);
    assert_eq!(sum.to_bits(), SUM_OF_LCG, "{sum} = {:#x}", sum.to_bits());
}

const SUM_OF_LCG: u32 = 0xc1f5_f306;

#[test]
fn subnormals_are_added_and_not_flushed() {
    // Sums of the smallest number are whole multiples of it, whatever the order.
    let x = vec![f32::from_bits(1); 5000];
    assert_eq!(sum_f32(gpu(), &upload(&x)).unwrap().to_bits(), 5000);
}

#[test]
fn nan_and_infinity_go_through() {
    let mut x = vec![1.0; 5000];
    x[4321] = f32::INFINITY;
    assert_eq!(sum_f32(gpu(), &upload(&x)).unwrap(), f32::INFINITY);
    x[17] = f32::NEG_INFINITY;
    assert!(sum_f32(gpu(), &upload(&x)).unwrap().is_nan());
}
