//! Arithmetic and conversions of one number of 16 bits.

use super::instruction;
use ::half::{bf16, f16};

#[cfg(not(target_os = "cuda"))]
use super::soft::{Format, Overflow, Rounding, add_to_odd, pick};

mod sealed {
    pub trait Sealed {}
}

/// [`struct@f16`] and [`bf16`] computed by the device's own instructions, one for each function.
///
/// The names are those of CUDA C++'s `__hadd`, `__hfma` and so on. Each result is rounded once, to
/// the nearest, in the middle to the even one; products and sums are never contracted.
///
/// ```
/// use cuda_std::number::{Half, f16};
///
/// let [a, b, c] = [1.5, 2.0, -4.0].map(f16::nearest);
/// assert_eq!(a.hfma(b, c).widen(), -1.0);
/// assert_eq!(a.hfma_relu(b, c).widen(), 0.0);
/// assert_eq!(f16::nearest(1e6), f16::INFINITY);
/// assert_eq!(f16::saturating(1e6), f16::MAX);
/// ```
pub trait Half: Copy + sealed::Sealed {
    /// The nearest to `value`; beyond the largest, infinity.
    fn nearest(value: f32) -> Self;

    /// `value` rounded towards zero.
    fn toward_zero(value: f32) -> Self;

    /// The nearest to `value`; beyond the largest, and for infinity, the largest. Three instructions:
    /// the single one needs PTX of a later version than the compiler writes.
    fn saturating(value: f32) -> Self;

    /// The nearest to `value`, and 0 where that is negative.
    fn relu(value: f32) -> Self;

    /// The nearest to an integer.
    fn from_i32(value: i32) -> Self;

    /// The value rounded towards zero; what does not fit becomes the nearest that does, NaN 0.
    fn to_i32(self) -> i32;

    /// The value as `f32`, exactly.
    fn widen(self) -> f32;

    /// `self + other`.
    fn hadd(self, other: Self) -> Self;

    /// `self - other`.
    fn hsub(self, other: Self) -> Self;

    /// `self * other`.
    fn hmul(self, other: Self) -> Self;

    /// `self * factor + addend`, rounded once.
    fn hfma(self, factor: Self, addend: Self) -> Self;

    /// [`hfma`](Self::hfma), and 0 where that is negative.
    fn hfma_relu(self, factor: Self, addend: Self) -> Self;

    /// The smaller; of a NaN and a number, the number.
    fn hmin(self, other: Self) -> Self;

    /// The larger; of a NaN and a number, the number.
    fn hmax(self, other: Self) -> Self;

    /// The smaller, or NaN if either is.
    fn hmin_nan(self, other: Self) -> Self;

    /// The larger, or NaN if either is.
    fn hmax_nan(self, other: Self) -> Self;

    /// The negative.
    fn hneg(self) -> Self;

    /// The magnitude.
    fn habs(self) -> Self;

    /// Whether `self < other`; false where either is NaN.
    fn hlt(self, other: Self) -> bool;

    /// Whether `self <= other`; false where either is NaN.
    fn hle(self, other: Self) -> bool;

    /// Whether `self == other`; false where either is NaN.
    fn heq(self, other: Self) -> bool;

    /// 2 to the power of `self`, nearly: to about one unit in the last place.
    fn ex2(self) -> Self;

    /// The hyperbolic tangent, nearly: to about one unit in the last place.
    fn htanh(self) -> Self;
}

/// The host's arithmetic: from bits to bits.
#[cfg(not(target_os = "cuda"))]
pub(super) mod host {
    use super::*;

    pub fn round(format: Format, value: f64) -> u16 {
        format.narrow(value, Rounding::Nearest, Overflow::Infinity)
    }

    pub fn relu(format: Format, bits: u16) -> u16 {
        if bits & 0x8000 == 0 || format.is_nan(bits) { bits } else { 0 }
    }

    pub fn with(format: Format, a: u16, b: u16, f: impl Fn(f64, f64) -> f64) -> u16 {
        round(format, f(format.widen(a), format.widen(b)))
    }

    pub fn fma(format: Format, a: u16, b: u16, c: u16) -> u16 {
        let product = format.widen(a) * format.widen(b);
        round(format, add_to_odd(product, format.widen(c)))
    }

    pub fn chosen(format: Format, a: u16, b: u16, larger: bool) -> u16 {
        with(format, a, b, |a, b| pick(a, b, larger))
    }

    pub fn chosen_nan(format: Format, a: u16, b: u16, larger: bool) -> u16 {
        let is_nan = format.is_nan(a) || format.is_nan(b);
        if is_nan { format.nan } else { chosen(format, a, b, larger) }
    }

