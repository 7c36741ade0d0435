//! Shifts, bit fields and counts.

/// A word that shifts and bit-field instructions work on.
pub trait Word: Copy {
    /// Width.
    const BITS: u32;
    /// `shl`: an amount past the width gives zero.
    fn shl(self, amount: u32) -> Self;
    /// `shr.u`, `shr.b`: an amount past the width gives zero.
    fn shr(self, amount: u32) -> Self;
    /// `shr.s`: an amount past the width gives the sign in every bit.
    fn shr_signed(self, amount: u32) -> Self;
    /// `bfe.u`: `len` bits from `pos` on; there are zeros past the top. Of a 32-bit word both are
    /// taken modulo 256.
    fn bfe(self, pos: u32, len: u32) -> Self;
    /// `bfe.s`: the same, extended by the highest bit of the field that exists.
    fn bfe_signed(self, pos: u32, len: u32) -> Self;
    /// `bfi`: this word with `len` bits from `pos` on replaced by the lowest of `field`; what does
    /// not fit is dropped.
    fn bfi(self, field: Self, pos: u32, len: u32) -> Self;
    /// `bfind.u`: index of the highest bit set; all ones if there is none.
    fn bfind(self) -> u32;
    /// `bfind.s`: index of the highest bit that differs from the sign; all ones if there is none.
    fn bfind_signed(self) -> u32;
}

/// A position or length of a field. The device's instruction for 32 bits takes its lowest byte; for
/// 64 bits there is none, and what stands for it takes all of it.
#[inline(always)]
fn place<W: Word>(of: u32) -> u32 {
    if W::BITS == 32 { of & 0xff } else { of }
}

macro_rules! word {
    ($($word:ident, $signed:ident;)*) => {$(
        impl Word for $word {
            const BITS: u32 = $word::BITS;

            #[inline(always)]
            fn shl(self, amount: u32) -> Self {
                if amount < $word::BITS { self << amount } else { 0 }
            }

            #[inline(always)]
            fn shr(self, amount: u32) -> Self {
                if amount < $word::BITS { self >> amount } else { 0 }
            }

            #[inline(always)]
            fn shr_signed(self, amount: u32) -> Self {
                (self as $signed >> amount.min($word::BITS - 1)) as Self
            }

            #[inline]
            fn bfe(self, pos: u32, len: u32) -> Self {
                self.shr(place::<$word>(pos)) & !Self::MAX.shl(place::<$word>(len))
            }

            #[inline]
            fn bfe_signed(self, pos: u32, len: u32) -> Self {
                let (pos, len) = (place::<$word>(pos), place::<$word>(len));
                if len == 0 {
                    return 0;
                }
                let top = (pos.saturating_add(len) - 1).min($word::BITS - 1);
                let sign = Self::MAX * (self >> top & 1);
                let inside = len.min($word::BITS.saturating_sub(pos));
                self.bfe(pos, inside) | (sign & Self::MAX.shl(inside))
            }

            #[inline]
            fn bfi(self, field: Self, pos: u32, len: u32) -> Self {
                let (pos, len) = (place::<$word>(pos), place::<$word>(len));
                let mask = (!Self::MAX.shl(len)).shl(pos);
                (self & !mask) | (field.shl(pos) & mask)
            }

            #[inline]
            fn bfind(self) -> u32 {
                self.checked_ilog2().unwrap_or(u32::MAX)
            }

            #[inline]
            fn bfind_signed(self) -> u32 {
                let sign = self.shr_signed($word::BITS - 1);
                (self ^ sign).bfind()
            }
        }
    )*};
}

word! {
    u16, i16;
    u32, i32;
    u64, i64;
}

/// `bfind.shiftamt`: how far to shift left for the found bit to be the highest; all ones if none
/// was found.
#[inline]
pub fn shift_amount<W: Word>(found: u32) -> u32 {
    if found == u32::MAX { found } else { W::BITS - 1 - found }
}

/// The amount of a funnel shift: at most 32, or modulo 32.
#[inline]
fn funnel(amount: u32, wrap: bool) -> u32 {
    if wrap { amount & 31 } else { amount.min(32) }
}

/// `shf.l`: the upper word of `high:low` shifted left.
#[inline]
pub fn shf_left(low: u32, high: u32, amount: u32, wrap: bool) -> u32 {
    let long = u64::from(high) << 32 | u64::from(low);
    (long << funnel(amount, wrap) >> 32) as u32
}

