//! The `.approx` functions.
//!
//! A GPU's results are off by an ulp or two; these are the nearest float to the true result, up to
//! the host's double-precision functions, with the special values that the PTX ISA states. With
//! `ftz` subnormal operands and results become zeros of their sign.

use super::float::{self, NAN_F32, canonical_f32, ftz, ftz_rounded};
use super::half::{self, Half};
use super::soft::{Format, Rounding};

/// Computes in doubles, with operand and result flushed if `flush`.
#[inline]
fn unary(a: f32, flush: bool, f: impl Fn(f64) -> f64) -> f32 {
    let a = if flush { ftz(a) } else { a };
    let exact = f(a.into());
    let result = canonical_f32(exact as f32);
    if flush { ftz_rounded(result, || exact, Rounding::NearestEven) } else { result }
}

/// `ex2.approx.f32`: 2 to the power `a`.
pub fn ex2(a: f32, flush: bool) -> f32 {
    unary(a, flush, f64::exp2)
}

/// `lg2.approx.f32`: logarithm to base 2; of either zero it is minus infinity.
pub fn lg2(a: f32, flush: bool) -> f32 {
    unary(a, flush, f64::log2)
}

/// `sin.approx.f32`: of an infinity it is NaN.
pub fn sin(a: f32, flush: bool) -> f32 {
    unary(a, flush, f64::sin)
}

/// `cos.approx.f32`: of an infinity it is NaN.
pub fn cos(a: f32, flush: bool) -> f32 {
    unary(a, flush, f64::cos)
}

/// `tanh.approx.f32`
pub fn tanh(a: f32) -> f32 {
    unary(a, false, f64::tanh)
}

/// `rcp.approx.f32`: one divided by `a`.
pub fn rcp(a: f32, flush: bool) -> f32 {
    unary(a, flush, |a| 1. / a)
}

/// `rsqrt.approx.f32`: one divided by the square root; of either zero, the infinity of its sign.
pub fn rsqrt(a: f32, flush: bool) -> f32 {
    unary(a, flush, |a| 1. / a.sqrt())
}

/// `sqrt.approx.f32`
pub fn sqrt(a: f32, flush: bool) -> f32 {
    // The root of a normal number is normal.
    float::sqrt_f32(if flush { ftz(a) } else { a }, Rounding::NearestEven)
}

/// `div.approx.f32`, computed as `a · (1 / b)`: where the magnitude of `b` is above 2^126 its
/// reciprocal is flushed, so the quotient is a zero, or NaN for an infinite `a`.
pub fn div(a: f32, b: f32, flush: bool) -> f32 {
    let (a, b) = if flush { (ftz(a), ftz(b)) } else { (a, b) };
    const HUGE: f32 = f32::from_bits((126 + 127) << 23);
    let sign = f32::copysign(1., a) * f32::copysign(1., b);
    if b.is_finite() && b.abs() > HUGE {
        return if a.is_finite() { 0f32.copysign(sign) } else { NAN_F32 };
    }
    div_full(a, b, flush)
}

/// `div.full.f32`: over the full range of `b`.
pub fn div_full(a: f32, b: f32, flush: bool) -> f32 {
    let b = if flush { ftz(b) } else { b };
    unary(a, flush, |a| a / f64::from(b))
}

/// `rcp.approx.ftz.f64`: from the upper 32 bits of the operand, to the upper 32 bits of the result.
pub fn rcp_f64(a: f64) -> f64 {
    gross(a, |a| 1. / a)
}

/// `rsqrt.approx.ftz.f64`: from the upper 32 bits of the operand, to the upper 32 bits of the
/// result.
pub fn rsqrt_ftz_f64(a: f64) -> f64 {
    gross(a, |a| 1. / a.sqrt())
}

/// `rsqrt.approx.f64`: one step of a cubic iteration from [`rsqrt_ftz_f64`], as NVIDIA's assembler
/// writes it. Subnormals are scaled up before and the result afterwards.
pub fn rsqrt_f64(a: f64) -> f64 {
    const NAN: u64 = 0xfff8_0000_0000_0000;
    match a {
        _ if a.is_nan() => float::quiet_f64(a),
        _ if a == 0. => f64::INFINITY.copysign(a),
        _ if a < 0. => f64::from_bits(NAN),
        f64::INFINITY => 0.,
        _ if a.is_subnormal() => refined(a * 2f64.powi(54)) * 2f64.powi(27),
        _ => refined(a),
    }
}

