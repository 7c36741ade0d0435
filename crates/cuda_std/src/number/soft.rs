//! The small formats in integer arithmetic, for the host: what one instruction gives, bit for bit.

/// A binary format of at most 16 bits: a sign, an exponent and a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Bits of the fraction.
    fraction: u32,
    /// The exponent of the smallest normal number.
    min_exponent: i32,
    /// The bits of the largest finite magnitude.
    pub max: u16,
    /// The bits of the format without its sign: the mask of a magnitude.
    magnitude: u16,
    /// The bits of infinity, if there is one.
    infinity: Option<u16>,
    /// The NaN that instructions make.
    pub nan: u16,
}

impl Format {
    pub const F16: Self = Self {
        fraction: 10,
        min_exponent: -14,
        max: 0x7bff,
        magnitude: 0x7fff,
        infinity: Some(0x7c00),
        nan: 0x7fff,
    };
    pub const BF16: Self = Self {
        fraction: 7,
        min_exponent: -126,
        max: 0x7f7f,
        magnitude: 0x7fff,
        infinity: Some(0x7f80),
        nan: 0x7fff,
    };
    pub const E5M2: Self = Self {
        fraction: 2,
        min_exponent: -14,
        max: 0x7b,
        magnitude: 0x7f,
        infinity: Some(0x7c),
        nan: 0x7f,
    };
    pub const E4M3: Self = Self {
        fraction: 3,
        min_exponent: -6,
        max: 0x7e,
        magnitude: 0x7f,
        infinity: None,
        nan: 0x7f,
    };

    /// The mask of the sign.
    fn sign(self) -> u16 {
        self.magnitude + 1
    }

    pub fn is_nan(self, bits: u16) -> bool {
        bits & self.magnitude > self.infinity.unwrap_or(self.max)
    }

    /// The value, which `f64` holds exactly.
    pub fn widen(self, bits: u16) -> f64 {
        let magnitude = bits & self.magnitude;
        let exponent = i32::from(magnitude >> self.fraction);
        let fraction = f64::from(magnitude & ((1 << self.fraction) - 1));
        let one = f64::from(1 << self.fraction);
        let value = match exponent {
            _ if self.is_nan(bits) => f64::NAN,
            _ if Some(magnitude) == self.infinity => f64::INFINITY,
            0 => fraction / one * power_of_two(self.min_exponent),
            _ => (1.0 + fraction / one) * power_of_two(self.min_exponent + exponent - 1),
        };
        if bits & self.sign() == 0 { value } else { -value }
    }

    /// The bits of `value`, rounded; beyond the largest, what [`Overflow`] says.
    pub fn narrow(self, value: f64, rounding: Rounding, overflow: Overflow) -> u16 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_infinite() {
            return sign | self.infinite(overflow);
        }
        let bits = self.magnitude_bits(value.abs(), rounding.of_magnitude(sign != 0));
        match bits <= self.max.into() {
            true => sign | bits as u16,
            false => sign | self.too_large(rounding.of_magnitude(sign != 0), overflow),
        }
    }

    fn infinite(self, overflow: Overflow) -> u16 {
        match (overflow, self.infinity) {
            (Overflow::Infinity, Some(infinity)) => infinity,
            _ => self.max,
        }
    }

    fn too_large(self, rounding: Rounding, overflow: Overflow) -> u16 {
        if rounding == Rounding::Zero { self.max } else { self.infinite(overflow) }
    }

    /// The bits of a magnitude as if the exponent had no upper end.
    fn magnitude_bits(self, value: f64, rounding: Rounding) -> u64 {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        // value = mantissa * 2^scale
        let (mantissa, scale) = match exponent {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, exponent - 1075),
        };
        let smallest_unit = self.min_exponent - self.fraction as i32;
        let top = scale + mantissa.checked_ilog2().map_or(0, |bit| bit as i32);
        let unit = smallest_unit.max(top - self.fraction as i32);
        let units = match unit - scale {
            shift @ ..=0 => mantissa << -shift,
            shift => round_shift(mantissa, shift as u32, rounding),
        };
        ((unit - smallest_unit) as u64) * (1 << self.fraction) + units
    }
}

