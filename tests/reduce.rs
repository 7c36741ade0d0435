//! The reductions against loops on the CPU.
//!
//! Tolerance of a float sum: each addition rounds by at most half a unit of the running sum, which never exceeds
//! the sum of magnitudes; no element passes through more than `n / 540,000 + 64` additions in these kernels, so
//! the error is below that many times 2^-24 (f64: 2^-53) of the sum of magnitudes. Sums of small integers, products
//! of powers of two, and everything of integers are exact.

mod columns;
mod places;
mod segments;
mod whole;

use bytemuck::Pod;
use cuda_std::number::{Half, bf16, f16};
use kernels_gpu::reduce::TILE;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::SIZES;

/// Elements of a tile.
fn tile<T>() -> usize {
    TILE * 16 / size_of::<T>()
}

/// Sizes that hurt, and around one tile and some.
fn sizes<T>() -> Vec<usize> {
    let tile = tile::<T>();
    let around = [1, 2, 3].into_iter().flat_map(|n| [n * tile - 1, n * tile, n * tile + 1]);
    SIZES.into_iter().chain(around).collect()
}

/// A number with which all types are tested.
trait Tested: Pod + Copy + PartialOrd + std::fmt::Debug {
    /// Any value, of floats in -1..1.
    fn any(rng: &mut StdRng) -> Self;
    /// A small whole number.
    fn small(value: i8) -> Self;
    /// The same number, if f64 has it.
    fn wide(self) -> f64;
}

macro_rules! tested {
    ($($ty:ty: |$rng:ident| $any:expr, |$small:ident| $from:expr, |$x:ident| $wide:expr;)*) => {$(
        impl Tested for $ty {
            fn any($rng: &mut StdRng) -> Self {
                $any
            }

            fn small($small: i8) -> Self {
                $from
            }

            fn wide(self) -> f64 {
                let $x = self;
                $wide
            }
        }
    )*};
}

tested! {
    f32: |rng| rng.random_range(-1.0..1.0), |x| x.into(), |x| x.into();
    f64: |rng| rng.random_range(-1.0..1.0), |x| x.into(), |x| x;
    f16: |rng| f16::nearest(rng.random_range(-1.0..1.0)), |x| f16::nearest(x.into()), |x| x.widen().into();
    bf16: |rng| bf16::nearest(rng.random_range(-1.0..1.0)), |x| bf16::nearest(x.into()), |x| x.widen().into();
    i32: |rng| rng.random(), |x| x.into(), |x| x.into();
    u32: |rng| rng.random(), |x| x as u32, |x| x.into();
    i64: |rng| rng.random(), |x| x.into(), |x| x as f64;
    u64: |rng| rng.random(), |x| x as u64, |x| x as f64;
}

/// `n` of them.
fn values<T: Tested>(rng: &mut StdRng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::any(rng)).collect()
}

/// `n` whole numbers whose sums are exact.
fn small_values<T: Tested>(rng: &mut StdRng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::small(rng.random_range(-8..=8))).collect()
}

/// Panics unless a sum of `x` is as near as its additions allow.
fn assert_close<T: Tested>(found: f64, x: &[T], half_ulp: f64) {
    let additions = x.len() as f64 / 540_000.0 + 64.0;
    let magnitudes: f64 = x.iter().map(|x| x.wide().abs()).sum();
    let allowed = additions * half_ulp * magnitudes;
    let error = (found - reference::reduce::sum(x.iter().map(|x| x.wide()))).abs();
    assert!(error <= allowed, "{} elements: off by {error:e}, allowed {allowed:e}", x.len());
}

/// Half a unit in the last place, relative to the number.
const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;
const HALF_ULP_64: f64 = f64::EPSILON / 2.0;
