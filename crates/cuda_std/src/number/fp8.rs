//! Numbers of 8 bits, for storage.

use super::{F16x2, Half, f16, instruction};
use bytemuck::{Pod, Zeroable};
use core::fmt;

#[cfg(not(target_os = "cuda"))]
use super::soft::{Format, Overflow, Rounding};

/// The host's conversions, from bits to bits.
#[cfg(not(target_os = "cuda"))]
mod host {
    use super::*;

    pub fn narrow(format: Format, value: f64) -> u8 {
        // The hardware's NaN has no sign.
        format.narrow(value, Rounding::Nearest, Overflow::Largest) as u8
    }

    pub fn relu(value: f64) -> f64 {
        if value.is_nan() { value } else { value.max(0.0) }
    }

    pub fn to_f16(format: Format, bits: u8) -> f16 {
        let value = format.widen(bits.into());
        f16::from_bits(Format::F16.narrow(value, Rounding::Nearest, Overflow::Infinity))
    }
}

/// Declares a number of 8 bits and the pair of two.
macro_rules! bytes {
    ($($(#[$doc:meta])* $byte:ident, $(#[$pair_doc:meta])* $pair:ident, $format:literal, $soft:ident, $max:literal;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default)]
        pub struct $byte(u8);

        // SAFETY: a `u8`, any bits of which are a number or NaN.
        unsafe impl Zeroable for $byte {}
        // SAFETY: as above.
        unsafe impl Pod for $byte {}

        impl $byte {
            /// The largest number.
            pub const MAX: Self = Self($max);

            /// The number of these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest to `value`, in the middle the even one; beyond the largest, and for
            /// infinity, the largest.
            #[inline(always)]
            pub fn saturating(value: f32) -> Self {
                $pair::saturating(value, 0.0).low()
            }

            /// The value, exactly.
            #[inline(always)]
            pub fn to_f16(self) -> f16 {
                $pair::new(self, Self(0)).to_halves().low()
            }

            /// The value, exactly.
            #[inline(always)]
            pub fn widen(self) -> f32 {
                self.to_f16().widen()
            }
        }

        impl PartialEq for $byte {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.widen() == other.widen()
            }
        }

        impl From<$byte> for f32 {
            #[inline(always)]
            fn from(value: $byte) -> Self {
                value.widen()
            }
        }

        impl From<$byte> for f64 {
            #[inline(always)]
            fn from(value: $byte) -> Self {
                value.widen().into()
            }
        }

        impl fmt::Debug for $byte {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($byte), "({:?})"), self.widen())
            }
        }

        $(#[$pair_doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default)]
        pub struct $pair(u16);

        // SAFETY: a `u16`, any bits of which are two numbers or NaNs.
        unsafe impl Zeroable for $pair {}
        // SAFETY: as above.
        unsafe impl Pod for $pair {}

        impl $pair {
            /// Puts two numbers together.
            #[inline(always)]
            pub const fn new(low: $byte, high: $byte) -> Self {
                Self((high.0 as u16) << 8 | low.0 as u16)
            }

            /// The pair of these bits, the first number in the lower half.
            #[inline(always)]
            pub const fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            /// The bits, the first number in the lower half.
            #[inline(always)]
            pub const fn to_bits(self) -> u16 {
                self.0
            }

            /// The first number.
            #[inline(always)]
            pub const fn low(self) -> $byte {
                $byte(self.0 as u8)
            }

            /// The second number.
            #[inline(always)]
            pub const fn high(self) -> $byte {
                $byte((self.0 >> 8) as u8)
            }

            /// Both numbers.
            #[inline(always)]
            pub const fn to_array(self) -> [$byte; 2] {
                [self.low(), self.high()]
            }

            /// The nearest to two values; beyond the largest, and for infinity, the largest. One
            /// instruction.
            #[inline(always)]
            pub fn saturating(low: f32, high: f32) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.satfinite.", $format, ".f32"),
                    reg16 u16: reg32 high, reg32 low;
                    u16::from_le_bytes([low, high].map(|value| {
                        host::narrow(Format::$soft, value.into())
                    }))
                ))
            }

            /// [`saturating`](Self::saturating), and 0 where a value is negative.
            #[inline(always)]
            pub fn saturating_relu(low: f32, high: f32) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.satfinite.relu.", $format, ".f32"),
                    reg16 u16: reg32 high, reg32 low;
                    u16::from_le_bytes([low, high].map(|value| {
                        host::narrow(Format::$soft, host::relu(value.into()))
                    }))
                ))
            }

            /// The nearest to two halves; beyond the largest, and for infinity, the largest. One
            /// instruction.
            #[inline(always)]
            pub fn from_halves(values: F16x2) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.satfinite.", $format, ".f16x2"),
                    reg16 u16: reg32 values.to_bits();
                    u16::from_le_bytes(values.widen().map(|value| {
                        host::narrow(Format::$soft, value.into())
                    }))
                ))
            }

            /// [`from_halves`](Self::from_halves), and 0 where a value is negative.
            #[inline(always)]
            pub fn from_halves_relu(values: F16x2) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.satfinite.relu.", $format, ".f16x2"),
                    reg16 u16: reg32 values.to_bits();
                    u16::from_le_bytes(values.widen().map(|value| {
                        host::narrow(Format::$soft, host::relu(value.into()))
                    }))
                ))
            }

            /// Both values, exactly. One instruction.
            #[inline(always)]
            pub fn to_halves(self) -> F16x2 {
                F16x2::from_bits(instruction!(
                    concat!("cvt.rn.f16x2.", $format), reg32 u32: reg16 self.0;
                    F16x2::from(self.to_array().map(|byte| host::to_f16(Format::$soft, byte.0)))
                        .to_bits()
                ))
            }

            /// Both values, and 0 where one is negative. One instruction.
            #[inline(always)]
            pub fn to_halves_relu(self) -> F16x2 {
                F16x2::from_bits(instruction!(
                    concat!("cvt.rn.relu.f16x2.", $format), reg32 u32: reg16 self.0;
                    F16x2::from(self.to_array().map(|byte| {
                        let half = host::to_f16(Format::$soft, byte.0);
                        let is_negative = half.to_bits() & 0x8000 != 0 && !half.is_nan();
                        if is_negative { f16::ZERO } else { half }
                    }))
                    .to_bits()
                ))
            }

            /// Both values, exactly.
            #[inline(always)]
            pub fn widen(self) -> [f32; 2] {
                self.to_halves().widen()
            }
        }

        impl PartialEq for $pair {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_halves() == other.to_halves()
            }
        }

        impl fmt::Debug for $pair {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [low, high] = self.widen();
                write!(f, concat!(stringify!($pair), "({:?}, {:?})"), low, high)
            }
        }
    )*};
}

