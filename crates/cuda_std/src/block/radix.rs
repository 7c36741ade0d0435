//! Ranks by a digit of four bits: one pass of a radix sort.

use super::exchange::place;
use super::scratch::{ScratchArray, Used};
use super::token::Block;
use crate::shared::{Element, Shared};
use crate::unroll::{build, each};
use half::{bf16, f16};

/// The bits of a digit.
pub(super) const DIGIT_BITS: usize = 4;
/// Counters of 32 bits that a thread has: two digits share one.
const ROWS: usize = 1 << (DIGIT_BITS - 1);

/// The bytes that [`Block::radix_rank`] needs in a block of `threads`.
pub const fn rank_bytes(threads: usize) -> usize {
    let counters = threads * ROWS;
    (counters + counters / 32) * size_of::<u32>()
}

/// A key that [`Block::sort`] takes. Floats are sorted in their total order: `-NaN`, `-inf`, …, `-0.0`,
/// `0.0`, …, `inf`, `NaN`.
///
/// Anyone may implement it: no unsafe code believes an implementation. [`sort_bytes`](super::sort_bytes)
/// measures [`Bits`](Self::Bits), which lie in shared memory, and a sort looks at the lower four bits of a
/// [`digit`](Self::digit) alone. What an implementation gets wrong makes a wrong order.
pub trait SortKey: Element {
    /// As many bits, of which an unsigned comparison gives the keys' order.
    type Bits: Element;

    /// The number of bits.
    const BITS: usize = 8 * size_of::<Self>();

    /// The bits in order.
    fn to_ordered(self) -> Self::Bits;

    /// The key of these bits.
    fn from_ordered(bits: Self::Bits) -> Self;

    /// All bits inverted: the order reversed.
    #[doc(hidden)]
    fn reversed(bits: Self::Bits) -> Self::Bits;

    /// The digit at bit `shift`.
    #[doc(hidden)]
    fn digit(bits: Self::Bits, shift: usize) -> u32;
}

/// Keys: to the ordered bits and back.
macro_rules! keys {
    ($($ty:ident as $bits:ident: |$key:ident| $to:expr, |$back:ident| $from:expr;)*) => {$(
        impl SortKey for $ty {
            type Bits = $bits;

            #[inline(always)]
            fn to_ordered(self) -> $bits {
                let $key = self;
                $to
            }

            #[inline(always)]
            fn from_ordered($back: $bits) -> Self {
                $from
            }

            #[inline(always)]
            fn reversed(bits: $bits) -> $bits {
                !bits
            }

            #[inline(always)]
            fn digit(bits: $bits, shift: usize) -> u32 {
                (bits >> shift) as u32 & ((1 << DIGIT_BITS) - 1)
            }
        }
    )*};
}

/// Inverts the sign bit of positive numbers, and all bits of negative ones.
macro_rules! float_keys {
    ($($ty:ident as $bits:ident, $signed:ident;)*) => {
        keys! {$(
            $ty as $bits:
                |key| {
                    let bits = key.to_bits();
                    let negative = (bits as $signed >> ($bits::BITS - 1)) as $bits;
                    bits ^ (negative | 1 << ($bits::BITS - 1))
                },
                |bits| {
                    let positive = (bits as $signed >> ($bits::BITS - 1)) as $bits;
                    Self::from_bits(bits ^ (!positive | 1 << ($bits::BITS - 1)))
                };
        )*}
    };
}

keys! {
    u8 as u8: |key| key, |bits| bits;
    u16 as u16: |key| key, |bits| bits;
    u32 as u32: |key| key, |bits| bits;
    u64 as u64: |key| key, |bits| bits;
    i8 as u8: |key| key.cast_unsigned() ^ 1 << 7, |bits| (bits ^ 1 << 7).cast_signed();
    i16 as u16: |key| key.cast_unsigned() ^ 1 << 15, |bits| (bits ^ 1 << 15).cast_signed();
    i32 as u32: |key| key.cast_unsigned() ^ 1 << 31, |bits| (bits ^ 1 << 31).cast_signed();
    i64 as u64: |key| key.cast_unsigned() ^ 1 << 63, |bits| (bits ^ 1 << 63).cast_signed();
}

