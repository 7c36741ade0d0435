//! Arithmetic of `.f16` and `.bf16`, on bits.
//!
//! Sums, products and quotients are rounded to f32 and then again: f32 has more than twice the bits
//! of either format and two, so the second rounding gives what one would have given. `fma` goes
//! through a double rounded to odd.

use super::float;
use super::soft::{Format, Number, Rounding};

/// A 16-bit floating-point format.
pub trait Half: Copy {
    /// Its encoding.
    const FORMAT: Format;
    /// The NaN that instructions make.
    const NAN: u16 = 0x7fff;
    /// The value, which f32 holds without loss.
    fn widen(bits: u16) -> f32;
}

/// `.f16`
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// `.bf16`
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

impl Half for F16 {
    const FORMAT: Format = Format::F16;

    #[inline]
    fn widen(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff);
        let magnitude = match magnitude {
            // The unit of subnormals is 2^-24.
            0..0x400 => (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
            0x400..0x7c00 => (magnitude << 13) + ((127 - 15) << 23),
            _ => (magnitude << 13) | 0x7f80_0000,
        };
        f32::from_bits(sign | magnitude)
    }
}

impl Half for Bf16 {
    const FORMAT: Format = Format::BF16;

    #[inline]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
}

/// Rounds a double to the format; any NaN becomes the one that instructions make.
#[inline]
pub fn narrow_f64<H: Half>(value: f64, rounding: Rounding) -> u16 {
    if value.is_nan() {
        return H::NAN;
    }
    if value.is_infinite() {
        let sign = if value < 0. { 0x8000 } else { 0 };
        let huge = Number { negative: false, mantissa: 1, exponent: 1 << 10, inexact: false };
        return sign | huge.pack(H::FORMAT, Rounding::NearestEven) as u16;
    }
    Number::unpack(value.to_bits(), Format::F64).pack(H::FORMAT, rounding) as u16
}

/// Rounds a float to the format; any NaN becomes the one of PTX.
#[inline]
pub fn narrow<H: Half>(value: f32, rounding: Rounding) -> u16 {
    narrow_f64::<H>(value.into(), rounding)
}

/// Nearest even, as the arithmetic rounds.
fn nearest<H: Half>(value: f32) -> u16 {
    narrow::<H>(value, Rounding::NearestEven)
}

/// `.ftz` of `.f16`: a subnormal becomes the zero of its sign.
#[inline]
pub fn ftz_f16(bits: u16) -> u16 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

/// `.sat`: to [+0, 1]; a NaN becomes +0.
#[inline]
pub fn sat<H: Half>(bits: u16) -> u16 {
    nearest::<H>(float::sat_f32(H::widen(bits)))
}

/// `.relu`: a negative number becomes +0, a NaN the one of PTX.
#[inline]
pub fn relu<H: Half>(bits: u16) -> u16 {
    if H::FORMAT.is_nan(bits.into()) {
        H::NAN
    } else if bits & 0x8000 != 0 {
        0
    } else {
        bits
    }
}

/// `.satfinite`: an infinity becomes the largest number.
#[inline]
pub fn finite<H: Half>(bits: u16) -> u16 {
    match H::widen(bits).is_infinite() {
        true => bits - 1,
        false => bits,
    }
}

/// `add`
#[inline]
pub fn add<H: Half>(a: u16, b: u16) -> u16 {
    nearest::<H>(H::widen(a) + H::widen(b))
}

/// `sub`
#[inline]
pub fn sub<H: Half>(a: u16, b: u16) -> u16 {
    nearest::<H>(H::widen(a) - H::widen(b))
}

/// `mul`
#[inline]
pub fn mul<H: Half>(a: u16, b: u16) -> u16 {
    nearest::<H>(H::widen(a) * H::widen(b))
}

/// `fma`: `a · b + c`, rounded once.
#[inline]
pub fn fma<H: Half>(a: u16, b: u16, c: u16) -> u16 {
    let product = f64::from(H::widen(a)) * f64::from(H::widen(b));
    let sum = float::add_to_odd(product, H::widen(c).into());
    narrow_f64::<H>(sum, Rounding::NearestEven)
}

/// `abs`: clears the sign.
#[inline]
pub fn abs<H: Half>(a: u16) -> u16 {
    if H::FORMAT.is_nan(a.into()) { H::NAN } else { a & 0x7fff }
}

/// `neg`: flips the sign.
#[inline]
pub fn neg<H: Half>(a: u16) -> u16 {
    if H::FORMAT.is_nan(a.into()) { H::NAN } else { a ^ 0x8000 }
}

/// Applies an operation on floats that returns an operand or a NaN: `min` and `max` in their forms.
#[inline]
pub fn pick<H: Half>(a: u16, b: u16, pick: impl Fn(f32, f32) -> f32) -> u16 {
    nearest::<H>(pick(H::widen(a), H::widen(b)))
}

/// Applies an operation to both halves of packed operands.
#[inline]
pub fn both1(a: u32, f: impl Fn(u16) -> u16) -> u32 {
    pack(f(a as u16), f((a >> 16) as u16))
}

/// Applies an operation to both halves of packed operands.
#[inline]
pub fn both2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    pack(f(a as u16, b as u16), f((a >> 16) as u16, (b >> 16) as u16))
}

/// Applies an operation to both halves of packed operands.
#[inline]
pub fn both3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
    pack(f(a as u16, b as u16, c as u16), high)
}