/// 2^`exponent`, a normal `f64`.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// `mantissa / 2^shift`, rounded.
fn round_shift(mantissa: u64, shift: u32, rounding: Rounding) -> u64 {
    let (whole, rest, half) = match shift {
        0..=63 => {
            (mantissa >> shift, u128::from(mantissa & ((1 << shift) - 1)), 1u128 << (shift - 1))
        }
        _ => (0, u128::from(mantissa), 1u128 << (shift.min(127) - 1)),
    };
    let is_up = match rounding {
        Rounding::Nearest => rest > half || rest == half && whole % 2 == 1,
        Rounding::Zero => false,
        Rounding::Up | Rounding::Down => rest > 0,
    };
    whole + u64::from(is_up)
}

/// How a result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, in the middle to the even one.
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards negative infinity; of a magnitude: away from zero.
    Down,
    /// Towards positive infinity; of a magnitude: away from zero.
    Up,
}

impl Rounding {
    /// The rounding of the magnitude of a number with that sign.
    fn of_magnitude(self, negative: bool) -> Self {
        match (self, negative) {
            (Self::Down, false) | (Self::Up, true) => Self::Zero,
            _ => self,
        }
    }
}

/// What stands for a number beyond the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Infinity, if the rounding goes that way.
    Infinity,
    /// The largest finite number.
    Largest,
}

/// `a + b` rounded to odd: exact, or the neighbour whose last bit is 1, so that a second rounding to
/// at most 51 bits gives what one would have given. (S. Boldo and G. Melquiond, 2008.)
pub fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let (from_b, from_a) = (sum - a, sum - (sum - a));
    let error = (a - from_a) + (b - from_b);
    if error == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Away from zero if the exact sum lies beyond, else towards it.
    let is_beyond = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if is_beyond { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// The smaller or larger of two numbers, a NaN only where both are one; -0 lies below +0.
pub fn pick(a: f64, b: f64, larger: bool) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => {
            let is_a_larger = a > b || a == b && b.is_sign_negative();
            if is_a_larger == larger { a } else { b }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_format_survives() {
        for (format, bits) in [(Format::F16, 16), (Format::BF16, 16)]
            .into_iter()
            .chain([(Format::E5M2, 8), (Format::E4M3, 8)])
        {
            for bits in 0..1u32 << bits {
                let bits = bits as u16;
                let back =
                    |rounding| format.narrow(format.widen(bits), rounding, Overflow::Infinity);
                let expected = if format.is_nan(bits) { format.nan } else { bits };
                for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Up, Rounding::Down] {
                    assert_eq!(back(rounding), expected, "{format:?} {bits:#x} {rounding:?}");
                }
            }
        }
    }

    #[test]
    fn halves_widen_and_narrow_as_the_half_crate_says() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (Format::F16.widen(bits), ::half::f16::from_bits(bits).to_f64());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan());
        }
        let mut number = 1u32;
        for _ in 0..100_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(number);
            if !value.is_nan() {
                let ours = Format::F16.narrow(value.into(), Rounding::Nearest, Overflow::Infinity);
                assert_eq!(ours, ::half::f16::from_f32(value).to_bits(), "{value:e}");
                let ours = Format::BF16.narrow(value.into(), Rounding::Nearest, Overflow::Infinity);
                assert_eq!(ours, ::half::bf16::from_f32(value).to_bits(), "{value:e}");
            }
        }
    }

    #[test]
    fn an_inexact_sum_is_odd() {
        assert_eq!(add_to_odd(1.0, 2f64.powi(-80)), 1.0 + f64::EPSILON);
        assert_eq!(add_to_odd(1.0, -(2f64.powi(-80))), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(add_to_odd(-1.0, 2f64.powi(-80)), -1.0 + f64::EPSILON / 2.0);
        assert_eq!(add_to_odd(1.0, 0.5), 1.5);
    }

    #[test]
    fn rounding_modes_go_their_ways() {
        // Between 1 and 1 + 2^-10.
        let (value, below, above) = (1.0 + 2f64.powi(-12), 0x3c00, 0x3c01);
        let cases = [
            (Rounding::Nearest, below, below),
            (Rounding::Zero, below, below),
            (Rounding::Up, above, below),
            (Rounding::Down, below, above),
        ];
        for (rounding, plus, minus) in cases {
            let round = |value| Format::F16.narrow(value, rounding, Overflow::Infinity);
            assert_eq!([round(value), round(-value)], [plus, minus | 0x8000], "{rounding:?}");
        }
        let huge = |rounding| Format::F16.narrow(1e9, rounding, Overflow::Infinity);
        assert_eq!(huge(Rounding::Up), 0x7c00);
        assert_eq!(huge(Rounding::Down), 0x7bff);
    }
}
