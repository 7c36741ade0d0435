//! Arithmetic of `.f32` and `.f64`.
//!
//! Rounding to nearest even is the host's own operation. The other roundings compute exactly in
//! integers and round once. A NaN result of `.f32` is always [`NAN_F32`]; of `.f64` it is the last
//! NaN operand (of `div` the first, of `fma` the second factor before the summand) made quiet, or
//! [`NAN_F64`] where the operation itself has no result.

use super::soft::{self, Format, Number, Rounding};

/// The NaN that `.f32` instructions make.
pub const NAN_F32: f32 = f32::from_bits(0x7fff_ffff);
/// The NaN that `.f64` instructions make of operands that are none.
pub const NAN_F64: f64 = f64::from_bits(0xfff8_0000_0000_0000);

/// Any NaN becomes the one of PTX.
#[inline(always)]
pub fn canonical_f32(value: f32) -> f32 {
    if value.is_nan() { NAN_F32 } else { value }
}

/// `.ftz`: a subnormal becomes the zero of its sign.
#[inline(always)]
pub fn ftz(value: f32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { value }
}

/// Whether a result is flushed although rounding makes it the smallest normal number: `exact`,
/// rounded to as many bits whatever its exponent, lies below that. So does the hardware decide.
#[inline(always)]
pub fn is_tiny(exact: f64, smallest: f64, bits: i32, rounding: Rounding) -> bool {
    let below = |part: i32| smallest * (1. - 2f64.powi(-part));
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway => exact.abs() < below(bits + 1),
        _ => exact.abs() <= below(bits),
    }
}

/// `.ftz` of a result, whose exact value is that.
#[inline(always)]
pub fn ftz_rounded(result: f32, exact: impl FnOnce() -> f64, rounding: Rounding) -> f32 {
    const SMALLEST: f32 = f32::MIN_POSITIVE;
    if result.abs() == SMALLEST && is_tiny(exact(), SMALLEST.into(), 24, rounding) {
        return if result > 0. { 0. } else { -0. };
    }
    ftz(result)
}

/// `.sat` of `.f32`: to [+0, 1]; a NaN becomes +0.
#[inline(always)]
pub fn sat_f32(value: f32) -> f32 {
    if value > 0. { if value < 1. { value } else { 1. } } else { 0. }
}

/// `.sat` of `.f64`: to [+0, 1]; a NaN becomes +0.
#[inline(always)]
pub fn sat_f64(value: f64) -> f64 {
    if value > 0. { if value < 1. { value } else { 1. } } else { 0. }
}

fn number_f32(value: f32) -> Number {
    Number::unpack(value.to_bits().into(), Format::F32)
}

fn number_f64(value: f64) -> Number {
    Number::unpack(value.to_bits(), Format::F64)
}

fn pack_f32(number: Number, rounding: Rounding) -> f32 {
    f32::from_bits(number.pack(Format::F32, rounding) as u32)
}

fn pack_f64(number: Number, rounding: Rounding) -> f64 {
    f64::from_bits(number.pack(Format::F64, rounding))
}

/// Bit of an f64 that tells a quiet NaN from a signalling one.
const QUIET: u64 = 1 << 51;

/// A signalling NaN becomes quiet.
#[inline(always)]
pub fn quiet_f64(value: f64) -> f64 {
    f64::from_bits(value.to_bits() | if value.is_nan() { QUIET } else { 0 })
}

/// The first NaN among operands, quiet; the result of the operation if there is none.
#[inline(always)]
fn propagate_first<const N: usize>(operands: [f64; N], result: f64) -> f64 {
    if !result.is_nan() {
        return result;
    }
    match operands.into_iter().find(|operand| operand.is_nan()) {
        Some(nan) => quiet_f64(nan),
        None => NAN_F64,
    }
}

/// The last NaN among operands, quiet; the result of the operation if there is none.
#[inline(always)]
fn propagate<const N: usize>(mut operands: [f64; N], result: f64) -> f64 {
    operands.reverse();
    propagate_first(operands, result)
}

