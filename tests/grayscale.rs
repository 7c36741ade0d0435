//! `grayscale` against luma in f64. The kernel's 16-bit weights are off by at most 2^-17 each, so the two agree
//! except where the exact luma is that close to a half: there they may differ by one.

use ferrowarp::ops;
use rand::RngExt;

use crate::support::{SIZES, gpu, poisoned, rng, upload};

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        let rgba: Vec<[u8; 4]> = (0..n).map(|_| rng.random()).collect();
        let mut grey = poisoned(n);
        ops::grayscale(gpu(), &upload(&rgba), &mut grey).unwrap();
        let expected = reference::grayscale::grayscale(&rgba);
        for (i, (found, expected)) in grey.to_vec().unwrap().iter().zip(&expected).enumerate() {
            let [r, g, b, _] = rgba[i].map(f64::from);
            let to_half = ((0.299 * r + 0.587 * g + 0.114 * b).fract() - 0.5).abs();
            let allowed = u8::from(to_half < 1.0 / 128.0);
            assert!(
                found.abs_diff(*expected) <= allowed,
                "pixel {i} {:?}: {found}, not {expected}",
                rgba[i]
            );
        }
    }
}

#[test]
fn greys_stay_as_they_are() {
    let rgba: Vec<[u8; 4]> = (0..=255).map(|level| [level, level, level, 7]).collect();
    let mut grey = poisoned(256);
    ops::grayscale(gpu(), &upload(&rgba), &mut grey).unwrap();
    assert!(grey.to_vec().unwrap().into_iter().eq(0..=255));
}
