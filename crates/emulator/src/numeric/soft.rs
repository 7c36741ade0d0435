//! Binary floating point in exact integers: any format, any rounding.
//!
//! Used where the host's own arithmetic does not round as asked. A finite number is
//! `mantissa · 2^exponent`, and `inexact` says that its true magnitude lies above that by less than
//! one unit of the mantissa. An inexact number has more bits than any format needs.

use std::cmp::Ordering;

/// How a result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`: nearest, ties to even.
    NearestEven,
    /// `.rna`: nearest, ties away from zero.
    NearestAway,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
}

/// A binary format with IEEE 754's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    fraction_bits: u32,
    exponent_bits: u32,
}

impl Format {
    /// `.f16`
    pub const F16: Self = Self::new(10, 5);
    /// `.bf16`
    pub const BF16: Self = Self::new(7, 8);
    /// `.tf32` without the 13 low bits of its register.
    pub const TF32: Self = Self::new(10, 8);
    /// `.f32`
    pub const F32: Self = Self::new(23, 8);
    /// `.f64`
    pub const F64: Self = Self::new(52, 11);
    /// The encoding of `.e4m3`, for values 2^8 times larger.
    pub const E4M3_WIDE: Self = Self::new(3, 5);
    /// `.e5m2`
    pub const E5M2: Self = Self::new(2, 5);

    const fn new(fraction_bits: u32, exponent_bits: u32) -> Self {
        Self { fraction_bits, exponent_bits }
    }

    fn sign_bit(self) -> u64 {
        1 << (self.fraction_bits + self.exponent_bits)
    }

    /// Bits of plus infinity.
    fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// Exponent of the last bit of a subnormal.
    fn least_exponent(self) -> i32 {
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        1 - bias - self.fraction_bits as i32
    }

    /// A double's infinity or NaN in this format: the sign, what fits of the payload, and quiet.
    pub fn narrow_special(self, value: f64) -> u64 {
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        if value.is_infinite() {
            return sign | self.infinity();
        }
        let fraction = value.to_bits() & ((1 << Self::F64.fraction_bits) - 1);
        let kept = fraction >> (Self::F64.fraction_bits - self.fraction_bits);
        let quiet = 1 << (self.fraction_bits - 1);
        sign | self.infinity() | quiet | kept
    }

    /// Whether the bits are a NaN or an infinity.
    pub fn is_special(self, bits: u64) -> bool {
        bits & self.infinity() == self.infinity()
    }

    /// Whether the bits are a NaN.
    pub fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) > self.infinity()
    }
}

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i32,
    pub inexact: bool,
}

impl Number {
    /// The number that finite bits of a format stand for.
    pub fn unpack(bits: u64, format: Format) -> Self {
        debug_assert!(!format.is_special(bits));
        let fraction = bits & ((1 << format.fraction_bits) - 1);
        let biased = ((bits & format.infinity()) >> format.fraction_bits) as i32;
        let hidden = u64::from(biased != 0) << format.fraction_bits;
        Self {
            negative: bits & format.sign_bit() != 0,
            mantissa: u128::from(fraction | hidden),
            exponent: format.least_exponent() + (biased - 1).max(0),
            inexact: false,
        }
    }

    /// An integer.
    pub fn integer(value: i128) -> Self {
        let mantissa = value.unsigned_abs();
        Self { negative: value < 0, mantissa, exponent: 0, inexact: false }
    }

    /// Bits of the number in a format.
    pub fn pack(self, format: Format, rounding: Rounding) -> u64 {
        let sign = if self.negative { format.sign_bit() } else { 0 };
        if self.mantissa == 0 {
            return sign;
        }
        let least = format.least_exponent();
        let unit = (self.exponent + self.top_bit() - format.fraction_bits as i32).max(least);
        let kept = self.round_to(unit, rounding);
        let carried = kept >> (format.fraction_bits + 1) != 0;
        let (kept, unit) = if carried { (kept >> 1, unit + 1) } else { (kept, unit) };
        // A subnormal has no hidden bit, so adding its mantissa to a biased exponent of 0 is right;
        // a normal one adds its hidden bit to a biased exponent that is one too small.
        let magnitude = kept as u64 + (((unit - least) as u64) << format.fraction_bits);
        if magnitude >= format.infinity() {
            return sign | self.overflow(format, rounding);
        }
        sign | magnitude
    }

