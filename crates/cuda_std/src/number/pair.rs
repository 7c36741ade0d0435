//! Two numbers of 16 bits in one register.

use super::scalar::clamp;
use super::{Half, bf16, f16, instruction};
use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

#[cfg(not(target_os = "cuda"))]
use super::scalar::host;
#[cfg(not(target_os = "cuda"))]
use super::soft::Format;

/// For which of two lanes something holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask2(u32);

impl Mask2 {
    /// For the low and for the high one.
    #[inline(always)]
    pub const fn to_array(self) -> [bool; 2] {
        [self.0 & 0xffff != 0, self.0 >> 16 != 0]
    }

    /// For both.
    #[inline(always)]
    pub const fn all(self) -> bool {
        self.0 == !0
    }

    /// For at least one.
    #[inline(always)]
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    /// The bits of `yes` where it holds, and of `no` elsewhere.
    #[inline(always)]
    const fn choose(self, yes: u32, no: u32) -> u32 {
        yes & self.0 | no & !self.0
    }
}

/// The host's lanes: each function from the bits of both.
#[cfg(not(target_os = "cuda"))]
mod lanes {
    pub fn split(bits: u32) -> [u16; 2] {
        [bits as u16, (bits >> 16) as u16]
    }

    pub fn join([low, high]: [u16; 2]) -> u32 {
        u32::from(high) << 16 | u32::from(low)
    }

    pub fn one(a: u32, f: impl Fn(u16) -> u16) -> u32 {
        join(split(a).map(f))
    }

    pub fn two(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
        let ([a0, a1], [b0, b1]) = (split(a), split(b));
        join([f(a0, b0), f(a1, b1)])
    }

    pub fn three(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
        let ([a0, a1], [b0, b1], [c0, c1]) = (split(a), split(b), split(c));
        join([f(a0, b0, c0), f(a1, b1, c1)])
    }
}

