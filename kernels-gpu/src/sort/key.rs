//! Keys as words in their order, digits of them, and what travels with them.

use bytemuck::{Pod, Zeroable};

/// Bits of a digit.
pub const RADIX_BITS: u32 = 8;
/// Values that a digit has.
pub const RADIX: usize = 1 << RADIX_BITS;

/// Digits of the bits `begin..end` of a key.
#[must_use]
pub const fn passes(begin: u32, end: u32) -> usize {
    (end - begin).div_ceil(RADIX_BITS) as usize
}

/// Passes that a sort by the bits `begin..end` launches: one for each digit, and if the result is wanted where the input is, one
/// more where that is an odd number.
#[must_use]
pub const fn planned_passes(begin: u32, end: u32, in_place: bool) -> usize {
    let digits = passes(begin, end);
    if in_place { digits.next_multiple_of(2) } else { digits }
}

/// How the raw bits of a key become a word in the keys' order, and back.
///
/// Unsigned numbers are such words. Of signed ones the highest bit is turned; of floats all bits of the negative ones
/// and the highest of the others. That is the total order of IEEE 754: `-NaN`, `-inf`, …, `-0.0`,
/// `0.0`, …, `inf`, `NaN`. Where the largest comes first, all bits are turned once more.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Order {
    /// Bits to turn where the highest one is set.
    negative: u64,
    /// Bits to turn in every key.
    always: u64,
}

impl Order {
    /// Unsigned numbers, the smallest first.
    pub const UNSIGNED: Self = Self { negative: 0, always: 0 };

    /// Signed numbers of `bits` bits, the smallest first.
    #[must_use]
    pub const fn signed(bits: u32) -> Self {
        Self { negative: 0, always: 1 << (bits - 1) }
    }

    /// Floats of `bits` bits, the smallest first.
    #[must_use]
    pub const fn float(bits: u32) -> Self {
        Self { negative: (1 << (bits - 1)) - 1, always: 1 << (bits - 1) }
    }

    /// The reverse of this order: the largest key first.
    #[must_use]
    pub const fn descending(self) -> Self {
        Self { negative: self.negative, always: !self.always }
    }

    /// Whether a key's bits are a word in order already.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.negative | self.always == 0
    }
}

/// A digit of a key: the bits under `mask` from `shift` on.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Digit {
    /// The lowest bit.
    pub shift: u32,
    /// At most [`RADIX`]` - 1`.
    pub mask: u32,
}

impl Digit {
    /// The digit number `pass` of the bits `begin..end`. The last one may have fewer bits; one behind it has none, and is the same
    /// in all keys.
    #[inline(always)]
    #[must_use]
    pub fn of(pass: u32, begin: u32, end: u32) -> Self {
        let shift = (begin + pass * RADIX_BITS).min(end);
        let mask = (1 << (end - shift).min(RADIX_BITS)) - 1;
        // A word of 64 bits cannot be shifted by as many.
        Self { shift: shift.min(u64::BITS - 1), mask }
    }
}

/// An unsigned word that a kernel sorts.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub unsafe trait Word: Pod + Ord + Send + Sync {
    /// The number of bits.
    const BITS: u32;
    /// The last in order.
    const LAST: Self;

    /// The word in order of a key's bits.
    #[must_use]
    fn ordered(self, order: Order) -> Self;

    /// The key's bits of a word in order.
    #[must_use]
    fn raw(self, order: Order) -> Self;

    /// The digit times 2^`scale`, of which `scale + 8` is at most 32.
    #[must_use]
    fn digit(self, digit: Digit, scale: u32) -> u32;

    /// The lowest bits of a word of 64.
    #[must_use]
    fn of(word: u64) -> Self;

    /// The same number in 64 bits.
    #[must_use]
    fn word(self) -> u64;

    /// Which bits differ from `other`, from `shift` on; where that is more than 32 bits hold, the largest number.
    #[must_use]
    fn apart(self, other: Self, shift: u32) -> u32;

    /// The words in 16 bytes, from the lowest address.
    fn each_of(vector: [u32; 4], f: impl FnMut(Self));
}