/// The reciprocal root of a normal positive number.
fn refined(a: f64) -> f64 {
    let rough = rsqrt_ftz_f64(a);
    let fma = |a, b, c| float::fma_f64(a, b, c, Rounding::NearestEven);
    let error = fma(rough * rough, -a, 1.);
    fma(fma(error, 0.375, 0.5), rough * error, rough)
}

/// Computes with the upper halves of doubles, and with subnormals flushed.
fn gross(a: f64, f: impl Fn(f64) -> f64) -> f64 {
    const NAN: u64 = 0x7fff_ffff_0000_0000;
    let result = f(upper(a));
    f64::from_bits(if result.is_nan() { NAN } else { upper(result).to_bits() })
}

/// The upper 32 bits of a double; a subnormal becomes the zero of its sign, and a NaN whose payload
/// lies in the lower bits an infinity.
fn upper(a: f64) -> f64 {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    let flushed = if a.is_subnormal() { 0f64.copysign(a) } else { a };
    f64::from_bits(flushed.to_bits() & UPPER)
}

/// `ex2.approx.f16`, which keeps subnormals, and `ex2.approx.ftz.bf16`, which does not.
pub fn ex2_half<H: Half>(a: u16) -> u16 {
    half::<H>(a, |a| ex2(a, H::FORMAT == Format::BF16))
}

/// `tanh.approx.f16`, `tanh.approx.bf16`
pub fn tanh_half<H: Half>(a: u16) -> u16 {
    half::<H>(a, tanh)
}

/// A function of one half, rounded to nearest even.
fn half<H: Half>(a: u16, f: impl Fn(f32) -> f32) -> u16 {
    half::narrow::<H>(f(H::widen(a)), Rounding::NearestEven)
}

#[cfg(test)]
mod tests {
    use super::super::half::{Bf16, F16};
    use super::*;

    const INF: f32 = f32::INFINITY;
    const NAN: u32 = 0x7fff_ffff;
    const TINY: f32 = f32::from_bits(1);

    fn bits<const N: usize>(f: impl Fn(f32) -> f32, values: [f32; N]) -> [u32; N] {
        values.map(|value| f(value).to_bits())
    }

    fn floats<const N: usize>(values: [f32; N]) -> [u32; N] {
        values.map(f32::to_bits)
    }

    /// -inf, -subnormal, -0, +0, +subnormal, +inf: the rows of the tables in the PTX ISA.
    const ROWS: [f32; 6] = [-INF, -TINY, -0., 0., TINY, INF];
    const BIG: f32 = f32::from_bits((127 + 74) << 23);

    #[test]
    fn ex2_special_values() {
        for flush in [false, true] {
            assert_eq!(bits(|a| ex2(a, flush), ROWS), floats([0., 1., 1., 1., 1., INF]));
            assert_eq!(ex2(-f32::NAN, flush).to_bits(), NAN);
        }
        assert_eq!(bits(|a| ex2(a, false), [-149., 10., -1.]), floats([TINY, 1024., 0.5]));
        assert_eq!(bits(|a| ex2(a, true), [-149., 128.]), floats([0., INF]));
    }

    #[test]
    fn lg2_special_values() {
        let rows = bits(|a| lg2(a, false), ROWS);
        assert_eq!(rows[2..], floats([-INF, -INF, -149., INF]));
        assert_eq!(rows[..2], [NAN, NAN]);
        let rows = bits(|a| lg2(a, true), ROWS);
        assert_eq!(rows[1..], floats([-INF, -INF, -INF, -INF, INF]));
        assert_eq!(rows[0], NAN);
    }

    #[test]
    fn sin_and_cos_special_values() {
        assert_eq!(bits(|a| sin(a, false), ROWS)[1..5], floats([-TINY, -0., 0., TINY]));
        assert_eq!(bits(|a| sin(a, true), ROWS)[1..5], floats([-0., -0., 0., 0.]));
        assert_eq!(bits(|a| cos(a, true), ROWS)[1..5], floats([1.; 4]));
        assert_eq!(bits(|a| sin(a, true), [-INF, INF]), [NAN, NAN]);
        assert_eq!(bits(|a| cos(a, true), [-INF, INF]), [NAN, NAN]);
    }