bytes! {
    /// A number of 8 bits with 4 of exponent and 3 of fraction: up to 448 in magnitude, down to
    /// 2^-9, with NaN and without infinities.
    ///
    /// The formats and the conversions are those of the Open Compute Project's specification
    /// OFP8 (2023), as PTX has them.
    ///
    /// ```
    /// use cuda_std::number::E4m3;
    ///
    /// let values = [0.3, -17.0, 1e9].map(|value| E4m3::saturating(value).widen());
    /// assert_eq!(values, [0.3125, -16.0, 448.0]);
    /// ```
    E4m3,
    /// Two [`E4m3`] in 16 bits, as the hardware converts them.
    E4m3x2, "e4m3x2", E4M3, 0x7e;
    /// A number of 8 bits with 5 of exponent and 2 of fraction: up to 57344 in magnitude, down to
    /// 2^-16, with NaN and infinities; no conversion here makes an infinity.
    ///
    /// ```
    /// use cuda_std::number::E5m2;
    ///
    /// let values = [0.3, -17.0, 1e9].map(|value| E5m2::saturating(value).widen());
    /// assert_eq!(values, [0.3125, -16.0, 57344.0]);
    /// ```
    E5m2,
    /// Two [`E5m2`] in 16 bits, as the hardware converts them.
    E5m2x2, "e5m2x2", E5M2, 0x7b;
}
