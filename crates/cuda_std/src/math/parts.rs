//! Functions that take numbers apart, compare or round them: exact, every one.

use super::hw::{ceil, ceil64, floor, floor64, rint, rint64, trunc, trunc64};

macro_rules! parts {
    ($t:ty, $int:ty, $fraction:literal, $bias:literal, $trunc:ident;
     $round:ident $lround:ident $max:ident $min:ident $dim:ident $saturate:ident
     $logb:ident $ilogb:ident $frexp:ident $ldexp:ident $modf:ident $nextafter:ident
     $fmod:ident $remainder:ident $remquo:ident) => {
        /// Nearest integer, ties away from zero.
        #[inline(always)]
        pub fn $round(x: $t) -> $t {
            let t = $trunc(x);
            let r = if (x - t).abs() >= 0.5 { t + (1.0 as $t).copysign(x) } else { t };
            r.copysign(x)
        }

        /// The value rounded to an integer and limited to the range of that type; the least integer for NaN.
        #[inline(always)]
        pub fn $lround(x: $t) -> i64 {
            if x.is_nan() { i64::MIN } else { $round(x) as i64 }
        }

        /// The larger, or the one that is not NaN; +0 is above -0.
        #[inline(always)]
        pub fn $max(x: $t, y: $t) -> $t {
            let equal = <$t>::from_bits(x.to_bits() & y.to_bits());
            if x == y {
                equal
            } else if x > y || y.is_nan() {
                x
            } else {
                y
            }
        }

        /// The smaller, or the one that is not NaN; -0 is below +0.
        #[inline(always)]
        pub fn $min(x: $t, y: $t) -> $t {
            let equal = <$t>::from_bits(x.to_bits() | y.to_bits());
            if x == y {
                equal
            } else if x < y || y.is_nan() {
                x
            } else {
                y
            }
        }

        /// `x - y` if that is positive, else 0.
        #[inline(always)]
        pub fn $dim(x: $t, y: $t) -> $t {
            if x <= y { 0.0 } else { x - y }
        }

        /// Limited to `[0, 1]`; of NaN it is 0.
        #[inline(always)]
        pub fn $saturate(x: $t) -> $t {
            if x >= 1.0 {
                1.0
            } else if x > 0.0 {
                x
            } else {
                0.0
            }
        }

        /// The exponent `e` of `|x| = m·2^e` with `m` in `[1, 2)`; of zero minus infinity.
        #[inline(always)]
        pub fn $logb(x: $t) -> $t {
            if x == 0.0 {
                <$t>::NEG_INFINITY
            } else if x.is_finite() {
                $ilogb(x) as $t
            } else {
                x * x
            }
        }

        /// The exponent as an integer; the least for zero and NaN, the largest for infinities.
        #[inline(always)]
        pub fn $ilogb(x: $t) -> i32 {
            let a = x.abs().to_bits();
            let e = (a >> $fraction) as i32;
            if a == 0 || x.is_nan() {
                i32::MIN
            } else if x.is_infinite() {
                i32::MAX
            } else if e == 0 {
                // A subnormal's leading bit.
                (<$int>::BITS - 1 - a.leading_zeros()) as i32 - $fraction - $bias + 1
            } else {
                e - $bias
            }
        }

        /// `(m, e)` with `x = m·2^e` and `|m|` in `[1/2, 1)`; `(x, 0)` for zero and what is not finite.
        #[inline(always)]
        pub fn $frexp(x: $t) -> ($t, i32) {
            if x == 0.0 || !x.is_finite() {
                return (x + x, 0);
            }
            let e = $ilogb(x) + 1;
            ($ldexp(x, -e), e)
        }

        /// `x·2^n`, rounded once.
        #[inline(always)]
        pub fn $ldexp(x: $t, n: i32) -> $t {
            let power = |n: i32| <$t>::from_bits(((n + $bias) as $int) << $fraction);
            // A product may round if it is subnormal: only the last one is.
            let (mut x, mut n) = (x, n);
            let mut step = 0;
            while n > $bias && step < 3 {
                x *= power($bias);
                n -= $bias;
                step += 1;
            }
            while n < 1 - $bias && step < 3 {
                x *= power(1 - $bias + $fraction + 1);
                n += $bias - 1 - $fraction - 1;
                step += 1;
            }
            x * power(n.clamp(1 - $bias, $bias))
        }

        /// The fraction and the integer part, both with the sign of `x`.
        #[inline(always)]
        pub fn $modf(x: $t) -> ($t, $t) {
            let whole = $trunc(x);
            let fraction = if x.is_infinite() { 0.0 } else { x - whole };
            (fraction.copysign(x), whole)
        }

        /// The next number from `x` towards `y`.
        #[inline(always)]
        pub fn $nextafter(x: $t, y: $t) -> $t {
            if x.is_nan() || y.is_nan() {
                return x + y;
            }
            if x == y {
                return y;
            }
            if x == 0.0 {
                return <$t>::from_bits(1).copysign(y);
            }
            let away = (y > x) == (x > 0.0);
            <$t>::from_bits(if away { x.to_bits() + 1 } else { x.to_bits() - 1 })
        }

        /// The rest of `x / y` with the quotient rounded towards zero.
        #[inline]
        pub fn $fmod(x: $t, y: $t) -> $t {
            libm::$fmod(x, y)
        }

        /// The rest of `x / y` with the quotient rounded to nearest, ties to even.
        #[inline]
        pub fn $remainder(x: $t, y: $t) -> $t {
            libm::$remainder(x, y)
        }

        /// The same, and the low bits of the quotient with its sign.
        #[inline]
        pub fn $remquo(x: $t, y: $t) -> ($t, i32) {
            libm::$remquo(x, y)
        }
    };
}

parts! {
    f32, u32, 23, 127, trunc;
    roundf lroundf fmaxf fminf fdimf saturatef logbf ilogbf frexpf ldexpf modff nextafterf
    fmodf remainderf remquof
}
parts! {
    f64, u64, 52, 1023, trunc64;
    round lround fmax fmin fdim saturate logb ilogb frexp ldexp modf nextafter
    fmod remainder remquo
}

macro_rules! rounded {
    ($($(#[$doc:meta])* $single:ident $double:ident = $f:ident $g:ident;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $single(x: f32) -> f32 {
            $f(x)
        }
        $(#[$doc])*
        #[inline(always)]
        pub fn $double(x: f64) -> f64 {
            $g(x)
        }
    )+ };
}

rounded! {
    /// Largest integer not above.
    floorf floor_ = floor floor64;
    /// Smallest integer not below.
    ceilf ceil_ = ceil ceil64;
    /// Nearest integer towards zero.
    truncf trunc_ = trunc trunc64;
    /// Nearest integer, ties to even.
    rintf rint_ = rint rint64;
}
