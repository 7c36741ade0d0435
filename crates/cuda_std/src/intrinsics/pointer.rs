//! The functions that write a second result through a pointer, and the NaNs with a payload.

use crate::math::{double_trig, parts, trig};

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident($x:ident: $t:ty) = $pair:expr;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Both pointers are valid for a write.
        #[inline(always)]
        pub unsafe fn $name($x: $t, sine: *mut $t, cosine: *mut $t) {
            let pair: ($t, $t) = $pair;
            // SAFETY: the caller's promise.
            unsafe {
                sine.write(pair.0);
                cosine.write(pair.1);
            }
        }
    )+ };
}

pairs! {
    /// Sine and cosine.
    sincosf(x: f32) = trig::sincosf(x);
    /// Sine and cosine.
    sincos(x: f64) = double_trig::sincos(x);
    /// `sin(πx)` and `cos(πx)`.
    sincospif(x: f32) = trig::sincospif(x);
    /// `sin(πx)` and `cos(πx)`.
    sincospi(x: f64) = double_trig::sincospi(x);
    /// Sine and cosine by `sin.approx` and `cos.approx`.
    fast_sincosf(x: f32) = (super::fast_sinf(x), super::fast_cosf(x));
}

macro_rules! one_more {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $t:ty),+; $second:ty) -> $r:ty = $pair:expr;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer is valid for a write.
        #[inline(always)]
        pub unsafe fn $name($($arg: $t,)+ second: *mut $second) -> $r {
            let pair: ($r, $second) = $pair;
            // SAFETY: the caller's promise.
            unsafe { second.write(pair.1) };
            pair.0
        }
    )+ };
}

one_more! {
    /// `m` with `x = m·2^e` and `|m|` in `[1/2, 1)`, and `e`.
    frexpf(x: f32; i32) -> f32 = parts::frexpf(x);
    /// `m` with `x = m·2^e` and `|m|` in `[1/2, 1)`, and `e`.
    frexp(x: f64; i32) -> f64 = parts::frexp(x);
    /// The fraction, and the integer part.
    modff(x: f32; f32) -> f32 = parts::modff(x);
    /// The fraction, and the integer part.
    modf(x: f64; f64) -> f64 = parts::modf(x);
    /// The rest of `x / y` as `remainder` has it, and the low bits of the quotient.
    remquof(x: f32, y: f32; i32) -> f32 = parts::remquof(x, y);
    /// The rest of `x / y` as `remainder` has it, and the low bits of the quotient.
    remquo(x: f64, y: f64; i32) -> f64 = parts::remquo(x, y);
}

/// A quiet NaN whose payload is the number that `tag` spells in C's way.
///
/// # Safety
/// `tag` is null, or points to bytes that end with a zero.
pub unsafe fn nanf(tag: *mut i8) -> f32 {
    // SAFETY: the caller's promise.
    let payload = unsafe { payload(tag) };
    f32::from_bits(0x7fc0_0000 | payload as u32 & 0x003f_ffff)
}

/// A quiet NaN whose payload is the number that `tag` spells in C's way.
///
/// # Safety
/// `tag` is null, or points to bytes that end with a zero.
pub unsafe fn nan(tag: *mut i8) -> f64 {
    // SAFETY: the caller's promise.
    let payload = unsafe { payload(tag) };
    f64::from_bits(0x7ff8 << 48 | payload & 0x0007_ffff_ffff_ffff)
}

/// The number in a string: decimal, `0x…` or octal `0…`; 0 if it is none.
///
/// # Safety
/// `tag` is null, or points to bytes that end with a zero.
unsafe fn payload(tag: *mut i8) -> u64 {
    if tag.is_null() {
        return 0;
    }
    // SAFETY: no byte behind the zero is read.
    let at = |i: usize| unsafe { *tag.add(i) as u8 };
    let (mut i, base) = match (at(0), if at(0) == 0 { 0 } else { at(1) }) {
        (b'0', b'x' | b'X') => (2, 16),
        (b'0', _) => (1, 8),
        _ => (0, 10),
    };
    let mut value = 0u64;
    while at(i) != 0 {
        match char::from(at(i)).to_digit(base) {
            Some(digit) => value = value.wrapping_mul(base.into()).wrapping_add(digit.into()),
            None => return 0,
        }
        i += 1;
    }
    value
}