/// The step from raw bits to a word in order, which is its own inverse where the highest bit is that of the raw bits.
macro_rules! words {
    ($($ty:ident as $signed:ident: |$key:ident, $digit:ident, $scale:ident| $place:expr,
        |$vector:ident, $f:ident| $each:expr;)*) => {$(
        // SAFETY: an integer.
        unsafe impl Word for $ty {
            const BITS: u32 = $ty::BITS;
            const LAST: Self = $ty::MAX;

            #[inline(always)]
            fn ordered(self, order: Order) -> Self {
                let negative = (self as $signed >> ($ty::BITS - 1)) as $ty;
                self ^ (negative & order.negative as $ty) ^ order.always as $ty
            }

            #[inline(always)]
            fn raw(self, order: Order) -> Self {
                let turned = self ^ order.always as $ty;
                let negative = (turned as $signed >> ($ty::BITS - 1)) as $ty;
                turned ^ (negative & order.negative as $ty)
            }

            #[inline(always)]
            fn digit(self, $digit: Digit, $scale: u32) -> u32 {
                let $key = self;
                $place & ($digit.mask << $scale)
            }

            #[inline(always)]
            fn of(word: u64) -> Self {
                word as $ty
            }

            #[inline(always)]
            #[allow(clippy::useless_conversion)]
            fn word(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            #[allow(clippy::useless_conversion)]
            fn apart(self, other: Self, shift: u32) -> u32 {
                u32::try_from((self ^ other) >> shift).unwrap_or(u32::MAX)
            }

            #[inline(always)]
            fn each_of($vector: [u32; 4], f: impl FnMut(Self)) {
                let mut $f = f;
                $each
            }
        }
    )*};
}

/// The digit in its place by one rotation.
#[inline(always)]
fn rotated(key: u32, digit: Digit, scale: u32) -> u32 {
    key.rotate_right(digit.shift.wrapping_sub(scale) & 31)
}

words! {
    u8 as i8: |key, digit, scale| rotated(u32::from(key), digit, scale),
        |vector, f| each_word(vector, |word| { let [a, b, c, d] = word.to_le_bytes(); f(a); f(b); f(c); f(d); });
    u16 as i16: |key, digit, scale| rotated(u32::from(key), digit, scale),
        |vector, f| each_word(vector, |word| { f(word as u16); f((word >> 16) as u16); });
    u32 as i32: |key, digit, scale| rotated(key, digit, scale),
        |vector, f| each_word(vector, &mut f);
    u64 as i64: |key, digit, scale| ((key >> digit.shift) as u32) << scale,
        |vector, f| { let [a, b, c, d] = vector; f(joined(a, b)); f(joined(c, d)); };
}

#[inline(always)]
fn each_word([a, b, c, d]: [u32; 4], mut f: impl FnMut(u32)) {
    f(a);
    f(b);
    f(c);
    f(d);
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// What travels with a key: nothing, or a word of 4 or 8 bytes.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub unsafe trait Payload: Copy + Send + Sync + 'static {
    /// The value that is number `i` of `0, 1, 2, …`.
    fn numbered(i: usize) -> Self;
}

/// Keys travel alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct NoValue;

// SAFETY: it has no bits.
unsafe impl Payload for NoValue {
    #[inline(always)]
    fn numbered(_: usize) -> Self {
        Self
    }
}

// SAFETY: an integer.
unsafe impl Payload for u32 {
    #[inline(always)]
    fn numbered(i: usize) -> Self {
        i as u32
    }
}

// SAFETY: an integer.
unsafe impl Payload for u64 {
    #[inline(always)]
    fn numbered(i: usize) -> Self {
        i as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_lie_in_their_total_order_and_come_back() {
        let floats =
            [-f32::NAN, f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-40, 2.0, f32::INFINITY, f32::NAN];
        let order = Order::float(32);
        let words = floats.map(|x| x.to_bits().ordered(order));
        assert!(words.is_sorted());
        assert_eq!(words.map(|word| word.raw(order)), floats.map(f32::to_bits));
        let down = floats.map(|x| x.to_bits().ordered(order.descending()));
        assert!(down.is_sorted_by(|a, b| a > b));
        assert_eq!(down.map(|word| word.raw(order.descending())), floats.map(f32::to_bits));
    }

    #[test]
    fn signed_numbers_lie_in_order_and_come_back() {
        let order = Order::signed(8);
        let words = [i8::MIN, -1, 0, 1, i8::MAX].map(|x| x.cast_unsigned().ordered(order));
        assert_eq!(words, [0, 127, 128, 129, 255]);
        assert_eq!(words.map(|word| word.raw(order).cast_signed()), [-128, -1, 0, 1, 127]);
    }

    #[test]
    fn digits_are_cut_out_in_their_place() {
        let digit = |pass| Digit::of(pass, 4, 32);
        assert_eq!(
            [0, 1, 2, 3].map(|p| 0xabcd_ef12u32.digit(digit(p), 0)),
            [0xf1, 0xde, 0xbc, 0xa]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|p| 0xabcd_ef12u32.digit(digit(p), 3)),
            [0x788, 0x6f0, 0x5e0, 0x50]
        );
        assert_eq!(0xabcd_ef12_0000_0000u64.digit(Digit::of(4, 0, 64), 2), 0x12 << 2);
        assert_eq!(0xa7u8.digit(Digit::of(0, 0, 8), 2), 0xa7 << 2);
        assert_eq!(
            (0xffu8.digit(Digit::of(1, 0, 8), 2), u64::MAX.digit(Digit::of(7, 8, 64), 2)),
            (0, 0)
        );
        assert_eq!((passes(0, 32), passes(4, 32), passes(3, 4)), (4, 4, 1));
    }

    #[test]
    fn a_vector_is_words_from_the_lowest_address() {
        fn of<T: Word>() -> Vec<T> {
            let mut seen = Vec::new();
            T::each_of([0x0403_0201, 0x0807_0605, 9, 10], |word| seen.push(word));
            seen
        }
        assert_eq!(of::<u8>()[..9], [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(of::<u16>()[..5], [0x0201, 0x0403, 0x0605, 0x0807, 9]);
        assert_eq!(of::<u64>(), [0x0807_0605_0403_0201, 0xa_0000_0009]);
    }
}
