//! Numbers of 8 bits on every device since `sm_80`: conversions for which there are instructions since `sm_89` alone.

#![allow(unexpected_cfgs)]

use cuda_std::number::{E4m3, E4m3x2, E5m2, F16x2};

/// A float of 8 bits, which a half holds exactly.
pub trait Byte: Sized + 'static {
    /// The four numbers of a register as halves.
    fn halves_of_four(four: u32) -> [u32; 2];
}

impl Byte for E4m3 {
    #[inline(always)]
    fn halves_of_four(four: u32) -> [u32; 2] {
        [four as u16, (four >> 16) as u16]
            .map(|two| halves_of_two(E4m3x2::from_bits(two)).to_bits())
    }
}

/// A half without the last 8 bits of its fraction.
impl Byte for E5m2 {
    #[inline(always)]
    fn halves_of_four(four: u32) -> [u32; 2] {
        let two = |two: u32| (two & 0xff) << 8 | (two & 0xff00) << 16;
        [two(four), two(four >> 16)]
    }
}

/// Whether there are the instructions.
const HAS_INSTRUCTIONS: bool = cfg!(any(not(target_os = "cuda"), target_feature = "compute_89"));

/// One instruction since `sm_89`.
#[inline(always)]
fn halves_of_two(two: E4m3x2) -> F16x2 {
    if HAS_INSTRUCTIONS {
        two.to_halves()
    } else {
        let [low, high] = two.to_array().map(|byte| widen_by_f32(byte.to_bits()));
        F16x2::nearest(low, high)
    }
}

/// The value, exactly.
#[inline(always)]
pub fn widen(number: E4m3) -> f32 {
    if HAS_INSTRUCTIONS { number.widen() } else { widen_by_f32(number.to_bits()) }
}

/// Two numbers, the first in the lower half: the nearest, in the middle the even one; beyond the largest, and for infinity, the
/// largest.
#[inline(always)]
pub fn narrow_pair([low, high]: [f32; 2]) -> u16 {
    if HAS_INSTRUCTIONS {
        E4m3x2::saturating(low, high).to_bits()
    } else {
        u16::from(narrow_by_f32(low)) | u16::from(narrow_by_f32(high)) << 8
    }
}

/// Without the instruction. Fraction and exponent are those of an f32 whose exponent is 120 less.
#[inline(always)]
fn widen_by_f32(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = (bits & 0x80, bits & 0x7f);
    let value = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
    let value = if magnitude == 0x7f { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | sign << 24)
}

/// Without the instruction.
#[inline(always)]
fn narrow_by_f32(value: f32) -> u8 {
    /// The least number that is not subnormal, and the f32 whose neighbours are as far apart as subnormal numbers are: 2^-9.
    const LEAST_NORMAL: f32 = 1.0 / 64.0;
    const NEIGHBOURS: f32 = 16384.0;
    let (bits, magnitude) = (value.to_bits(), value.abs());
    if value.is_nan() {
        return 0x7f;
    }
    let magnitude = if magnitude > 448.0 { 448.0f32 } else { magnitude };
    let rounded = if magnitude < LEAST_NORMAL {
        (magnitude + NEIGHBOURS).to_bits() - NEIGHBOURS.to_bits()
    } else {
        let wide = magnitude.to_bits();
        // Half of the last place, and in the middle only where the last bit is odd.
        ((wide + 0x7_ffff + (wide >> 20 & 1)) >> 20) - (120 << 3)
    };
    (rounded | bits >> 24 & 0x80) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::f16;

    fn is_same(found: f32, expected: f32) -> bool {
        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
    }

    #[test]
    fn every_byte_is_the_same_with_and_without_the_instructions() {
        for byte in 0..=u8::MAX {
            assert!(is_same(widen_by_f32(byte), E4m3::from_bits(byte).widen()), "{byte:#x}");
            let [low, high] = E5m2::halves_of_four(u32::from_le_bytes([byte, !byte, 0, byte]));
            let half = |bits: u32| f16::from_bits(bits as u16).to_f32();
            let of = |byte| E5m2::from_bits(byte).widen();
            for (bits, byte) in [(low, byte), (low >> 16, !byte), (high, 0), (high >> 16, byte)] {
                assert!(is_same(half(bits), of(byte)), "{byte:#x}");
            }
        }
    }

    #[test]
    fn floats_are_narrowed_as_the_instruction_does() {
        let special = [
            0.0,
            0.5,
            447.9,
            448.0,
            464.0,
            1e9,
            f32::INFINITY,
            f32::NAN,
            1.0 / 1024.0,
            3.0 / 1024.0,
        ];
        let many = (0..200_000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)));
        // All numbers and the middles between them, and what is next to these.
        let middles = (0..0x7e).flat_map(|byte| {
            let [this, next] = [byte, byte + 1].map(|byte| E4m3::from_bits(byte).widen());
            let middle = (this + next) / 2.0;
            [this, middle, middle.next_up(), middle.next_down()]
        });
        for value in special.into_iter().chain(many).chain(middles) {
            for value in [value, -value] {
                let (found, expected) = (narrow_by_f32(value), E4m3::saturating(value).to_bits());
                assert_eq!(found, expected, "{value:e}");
            }
        }
    }
}