macro_rules! arithmetic {
    ($float:ident, $finish:expr, $finish_div:expr, $number:ident, $pack:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $rcp:ident, $sqrt:ident) => {
        /// `add`. A sum of exactly zero is +0, or -0 when rounding down.
        #[inline(always)]
        pub fn $add(a: $float, b: $float, rounding: Rounding) -> $float {
            if rounding == Rounding::NearestEven || !(a.is_finite() && b.is_finite()) {
                return $finish([a, b], a + b);
            }
            $pack(soft::add($number(a), $number(b), rounding), rounding)
        }

        /// `sub`. A difference of exactly zero is +0, or -0 when rounding down.
        #[inline(always)]
        pub fn $sub(a: $float, b: $float, rounding: Rounding) -> $float {
            if rounding == Rounding::NearestEven || !(a.is_finite() && b.is_finite()) {
                return $finish([a, b], a - b);
            }
            $pack(soft::add($number(a), $number(-b), rounding), rounding)
        }

        /// `mul`
        #[inline(always)]
        pub fn $mul(a: $float, b: $float, rounding: Rounding) -> $float {
            if rounding == Rounding::NearestEven || !(a.is_finite() && b.is_finite()) {
                return $finish([a, b], a * b);
            }
            $pack(soft::mul($number(a), $number(b)), rounding)
        }

        /// `div`
        #[inline(always)]
        pub fn $div(a: $float, b: $float, rounding: Rounding) -> $float {
            let special = !(a.is_finite() && b.is_finite()) || b == 0.;
            if rounding == Rounding::NearestEven || special {
                return $finish_div([a, b], a / b);
            }
            $pack(soft::div($number(a), $number(b)), rounding)
        }

        /// `rcp`: one divided by the operand.
        #[inline(always)]
        pub fn $rcp(a: $float, rounding: Rounding) -> $float {
            $div(1., a, rounding)
        }

        /// `sqrt`: of a negative number it is NaN, of -0 it is -0.
        ///
        /// The root is taken of the magnitude, since LLVM makes `x < 0 ? NaN : sqrt(x)` into
        /// `sqrt(x)`, whose NaN is another.
        #[inline(always)]
        pub fn $sqrt(a: $float, rounding: Rounding) -> $float {
            if rounding == Rounding::NearestEven || !a.is_finite() || a <= 0. {
                let root = if a == 0. { a } else { a.abs().sqrt() };
                return if a >= 0. { root } else { $finish([a], $float::NAN) };
            }
            $pack(soft::sqrt($number(a)), rounding)
        }
    };
}

arithmetic!(
    f32,
    |_, result| canonical_f32(result),
    |_, result| canonical_f32(result),
    number_f32,
    pack_f32,
    add_f32,
    sub_f32,
    mul_f32,
    div_f32,
    rcp_f32,
    sqrt_f32
);
arithmetic!(
    f64,
    propagate,
    propagate_first,
    number_f64,
    pack_f64,
    add_f64,
    sub_f64,
    mul_f64,
    div_f64,
    rcp_f64,
    sqrt_f64
);

/// Sum of two doubles rounded to odd: if it is inexact, its last bit is set.
///
/// Rounded once more to a format of at most 51 bits, that gives what rounding the exact sum gives
/// (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
/// The exact error is that of D. Knuth's two-sum, which no overflow disturbs for sums of products
/// of two f32.
#[inline(always)]
pub(super) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    // Of an infinite or NaN sum the error is NaN.
    let inexact = error.abs() > 0.;
    let towards_zero = (error > 0.) != (sum > 0.);
    let truncated = bits - u64::from(inexact && towards_zero);
    f64::from_bits(truncated | u64::from(inexact))
}

/// `fma` of `.f32`: `a · b + c`, rounded once.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    let finite = a.is_finite() && b.is_finite() && c.is_finite();
    if rounding == Rounding::NearestEven || !finite {
        // The product of two f32 is exact in f64.
        let product = f64::from(a) * f64::from(b);
        return canonical_f32(add_to_odd(product, c.into()) as f32);
    }
    let product = soft::mul(number_f32(a), number_f32(b));
    pack_f32(soft::add(product, number_f32(c), rounding), rounding)
}

/// Whether `f64::mul_add` is right: MinGW's `fma` rounds twice, on any processor.
const HOST_ROUNDS_ONCE: bool = !cfg!(all(windows, target_env = "gnu"));

/// `a · b + c` with an infinity or NaN among them, where nothing is rounded.
fn fma_not_finite(a: f64, b: f64, c: f64) -> f64 {
    // The product of finite numbers may overflow, and does not change an infinite or NaN `c`.
    if a.is_finite() && b.is_finite() { c } else { a * b + c }
}

/// `fma` of `.f64`: `a · b + c`, rounded once.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    let finite = a.is_finite() && b.is_finite() && c.is_finite();
    if !finite {
        return propagate([a, c, b], fma_not_finite(a, b, c));
    }
    if rounding == Rounding::NearestEven && HOST_ROUNDS_ONCE {
        return propagate([a, c, b], a.mul_add(b, c));
    }
    let product = soft::mul(number_f64(a), number_f64(b));
    pack_f64(soft::add(product, number_f64(c), rounding), rounding)
}