float_keys! {
    f16 as u16, i16;
    bf16 as u16, i16;
    f32 as u32, i32;
    f64 as u64, i64;
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The rank of each item of the blocked tile when the tile is sorted by `digits`, of which the
    /// lower four bits count: items of one digit keep their order. The ranks are a permutation of
    /// `0..THREADS * K`, unless a thread of the block has ended before, by a panic for instance: then they
    /// are any numbers, so unsafe code that indexes by a rank compares it with the length.
    ///
    /// `scratch` has [`rank_bytes`]`(THREADS)` bytes or more, else the kernel does not compile. Each
    /// thread counts in counters of its own; one scan over all of them gives the ranks (Satish, Harris
    /// and Garland, 2009; Merrill and Grimshaw, 2011).
    ///
    /// *Cost:* three barriers; a thread clears, reads and writes 8 words of shared memory, and reads and writes a
    /// counter for each item.
    #[inline(always)]
    pub fn radix_rank<L, const K: usize, const ID: u32>(
        &mut self,
        digits: [u32; K],
        scratch: Shared<L, ID>,
    ) -> ([u32; K], Used<L, ID>) {
        const {
            assert!(
                size_of::<L>() >= rank_bytes(Self::THREADS),
                "the shared memory is too small: ranks take `rank_bytes` of the threads"
            );
        }
        let scratch = ScratchArray::new(scratch);
        // SAFETY: large enough, and no other thread uses it.
        let ranks = unsafe { self.rank(digits, scratch.array().as_ptr()) };
        (ranks, scratch.used())
    }

    /// # Safety
    /// `counters` is shared memory of [`rank_bytes`]`(THREADS)` that no other thread uses.
    #[inline(always)]
    pub(super) unsafe fn rank<const K: usize>(
        &mut self,
        digits: [u32; K],
        counters: *mut u32,
    ) -> [u32; K] {
        const { assert!(Self::THREADS * K < 1 << 16, "a tile has fewer than 65536 items") };
        // SAFETY: a thread's own counters, or parted by a barrier, as each step says.
        unsafe {
            let ranks = self.count_digits(digits, counters);
            // Every thread has counted.
            self.sync(());
            self.scan_counters(counters);
            // The counters hold the number of items before.
            self.sync(());
            self.add_before(ranks, digits, counters)
        }
    }

    /// The address of a thread's counter of a digit: two share a word, digits from 8 on the upper half.
    #[inline(always)]
    fn counter(&self, counters: *mut u32, digit: u32) -> *mut u16 {
        let row = digit as usize % ROWS;
        let word = counters.wrapping_add(place(row * Self::THREADS + self.thread()));
        word.cast::<u16>().wrapping_add(digit as usize / ROWS % 2)
    }

    /// Counts the thread's items; gives for each the number of those before it with the same digit.
    #[inline(always)]
    unsafe fn count_digits<const K: usize>(
        &self,
        digits: [u32; K],
        counters: *mut u32,
    ) -> [u32; K] {
        each::<ROWS>(|row| {
            // SAFETY: the thread's own word.
            unsafe { self.counter(counters, row as u32).cast::<u32>().write(0) };
        });
        build(|k| {
            let counter = self.counter(counters, digits[k]);
            // SAFETY: the thread's own counter.
            unsafe {
                let before = counter.read();
                counter.write(before + 1);
                u32::from(before)
            }
        })
    }

    /// Replaces each counter by the sum of those before it, in the order of digits, then threads.
    #[inline(always)]
    unsafe fn scan_counters(&mut self, counters: *mut u32) {
        let first = self.thread() * ROWS;
        let word = |row: usize| counters.wrapping_add(place(first + row));
        // SAFETY: each thread has words of its own here.
        let own: [u32; ROWS] = build(|row| unsafe { word(row).read() });
        // Both halves are added at once: no sum passes 65535.
        let (before, total) = self.exclusive_scan(own, 0, u32::wrapping_add);
        // All items with a digit below 8 come before those with a larger one.
        let lower = total << 16;
        each::<ROWS>(|row| {
            // SAFETY: as above.
            unsafe { word(row).write(before[row].wrapping_add(lower)) };
        });
    }

    #[inline(always)]
    unsafe fn add_before<const K: usize>(
        &self,
        ranks: [u32; K],
        digits: [u32; K],
        counters: *mut u32,
    ) -> [u32; K] {
        build(|k| {
            // SAFETY: the thread's own counter, written before the barrier.
            ranks[k] + u32::from(unsafe { self.counter(counters, digits[k]).read() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// The bits are in the keys' order, and lead back to them.
    fn in_order<T: SortKey<Bits: Ord + Debug> + Debug>(keys: &[T], same: impl Fn(T, T) -> bool) {
        for pair in keys.windows(2) {
            assert!(pair[0].to_ordered() < pair[1].to_ordered(), "{pair:?}");
        }
        for &key in keys {
            assert!(same(T::from_ordered(key.to_ordered()), key), "{key:?}");
            assert_eq!(T::reversed(T::reversed(key.to_ordered())), key.to_ordered());
        }
    }

    #[test]
    fn ordered_bits_are_in_the_order_of_the_keys() {
        in_order(&[0u8, 1, 127, 128, 255], |a, b| a == b);
        in_order(&[i8::MIN, -1, 0, 1, i8::MAX], |a, b| a == b);
        in_order(&[i16::MIN, -1, 0, 1, i16::MAX], |a, b| a == b);
        in_order(&[i32::MIN, -1, 0, 1, i32::MAX], |a, b| a == b);
        in_order(&[i64::MIN, -1, 0, 1, i64::MAX], |a, b| a == b);
        in_order(&[0, 1, u64::MAX], |a: u64, b| a == b);
        let floats = [
            -f32::NAN,
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -f32::from_bits(1),
            -0.0,
            0.0,
            f32::from_bits(1),
            1.0,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        in_order(&floats, |a, b| a.to_bits() == b.to_bits());
        in_order(&floats.map(f64::from), |a, b| a.to_bits() == b.to_bits());
        let halves =
            [f16::NEG_INFINITY, f16::NEG_ONE, f16::NEG_ZERO, f16::ZERO, f16::ONE, f16::NAN];
        in_order(&halves, |a, b| a.to_bits() == b.to_bits());
        let halves = [bf16::NEG_INFINITY, bf16::NEG_ONE, bf16::NEG_ZERO, bf16::ZERO, bf16::NAN];
        in_order(&halves, |a, b| a.to_bits() == b.to_bits());
    }

    #[test]
    fn digits_are_four_bits() {
        assert_eq!([0, 4, 28].map(|shift| u32::digit(0xabcd_ef12, shift)), [2, 1, 10]);
        assert_eq!(u8::digit(0x5a, 4), 5);
        assert_eq!(u64::digit(7 << 60, 60), 7);
    }
}
