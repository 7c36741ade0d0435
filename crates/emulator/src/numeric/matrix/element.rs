//! The numbers that matrices are made of.

use crate::isa::Type;

/// The format of a floating-point element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementFormat {
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.tf32`: the upper 19 bits of a register.
    Tf32,
    /// `.f32`, of accumulators.
    F32,
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
}

impl ElementFormat {
    /// Bits of the exponent and of the fraction.
    const fn bits(self) -> (u32, u32) {
        match self {
            Self::F16 => (5, 10),
            Self::Bf16 => (8, 7),
            Self::Tf32 => (8, 10),
            Self::F32 => (8, 23),
            Self::E4m3 => (4, 3),
            Self::E5m2 => (5, 2),
        }
    }

    /// Bits of the fraction.
    pub const fn fraction(self) -> i32 {
        self.bits().1 as i32
    }

    /// The kind that a type word means.
    pub fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            Type::F16 => Self::F16,
            Type::Bf16 => Self::Bf16,
            Type::Tf32 => Self::Tf32,
            Type::F32 => Self::F32,
            Type::E4m3 => Self::E4m3,
            Type::E5m2 => Self::E5m2,
            _ => return None,
        })
    }
}

/// What an element is beside a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Nothing.
    Finite,
    /// An infinity, negative or not.
    Infinite(bool),
    /// Not a number.
    Nan,
}

/// A number taken apart: `significand · 2^(exponent - fraction bits of its kind)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// With its sign; at most 24 bits.
    pub significand: i32,
    /// That of a significand in [1, 2); far below all others for zero, and far above them for what
    /// is not finite.
    pub exponent: i32,
    /// Infinity or NaN.
    pub special: Special,
}

/// The exponent of zero: no sum of two with it is the greatest of any.
pub const NOTHING: i32 = -1 << 20;
/// The exponent of an infinity or NaN: a sum of two with it is greater than any other.
pub const BEYOND: i32 = 1 << 22;

impl Element {
    /// Zero.
    pub const ZERO: Self = Self { significand: 0, exponent: NOTHING, special: Special::Finite };

    /// The number that the low bits of a register stand for.
    pub fn new(kind: ElementFormat, bits: u32) -> Self {
        let bits = if kind == ElementFormat::Tf32 { bits >> 13 } else { bits };
        let (exponent_bits, fraction_bits) = kind.bits();
        let negative = bits >> (exponent_bits + fraction_bits) & 1 != 0;
        let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = (bits & ((1 << fraction_bits) - 1)) as i32;
        let top = (1 << exponent_bits) - 1;
        if let Some(special) = special(kind, exponent == top, fraction, negative) {
            return Self { significand: 0, exponent: BEYOND, special };
        }
        let magnitude = if exponent == 0 { fraction } else { fraction | 1 << fraction_bits };
        if magnitude == 0 {
            return Self::ZERO;
        }
        let bias = (1 << (exponent_bits - 1)) - 1;
        Self {
            significand: if negative { -magnitude } else { magnitude },
            exponent: exponent.max(1) - bias,
            special: Special::Finite,
        }
    }

    /// The number with the other sign.
    pub fn negated(self) -> Self {
        let special = match self.special {
            Special::Infinite(negative) => Special::Infinite(!negative),
            other => other,
        };
        Self { significand: -self.significand, special, ..self }
    }
}

/// The infinity or NaN that an encoding means. `.e4m3` has one NaN of each sign and no infinity.
fn special(kind: ElementFormat, top: bool, fraction: i32, negative: bool) -> Option<Special> {
    match (kind, fraction) {
        _ if !top => None,
        (ElementFormat::E4m3, 7) => Some(Special::Nan),
        (ElementFormat::E4m3, _) => None,
        (_, 0) => Some(Special::Infinite(negative)),
        _ => Some(Special::Nan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: ElementFormat, bits: u32) -> f64 {
        let own = Element::new(kind, bits);
        f64::from(own.significand) * 2f64.powi((own.exponent - kind.fraction()).max(-1000))
    }

    #[test]
    fn each_kind_is_read() {
        assert_eq!(value(ElementFormat::F16, 0x3c00), 1.);
        assert_eq!(value(ElementFormat::F16, 0x8001), -(2f64.powi(-24)));
        assert_eq!(value(ElementFormat::Bf16, 0xc040), -3.);
        assert_eq!(value(ElementFormat::Tf32, 1.5f32.to_bits() | 0x1fff), 1.5);
        assert_eq!(value(ElementFormat::F32, 0.1f32.to_bits()), f64::from(0.1f32));
        assert_eq!(value(ElementFormat::E4m3, 0x7e), 448.);
        assert_eq!(value(ElementFormat::E5m2, 0x7b), 57344.);
        assert_eq!(value(ElementFormat::E5m2, 0x80), 0.);
    }

    #[test]
    fn infinities_and_nans_are_told_apart() {
        let special = |kind, bits| Element::new(kind, bits).special;
        assert_eq!(special(ElementFormat::F16, 0xfc00), Special::Infinite(true));
        assert_eq!(special(ElementFormat::F16, 0x7c01), Special::Nan);
        assert_eq!(special(ElementFormat::E4m3, 0xff), Special::Nan);
        assert_eq!(special(ElementFormat::E4m3, 0x78), Special::Finite);
        assert_eq!(
            special(ElementFormat::Tf32, f32::INFINITY.to_bits() | 1),
            Special::Infinite(false)
        );
    }
}