    pub fn signed(format: Format, a: u16, magnitude: u16) -> u16 {
        if format.is_nan(a) { format.nan } else { magnitude }
    }

    pub fn ex2(format: Format, a: u16) -> u16 {
        round(format, format.widen(a).exp2())
    }

    pub fn tanh(format: Format, a: u16) -> u16 {
        round(format, format.widen(a).tanh())
    }
}

/// Whether a comparison holds. The predicate goes through a register of 32 bits.
#[cfg(target_os = "cuda")]
macro_rules! compare {
    ($operator:literal, $format:literal, $a:expr, $b:expr) => {{
        let holds: u32;
        // SAFETY: arithmetic on registers has no precondition.
        unsafe {
            core::arch::asm!(
                concat!("{{ .reg .pred p; setp.", $operator, ".", $format, " p, {a}, {b};"),
                "selp.u32 {holds}, 1, 0, p; }}",
                a = in(reg16) $a,
                b = in(reg16) $b,
                holds = out(reg32) holds,
                options(pure, nomem, nostack),
            );
        }
        holds != 0
    }};
}

/// Implements [`Half`] for a type whose instructions end in `$format`.
macro_rules! halves {
    ($($ty:ident, $format:literal, $soft:ident, $ex2:literal;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Half for $ty {
            #[inline(always)]
            fn nearest(value: f32) -> Self {
                Self::from_bits(instruction!(
                    concat!("cvt.rn.", $format, ".f32"), reg16 u16: reg32 value;
                    host::round(Format::$soft, value.into())
                ))
            }

            #[inline(always)]
            fn toward_zero(value: f32) -> Self {
                Self::from_bits(instruction!(
                    concat!("cvt.rz.", $format, ".f32"), reg16 u16: reg32 value;
                    Format::$soft.narrow(value.into(), Rounding::Zero, Overflow::Infinity)
                ))
            }

            #[inline(always)]
            fn saturating(value: f32) -> Self {
                Self::nearest(clamp(value, Self::MAX.widen()))
            }

            #[inline(always)]
            fn relu(value: f32) -> Self {
                Self::from_bits(instruction!(
                    concat!("cvt.rn.relu.", $format, ".f32"), reg16 u16: reg32 value;
                    host::relu(Format::$soft, host::round(Format::$soft, value.into()))
                ))
            }

            #[inline(always)]
            fn from_i32(value: i32) -> Self {
                Self::from_bits(instruction!(
                    concat!("cvt.rn.", $format, ".s32"), reg16 u16: reg32 value;
                    host::round(Format::$soft, value.into())
                ))
            }

            #[inline(always)]
            fn to_i32(self) -> i32 {
                instruction!(
                    concat!("cvt.rzi.s32.", $format), reg32 i32: reg16 self.to_bits();
                    Format::$soft.widen(self.to_bits()) as i32
                )
            }

            #[inline(always)]
            fn widen(self) -> f32 {
                widen::$ty(self)
            }

            #[inline(always)]
            fn hadd(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("add.rn.", $format), reg16 u16: reg16 a, reg16 b;
                    host::with(Format::$soft, a, b, |a, b| a + b)
                ))
            }

            #[inline(always)]
            fn hsub(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("sub.rn.", $format), reg16 u16: reg16 a, reg16 b;
                    host::with(Format::$soft, a, b, |a, b| a - b)
                ))
            }

            #[inline(always)]
            fn hmul(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("mul.rn.", $format), reg16 u16: reg16 a, reg16 b;
                    host::with(Format::$soft, a, b, |a, b| a * b)
                ))
            }

            #[inline(always)]
            fn hfma(self, factor: Self, addend: Self) -> Self {
                let (a, b, c) = (self.to_bits(), factor.to_bits(), addend.to_bits());
                Self::from_bits(instruction!(
                    concat!("fma.rn.", $format), reg16 u16: reg16 a, reg16 b, reg16 c;
                    host::fma(Format::$soft, a, b, c)
                ))
            }

            #[inline(always)]
            fn hfma_relu(self, factor: Self, addend: Self) -> Self {
                let (a, b, c) = (self.to_bits(), factor.to_bits(), addend.to_bits());
                Self::from_bits(instruction!(
                    concat!("fma.rn.relu.", $format), reg16 u16: reg16 a, reg16 b, reg16 c;
                    host::relu(Format::$soft, host::fma(Format::$soft, a, b, c))
                ))
            }

            #[inline(always)]
            fn hmin(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("min.", $format), reg16 u16: reg16 a, reg16 b;
                    host::chosen(Format::$soft, a, b, false)
                ))
            }

            #[inline(always)]
            fn hmax(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("max.", $format), reg16 u16: reg16 a, reg16 b;
                    host::chosen(Format::$soft, a, b, true)
                ))
            }

            #[inline(always)]
            fn hmin_nan(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("min.NaN.", $format), reg16 u16: reg16 a, reg16 b;
                    host::chosen_nan(Format::$soft, a, b, false)
                ))
            }

            #[inline(always)]
            fn hmax_nan(self, other: Self) -> Self {
                let (a, b) = (self.to_bits(), other.to_bits());
                Self::from_bits(instruction!(
                    concat!("max.NaN.", $format), reg16 u16: reg16 a, reg16 b;
                    host::chosen_nan(Format::$soft, a, b, true)
                ))
            }

            #[inline(always)]
            fn hneg(self) -> Self {
                let a = self.to_bits();
                Self::from_bits(instruction!(
                    concat!("neg.", $format), reg16 u16: reg16 a;
                    host::signed(Format::$soft, a, a ^ 0x8000)
                ))
            }

            #[inline(always)]
            fn habs(self) -> Self {
                let a = self.to_bits();
                Self::from_bits(instruction!(
                    concat!("abs.", $format), reg16 u16: reg16 a;
                    host::signed(Format::$soft, a, a & 0x7fff)
                ))
            }

            #[inline(always)]
            fn hlt(self, other: Self) -> bool {
                #[cfg(target_os = "cuda")]
                return compare!("lt", $format, self.to_bits(), other.to_bits());
                #[cfg(not(target_os = "cuda"))]
                return self.widen() < other.widen();
            }

            #[inline(always)]
            fn hle(self, other: Self) -> bool {
                #[cfg(target_os = "cuda")]
                return compare!("le", $format, self.to_bits(), other.to_bits());
                #[cfg(not(target_os = "cuda"))]
                return self.widen() <= other.widen();
            }

            #[inline(always)]
            fn heq(self, other: Self) -> bool {
                #[cfg(target_os = "cuda")]
                return compare!("eq", $format, self.to_bits(), other.to_bits());
                #[cfg(not(target_os = "cuda"))]
                return self.widen() == other.widen();
            }

            #[inline(always)]
            fn ex2(self) -> Self {
                let a = self.to_bits();
                Self::from_bits(instruction!(
                    concat!($ex2, $format), reg16 u16: reg16 a; host::ex2(Format::$soft, a)
                ))
            }

            #[inline(always)]
            fn htanh(self) -> Self {
                let a = self.to_bits();
                Self::from_bits(instruction!(
                    concat!("tanh.approx.", $format), reg16 u16: reg16 a;
                    host::tanh(Format::$soft, a)
                ))
            }
        }
    )*};
}

