//! Conversions between integers and floating-point numbers, rounded as the name says: `_rn` to
//! nearest even, `_rd` down, `_ru` up, `_rz` towards zero. Each is one PTX instruction.
//!
//! To an integer they are limited to its range. NaN becomes 0 from f32 to 32 bits, else the integer
//! whose top bit alone is set, as the PTX ISA has it. Unsigned results and arguments are carried in
//! signed integers of the same bits, as in CUDA's device library.

#[cfg(not(target_os = "cuda"))]
use super::soft::{self, DOUBLE, HALF, Mode, SINGLE};

macro_rules! convert {
    ($($(#[$doc:meta])* $name:ident($x:ident: $from:ident $in:ident) -> $to:ident $out:ident $ptx:literal = $host:expr;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($x: $from) -> $to {
            #[cfg(target_os = "cuda")]
            {
                let r: $to;
                // SAFETY: arithmetic in registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {r}, {x};"), r = lateout($out) r, x = in($in) $x,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                r
            }
            #[cfg(not(target_os = "cuda"))]
            {
                $host
            }
        }
    )+ };
}

/// The integer that a number rounds to.
#[cfg(not(target_os = "cuda"))]
fn whole(x: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Rn => x.round_ties_even(),
        Mode::Rd => x.floor(),
        Mode::Ru => x.ceil(),
        Mode::Rz => x.trunc(),
    }
}