/// Two halves in one register.
#[inline]
pub fn pack(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

#[cfg(test)]
mod tests {
    use super::super::soft;
    use super::*;

    /// One bit pattern of each kind, both signs.
    fn samples() -> Vec<u16> {
        (0..=0x7fffu16)
            .step_by(331)
            .chain([1, 2, 0x3ff, 0x400, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7f7f, 0x7f80, 0x7fff])
            .flat_map(|bits| [bits, bits | 0x8000])
            .collect()
    }

    fn finite<H: Half>() -> Vec<u16> {
        samples().into_iter().filter(|&b| !H::FORMAT.is_special(b.into())).collect()
    }

    /// Exact sums and products, rounded once.
    fn check_against_exact<H: Half>() {
        let rn = Rounding::NearestEven;
        let unpack = |bits: u16| Number::unpack(bits.into(), H::FORMAT);
        for a in finite::<H>() {
            for b in finite::<H>() {
                let sum = soft::add(unpack(a), unpack(b), rn).pack(H::FORMAT, rn) as u16;
                assert_eq!(add::<H>(a, b), sum, "{a:#x} + {b:#x}");
                assert_eq!(sub::<H>(a, neg::<H>(b)), sum, "{a:#x} + {b:#x}");
                let product = soft::mul(unpack(a), unpack(b));
                assert_eq!(mul::<H>(a, b), product.pack(H::FORMAT, rn) as u16, "{a:#x} * {b:#x}");
                for c in finite::<H>().into_iter().step_by(7) {
                    let exact = soft::add(product, unpack(c), rn).pack(H::FORMAT, rn) as u16;
                    assert_eq!(fma::<H>(a, b, c), exact, "{a:#x} * {b:#x} + {c:#x}");
                }
            }
        }
    }

    #[test]
    fn f16_rounds_once() {
        check_against_exact::<F16>();
    }

    #[test]
    fn bf16_rounds_once() {
        check_against_exact::<Bf16>();
    }

    #[test]
    fn every_value_survives_widening() {
        for bits in 0..=u16::MAX {
            for (nan, wide, back) in [
                (
                    Format::F16.is_nan(bits.into()),
                    F16::widen(bits),
                    nearest::<F16>(F16::widen(bits)),
                ),
                (
                    Format::BF16.is_nan(bits.into()),
                    Bf16::widen(bits),
                    nearest::<Bf16>(Bf16::widen(bits)),
                ),
            ] {
                assert_eq!(wide.is_nan(), nan);
                assert_eq!(back, if nan { 0x7fff } else { bits });
            }
        }
    }

    #[test]
    fn f16_values_are_what_the_standard_says() {
        let cases = [
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023. * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3c00, 1.),
            (0xc000, -2.),
            (0x7bff, 65504.),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, value) in cases {
            assert_eq!(F16::widen(bits), value);
        }
    }

    #[test]
    fn infinities_and_nans() {
        const INF: u16 = 0x7c00;
        assert_eq!(add::<F16>(INF, neg::<F16>(INF)), 0x7fff);
        assert_eq!(mul::<F16>(0, INF), 0x7fff);
        assert_eq!(add::<F16>(0xfe01, 0), 0x7fff);
        assert_eq!(fma::<F16>(INF, 0x3c00, neg::<F16>(INF)), 0x7fff);
        assert_eq!(add::<F16>(0x7bff, 0x7bff), INF);
        assert_eq!(add::<Bf16>(0xff7f, 0xff7f), 0xff80);
    }

    #[test]
    fn directed_roundings_to_half() {
        let modes = [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up];
        let third = modes.map(|r| narrow::<F16>(-1. / 3., r));
        assert_eq!(third, [0xb555, 0xb555, 0xb556, 0xb555]);
        assert_eq!(modes.map(|r| narrow::<F16>(1e6, r)), [0x7c00, 0x7bff, 0x7bff, 0x7c00]);
        assert_eq!(modes.map(|r| narrow::<F16>(f32::INFINITY, r)), [0x7c00; 4]);
        assert_eq!(modes.map(|r| narrow::<Bf16>(1e-44, r)), [0, 0, 0, 1]);
    }

    #[test]
    fn sat_relu_and_ftz() {
        let values = [0xbc00, 0x8000, 0x3800, 0x4000, 0x7c00, 0xfc00, 0x7e00];
        assert_eq!(values.map(sat::<F16>), [0, 0, 0x3800, 0x3c00, 0x3c00, 0, 0]);
        assert_eq!(values.map(relu::<F16>), [0, 0, 0x3800, 0x4000, 0x7c00, 0, 0x7fff]);
        assert_eq!([1, 0x83ff, 0x400, 0x7e01].map(ftz_f16), [0, 0x8000, 0x400, 0x7e01]);
    }

    #[test]
    fn min_and_max_pick_halves() {
        assert_eq!(pick::<F16>(0x8000, 0, float::min_f32), 0x8000);
        assert_eq!(pick::<F16>(0x8000, 0, float::max_f32), 0);
        assert_eq!(pick::<F16>(0x7e00, 1, float::max_f32), 1);
        assert_eq!(pick::<F16>(0x7e00, 1, float::max_nan_f32), 0x7fff);
        assert_eq!(both2(0x0001_3c00, 0x0002_bc00, add::<F16>), 0x0003_0000);
        assert_eq!(both1(0x8001_3c00, neg::<F16>), 0x0001_bc00);
        assert_eq!(both1(0xfc01_fc00, abs::<F16>), 0x7fff_7c00);
        assert_eq!(both3(0x3c00_4000, 0x3c00_4000, 0x3c00_0000, fma::<F16>), 0x4000_4400);
    }
}
