//! Integer arithmetic.

/// An integer type that instructions compute with.
pub trait Integer: Copy + Ord {
    /// The type of twice the width.
    type Wide: Copy;

    /// `mul.wide`: the whole product.
    fn mul_wide(self, other: Self) -> Self::Wide;
    /// `mul.hi`: the upper half of the product.
    fn mul_hi(self, other: Self) -> Self;
    /// `mul.lo`, `mad.lo`: the lower half of `self · b + c`.
    fn mad_lo(self, b: Self, c: Self) -> Self;
    /// `mad.hi`: the upper half of `self · b`, plus `c`.
    fn mad_hi(self, b: Self, c: Self) -> Self;
    /// `div`, towards zero. By zero it is all ones; the least number by -1 is itself.
    fn div(self, other: Self) -> Self;
    /// `rem`, with the sign of the dividend. By zero it is all ones.
    fn rem(self, other: Self) -> Self;
    /// `sad`: `c` plus the distance of the two.
    fn sad(self, b: Self, c: Self) -> Self;
}

macro_rules! integer {
    ($($int:ident, $unsigned:ident, $wide:ident;)*) => {$(
        impl Integer for $int {
            type Wide = $wide;

            #[inline(always)]
            fn mul_wide(self, other: Self) -> $wide {
                $wide::from(self) * $wide::from(other)
            }

            #[inline(always)]
            fn mul_hi(self, other: Self) -> Self {
                (self.mul_wide(other) >> Self::BITS) as Self
            }

            #[inline(always)]
            fn mad_lo(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }

            #[inline(always)]
            fn mad_hi(self, b: Self, c: Self) -> Self {
                self.mul_hi(b).wrapping_add(c)
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }

            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_rem(other) }
            }

            #[inline(always)]
            fn sad(self, b: Self, c: Self) -> Self {
                (self.abs_diff(b) as Self).wrapping_add(c)
            }
        }
    )*};
}

integer! {
    u16, u16, u32;
    i16, u16, i32;
    u32, u32, u64;
    i32, u32, i64;
    u64, u64, u128;
    i64, u64, i128;
}

/// `mad.hi.sat.s32`
pub fn mad_hi_sat(a: i32, b: i32, c: i32) -> i32 {
    a.mul_hi(b).saturating_add(c)
}

/// The low 24 bits.
fn low24_u(a: u32) -> u64 {
    u64::from(a & 0xff_ffff)
}

/// The low 24 bits as a signed number.
fn low24_s(a: i32) -> i64 {
    i64::from(a << 8 >> 8)
}

/// `mul24.lo.u32`: bits 0 to 31 of the product of two 24-bit numbers.
pub fn mul24_lo_u32(a: u32, b: u32) -> u32 {
    (low24_u(a) * low24_u(b)) as u32
}

/// `mul24.hi.u32`: bits 16 to 47 of the product of two 24-bit numbers.
pub fn mul24_hi_u32(a: u32, b: u32) -> u32 {
    ((low24_u(a) * low24_u(b)) >> 16) as u32
}

/// `mul24.lo.s32`: bits 0 to 31 of the product of two 24-bit numbers.
pub fn mul24_lo_i32(a: i32, b: i32) -> i32 {
    (low24_s(a) * low24_s(b)) as i32
}

/// `mul24.hi.s32`: bits 16 to 47 of the product of two 24-bit numbers.
pub fn mul24_hi_i32(a: i32, b: i32) -> i32 {
    ((low24_s(a) * low24_s(b)) >> 16) as i32
}

/// `addc.cc` of 32 bits: sum and carry.
#[inline]
pub fn add_carry_u32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    a.carrying_add(b, carry)
}

/// `addc.cc` of 64 bits: sum and carry.
#[inline]
pub fn add_carry_u64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    a.carrying_add(b, carry)
}

/// `subc.cc` of 32 bits: difference and carry. The carry is that of `a + !b`, so no carry is a
/// borrow; a chain that subtracts starts with it set.
#[inline]
pub fn sub_carry_u32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    a.carrying_add(!b, carry)
}

/// `subc.cc` of 64 bits: difference and carry, as of 32 bits.
#[inline]
pub fn sub_carry_u64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    a.carrying_add(!b, carry)
}

/// Byte `index` of a word, extended by its sign or with zeros.
fn byte(word: u32, index: u32, signed: bool) -> i64 {
    let byte = (word >> (8 * index)) as u8;
    if signed { i64::from(byte as i8) } else { i64::from(byte) }
}

/// Half-word `index` of a word, extended by its sign or with zeros.
fn half_word(word: u32, index: u32, signed: bool) -> i64 {
    let half = (word >> (16 * index)) as u16;
    if signed { i64::from(half as i16) } else { i64::from(half) }
}

/// `dp4a`: `c` plus the products of the four bytes of `a` and `b`, modulo 2^32.
pub fn dp4a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    let sum: i64 = (0..4).map(|i| byte(a, i, a_signed) * byte(b, i, b_signed)).sum();
    c.wrapping_add(sum as u32)
}

