//! `cvt` between integers and floating point.

use super::float::{self, NAN_F32, canonical_f32};
use super::half::{self, Half};
use super::soft::{Format, Number, Rounding};

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    /// Width: 8, 16, 32 or 64.
    pub bits: u32,
    /// Two's complement, rather than unsigned.
    pub signed: bool,
}

impl Int {
    /// Least value.
    fn least(self) -> i128 {
        if self.signed { -1 << (self.bits - 1) } else { 0 }
    }

    /// Greatest value.
    fn greatest(self) -> i128 {
        (1 << (self.bits - u32::from(self.signed))) - 1
    }
}

/// The value of the low bits of a register, read as a type.
#[inline]
pub fn read_int(register: u64, from: Int) -> i128 {
    let spare = u64::BITS - from.bits;
    if from.signed {
        i128::from((register << spare) as i64 >> spare)
    } else {
        i128::from(register << spare >> spare)
    }
}

/// `cvt` from integer to integer. The result is extended to 64 bits by the sign of `to`, as a
/// destination register that is wider than the type wants it.
///
/// With `.sat` a value that `to` does not hold becomes the nearest that it does.
#[inline]
pub fn int_to_int(register: u64, from: Int, to: Int, saturate: bool) -> u64 {
    let value = read_int(register, from);
    let value = if saturate { value.clamp(to.least(), to.greatest()) } else { value };
    read_int(value as u64, to) as u64
}

/// `cvt.rni`, `.rzi`, `.rmi`, `.rpi` of `.f32`: rounds to an integral value.
#[inline]
pub fn round_f32(value: f32, rounding: Rounding) -> f32 {
    canonical_f32(match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    })
}

/// `cvt.rni`, `.rzi`, `.rmi`, `.rpi` of `.f64`: rounds to an integral value. A NaN becomes quiet.
#[inline]
pub fn round_f64(value: f64, rounding: Rounding) -> f64 {
    float::quiet_f64(match rounding {
        Rounding::NearestEven => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    })
}

/// `cvt` from `.f32` (or a half, widened) to an integer, saturated and extended to 64 bits by the
/// sign of `to`. NaN becomes 0, or for a 64-bit type only its highest bit set.
#[inline]
pub fn f32_to_int(value: f32, to: Int, rounding: Rounding) -> u64 {
    if value.is_nan() {
        return if to.bits == 64 { 1 << 63 } else { 0 };
    }
    saturate(round_f64(value.into(), rounding), to)
}

/// `cvt` from `.f64` to an integer, saturated and extended to 64 bits by the sign of `to`.
/// NaN becomes only the highest bit set.
#[inline]
pub fn f64_to_int(value: f64, to: Int, rounding: Rounding) -> u64 {
    if value.is_nan() {
        return read_int(1 << (to.bits - 1), to) as u64;
    }
    saturate(round_f64(value, rounding), to)
}

/// The nearest value of an integral number that a type holds.
#[inline]
fn saturate(integral: f64, to: Int) -> u64 {
    if to.signed {
        (integral as i64).clamp(to.least() as i64, to.greatest() as i64) as u64
    } else {
        (integral as u64).min(to.greatest() as u64)
    }
}

/// `cvt` from an integer to `.f32`.
#[inline]
pub fn int_to_f32(value: i128, rounding: Rounding) -> f32 {
    match (rounding, i64::try_from(value)) {
        (Rounding::NearestEven, Ok(value)) => value as f32,
        _ => f32::from_bits(Number::integer(value).pack(Format::F32, rounding) as u32),
    }
}

/// `cvt` from an integer to `.f64`.
#[inline]
pub fn int_to_f64(value: i128, rounding: Rounding) -> f64 {
    match (rounding, i64::try_from(value)) {
        (Rounding::NearestEven, Ok(value)) => value as f64,
        _ => f64::from_bits(Number::integer(value).pack(Format::F64, rounding)),
    }
}

/// `cvt` from an integer to a half.
#[inline]
pub fn int_to_half<H: Half>(value: i128, rounding: Rounding) -> u16 {
    Number::integer(value).pack(H::FORMAT, rounding) as u16
}

/// `cvt.f32.f64`. A NaN keeps its sign and what fits of its payload, and becomes quiet.
#[inline]
pub fn f64_to_f32(value: f64, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven && !value.is_nan() {
        return value as f32;
    }
    f32::from_bits(narrow(value, Format::F32, rounding) as u32)
}

/// `cvt` from `.f64` to a half. A NaN keeps its sign and what fits of its payload, and becomes
/// quiet.
#[inline]
pub fn f64_to_half<H: Half>(value: f64, rounding: Rounding) -> u16 {
    narrow(value, H::FORMAT, rounding) as u16
}

/// A double in a narrower format.
fn narrow(value: f64, format: Format, rounding: Rounding) -> u64 {
    if value.is_finite() {
        return Number::unpack(value.to_bits(), Format::F64).pack(format, rounding);
    }
    format.narrow_special(value)
}

/// `cvt.f64.f32`: exact. A NaN keeps its sign and payload, and becomes quiet.
#[inline]
pub fn f32_to_f64(value: f32) -> f64 {
    const QUIET_NAN: u64 = 0x7ff8 << 48;
    if !value.is_nan() {
        return f64::from(value);
    }
    // Rust leaves a NaN's bits open; PTX does not.
    let bits = u64::from(value.to_bits());
    f64::from_bits(bits >> 31 << 63 | QUIET_NAN | (bits & 0x7f_ffff) << 29)
}

/// `cvt` from a half to `.f64`: exact. A NaN keeps its sign and payload, and becomes quiet.
#[inline]
pub fn half_to_f64<H: Half>(bits: u16) -> f64 {
    f32_to_f64(H::widen(bits))
}

/// `cvt.f32.f16`: exact; any NaN becomes the one of PTX.
#[inline]
pub fn f16_to_f32(bits: u16) -> f32 {
    canonical_f32(half::F16::widen(bits))
}

/// `cvt.f32.bf16`: the upper half of the result, bit for bit.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    half::Bf16::widen(bits)
}

/// `cvt` from `.f32` to a half; any NaN becomes the one of PTX.
#[inline]
pub fn f32_to_half<H: Half>(value: f32, rounding: Rounding) -> u16 {
    half::narrow::<H>(value, rounding)
}

/// `cvt.tf32.f32`: ten bits of fraction, the low 13 bits of the register zero.
#[inline]
pub fn f32_to_tf32(value: f32, rounding: Rounding) -> u32 {
    const SPARE_BITS: u32 = 13;
    const SPARE: u32 = (1 << SPARE_BITS) - 1;
    if value.is_finite() {
        let number = Number::unpack(value.to_bits().into(), Format::F32);
        return (number.pack(Format::TF32, rounding) as u32) << SPARE_BITS;
    }
    // `.rna` only cuts bits off, which makes an infinity of some NaNs.
    let canonical = value.is_nan() && rounding != Rounding::NearestAway;
    (if canonical { NAN_F32 } else { value }).to_bits() & !SPARE
}

/// `.relu` of `.f32`: a negative number becomes +0.
#[inline]
pub fn relu_f32(value: f32) -> f32 {
    if value.is_nan() || value > 0. { value } else { 0. }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