    #[test]
    fn rcp_sqrt_and_rsqrt_special_values() {
        assert_eq!(bits(|a| rcp(a, true), ROWS), floats([-0., -INF, -INF, INF, INF, 0.]));
        assert_eq!(bits(|a| rcp(a, false), [-TINY, TINY, 4.]), floats([-INF, INF, 0.25]));
        assert_eq!(bits(|a| sqrt(a, true), ROWS)[1..], floats([-0., -0., 0., 0., INF]));
        assert_eq!(bits(|a| sqrt(a, false), ROWS)[..2], [NAN, NAN]);
        assert_eq!(bits(|a| rsqrt(a, true), ROWS)[1..], floats([-INF, -INF, INF, INF, 0.]));
        assert_eq!(rsqrt(TINY, false).to_bits(), (2f64.powf(74.5) as f32).to_bits());
        assert_eq!(bits(|a| rsqrt(a, false), [-INF, -1.]), [NAN, NAN]);
        assert_eq!(rsqrt(1. / BIG / BIG, false), BIG);
    }

    #[test]
    fn tanh_is_bounded_and_keeps_the_sign_of_zero() {
        assert_eq!(bits(tanh, ROWS), floats([-1., -TINY, -0., 0., TINY, 1.]));
        assert_eq!(tanh(f32::NAN).to_bits(), NAN);
    }

    #[test]
    fn division_by_huge_numbers_is_zero() {
        let huge = f32::MAX;
        assert_eq!(div(1e38, huge, false).to_bits(), 0);
        assert_eq!(div(-1e38, huge, false).to_bits(), 1 << 31);
        assert_eq!(div(INF, huge, false).to_bits(), NAN);
        assert_eq!(div_full(huge, huge, false), 1.);
        assert_eq!(div(1., INF, false).to_bits(), 0);
        assert_eq!(div(6., 3., true), 2.);
        assert_eq!(div(1., TINY, true), INF);
        assert_eq!(div(TINY, 2., true).to_bits(), 0);
        assert_eq!(div(0., 0., true).to_bits(), NAN);
    }

    #[test]
    fn gross_doubles_use_upper_halves() {
        assert_eq!(rcp_f64(3.).to_bits(), 0x3fd5_5555_0000_0000);
        assert_eq!(rcp_f64(f64::from_bits(0x4008_0000_ffff_ffff)).to_bits(), 0x3fd5_5555_0000_0000);
        assert_eq!(rcp_f64(-0.), f64::NEG_INFINITY);
        assert_eq!(rcp_f64(f64::from_bits(1)), f64::INFINITY);
        assert_eq!(rcp_f64(f64::MAX).to_bits(), 0, "a subnormal result is flushed");
        assert_eq!(rsqrt_ftz_f64(4.), 0.5);
        for (a, expected) in [(4., 0.5), (0., f64::INFINITY), (-0., -f64::INFINITY)] {
            assert_eq!(rsqrt_f64(a), expected, "{a}");
        }
        assert_eq!(rsqrt_f64(f64::INFINITY).to_bits(), 0);
        assert_eq!(rsqrt_f64(-1.).to_bits(), 0xfff8_0000_0000_0000);
        assert_eq!(rsqrt_f64(f64::from_bits(1)), 2f64.powi(537));
        // What an H200 gives.
        for (a, expected) in [
            (0x3ff6_7311_5d6a_4c12, 0x3feb_03de_7478_a19a),
            (0x400c_56a2_0468_23ba, 0x3fe1_0095_9a5c_278c),
            (0x04ef_3d62_204e_5d9f, 0x5d70_3189_e210_2eb8),
            (0x7763_bb4b_67dc_7651, 0x2434_6031_2a16_2b8c),
            (0x4a4e_00ff_4ff6_f367, 0x3ac0_860e_53a8_140c),
            (0x7ff0_0000_0000_0001, 0x7ff8_0000_0000_0001),
        ] {
            assert_eq!(rsqrt_f64(f64::from_bits(a)).to_bits(), expected, "{a:#x}");
        }
        for a in [2., 3., 1e-300, 7e300, 0.1] {
            assert!((rsqrt_f64(a) * a.sqrt() - 1.).abs() < 1e-15, "{a}");
        }
        let nans = [rsqrt_ftz_f64(-1.), rcp_f64(f64::from_bits(0xfff0_0001_0000_0000))];
        assert_eq!(nans.map(f64::to_bits), [0x7fff_ffff_0000_0000; 2]);
        assert_eq!(rcp_f64(f64::from_bits(0x7ff0_0000_0000_0001)).to_bits(), 0);
    }

    #[test]
    fn halves_round_the_float() {
        assert_eq!([0x4000, 0xcd00].map(ex2_half::<F16>), [0x4400, 0x0010]);
        assert_eq!([0x4000, 0xc301].map(ex2_half::<Bf16>), [0x4080, 0]);
        assert_eq!(tanh_half::<Bf16>(0xff80), 0xbf80);
        assert_eq!(tanh_half::<F16>(0x7e01), 0x7fff);
    }
}
