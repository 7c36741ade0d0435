//! Directed rounding on the host, in exact integers.
//!
//! A finite number is `mantissa · 2^exponent`; `inexact` says that the true magnitude lies above by
//! less than one unit. Operations keep more bits than any format needs, and [`Exact::round`]
//! rounds once.

use std::cmp::Ordering;

/// How a result is rounded.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// To nearest, ties to even.
    Rn,
    /// Towards minus infinity.
    Rd,
    /// Towards plus infinity.
    Ru,
    /// Towards zero.
    Rz,
}

/// A binary format: bits of the fraction, and of the exponent.
#[derive(Clone, Copy)]
pub struct Format(u32, u32);

pub const HALF: Format = Format(10, 5);
pub const SINGLE: Format = Format(23, 8);
pub const DOUBLE: Format = Format(52, 11);

/// A finite number that is not zero.
#[derive(Clone, Copy)]
pub struct Exact {
    negative: bool,
    mantissa: u128,
    exponent: i32,
    inexact: bool,
}

impl Exact {
    /// From a number that is finite and not zero; the mantissa has 53 bits.
    fn new(x: f64) -> Self {
        let bits = x.abs().to_bits();
        let (fraction, e) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
        let (mantissa, exponent) =
            if e == 0 { (fraction, -1074) } else { (fraction | 1 << 52, e - 1075) };
        let shift = mantissa.leading_zeros() - 11;
        Self {
            negative: x.is_sign_negative(),
            mantissa: u128::from(mantissa) << shift,
            exponent: exponent - shift as i32,
            inexact: false,
        }
    }

    /// From an integer that is not zero.
    pub fn integer(negative: bool, magnitude: u64) -> Self {
        Self { negative, mantissa: magnitude.into(), exponent: 0, inexact: false }
    }

    fn product(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            mantissa: self.mantissa * other.mantissa,
            exponent: self.exponent + other.exponent,
            inexact: false,
        }
    }

    /// Of mantissas with 53 bits.
    fn quotient(self, other: Self) -> Self {
        let shifted = self.mantissa << 70;
        Self {
            negative: self.negative != other.negative,
            mantissa: shifted / other.mantissa,
            exponent: self.exponent - other.exponent - 70,
            inexact: !shifted.is_multiple_of(other.mantissa),
        }
    }

    /// Of a positive number with 53 bits.
    fn root(self) -> Self {
        let shift = 70 + (self.exponent & 1);
        let shifted = self.mantissa << shift;
        let mantissa = shifted.isqrt();
        let exponent = (self.exponent - shift) / 2;
        Self { negative: false, mantissa, exponent, inexact: mantissa * mantissa != shifted }
    }

    /// The sum, `None` if it is zero. Mantissas have at most 106 bits.
    fn sum(self, other: Self) -> Option<Self> {
        let (high, low) =
            if self.exponent > other.exponent { (self, other) } else { (other, self) };
        // Both at one exponent: the higher moves up as far as it can, the lower down for the rest.
        let room = high.mantissa.leading_zeros() as i32 - 2;
        let up = room.min(high.exponent - low.exponent);
        let a = high.mantissa << up;
        let exponent = high.exponent - up;
        let down = (exponent - low.exponent) as u32;
        let b = low.mantissa.checked_shr(down).unwrap_or(0);
        let lost = down > 0 && b.checked_shl(down) != Some(low.mantissa);
        let (negative, mantissa) = match (high.negative == low.negative, a.cmp(&b)) {
            (true, _) => (high.negative, a + b),
            // What was lost of `b` makes the difference smaller.
            (false, Ordering::Greater) => (high.negative, a - b - u128::from(lost)),
            (false, Ordering::Less) => (low.negative, b - a),
            (false, Ordering::Equal) if lost => (low.negative, 0),
            (false, Ordering::Equal) => return None,
        };
        Some(Self { negative, mantissa, exponent, inexact: lost })
    }

    /// Rounds to a format; gives its bits.
    pub fn round(self, format: Format, mode: Mode) -> u64 {
        let Format(fraction, width) = format;
        let bias = (1i32 << (width - 1)) - 1;
        let least = 1 - bias - fraction as i32;
        let sign = u64::from(self.negative) << (fraction + width);
        let infinity = ((1u64 << width) - 1) << fraction;
        let length = 128 - self.mantissa.leading_zeros() as i32;
        // The exponent of the last bit that stays.
        let last = (self.exponent + length - 1 - fraction as i32).max(least);
        let drop = last - self.exponent;
        let (kept, half, rest) = if drop <= 0 {
            (self.mantissa << -drop, false, self.inexact)
        } else if drop > 127 {
            (0, false, true)
        } else {
            let half = self.mantissa >> (drop - 1) & 1 != 0;
            let below = self.mantissa & ((1u128 << (drop - 1)) - 1);
            (self.mantissa >> drop, half, below != 0 || self.inexact)
        };
        let up = match mode {
            Mode::Rn => half && (rest || kept & 1 != 0),
            Mode::Rd => self.negative && (half || rest),
            Mode::Ru => !self.negative && (half || rest),
            Mode::Rz => false,
        };
        let kept = kept as u64 + u64::from(up);
        // A carry into the next exponent adds up by itself.
        let magnitude = if kept >> fraction == 0 {
            kept
        } else {
            kept + ((last - least) as u64).checked_shl(fraction).unwrap_or(infinity).min(infinity)
        };
        if magnitude < infinity {
            return sign | magnitude;
        }
        let stays =
            matches!((mode, self.negative), (Mode::Rz, _) | (Mode::Rd, false) | (Mode::Ru, true));
        sign | if stays { infinity - 1 } else { infinity }
    }
}