/// `shf.r`: the lower word of `high:low` shifted right.
#[inline]
pub fn shf_right(low: u32, high: u32, amount: u32, wrap: bool) -> u32 {
    let long = u64::from(high) << 32 | u64::from(low);
    (long >> funnel(amount, wrap)) as u32
}

/// `lop3`: bit `4a + 2b + c` of the table, for each bit of the words.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let term = |index: u32| {
        let chosen = 0u32.wrapping_sub(u32::from(table) >> index & 1);
        let same = |word: u32, bit: u32| if index & bit != 0 { word } else { !word };
        chosen & same(a, 4) & same(b, 2) & same(c, 1)
    };
    (0..8).fold(0, |result, index| result | term(index))
}

/// `szext.u32`: the lowest `width` bits. A width over 31 keeps all bits, or with `wrap` is taken
/// modulo 32.
pub fn szext_u32(a: u32, width: u32, wrap: bool) -> u32 {
    if !wrap && width >= 32 { a } else { a & !u32::MAX.shl(width & 31) }
}

/// `szext.s32`: the lowest `width` bits, extended by the highest of them.
pub fn szext_s32(a: u32, width: u32, wrap: bool) -> u32 {
    if !wrap && width >= 32 { a } else { a.bfe_signed(0, width & 31) }
}

/// `bmsk`: `width` ones from bit `pos` on. With `wrap` both are taken modulo 32.
pub fn bmsk(pos: u32, width: u32, wrap: bool) -> u32 {
    let (pos, width) = if wrap { (pos & 31, width & 31) } else { (pos, width) };
    let ones = !u32::MAX.shl(width);
    ones.shl(pos)
}

