//! How far the functions of floats are from the truth, over all arguments.
//!
//! The reference is a double: from the `libm` crate, which shares no code with the functions of
//! floats, else from our functions of doubles, which are compared with mpmath's results elsewhere.

use cuda_std::intrinsics as c;
use cuda_std::prelude::*;

/// A function's name, the largest error that its doc allows, and the one that CUDA's manual states
/// for its own; in ulp from the correctly rounded result.
pub struct Bound {
    pub name: &'static str,
    pub ours: u32,
    pub cuda: u32,
}

macro_rules! table {
    ($list:ident, $found:ident, $wanted:ident, $args:literal, $call:ident:
     $($name:ident = $reference:expr, $ours:literal, $cuda:literal;)+) => {
        /// The bounds, by number.
        pub const $list: &[Bound] =
            &[$(Bound { name: stringify!($name), ours: $ours, cuda: $cuda }),+];

        mod $found {
            #[allow(non_camel_case_types)]
            pub enum Op { $($name),+ }
        }

        /// What function `op` gives.
        #[inline(always)]
        pub fn $found(op: u32, args: [f32; $args]) -> f32 {
            $(if op == $found::Op::$name as u32 {
                return $call!(args, f32, c::$name);
            })+
            f32::NAN
        }

        /// What it should give.
        #[inline(always)]
        pub fn $wanted(op: u32, args: [f32; $args]) -> f64 {
            $(if op == $found::Op::$name as u32 {
                return $call!(args, f64, $reference);
            })+
            f64::NAN
        }
    };
}

macro_rules! unary {
    ($args:ident, $t:ty, $f:expr) => {{
        let f: fn($t) -> $t = $f;
        f($args[0].into())
    }};
}

macro_rules! binary {
    ($args:ident, $t:ty, $f:expr) => {{
        let f: fn($t, $t) -> $t = $f;
        f($args[0].into(), $args[1].into())
    }};
}

table! {
    UNARY, found, wanted, 1, unary:
    expf = libm::exp, 2, 2;
    exp2f = libm::exp2, 2, 2;
    exp10f = libm::exp10, 2, 2;
    expm1f = libm::expm1, 1, 1;
    logf = libm::log, 1, 1;
    log2f = libm::log2, 1, 1;
    log10f = libm::log10, 1, 2;
    log1pf = libm::log1p, 1, 1;
    sinf = libm::sin, 2, 2;
    cosf = libm::cos, 2, 2;
    tanf = libm::tan, 4, 4;
    sinpif = c::sinpi, 1, 1;
    cospif = c::cospi, 1, 1;
    asinf = libm::asin, 2, 2;
    acosf = libm::acos, 2, 2;
    atanf = libm::atan, 2, 2;
    sinhf = libm::sinh, 3, 3;
    coshf = libm::cosh, 2, 2;
    tanhf = libm::tanh, 2, 2;
    asinhf = libm::asinh, 3, 3;
    acoshf = |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 4, 4;
    atanhf = libm::atanh, 3, 3;
    sqrtf = libm::sqrt, 0, 0;
    rsqrtf = |x| 1.0 / libm::sqrt(x), 2, 2;
    cbrtf = libm::cbrt, 1, 1;
    rcbrtf = |x| 1.0 / libm::cbrt(x), 1, 1;
    erff = libm::erf, 2, 2;
    erfcf = libm::erfc, 4, 4;
    erfcxf = c::erfcx, 4, 4;
    erfinvf = c::erfinv, 2, 2;
    erfcinvf = c::erfcinv, 4, 4;
    normcdff = c::normcdf, 5, 5;
    normcdfinvf = c::normcdfinv, 5, 5;
    tgammaf = c::tgamma, 5, 5;
    lgammaf = c::lgamma, 6, 6;
}

table! {
    PAIRS, found_pair, wanted_pair, 2, binary:
    powf = libm::pow, 4, 4;
    atan2f = libm::atan2, 3, 3;
    hypotf = libm::hypot, 3, 3;
}

/// `(distance, error)` in ulp: from the rounded reference, and from the reference itself.
///
/// A NaN for a number, or a zero of the wrong sign, is farther than any bound.
#[inline(always)]
pub fn error(found: f32, wanted: f64) -> (u32, f32) {
    let rounded = wanted as f32;
    if found.is_nan() || rounded.is_nan() {
        return if found.is_nan() == rounded.is_nan() { (0, 0.0) } else { (u32::MAX, f32::MAX) };
    }
    if found == 0.0 && rounded == 0.0 && found.is_sign_negative() != rounded.is_sign_negative() {
        return (u32::MAX, f32::MAX);
    }
    let ordered = |x: f32| {
        let bits = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -bits } else { bits }
    };
    let distance = (ordered(found) - ordered(rounded)).unsigned_abs() as u32;
    if !found.is_finite() || !rounded.is_finite() {
        return (distance, 0.0);
    }
    // Units in the last place as 2^-n, doubles all of them.
    let exponent = u64::from((rounded.to_bits() >> 23 & 255).max(1));
    let units = f64::from_bits((1023 + 150 - exponent) << 52);
    (distance, ((f64::from(found) - wanted).abs() * units) as f32)
}

/// The worst of many: `(distance, argument)` packed so that the larger is worse, and the error.
#[derive(Clone, Copy)]
pub struct Worst {
    pub at: u64,
    pub error: f32,
}

impl Worst {
    /// Nothing yet.
    pub const NONE: Self = Self { at: 0, error: 0.0 };

    /// The worse of two.
    #[inline(always)]
    pub fn or(self, at: u64, error: f32) -> Self {
        Self {
            at: if at > self.at { at } else { self.at },
            error: if error > self.error { error } else { self.error },
        }
    }
}

/// The error of function `op` for the float with these bits.
#[inline(always)]
pub fn survey(op: u32, bits: u32, worst: Worst) -> Worst {
    let x = f32::from_bits(bits);
    let (distance, error) = error(found(op, [x]), wanted(op, [x]));
    worst.or(u64::from(distance) << 32 | u64::from(bits), error)
}

/// The floats with bits `thread·step`, `(thread + threads)·step`, … below 2^32.
#[kernel]
pub fn run_survey(index: ThreadIndex, op: u32, step: u64, mut out: DisjointSlice<[u64; 2]>) {
    let threads = out.len() as u64;
    if let Some(out) = out.get_mut(index) {
        let mut worst = Worst::NONE;
        let mut bits = index.get() as u64 * step;
        while bits < 1 << 32 {
            worst = survey(op, bits as u32, worst);
            bits += threads * step;
        }
        *out = [worst.at, worst.error.to_bits().into()];
    }
}

/// The error of function `op` for a pair.
#[kernel]
pub fn run_pairs(
    index: ThreadIndex,
    op: u32,
    pairs: &[[f32; 2]],
    mut out: DisjointSlice<[u64; 2]>,
) {
    if let Some(out) = out.get_mut(index) {
        let pair = pairs[index.get()];
        let (distance, error) = error(found_pair(op, pair), wanted_pair(op, pair));
        *out = [distance.into(), error.to_bits().into()];
    }
}
