//! Elements of matrices: `f32`, `f16`, `bf16` and `E4m3` in memory, `f32` where they are added.

use super::bytes;
use bytemuck::Pod;
use cuda_std::copy::TensorElement;
use cuda_std::number::{Bf16x2, E4m3, E4m3x2, F16x2, Half};
use cuda_std::{bf16, f16};

/// An element that epilogues read and write.
pub trait Value: TensorElement {
    /// Two neighbours, as one load or store moves them: aligned to their size.
    type Pair: Pod;

    /// To `f32`, exactly.
    fn widen(self) -> f32;

    /// The nearest value of this type.
    fn narrow(value: f32) -> Self;

    /// Two elements to `f32`, exactly.
    fn unpair(pair: Self::Pair) -> [f32; 2];

    /// Two elements, each rounded to nearest.
    fn pair(values: [f32; 2]) -> Self::Pair;
}

impl Value for f32 {
    type Pair = u64;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn unpair(pair: u64) -> [f32; 2] {
        [f32::from_bits(pair as u32), f32::from_bits((pair >> 32) as u32)]
    }

    #[inline(always)]
    fn pair([first, second]: [f32; 2]) -> u64 {
        u64::from(first.to_bits()) | u64::from(second.to_bits()) << 32
    }
}

/// Implements [`Value`] for a type of 16 bits, by way of pairs in one register.
macro_rules! halves {
    ($($half:ident $pair:ident;)*) => {$(
        impl Value for $half {
            type Pair = u32;

            #[inline(always)]
            fn widen(self) -> f32 {
                Half::widen(self)
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                <$half as Half>::nearest(value)
            }

            #[inline(always)]
            fn unpair(pair: u32) -> [f32; 2] {
                $pair::from_bits(pair).widen()
            }

            #[inline(always)]
            fn pair([first, second]: [f32; 2]) -> u32 {
                $pair::nearest(first, second).to_bits()
            }
        }
    )*};
}

halves! {
    f16 F16x2;
    bf16 Bf16x2;
}

/// Rounded to nearest; beyond the largest, and for infinity, the largest. (`sm_89` has an instruction for it: see [`super::bytes`].)
impl Value for E4m3 {
    type Pair = u16;

    #[inline(always)]
    fn widen(self) -> f32 {
        bytes::widen(self)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self::from_bits(Self::pair([value, 0.0]) as u8)
    }

    #[inline(always)]
    fn unpair(pair: u16) -> [f32; 2] {
        E4m3x2::from_bits(pair).to_array().map(bytes::widen)
    }

    #[inline(always)]
    fn pair(values: [f32; 2]) -> u16 {
        bytes::narrow_pair(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_hold_the_first_element_in_the_lower_bits() {
        assert_eq!(<f32 as Value>::unpair(f32::pair([1.5, -2.0])), [1.5, -2.0]);
        assert_eq!(bf16::pair([1.0, -2.0]) & 0xffff, u32::from(bf16::ONE.to_bits()));
        assert_eq!(<f16 as Value>::unpair(f16::pair([0.25, 1e6])), [0.25, f32::INFINITY]);
    }
}