/// `fns`: index of the `offset`-th bit set from bit `base` on, upwards for a positive offset,
/// downwards for a negative one; for 0 `base` itself if it is set. All ones if there is none.
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let is_set = |at: &u32| mask.shr(*at) & 1 != 0;
    let skipped = offset.unsigned_abs().saturating_sub(1) as usize;
    let found = match offset {
        0 => Some(base).filter(is_set),
        1.. => (base..32).filter(is_set).nth(skipped),
        _ if base < 32 => (0..=base).rev().filter(is_set).nth(skipped),
        _ => None,
    };
    found.unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The part of a position and a length that counts.
    fn taken(pos: u32, len: u32, bits: u32) -> (u32, u32) {
        if bits == 32 { (pos & 0xff, len & 0xff) } else { (pos, len) }
    }

    /// Bit by bit, as the PTX ISA writes `bfe` down.
    fn slow_bfe(a: u64, pos: u32, len: u32, bits: u32, signed: bool) -> u64 {
        let (pos, len) = taken(pos, len, bits);
        let bit = |at: u32| a >> at & 1;
        let top = pos.saturating_add(len).saturating_sub(1).min(bits - 1);
        let sign = if !signed || len == 0 { 0 } else { bit(top) };
        let inside = |i: u32| i < len && pos.saturating_add(i) < bits;
        (0..bits).map(|i| (if inside(i) { bit(pos + i) } else { sign }) << i).sum()
    }

    /// Bit by bit, as the PTX ISA writes `bfi` down.
    fn slow_bfi(field: u64, word: u64, pos: u32, len: u32, bits: u32) -> u64 {
        let (pos, len) = taken(pos, len, bits);
        let replaced = |i: u32| i >= pos && i - pos < len;
        let bit = |i: u32| if replaced(i) { field >> (i - pos) & 1 } else { word >> i & 1 };
        (0..bits).map(|i| bit(i) << i).sum()
    }

    /// Values of positions and lengths about the edges, and any.
    fn amount() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..70, 250u32..260, any::<u32>()]
    }

    proptest! {
        #[test]
        fn bit_fields(a: u64, b: u64, pos in amount(), len in amount()) {
            prop_assert_eq!(u64::from((a as u32).bfe(pos, len)), slow_bfe(a, pos, len, 32, false));
            prop_assert_eq!(
                u64::from((a as u32).bfe_signed(pos, len)),
                slow_bfe(a & 0xffff_ffff, pos, len, 32, true)
            );
            prop_assert_eq!(a.bfe(pos, len), slow_bfe(a, pos, len, 64, false));
            prop_assert_eq!(a.bfe_signed(pos, len), slow_bfe(a, pos, len, 64, true));
            prop_assert_eq!(b.bfi(a, pos, len), slow_bfi(a, b, pos, len, 64));
            let inserted = (b as u32).bfi(a as u32, pos, len);
            prop_assert_eq!(u64::from(inserted), slow_bfi(a, b, pos, len, 32));
        }

        #[test]
        fn lop3_is_its_table(a: u32, b: u32, c: u32, table: u8) {
            let bit = |i: u32| {
                let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
                u32::from(table) >> index & 1
            };
            let expected: u32 = (0..32).map(|i| bit(i) << i).sum();
            prop_assert_eq!(lop3(a, b, c, table), expected);
        }

        #[test]
        fn funnel_shifts(a: u32, b: u32, amount in amount()) {
            let clamped = amount.min(32);
            let long = u128::from(b) << 32 | u128::from(a);
            prop_assert_eq!(shf_left(a, b, amount, false), (long << clamped >> 32) as u32);
            prop_assert_eq!(shf_right(a, b, amount, false), (long >> clamped) as u32);
            prop_assert_eq!(shf_left(a, a, amount, true), a.rotate_left(amount % 32));
            prop_assert_eq!(shf_right(a, a, amount, true), a.rotate_right(amount % 32));
        }
    }

    #[test]
    fn lop3_of_known_tables() {
        let (a, b, c) = (0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa);
        assert_eq!(lop3(a, b, c, 0x80), a & b & c);
        assert_eq!(lop3(a, b, c, 0xfe), a | b | c);
        assert_eq!(lop3(a, b, c, 0x96), a ^ b ^ c);
        assert_eq!(lop3(a, b, c, 0xca), (a & b) | (!a & c));
        assert_eq!(lop3(a, b, c, 0x40), a & b & !c);
    }

    #[test]
    fn shifts_clamp() {
        for amount in [32, 33, 64, 255, u32::MAX] {
            assert_eq!((1u32.shl(amount), u32::MAX.shr(amount)), (0, 0));
            assert_eq!(0x8000_0000u32.shr_signed(amount), u32::MAX);
            assert_eq!(0x7fff_ffffu32.shr_signed(amount), 0);
        }
        assert_eq!(
            (1u32.shl(31), 1u64.shl(63), 1u64.shl(64), 1u16.shl(16)),
            (1 << 31, 1 << 63, 0, 0)
        );
        assert_eq!((0x8000u16.shr_signed(3), 0x8000u16.shr(15)), (0xf000, 1));
        assert_eq!(0x8000_0000_0000_0000u64.shr_signed(200), u64::MAX);
    }

    #[test]
    fn finds_the_highest_bit() {
        assert_eq!([0u32, 1, 0x8000_0000].map(Word::bfind), [u32::MAX, 0, 31]);
        assert_eq!(
            [0u32, u32::MAX, 1, 0x8000_0000].map(Word::bfind_signed),
            [u32::MAX, u32::MAX, 0, 30]
        );
        assert_eq!((u64::MAX.bfind(), u64::MAX.bfind_signed()), (63, u32::MAX));
        assert_eq!([u32::MAX, 0, 31].map(shift_amount::<u32>), [u32::MAX, 31, 0]);
        assert_eq!(shift_amount::<u64>(0), 63);
    }

    #[test]
    fn masks_and_extensions() {
        assert_eq!(
            [bmsk(0, 0, false), bmsk(4, 8, false), bmsk(0, 32, false)],
            [0, 0xff0, u32::MAX]
        );
        assert_eq!([bmsk(31, 5, false), bmsk(32, 5, false), bmsk(33, 33, true)], [1 << 31, 0, 2]);
        assert_eq!(
            [szext_u32(0xff, 4, false), szext_u32(7, 32, false), szext_u32(7, 32, true)],
            [0xf, 7, 0]
        );
        assert_eq!([szext_s32(0xf8, 4, false), szext_s32(0xf7, 4, false)], [0xffff_fff8, 7]);
        assert_eq!([szext_s32(u32::MAX, 0, false), szext_s32(9, 40, false)], [0, 9]);
    }

    #[test]
    fn finds_the_nth_set_bit() {
        let mask = 0b1011_0010;
        assert_eq!(
            [fns(mask, 0, 1), fns(mask, 1, 1), fns(mask, 1, 2), fns(mask, 0, 9)],
            [1, 1, 4, u32::MAX]
        );
        assert_eq!([fns(mask, 7, -1), fns(mask, 6, -1), fns(mask, 31, -4)], [7, 5, 1]);
        assert_eq!(
            [fns(mask, 4, 0), fns(mask, 6, 0), fns(mask, 0, i32::MIN)],
            [4, u32::MAX, u32::MAX]
        );
    }
}