/// `dp2a`: `c` plus the products of the two halves of `a` and two bytes of `b`, the lower or the
/// `upper` two, modulo 2^32.
pub fn dp2a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32, upper: bool) -> u32 {
    let first = if upper { 2 } else { 0 };
    let product = |i: u32| half_word(a, i, a_signed) * byte(b, first + i, b_signed);
    c.wrapping_add((product(0) + product(1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn products_at_the_extremes() {
        assert_eq!(u32::MAX.mul_hi(u32::MAX), u32::MAX - 1);
        assert_eq!(i32::MIN.mul_hi(i32::MIN), 1 << 30);
        assert_eq!((-1i32).mul_hi(1), -1);
        assert_eq!(i64::MIN.mul_hi(i64::MIN), 1 << 62);
        assert_eq!(u64::MAX.mul_hi(u64::MAX), u64::MAX - 1);
        assert_eq!(i16::MIN.mul_hi(i16::MIN), 1 << 14);
        assert_eq!(u16::MAX.mul_wide(u16::MAX), 0xfffe_0001);
        assert_eq!(i32::MIN.mul_wide(-1), 1 << 31);
        assert_eq!(i32::MAX.mad_lo(2, 3), 1);
        assert_eq!(mad_hi_sat(i32::MIN, i32::MIN, i32::MAX), i32::MAX);
        assert_eq!(mad_hi_sat(i32::MIN, 1, i32::MIN), i32::MIN);
    }

    #[test]
    fn division_by_zero_and_overflow() {
        assert_eq!((7u32.div(0), 7u32.rem(0)), (u32::MAX, u32::MAX));
        assert_eq!((7i32.div(0), (-7i32).rem(0)), (-1, -1));
        assert_eq!((7u64.div(0), 7u64.rem(0)), (u64::MAX, u64::MAX));
        assert_eq!((i32::MIN.div(-1), i32::MIN.rem(-1)), (i32::MIN, 0));
        assert_eq!((i64::MIN.div(-1), i64::MIN.rem(-1)), (i64::MIN, 0));
        assert_eq!(((-7i32).div(2), (-7i32).rem(2), 7i32.rem(-2)), (-3, -1, 1));
        assert_eq!((7u16.div(0), i16::MIN.div(-1)), (u16::MAX, i16::MIN));
    }

    #[test]
    fn distances() {
        assert_eq!(0u32.sad(u32::MAX, 1), 0);
        assert_eq!(i32::MIN.sad(i32::MAX, 0), -1);
        assert_eq!(5u64.sad(3, 10), 12);
        assert_eq!((-5i16).sad(5, 1), 11);
    }

    #[test]
    fn products_of_24_bits_ignore_the_rest() {
        assert_eq!(mul24_lo_u32(0xff00_0003, 5), 15);
        assert_eq!(mul24_hi_u32(0xff_ffff, 0xff_ffff), ((0xff_ffffu64 * 0xff_ffff) >> 16) as u32);
        assert_eq!(mul24_lo_i32(0x00ff_ffff, 5), -5);
        assert_eq!(mul24_hi_i32(0x00ff_ffff, 1), -1);
        assert_eq!(mul24_hi_i32(0x0080_0000, 0x0080_0000), 1 << 30);
    }

    #[test]
    fn carries() {
        assert_eq!(add_carry_u32(u32::MAX, 0, true), (0, true));
        assert_eq!(add_carry_u32(u32::MAX, u32::MAX, true), (u32::MAX, true));
        assert_eq!(add_carry_u64(1, 2, false), (3, false));
        assert_eq!(sub_carry_u32(0, 0, false), (u32::MAX, false));
        assert_eq!(sub_carry_u64(0, u64::MAX, false), (0, false));
        assert_eq!(sub_carry_u64(5, 4, false), (0, true));
    }

    #[test]
    fn dot_products_extend_as_told() {
        let (a, b) = (0x80ff_7f01, 0xff02_80ff);
        assert_eq!(dp4a(a, true, b, true, 0) as i32, 128 - 2 - 127 * 128 - 1);
        assert_eq!(dp4a(a, false, b, false, 1), 128 * 255 + 255 * 2 + 127 * 128 + 255 + 1);
        assert_eq!(dp4a(a, true, b, false, 0) as i32, -128 * 255 - 2 + 127 * 128 + 255);
        assert_eq!(dp2a(0xffff_0002, true, b, true, 0, false) as i32, -2 + 128);
        assert_eq!(dp2a(0xffff_0002, false, b, false, 0, true), 2 * 2 + 65535 * 255);
    }

    proptest! {
        #[test]
        fn halves_make_the_product(a: u64, b: u64) {
            let whole = u128::from(a) * u128::from(b);
            prop_assert_eq!(a.mul_hi(b), (whole >> 64) as u64);
            prop_assert_eq!(a.mad_lo(b, 0), whole as u64);
            let signed = i128::from(a as i64) * i128::from(b as i64);
            prop_assert_eq!((a as i64).mul_hi(b as i64), (signed >> 64) as i64);
            let product = i64::from(a as i32) * i64::from(b as i32);
            prop_assert_eq!((a as i32).mad_hi(b as i32, 1), ((product >> 32) as i32).wrapping_add(1));
        }

        #[test]
        fn long_addition_by_words(a: u128, b: u128) {
            let (low, carry) = add_carry_u64(a as u64, b as u64, false);
            let (high, _) = add_carry_u64((a >> 64) as u64, (b >> 64) as u64, carry);
            prop_assert_eq!(u128::from(high) << 64 | u128::from(low), a.wrapping_add(b));
            let (low, carry) = sub_carry_u64(a as u64, b as u64, true);
            let (high, _) = sub_carry_u64((a >> 64) as u64, (b >> 64) as u64, carry);
            prop_assert_eq!(u128::from(high) << 64 | u128::from(low), a.wrapping_sub(b));
        }
    }
}
