//! Elements of matrices, and how registers hold them.

use crate::number::{E4m3, E5m2};
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// A number of an 11-bit significand in the 32 bits of an `f32`: what tensor cores read of one.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct Tf32(f32);

impl Tf32 {
    /// Rounds to the nearest, ties away from zero.
    #[inline(always)]
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        if bits & 0x7f80_0000 == 0x7f80_0000 {
            return Self(value);
        }
        Self(f32::from_bits(bits.wrapping_add(0x1000) & 0xffff_e000))
    }

    /// The same number.
    #[inline(always)]
    pub const fn to_f32(self) -> f32 {
        self.0
    }
}

/// An element of a [`Fragment`](super::Fragment).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element that tensor cores multiply",
    note = "elements are f16, bf16, Tf32, E4m3, E5m2, i8, u8 and f64; sums are f32, f16, i32 and f64"
)]
pub trait Element: Copy + Default + 'static {
    /// What one register of a fragment is.
    type Register: Copy + Default + core::fmt::Debug;
    /// Elements of a register.
    const PER_REGISTER: usize;

    /// The register with its element `index` replaced, which was zero.
    #[doc(hidden)]
    fn insert(register: Self::Register, index: usize, value: Self) -> Self::Register;
    /// The register's element `index`.
    #[doc(hidden)]
    fn extract(register: Self::Register, index: usize) -> Self;
}

/// Elements that are registers themselves.
macro_rules! whole {
    ($($ty:ty)*) => {$(
        impl Element for $ty {
            type Register = $ty;
            const PER_REGISTER: usize = 1;

            #[inline(always)]
            fn insert(_: $ty, _: usize, value: Self) -> $ty {
                value
            }
            #[inline(always)]
            fn extract(register: $ty, _: usize) -> Self {
                register
            }
        }
    )*};
}

/// Elements of which several share 32 bits.
macro_rules! packed {
    ($($ty:ty: $per:literal $to:expr, $from:expr;)*) => {$(
        impl Element for $ty {
            type Register = u32;
            const PER_REGISTER: usize = $per;

            #[inline(always)]
            fn insert(register: u32, index: usize, value: Self) -> u32 {
                register | u32::from($to(value)) << (32 / $per * index)
            }
            #[inline(always)]
            fn extract(register: u32, index: usize) -> Self {
                $from((register >> (32 / $per * index)) as _)
            }
        }
    )*};
}

whole! { f32 f64 i32 }
packed! {
    f16: 2 f16::to_bits, f16::from_bits;
    bf16: 2 bf16::to_bits, bf16::from_bits;
    u8: 4 core::convert::identity, core::convert::identity::<u8>;
    i8: 4 i8::cast_unsigned, u8::cast_signed;
    E4m3: 4 E4m3::to_bits, E4m3::from_bits;
    E5m2: 4 E5m2::to_bits, E5m2::from_bits;
}

impl Element for Tf32 {
    type Register = u32;
    const PER_REGISTER: usize = 1;

    #[inline(always)]
    fn insert(_: u32, _: usize, value: Self) -> u32 {
        value.0.to_bits()
    }
    #[inline(always)]
    fn extract(register: u32, _: usize) -> Self {
        Self(f32::from_bits(register))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_rounds_ties_away() {
        let ulp = 2f32.powi(-10);
        for (value, expected) in [
            (1.0, 1.0),
            (1.0 + ulp / 2.0, 1.0 + ulp),
            (-1.0 - ulp / 2.0, -1.0 - ulp),
            (1.0 + ulp * 0.49, 1.0),
            (f32::INFINITY, f32::INFINITY),
            (f32::MAX, f32::INFINITY),
        ] {
            assert_eq!(Tf32::from_f32(value).to_f32(), expected, "{value}");
        }
        assert!(Tf32::from_f32(f32::NAN).to_f32().is_nan());
    }

    #[test]
    fn registers_hold_their_elements() {
        let word = (0..4).fold(0, |word, i| i8::insert(word, i, -(i as i8) - 1));
        assert_eq!(word, 0xfcfd_feff);
        assert_eq!((i8::extract(word, 3), u8::extract(word, 0)), (-4, 255));
        let pair = f16::insert(f16::insert(0, 0, f16::ONE), 1, f16::NEG_ONE);
        assert_eq!((pair, f16::extract(pair, 1)), (0xbc00_3c00, f16::NEG_ONE));
        assert_eq!(Tf32::extract(Tf32::insert(7, 0, Tf32(2.0)), 0), Tf32(2.0));
    }
}