convert! {
    /// To 32 bits, rounded down.
    float2int_rd(x: f32 reg32) -> i32 reg32 "cvt.rmi.s32.f32" = whole(f64::from(x), Mode::Rd) as i32;
    /// To 32 bits, rounded to nearest even.
    float2int_rn(x: f32 reg32) -> i32 reg32 "cvt.rni.s32.f32" = whole(f64::from(x), Mode::Rn) as i32;
    /// To 32 bits, rounded up.
    float2int_ru(x: f32 reg32) -> i32 reg32 "cvt.rpi.s32.f32" = whole(f64::from(x), Mode::Ru) as i32;
    /// To 32 bits, rounded towards zero.
    float2int_rz(x: f32 reg32) -> i32 reg32 "cvt.rzi.s32.f32" = whole(f64::from(x), Mode::Rz) as i32;
    /// To 32 unsigned bits, rounded down.
    float2uint_rd(x: f32 reg32) -> i32 reg32 "cvt.rmi.u32.f32" = (whole(f64::from(x), Mode::Rd) as u32) as i32;
    /// To 32 unsigned bits, rounded to nearest even.
    float2uint_rn(x: f32 reg32) -> i32 reg32 "cvt.rni.u32.f32" = (whole(f64::from(x), Mode::Rn) as u32) as i32;
    /// To 32 unsigned bits, rounded up.
    float2uint_ru(x: f32 reg32) -> i32 reg32 "cvt.rpi.u32.f32" = (whole(f64::from(x), Mode::Ru) as u32) as i32;
    /// To 32 unsigned bits, rounded towards zero.
    float2uint_rz(x: f32 reg32) -> i32 reg32 "cvt.rzi.u32.f32" = (whole(f64::from(x), Mode::Rz) as u32) as i32;
    /// To 64 bits, rounded down.
    float2ll_rd(x: f32 reg32) -> i64 reg64 "cvt.rmi.s64.f32" = if x.is_nan() { i64::MIN } else { whole(f64::from(x), Mode::Rd) as i64 };
    /// To 64 bits, rounded to nearest even.
    float2ll_rn(x: f32 reg32) -> i64 reg64 "cvt.rni.s64.f32" = if x.is_nan() { i64::MIN } else { whole(f64::from(x), Mode::Rn) as i64 };
    /// To 64 bits, rounded up.
    float2ll_ru(x: f32 reg32) -> i64 reg64 "cvt.rpi.s64.f32" = if x.is_nan() { i64::MIN } else { whole(f64::from(x), Mode::Ru) as i64 };
    /// To 64 bits, rounded towards zero.
    float2ll_rz(x: f32 reg32) -> i64 reg64 "cvt.rzi.s64.f32" = if x.is_nan() { i64::MIN } else { whole(f64::from(x), Mode::Rz) as i64 };
    /// To 64 unsigned bits, rounded down.
    float2ull_rd(x: f32 reg32) -> i64 reg64 "cvt.rmi.u64.f32" = if x.is_nan() { i64::MIN } else { (whole(f64::from(x), Mode::Rd) as u64) as i64 };
    /// To 64 unsigned bits, rounded to nearest even.
    float2ull_rn(x: f32 reg32) -> i64 reg64 "cvt.rni.u64.f32" = if x.is_nan() { i64::MIN } else { (whole(f64::from(x), Mode::Rn) as u64) as i64 };
    /// To 64 unsigned bits, rounded up.
    float2ull_ru(x: f32 reg32) -> i64 reg64 "cvt.rpi.u64.f32" = if x.is_nan() { i64::MIN } else { (whole(f64::from(x), Mode::Ru) as u64) as i64 };
    /// To 64 unsigned bits, rounded towards zero.
    float2ull_rz(x: f32 reg32) -> i64 reg64 "cvt.rzi.u64.f32" = if x.is_nan() { i64::MIN } else { (whole(f64::from(x), Mode::Rz) as u64) as i64 };
    /// To 32 bits, rounded down.
    double2int_rd(x: f64 reg64) -> i32 reg32 "cvt.rmi.s32.f64" = if x.is_nan() { i32::MIN } else { whole(x, Mode::Rd) as i32 };
    /// To 32 bits, rounded to nearest even.
    double2int_rn(x: f64 reg64) -> i32 reg32 "cvt.rni.s32.f64" = if x.is_nan() { i32::MIN } else { whole(x, Mode::Rn) as i32 };
    /// To 32 bits, rounded up.
    double2int_ru(x: f64 reg64) -> i32 reg32 "cvt.rpi.s32.f64" = if x.is_nan() { i32::MIN } else { whole(x, Mode::Ru) as i32 };
    /// To 32 bits, rounded towards zero.
    double2int_rz(x: f64 reg64) -> i32 reg32 "cvt.rzi.s32.f64" = if x.is_nan() { i32::MIN } else { whole(x, Mode::Rz) as i32 };
    /// To 32 unsigned bits, rounded down.
    double2uint_rd(x: f64 reg64) -> i32 reg32 "cvt.rmi.u32.f64" = if x.is_nan() { i32::MIN } else { (whole(x, Mode::Rd) as u32) as i32 };
    /// To 32 unsigned bits, rounded to nearest even.
    double2uint_rn(x: f64 reg64) -> i32 reg32 "cvt.rni.u32.f64" = if x.is_nan() { i32::MIN } else { (whole(x, Mode::Rn) as u32) as i32 };
    /// To 32 unsigned bits, rounded up.
    double2uint_ru(x: f64 reg64) -> i32 reg32 "cvt.rpi.u32.f64" = if x.is_nan() { i32::MIN } else { (whole(x, Mode::Ru) as u32) as i32 };
    /// To 32 unsigned bits, rounded towards zero.
    double2uint_rz(x: f64 reg64) -> i32 reg32 "cvt.rzi.u32.f64" = if x.is_nan() { i32::MIN } else { (whole(x, Mode::Rz) as u32) as i32 };
    /// To 64 bits, rounded down.
    double2ll_rd(x: f64 reg64) -> i64 reg64 "cvt.rmi.s64.f64" = if x.is_nan() { i64::MIN } else { whole(x, Mode::Rd) as i64 };
    /// To 64 bits, rounded to nearest even.
    double2ll_rn(x: f64 reg64) -> i64 reg64 "cvt.rni.s64.f64" = if x.is_nan() { i64::MIN } else { whole(x, Mode::Rn) as i64 };
    /// To 64 bits, rounded up.
    double2ll_ru(x: f64 reg64) -> i64 reg64 "cvt.rpi.s64.f64" = if x.is_nan() { i64::MIN } else { whole(x, Mode::Ru) as i64 };
    /// To 64 bits, rounded towards zero.
    double2ll_rz(x: f64 reg64) -> i64 reg64 "cvt.rzi.s64.f64" = if x.is_nan() { i64::MIN } else { whole(x, Mode::Rz) as i64 };
    /// To 64 unsigned bits, rounded down.
    double2ull_rd(x: f64 reg64) -> i64 reg64 "cvt.rmi.u64.f64" = if x.is_nan() { i64::MIN } else { (whole(x, Mode::Rd) as u64) as i64 };
    /// To 64 unsigned bits, rounded to nearest even.
    double2ull_rn(x: f64 reg64) -> i64 reg64 "cvt.rni.u64.f64" = if x.is_nan() { i64::MIN } else { (whole(x, Mode::Rn) as u64) as i64 };
    /// To 64 unsigned bits, rounded up.
    double2ull_ru(x: f64 reg64) -> i64 reg64 "cvt.rpi.u64.f64" = if x.is_nan() { i64::MIN } else { (whole(x, Mode::Ru) as u64) as i64 };
    /// To 64 unsigned bits, rounded towards zero.
    double2ull_rz(x: f64 reg64) -> i64 reg64 "cvt.rzi.u64.f64" = if x.is_nan() { i64::MIN } else { (whole(x, Mode::Rz) as u64) as i64 };
    /// From 32 bits, rounded down.
    int2float_rd(x: i32 reg32) -> f32 reg32 "cvt.rm.f32.s32" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs().into(), SINGLE, Mode::Rd) as u32);
    /// From 32 bits, rounded to nearest even.
    int2float_rn(x: i32 reg32) -> f32 reg32 "cvt.rn.f32.s32" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs().into(), SINGLE, Mode::Rn) as u32);
    /// From 32 bits, rounded up.
    int2float_ru(x: i32 reg32) -> f32 reg32 "cvt.rp.f32.s32" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs().into(), SINGLE, Mode::Ru) as u32);
    /// From 32 bits, rounded towards zero.
    int2float_rz(x: i32 reg32) -> f32 reg32 "cvt.rz.f32.s32" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs().into(), SINGLE, Mode::Rz) as u32);
    /// From 32 unsigned bits, rounded down.
    uint2float_rd(x: i32 reg32) -> f32 reg32 "cvt.rm.f32.u32" = f32::from_bits(soft::integer(false, (x as u32).into(), SINGLE, Mode::Rd) as u32);
    /// From 32 unsigned bits, rounded to nearest even.
    uint2float_rn(x: i32 reg32) -> f32 reg32 "cvt.rn.f32.u32" = f32::from_bits(soft::integer(false, (x as u32).into(), SINGLE, Mode::Rn) as u32);
    /// From 32 unsigned bits, rounded up.
    uint2float_ru(x: i32 reg32) -> f32 reg32 "cvt.rp.f32.u32" = f32::from_bits(soft::integer(false, (x as u32).into(), SINGLE, Mode::Ru) as u32);
    /// From 32 unsigned bits, rounded towards zero.
    uint2float_rz(x: i32 reg32) -> f32 reg32 "cvt.rz.f32.u32" = f32::from_bits(soft::integer(false, (x as u32).into(), SINGLE, Mode::Rz) as u32);
    /// From 64 bits, rounded down.
    ll2float_rd(x: i64 reg64) -> f32 reg32 "cvt.rm.f32.s64" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs(), SINGLE, Mode::Rd) as u32);
    /// From 64 bits, rounded to nearest even.
    ll2float_rn(x: i64 reg64) -> f32 reg32 "cvt.rn.f32.s64" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs(), SINGLE, Mode::Rn) as u32);
    /// From 64 bits, rounded up.
    ll2float_ru(x: i64 reg64) -> f32 reg32 "cvt.rp.f32.s64" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs(), SINGLE, Mode::Ru) as u32);
    /// From 64 bits, rounded towards zero.
    ll2float_rz(x: i64 reg64) -> f32 reg32 "cvt.rz.f32.s64" = f32::from_bits(soft::integer(x < 0, x.unsigned_abs(), SINGLE, Mode::Rz) as u32);
    /// From 64 unsigned bits, rounded down.
    ull2float_rd(x: i64 reg64) -> f32 reg32 "cvt.rm.f32.u64" = f32::from_bits(soft::integer(false, x as u64, SINGLE, Mode::Rd) as u32);
    /// From 64 unsigned bits, rounded to nearest even.
    ull2float_rn(x: i64 reg64) -> f32 reg32 "cvt.rn.f32.u64" = f32::from_bits(soft::integer(false, x as u64, SINGLE, Mode::Rn) as u32);
    /// From 64 unsigned bits, rounded up.
    ull2float_ru(x: i64 reg64) -> f32 reg32 "cvt.rp.f32.u64" = f32::from_bits(soft::integer(false, x as u64, SINGLE, Mode::Ru) as u32);
    /// From 64 unsigned bits, rounded towards zero.
    ull2float_rz(x: i64 reg64) -> f32 reg32 "cvt.rz.f32.u64" = f32::from_bits(soft::integer(false, x as u64, SINGLE, Mode::Rz) as u32);
    /// From 32 bits, rounded to nearest even.
    int2double_rn(x: i32 reg32) -> f64 reg64 "cvt.rn.f64.s32" = f64::from_bits(soft::integer(x < 0, x.unsigned_abs().into(), DOUBLE, Mode::Rn));
    /// From 32 unsigned bits, rounded to nearest even.
    uint2double_rn(x: i32 reg32) -> f64 reg64 "cvt.rn.f64.u32" = f64::from_bits(soft::integer(false, (x as u32).into(), DOUBLE, Mode::Rn));
    /// From 64 bits, rounded down.
    ll2double_rd(x: i64 reg64) -> f64 reg64 "cvt.rm.f64.s64" = f64::from_bits(soft::integer(x < 0, x.unsigned_abs(), DOUBLE, Mode::Rd));
    /// From 64 bits, rounded to nearest even.
    ll2double_rn(x: i64 reg64) -> f64 reg64 "cvt.rn.f64.s64" = f64::from_bits(soft::integer(x < 0, x.unsigned_abs(), DOUBLE, Mode::Rn));
    /// From 64 bits, rounded up.
    ll2double_ru(x: i64 reg64) -> f64 reg64 "cvt.rp.f64.s64" = f64::from_bits(soft::integer(x < 0, x.unsigned_abs(), DOUBLE, Mode::Ru));
    /// From 64 bits, rounded towards zero.
    ll2double_rz(x: i64 reg64) -> f64 reg64 "cvt.rz.f64.s64" = f64::from_bits(soft::integer(x < 0, x.unsigned_abs(), DOUBLE, Mode::Rz));
    /// From 64 unsigned bits, rounded down.
    ull2double_rd(x: i64 reg64) -> f64 reg64 "cvt.rm.f64.u64" = f64::from_bits(soft::integer(false, x as u64, DOUBLE, Mode::Rd));
    /// From 64 unsigned bits, rounded to nearest even.
    ull2double_rn(x: i64 reg64) -> f64 reg64 "cvt.rn.f64.u64" = f64::from_bits(soft::integer(false, x as u64, DOUBLE, Mode::Rn));
    /// From 64 unsigned bits, rounded up.
    ull2double_ru(x: i64 reg64) -> f64 reg64 "cvt.rp.f64.u64" = f64::from_bits(soft::integer(false, x as u64, DOUBLE, Mode::Ru));
    /// From 64 unsigned bits, rounded towards zero.
    ull2double_rz(x: i64 reg64) -> f64 reg64 "cvt.rz.f64.u64" = f64::from_bits(soft::integer(false, x as u64, DOUBLE, Mode::Rz));
    /// From double to single, rounded down.
    double2float_rd(x: f64 reg64) -> f32 reg32 "cvt.rm.f32.f64" = f32::from_bits(soft::convert(x, SINGLE, Mode::Rd, (x as f32).to_bits().into()) as u32);
    /// From double to single, rounded to nearest even.
    double2float_rn(x: f64 reg64) -> f32 reg32 "cvt.rn.f32.f64" = f32::from_bits(soft::convert(x, SINGLE, Mode::Rn, (x as f32).to_bits().into()) as u32);
    /// From double to single, rounded up.
    double2float_ru(x: f64 reg64) -> f32 reg32 "cvt.rp.f32.f64" = f32::from_bits(soft::convert(x, SINGLE, Mode::Ru, (x as f32).to_bits().into()) as u32);
    /// From double to single, rounded towards zero.
    double2float_rz(x: f64 reg64) -> f32 reg32 "cvt.rz.f32.f64" = f32::from_bits(soft::convert(x, SINGLE, Mode::Rz, (x as f32).to_bits().into()) as u32);
    /// The bits of the nearest half.
    float2half_rn(x: f32 reg32) -> i16 reg16 "cvt.rn.f16.f32" = soft::convert(x.into(), HALF, Mode::Rn, special_half(x)) as i16;
    /// From the bits of a half.
    half2float(x: i16 reg16) -> f32 reg32 "cvt.f32.f16" = widened_half(x as u16);
}

/// The bits of a half that is zero, infinite or NaN.
#[cfg(not(target_os = "cuda"))]
fn special_half(x: f32) -> u64 {
    let sign = u64::from(x.to_bits() >> 31) << 15;
    if x.is_nan() {
        0x7fff
    } else if x == 0.0 {
        sign
    } else {
        sign | 0x7c00
    }
}

/// The value of a half.
#[cfg(not(target_os = "cuda"))]
fn widened_half(bits: u16) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 31, f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction / 16_777_216.0,
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1.0 + fraction / 1024.0) * f32::from_bits((u32::from(e) + 112) << 23),
    };
    if magnitude.is_nan() || bits >> 15 == 0 { magnitude } else { -magnitude }
}