halves! {
    f16, "f16", F16, "ex2.approx.";
    bf16, "bf16", BF16, "ex2.approx.ftz.";
}

/// `value` between `-max` and `max`; NaN stays NaN.
#[inline(always)]
pub(super) fn clamp(value: f32, max: f32) -> f32 {
    let value =
        instruction!("min.NaN.f32", reg32 f32: reg32 value, reg32 max; pick_nan(value, max, false));
    instruction!("max.NaN.f32", reg32 f32: reg32 value, reg32 -max; pick_nan(value, -max, true))
}

/// The smaller or larger of two numbers, or NaN if the first is.
#[cfg(not(target_os = "cuda"))]
fn pick_nan(value: f32, limit: f32, larger: bool) -> f32 {
    if value.is_nan() { value } else { pick(value.into(), limit.into(), larger) as f32 }
}

/// `value` rounded towards negative infinity. (There is no such instruction for [`bf16`].)
#[inline(always)]
pub fn f16_down(value: f32) -> f16 {
    f16::from_bits(instruction!("cvt.rm.f16.f32", reg16 u16: reg32 value;
        Format::F16.narrow(value.into(), Rounding::Down, Overflow::Infinity)))
}

/// `value` rounded towards positive infinity. (There is no such instruction for [`bf16`].)
#[inline(always)]
pub fn f16_up(value: f32) -> f16 {
    f16::from_bits(instruction!("cvt.rp.f16.f32", reg16 u16: reg32 value;
        Format::F16.narrow(value.into(), Rounding::Up, Overflow::Infinity)))
}

/// To `f32`, which differs: of a [`bf16`] it is a shift.
mod widen {
    use super::*;

    #[inline(always)]
    pub fn f16(value: f16) -> f32 {
        let value = value.to_bits();
        instruction!("cvt.f32.f16", reg32 f32: reg16 value; match Format::F16.is_nan(value) {
            true => f32::from_bits(0x7fff_ffff),
            false => Format::F16.widen(value) as f32,
        })
    }

    #[inline(always)]
    pub fn bf16(value: bf16) -> f32 {
        f32::from_bits(u32::from(value.to_bits()) << 16)
    }
}