/// `x·y + z`, by `nearest` where it is special or zero.
pub fn fma(x: f64, y: f64, z: f64, format: Format, mode: Mode, nearest: u64) -> u64 {
    if !(x.is_finite() && y.is_finite() && z.is_finite()) {
        return nearest;
    }
    if x == 0.0 || y == 0.0 {
        return if z == 0.0 {
            zero_sum(x.is_sign_negative() != y.is_sign_negative(), z, format, mode)
        } else {
            Exact::new(z).round(format, mode)
        };
    }
    let product = Exact::new(x).product(Exact::new(y));
    if z == 0.0 {
        return product.round(format, mode);
    }
    match product.sum(Exact::new(z)) {
        Some(sum) => sum.round(format, mode),
        None => zero(mode == Mode::Rd, format),
    }
}

/// A zero with a sign.
fn zero(negative: bool, Format(fraction, width): Format) -> u64 {
    u64::from(negative) << (fraction + width)
}

/// The sum of a zero and `z`, another.
fn zero_sum(negative: bool, z: f64, format: Format, mode: Mode) -> u64 {
    let same = negative == z.is_sign_negative();
    zero(if same { negative } else { mode == Mode::Rd }, format)
}

/// `x / y`, by `nearest` where it is special or zero.
pub fn div(x: f64, y: f64, format: Format, mode: Mode, nearest: u64) -> u64 {
    if !x.is_finite() || !y.is_finite() || x == 0.0 || y == 0.0 {
        return nearest;
    }
    Exact::new(x).quotient(Exact::new(y)).round(format, mode)
}

/// `√x`, by `nearest` where it is special or zero.
pub fn sqrt(x: f64, format: Format, mode: Mode, nearest: u64) -> u64 {
    if x > 0.0 && x.is_finite() { Exact::new(x).root().round(format, mode) } else { nearest }
}

/// `x` in another format, by `nearest` where it is special or zero.
pub fn convert(x: f64, format: Format, mode: Mode, nearest: u64) -> u64 {
    if x != 0.0 && x.is_finite() { Exact::new(x).round(format, mode) } else { nearest }
}

/// An integer in a format.
pub fn integer(negative: bool, magnitude: u64, format: Format, mode: Mode) -> u64 {
    if magnitude == 0 { 0 } else { Exact::integer(negative, magnitude).round(format, mode) }
}
