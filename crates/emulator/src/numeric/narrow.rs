//! The 8-bit formats `.e4m3` and `.e5m2`.
//!
//! Conversions to them are `.rn.satfinite`: too large a number, or an infinity, becomes the largest
//! finite one, and NaN stays NaN. `.e4m3` has no infinities: its largest magnitude is 448.

use super::half::{F16, Half};
use super::soft::{Format, Number, Rounding};

const SIGN: u8 = 0x80;
const NAN: u8 = 0x7f;
/// 448.
const MAX_E4M3: u8 = 0x7e;
/// 57344.
const MAX_E5M2: u8 = 0x7b;
/// `.e4m3` is encoded like a format of five exponent bits whose values are 2^8 times smaller.
const E4M3_SCALE: i32 = 8;

/// `.e4m3` of a float.
pub fn f32_to_e4m3(value: f32) -> u8 {
    narrow(value, MAX_E4M3, |number| {
        let exponent = number.exponent - E4M3_SCALE;
        Number { exponent, ..number }.pack(Format::E4M3_WIDE, Rounding::NearestEven)
    })
}

/// `.e5m2` of a float.
pub fn f32_to_e5m2(value: f32) -> u8 {
    narrow(value, MAX_E5M2, |number| number.pack(Format::E5M2, Rounding::NearestEven))
}

fn narrow(value: f32, max: u8, pack_magnitude: impl Fn(Number) -> u64) -> u8 {
    if value.is_nan() {
        return NAN;
    }
    let sign = if value.is_sign_negative() { SIGN } else { 0 };
    if value.is_infinite() {
        return sign | max;
    }
    let magnitude = Number::unpack(value.abs().to_bits().into(), Format::F32);
    sign | pack_magnitude(magnitude).min(max.into()) as u8
}

/// `.f16` bits of an `.e4m3`: exact.
pub fn e4m3_to_f16(bits: u8) -> u16 {
    if bits & NAN == NAN {
        return F16::NAN;
    }
    let number = Number::unpack((bits & !SIGN).into(), Format::E4M3_WIDE);
    let exponent = number.exponent + E4M3_SCALE;
    let magnitude = Number { exponent, ..number }.pack(Format::F16, Rounding::NearestEven) as u16;
    u16::from(bits & SIGN) << 8 | magnitude
}

/// `.f16` bits of an `.e5m2`: its upper half.
pub fn e5m2_to_f16(bits: u8) -> u16 {
    let is_nan = bits & !SIGN > 0x7c;
    if is_nan { F16::NAN } else { u16::from(bits) << 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_value_survives() {
        for bits in 0..=u8::MAX {
            let (wide4, wide5) = (F16::widen(e4m3_to_f16(bits)), F16::widen(e5m2_to_f16(bits)));
            if bits & NAN == NAN {
                assert!(wide4.is_nan());
            } else {
                assert_eq!(f32_to_e4m3(wide4), bits);
            }
            match bits & !SIGN {
                0x7c => assert_eq!(f32_to_e5m2(wide5), bits & SIGN | MAX_E5M2),
                0x7d.. => assert!(wide5.is_nan()),
                _ => assert_eq!(f32_to_e5m2(wide5), bits),
            }
        }
    }

    #[test]
    fn values_are_what_the_formats_say() {
        let e4m3 = [0x01, 0x08, 0x38, 0x7e, 0xb8].map(|b| F16::widen(e4m3_to_f16(b)));
        assert_eq!(e4m3, [1. / 512., 1. / 64., 1., 448., -1.]);
        let e5m2 = [0x01, 0x04, 0x3c, 0x7b, 0xbc].map(|b| F16::widen(e5m2_to_f16(b)));
        assert_eq!(e5m2, [1. / 65536., 1. / 16384., 1., 57344., -1.]);
    }

    #[test]
    fn too_large_becomes_the_largest() {
        for value in [449f32, 464., 465., 1e30, f32::INFINITY] {
            assert_eq!(f32_to_e4m3(value), MAX_E4M3);
            assert_eq!(f32_to_e4m3(-value), SIGN | MAX_E4M3);
        }
        assert_eq!(f32_to_e5m2(65536.), MAX_E5M2);
        assert_eq!([f32_to_e4m3(f32::NAN), f32_to_e5m2(-f32::NAN)], [NAN, NAN]);
    }

    #[test]
    fn ties_go_to_even() {
        // Between 16 and 18 lies 17; between 18 and 20 lies 19.
        assert_eq!([16., 17., 18., 19., 20.].map(f32_to_e4m3), [0x58, 0x58, 0x59, 0x5a, 0x5a]);
        assert_eq!([8., 9., 10., 11., 12.].map(f32_to_e5m2), [0x48, 0x48, 0x49, 0x4a, 0x4a]);
        assert_eq!([1. / 1024., 3. / 1024., -0.].map(f32_to_e4m3), [0, 2, SIGN]);
    }
}