    /// Index of the highest bit that is set. The mantissa is not 0.
    fn top_bit(self) -> i32 {
        self.mantissa.ilog2() as i32
    }

    /// The mantissa in units of `2^unit`.
    fn round_to(self, unit: i32, rounding: Rounding) -> u128 {
        let shift = unit - self.exponent;
        if shift <= 0 {
            return self.mantissa << -shift;
        }
        let (kept, rest) = self.split(shift as u32);
        let away = match rounding {
            Rounding::NearestEven => {
                rest == Rest::AboveHalf || (rest == Rest::Half && kept & 1 != 0)
            }
            Rounding::NearestAway => rest >= Rest::Half,
            Rounding::Zero => false,
            Rounding::Down => self.negative && rest != Rest::Nothing,
            Rounding::Up => !self.negative && rest != Rest::Nothing,
        };
        kept + u128::from(away)
    }

    /// The mantissa without its `shift` low bits, and what those were.
    fn split(self, shift: u32) -> (u128, Rest) {
        if shift > u128::BITS {
            let some = self.mantissa != 0 || self.inexact;
            return (0, if some { Rest::BelowHalf } else { Rest::Nothing });
        }
        let kept = self.mantissa.checked_shr(shift).unwrap_or(0);
        let low = self.mantissa << (u128::BITS - shift);
        let rest = match low.cmp(&(1 << (u128::BITS - 1))) {
            Ordering::Greater => Rest::AboveHalf,
            Ordering::Equal if self.inexact => Rest::AboveHalf,
            Ordering::Equal => Rest::Half,
            Ordering::Less if low == 0 && !self.inexact => Rest::Nothing,
            Ordering::Less => Rest::BelowHalf,
        };
        (kept, rest)
    }

    /// Bits, without sign, of a number past the largest of the format.
    fn overflow(self, format: Format, rounding: Rounding) -> u64 {
        let to_infinity = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        format.infinity() - u64::from(!to_infinity)
    }

    /// The same number with its highest bit at `top`; bits that fall off make it inexact.
    fn with_top_bit(self, top: i32) -> Self {
        self.with_exponent(self.exponent + self.top_bit() - top)
    }

    /// The same number in units of `2^exponent`; bits that fall off make it inexact.
    fn with_exponent(self, exponent: i32) -> Self {
        let shift = exponent - self.exponent;
        if shift <= 0 {
            return Self { mantissa: self.mantissa << -shift, exponent, ..self };
        }
        let mantissa = self.mantissa.checked_shr(shift as u32).unwrap_or(0);
        let lost = self.mantissa.trailing_zeros() < shift as u32;
        Self { mantissa, exponent, inexact: self.inexact || lost, ..self }
    }
}

/// What a cut leaves behind, against half of the last kept unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    Nothing,
    BelowHalf,
    Half,
    AboveHalf,
}

/// Exact sum of two exact numbers; a sum of zero has the sign that `rounding` asks for.
///
/// Both are aligned with the greater one's highest bit at 125. A number of at most 106 bits loses
/// bits there only if it is so much smaller that no cancellation can reach them.
pub fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    if a.mantissa == 0 || b.mantissa == 0 {
        return add_zero(a, b, rounding);
    }
    let above = |n: &Number| n.exponent + n.top_bit();
    let (a, b) = if above(&a) >= above(&b) { (a, b) } else { (b, a) };
    let a = a.with_top_bit(125);
    let b = b.with_exponent(a.exponent);
    if a.negative == b.negative {
        return Number { mantissa: a.mantissa + b.mantissa, inexact: b.inexact, ..a };
    }
    let lost = u128::from(b.inexact);
    match a.mantissa.cmp(&b.mantissa) {
        Ordering::Equal if !b.inexact => zero(rounding == Rounding::Down),
        Ordering::Less => Number { mantissa: b.mantissa - a.mantissa, ..b },
        _ => Number { mantissa: a.mantissa - b.mantissa - lost, inexact: b.inexact, ..a },
    }
}

fn add_zero(a: Number, b: Number, rounding: Rounding) -> Number {
    match (a.mantissa, b.mantissa) {
        (0, 0) if a.negative == b.negative => a,
        (0, 0) => zero(rounding == Rounding::Down),
        (0, _) => b,
        _ => a,
    }
}

fn zero(negative: bool) -> Number {
    Number { negative, mantissa: 0, exponent: 0, inexact: false }
}