macro_rules! sign_and_order {
    ($float:ident, $sign:expr, $nan:expr, $quiet:expr, $min:ident, $max:ident, $min_nan:ident,
     $max_nan:ident, $xorsign:ident, $abs:ident, $neg:ident, $copysign:ident) => {
        /// `min`: the operand that is not a NaN, if there is one; -0 is below +0.
        #[inline(always)]
        pub fn $min(a: $float, b: $float) -> $float {
            if a.is_nan() {
                return if b.is_nan() { $nan(a, b) } else { b };
            }
            let first = a < b || b.is_nan() || (a == b && a.is_sign_negative());
            if first { a } else { b }
        }

        /// `max`: the operand that is not a NaN, if there is one; +0 is above -0.
        #[inline(always)]
        pub fn $max(a: $float, b: $float) -> $float {
            if a.is_nan() {
                return if b.is_nan() { $nan(a, b) } else { b };
            }
            let first = a > b || b.is_nan() || (a == b && a.is_sign_positive());
            if first { a } else { b }
        }

        /// `min.NaN`: NaN if an operand is.
        #[inline(always)]
        pub fn $min_nan(a: $float, b: $float) -> $float {
            if a.is_nan() || b.is_nan() { $nan(a, b) } else { $min(a, b) }
        }

        /// `max.NaN`: NaN if an operand is.
        #[inline(always)]
        pub fn $max_nan(a: $float, b: $float) -> $float {
            if a.is_nan() || b.is_nan() { $nan(a, b) } else { $max(a, b) }
        }

        /// `.xorsign.abs`: what `pick` (a minimum or maximum) makes of the magnitudes, with the
        /// product of the operands' signs.
        #[inline(always)]
        pub fn $xorsign(a: $float, b: $float, pick: impl Fn($float, $float) -> $float) -> $float {
            let sign = (a.to_bits() ^ b.to_bits()) & $sign;
            let magnitude = pick($abs(a), $abs(b));
            if magnitude.is_nan() {
                magnitude
            } else {
                $float::from_bits(magnitude.to_bits() | sign)
            }
        }

        /// `abs`: clears the sign, of a number. A NaN is treated as by arithmetic.
        #[inline(always)]
        pub fn $abs(a: $float) -> $float {
            if a.is_nan() { $quiet(a) } else { $float::from_bits(a.to_bits() & !$sign) }
        }

        /// `neg`: flips the sign, of a number. A NaN is treated as by arithmetic.
        #[inline(always)]
        pub fn $neg(a: $float) -> $float {
            if a.is_nan() { $quiet(a) } else { $float::from_bits(a.to_bits() ^ $sign) }
        }

        /// `copysign d, a, b`: the magnitude of `b` with the sign of `a`.
        #[inline(always)]
        pub fn $copysign(a: $float, b: $float) -> $float {
            $float::from_bits((a.to_bits() & $sign) | (b.to_bits() & !$sign))
        }
    };
}

sign_and_order!(
    f32,
    1u32 << 31,
    |_, _| NAN_F32,
    canonical_f32,
    min_f32,
    max_f32,
    min_nan_f32,
    max_nan_f32,
    xorsign_abs_f32,
    abs_f32,
    neg_f32,
    copysign_f32
);
sign_and_order!(
    f64,
    1u64 << 63,
    |a, b| propagate([a, b], f64::NAN),
    |a| propagate([a], a),
    min_f64,
    max_f64,
    min_nan_f64,
    max_nan_f64,
    xorsign_abs_f64,
    abs_f64,
    neg_f64,
    copysign_f64
);

/// What `testp` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Neither infinite nor NaN.
    Finite,
    /// Infinite.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Neither subnormal, infinite nor NaN; zero counts as normal.
    Normal,
    /// Subnormal.
    Subnormal,
}

/// `testp` of `.f32`.
#[inline(always)]
pub fn testp_f32(a: f32, property: Property) -> bool {
    testp(property, a.classify())
}

/// `testp` of `.f64`.
#[inline(always)]
pub fn testp_f64(a: f64, property: Property) -> bool {
    testp(property, a.classify())
}

fn testp(property: Property, class: std::num::FpCategory) -> bool {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    match property {
        Property::Finite => matches!(class, Normal | Subnormal | Zero),
        Property::Infinite => class == Infinite,
        Property::Number => class != Nan,
        Property::NotANumber => class == Nan,
        Property::Normal => matches!(class, Normal | Zero),
        Property::Subnormal => class == Subnormal,
    }
}

#[cfg(test)]
#[path = "float_tests.rs"]
mod tests;