/// Declares a pair type, whose instructions end in `$format`.
macro_rules! pairs {
    ($($(#[$doc:meta])* $pair:ident of $half:ident, $format:literal, $soft:ident, $ex2:literal;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default)]
        pub struct $pair(u32);

        // SAFETY: the bits of two numbers, each of which any 16 bits are.
        unsafe impl Zeroable for $pair {}
        // SAFETY: as above; a `u32` and nothing else.
        unsafe impl Pod for $pair {}

        impl $pair {
            /// Puts two numbers together.
            #[inline(always)]
            pub const fn new(low: $half, high: $half) -> Self {
                Self((high.to_bits() as u32) << 16 | low.to_bits() as u32)
            }

            /// Twice the same number.
            #[inline(always)]
            pub const fn splat(value: $half) -> Self {
                Self::new(value, value)
            }

            /// The pair of these bits, the first number in the lower half.
            #[inline(always)]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The bits, the first number in the lower half.
            #[inline(always)]
            pub const fn to_bits(self) -> u32 {
                self.0
            }

            /// The first number.
            #[inline(always)]
            pub const fn low(self) -> $half {
                $half::from_bits(self.0 as u16)
            }

            /// The second number.
            #[inline(always)]
            pub const fn high(self) -> $half {
                $half::from_bits((self.0 >> 16) as u16)
            }

            /// Both numbers.
            #[inline(always)]
            pub const fn to_array(self) -> [$half; 2] {
                [self.low(), self.high()]
            }

            /// The second number before the first.
            #[inline(always)]
            pub const fn swap(self) -> Self {
                Self(self.0.rotate_left(16))
            }

            /// The nearest to two values; beyond the largest, infinity.
            #[inline(always)]
            pub fn nearest(low: f32, high: f32) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.", $format, ".f32"), reg32 u32: reg32 high, reg32 low;
                    Self::new($half::nearest(low), $half::nearest(high)).0
                ))
            }

            /// Two values rounded towards zero.
            #[inline(always)]
            pub fn toward_zero(low: f32, high: f32) -> Self {
                Self(instruction!(
                    concat!("cvt.rz.", $format, ".f32"), reg32 u32: reg32 high, reg32 low;
                    Self::new($half::toward_zero(low), $half::toward_zero(high)).0
                ))
            }

            /// The nearest to two values; beyond the largest, the largest. Five instructions: see
            /// [`Half::saturating`].
            #[inline(always)]
            pub fn saturating(low: f32, high: f32) -> Self {
                let max = $half::MAX.widen();
                Self::nearest(clamp(low, max), clamp(high, max))
            }

            /// The nearest to two values, and 0 where one is negative.
            #[inline(always)]
            pub fn relu(low: f32, high: f32) -> Self {
                Self(instruction!(
                    concat!("cvt.rn.relu.", $format, ".f32"), reg32 u32: reg32 high, reg32 low;
                    Self::new($half::relu(low), $half::relu(high)).0
                ))
            }

            /// Both numbers as `f32`, exactly.
            #[inline(always)]
            pub fn widen(self) -> [f32; 2] {
                [self.low().widen(), self.high().widen()]
            }

            /// `self * factor + addend`, rounded once.
            #[inline(always)]
            pub fn fma(self, factor: Self, addend: Self) -> Self {
                Self(instruction!(
                    concat!("fma.rn.", $format),
                    reg32 u32: reg32 self.0, reg32 factor.0, reg32 addend.0;
                    lanes::three(self.0, factor.0, addend.0, |a, b, c| {
                        host::fma(Format::$soft, a, b, c)
                    })
                ))
            }

            /// [`fma`](Self::fma), and 0 where that is negative.
            #[inline(always)]
            pub fn fma_relu(self, factor: Self, addend: Self) -> Self {
                Self(instruction!(
                    concat!("fma.rn.relu.", $format),
                    reg32 u32: reg32 self.0, reg32 factor.0, reg32 addend.0;
                    lanes::three(self.0, factor.0, addend.0, |a, b, c| {
                        host::relu(Format::$soft, host::fma(Format::$soft, a, b, c))
                    })
                ))
            }

            /// The smaller ones; of a NaN and a number, the number.
            #[inline(always)]
            pub fn min(self, other: Self) -> Self {
                Self(instruction!(
                    concat!("min.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| host::chosen(Format::$soft, a, b, false))
                ))
            }

            /// The larger ones; of a NaN and a number, the number.
            #[inline(always)]
            pub fn max(self, other: Self) -> Self {
                Self(instruction!(
                    concat!("max.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| host::chosen(Format::$soft, a, b, true))
                ))
            }

            /// The magnitudes.
            #[inline(always)]
            pub fn abs(self) -> Self {
                Self(instruction!(
                    concat!("abs.", $format), reg32 u32: reg32 self.0;
                    lanes::one(self.0, |a| host::signed(Format::$soft, a, a & 0x7fff))
                ))
            }

            /// Where `self < other`; nowhere where either is NaN.
            #[inline(always)]
            pub fn lt(self, other: Self) -> Mask2 {
                Mask2(instruction!(
                    concat!("set.lt.u32.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| {
                        let holds = Format::$soft.widen(a) < Format::$soft.widen(b);
                        if holds { !0 } else { 0 }
                    })
                ))
            }

            /// Where `self <= other`; nowhere where either is NaN.
            #[inline(always)]
            pub fn le(self, other: Self) -> Mask2 {
                Mask2(instruction!(
                    concat!("set.le.u32.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| {
                        let holds = Format::$soft.widen(a) <= Format::$soft.widen(b);
                        if holds { !0 } else { 0 }
                    })
                ))
            }

            /// Where the numbers are equal; nowhere where either is NaN.
            #[inline(always)]
            pub fn equal(self, other: Self) -> Mask2 {
                Mask2(instruction!(
                    concat!("set.eq.u32.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| {
                        let holds = Format::$soft.widen(a) == Format::$soft.widen(b);
                        if holds { !0 } else { 0 }
                    })
                ))
            }

            /// `self` where `mask` holds, `other` elsewhere.
            #[inline(always)]
            pub const fn select(self, other: Self, mask: Mask2) -> Self {
                Self(mask.choose(self.0, other.0))
            }

            /// 2 to the power of each, nearly: see [`Half::ex2`].
            #[inline(always)]
            pub fn ex2(self) -> Self {
                Self(instruction!(
                    concat!($ex2, $format), reg32 u32: reg32 self.0;
                    lanes::one(self.0, |a| host::ex2(Format::$soft, a))
                ))
            }

            /// The hyperbolic tangent of each, nearly: see [`Half::htanh`].
            #[inline(always)]
            pub fn tanh(self) -> Self {
                Self(instruction!(
                    concat!("tanh.approx.", $format), reg32 u32: reg32 self.0;
                    lanes::one(self.0, |a| host::tanh(Format::$soft, a))
                ))
            }
        }

        impl Add for $pair {
            type Output = Self;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(instruction!(
                    concat!("add.rn.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| host::with(Format::$soft, a, b, |a, b| a + b))
                ))
            }
        }

        impl Sub for $pair {
            type Output = Self;

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(instruction!(
                    concat!("sub.rn.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| host::with(Format::$soft, a, b, |a, b| a - b))
                ))
            }
        }

        impl Mul for $pair {
            type Output = Self;

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(instruction!(
                    concat!("mul.rn.", $format), reg32 u32: reg32 self.0, reg32 other.0;
                    lanes::two(self.0, other.0, |a, b| host::with(Format::$soft, a, b, |a, b| a * b))
                ))
            }
        }

        impl Neg for $pair {
            type Output = Self;

            #[inline(always)]
            fn neg(self) -> Self {
                Self(instruction!(
                    concat!("neg.", $format), reg32 u32: reg32 self.0;
                    lanes::one(self.0, |a| host::signed(Format::$soft, a, a ^ 0x8000))
                ))
            }
        }

        impl AddAssign for $pair {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl SubAssign for $pair {
            #[inline(always)]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl MulAssign for $pair {
            #[inline(always)]
            fn mul_assign(&mut self, other: Self) {
                *self = *self * other;
            }
        }

        impl PartialEq for $pair {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.equal(*other).all()
            }
        }

        impl From<[$half; 2]> for $pair {
            #[inline(always)]
            fn from([low, high]: [$half; 2]) -> Self {
                Self::new(low, high)
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

pairs! {
    /// Two [`struct@f16`], computed together, each function and operator by one instruction.
    ///
    /// The first number is the lower half: a slice of even length of `f16`s, aligned to 4 bytes, is
    /// a slice of pairs (`bytemuck::cast_slice`).
    ///
    /// ```
    /// use cuda_std::number::F16x2;
    ///
    /// let [a, b] = [F16x2::nearest(1.0, 2.0), F16x2::nearest(3.0, -4.0)];
    /// assert_eq!((a + b).widen(), [4.0, -2.0]);
    /// assert_eq!(a.fma(b, -a).widen(), [2.0, -10.0]);
    /// assert_eq!(a.lt(b).to_array(), [true, false]);
    /// ```
    F16x2 of f16, "f16x2", F16, "ex2.approx.";
    /// Two [`bf16`], computed together, each function and operator by one instruction; see
    /// [`F16x2`].
    Bf16x2 of bf16, "bf16x2", BF16, "ex2.approx.ftz.";
}