/// Exact product of two exact numbers of at most 64 bits.
pub fn mul(a: Number, b: Number) -> Number {
    Number {
        negative: a.negative != b.negative,
        mantissa: a.mantissa * b.mantissa,
        exponent: a.exponent + b.exponent,
        inexact: false,
    }
}

/// Quotient of two exact numbers of at most 53 bits. `b` is not zero.
pub fn div(a: Number, b: Number) -> Number {
    let negative = a.negative != b.negative;
    if a.mantissa == 0 {
        return zero(negative);
    }
    let a = a.with_top_bit(127);
    Number {
        negative,
        mantissa: a.mantissa / b.mantissa,
        exponent: a.exponent - b.exponent,
        inexact: !a.mantissa.is_multiple_of(b.mantissa),
    }
}

/// Square root of an exact number, which is not negative.
pub fn sqrt(a: Number) -> Number {
    if a.mantissa == 0 {
        return a;
    }
    let a = a.with_top_bit(126);
    let a = if a.exponent % 2 == 0 { a } else { a.with_exponent(a.exponent - 1) };
    let mantissa = a.mantissa.isqrt();
    let inexact = mantissa * mantissa != a.mantissa;
    Number { negative: false, mantissa, exponent: a.exponent / 2, inexact }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Rounding::{Down, NearestAway, NearestEven, Up, Zero};

    fn pack(mantissa: u128, exponent: i32, negative: bool, rounding: Rounding) -> u64 {
        Number { negative, mantissa, exponent, inexact: false }.pack(Format::F16, rounding)
    }

    #[test]
    fn ties_go_where_the_rounding_says() {
        // 2049 lies half way between 2048 and 2050 in f16; 2051 between 2050 and 2052.
        let modes = [NearestEven, NearestAway, Zero, Down, Up];
        assert_eq!(
            modes.map(|r| pack(2049, 0, false, r)),
            [0x6800, 0x6801, 0x6800, 0x6800, 0x6801]
        );
        assert_eq!(
            modes.map(|r| pack(2051, 0, false, r)),
            [0x6802, 0x6802, 0x6801, 0x6801, 0x6802]
        );
        assert_eq!(modes.map(|r| pack(2049, 0, true, r)), [0xe800, 0xe801, 0xe800, 0xe801, 0xe800]);
    }

    #[test]
    fn overflow_is_infinite_or_the_largest() {
        let modes = [NearestEven, NearestAway, Zero, Down, Up];
        assert_eq!(modes.map(|r| pack(1, 16, false, r)), [0x7c00, 0x7c00, 0x7bff, 0x7bff, 0x7c00]);
        assert_eq!(modes.map(|r| pack(1, 99, true, r)), [0xfc00, 0xfc00, 0xfbff, 0xfc00, 0xfbff]);
        // 65519 is below the middle of 65504 and 65536, 65520 is the middle.
        assert_eq!([65519, 65520].map(|m| pack(m, 0, false, NearestEven)), [0x7bff, 0x7c00]);
    }

    #[test]
    fn underflow_is_zero_or_the_least() {
        let modes = [NearestEven, NearestAway, Zero, Down, Up];
        assert_eq!(modes.map(|r| pack(1, -25, false, r)), [0, 1, 0, 0, 1]);
        assert_eq!(modes.map(|r| pack(3, -26, false, r)), [1, 1, 0, 0, 1]);
        assert_eq!(modes.map(|r| pack(1, -400, false, r)), [0, 0, 0, 0, 1]);
        assert_eq!(modes.map(|r| pack(1, -400, true, r)), [0x8000, 0x8000, 0x8000, 0x8001, 0x8000]);
    }

    #[test]
    fn every_finite_half_survives() {
        for bits in (0..=u64::from(u16::MAX)).filter(|&bits| !Format::F16.is_special(bits)) {
            assert_eq!(Number::unpack(bits, Format::F16).pack(Format::F16, NearestEven), bits);
        }
    }

    #[test]
    fn every_half_converts_like_its_definition() {
        for bits in 0..0x7c00u16 {
            let (exponent, fraction) = (i32::from(bits >> 10), f64::from(bits & 0x3ff));
            let value = match exponent {
                0 => fraction * 2f64.powi(-24),
                _ => (1024. + fraction) * 2f64.powi(exponent - 25),
            };
            let packed = Number::unpack(bits.into(), Format::F16).pack(Format::F64, Zero);
            assert_eq!(f64::from_bits(packed), value);
        }
    }
}
