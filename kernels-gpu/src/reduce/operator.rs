//! What a reduction does with its elements: [`Operator`] for one's own, and those that ship.

use core::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cuda_std::block::Item;
use cuda_std::number::{Half, bf16, f16};

/// An element of a reduction: plain, and free to travel.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

/// A way to make one value of many.
///
/// `join` is **associative and commutative**: a thread takes elements that are far apart, so that neighbours
/// are not joined first. (Rounding may make it neither; the order is the same in every run, so the result is.)
/// `identity` changes nothing: `join(identity, a) == a`. The operator is a value: it can carry what the launch
/// says.
pub trait Operator: Copy {
    /// What the array holds.
    type Input: Element;
    /// What elements are joined as; at most 16 bytes.
    type Value: Item;
    /// The result.
    type Output: Element;

    /// The value of no element.
    fn identity(self) -> Self::Value;
    /// The value of one element.
    fn value(self, element: Self::Input) -> Self::Value;
    /// The value of two together.
    fn join(self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// The result, once all are joined.
    fn finish(self, all: Self::Value) -> Self::Output;
}

/// A number with a sum and a product.
pub trait Number: Element {
    /// What it is computed in: f32 for halves, else the type itself.
    type Wide: Item + Element;
    /// Changes no sum.
    const ZERO: Self::Wide;
    /// Changes no product.
    const ONE: Self::Wide;

    /// The same number.
    fn wide(self) -> Self::Wide;
    /// The sum; integers wrap.
    fn plus(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The product; integers wrap.
    fn times(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

macro_rules! numbers {
    ($($ty:ty as $wide:ty: $zero:literal $one:literal, $widen:expr, $plus:expr, $times:expr;)*) => {$(
        impl Number for $ty {
            type Wide = $wide;
            const ZERO: $wide = $zero;
            const ONE: $wide = $one;

            #[inline(always)]
            fn wide(self) -> $wide {
                $widen(self)
            }

            #[inline(always)]
            fn plus(a: $wide, b: $wide) -> $wide {
                $plus(a, b)
            }

            #[inline(always)]
            fn times(a: $wide, b: $wide) -> $wide {
                $times(a, b)
            }
        }
    )*};
}

numbers! {
    f32 as f32: 0.0 1.0, |x| x, |a, b| a + b, |a, b| a * b;
    f64 as f64: 0.0 1.0, |x| x, |a, b| a + b, |a, b| a * b;
    f16 as f32: 0.0 1.0, f16::widen, |a, b| a + b, |a, b| a * b;
    bf16 as f32: 0.0 1.0, bf16::widen, |a, b| a + b, |a, b| a * b;
    i32 as i32: 0 1, |x| x, i32::wrapping_add, i32::wrapping_mul;
    u64 as u64: 0 1, |x| x, u64::wrapping_add, u64::wrapping_mul;
}

/// The sum. Integers wrap; of halves it is a sum in f32.
#[derive(Clone, Copy, Debug)]
pub struct Sum<T>(PhantomData<T>);

/// The product. Integers wrap; of halves it is a product in f32.
#[derive(Clone, Copy, Debug)]
pub struct Product<T>(PhantomData<T>);

macro_rules! arithmetic {
    ($($operator:ident: $identity:ident $join:ident;)*) => {$(
        impl<T> $operator<T> {
            /// The operator.
            #[inline(always)]
            #[must_use]
            #[allow(clippy::new_without_default)]
            pub const fn new() -> Self {
                Self(PhantomData)
            }
        }

        impl<T: Number> Operator for $operator<T> {
            type Input = T;
            type Value = T::Wide;
            type Output = T::Wide;

            #[inline(always)]
            fn identity(self) -> T::Wide {
                T::$identity
            }

            #[inline(always)]
            fn value(self, element: T) -> T::Wide {
                element.wide()
            }

            #[inline(always)]
            fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
                T::$join(a, b)
            }

            #[inline(always)]
            fn finish(self, all: T::Wide) -> T::Wide {
                all
            }
        }
    )*};
}

arithmetic! {
    Sum: ZERO plus;
    Product: ONE times;
}

/// A type whose smallest value is looked for, perhaps with some bits flipped.
///
/// One kernel finds the smallest and the largest, of signed and of unsigned integers: the bits of `flip` turn
/// the order around. Of a float that is the sign; of an unsigned integer all bits; a signed one becomes
/// unsigned by its sign bit.
pub trait Ordered: Element {
    /// The bits to flip.
    type Flip: Element;
    /// What is compared: f32 for halves, else the type itself.
    type Key: Key;
    /// The key of no element: infinity, or the largest integer.
    const LAST: Self::Key;
    /// A key that comes before none: NaN, or the largest integer.
    const WORST: Self::Key;

    /// The key of an element.
    fn key(self, flip: Self::Flip) -> Self::Key;
    /// The element of a key.
    fn of_key(key: Self::Key, flip: Self::Flip) -> Self;
    /// The smaller key; of a NaN and a number, the number; -0 before +0.
    fn smaller(a: Self::Key, b: Self::Key) -> Self::Key;
    /// Whether `a` comes before `b`; a number comes before NaN.
    fn is_before(a: Self::Key, b: Self::Key) -> bool;
    /// Whether a key is a number.
    fn is_number(key: Self::Key) -> bool;
}

macro_rules! ordered {
    ($($ty:ty, $flip:ty, $key:ty: $last:expr, $worst:expr, $to:expr, $back:expr;)*) => {$(
        impl Ordered for $ty {
            type Flip = $flip;
            type Key = $key;
            const LAST: $key = $last;
            const WORST: $key = $worst;

            #[inline(always)]
            fn key(self, flip: $flip) -> $key {
                $to(self, flip)
            }

            #[inline(always)]
            fn of_key(key: $key, flip: $flip) -> Self {
                $back(key, flip)
            }

            #[inline(always)]
            fn smaller(a: $key, b: $key) -> $key {
                a.min(b)
            }

            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn is_before(a: $key, b: $key) -> bool {
                (a < b) | ((b != b) & (a == a))
            }

            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn is_number(key: $key) -> bool {
                key == key
            }
        }
    )*};
}

ordered! {
    f32, u32, f32: f32::INFINITY, f32::NAN,
        |x: f32, flip| f32::from_bits(x.to_bits() ^ flip),
        |key: f32, flip| f32::from_bits(key.to_bits() ^ flip);
    f64, u64, f64: f64::INFINITY, f64::NAN,
        |x: f64, flip| f64::from_bits(x.to_bits() ^ flip),
        |key: f64, flip| f64::from_bits(key.to_bits() ^ flip);
    f16, u16, f32: f32::INFINITY, f32::NAN,
        |x: f16, flip| f16::from_bits(x.to_bits() ^ flip).widen(),
        |key: f32, flip| f16::from_bits(f16::nearest(key).to_bits() ^ flip);
    bf16, u16, f32: f32::INFINITY, f32::NAN,
        |x: bf16, flip| bf16::from_bits(x.to_bits() ^ flip).widen(),
        |key: f32, flip| bf16::from_bits(bf16::nearest(key).to_bits() ^ flip);
    u32, u32, u32: u32::MAX, u32::MAX, |x: u32, flip| x ^ flip, |key: u32, flip| key ^ flip;
    u64, u64, u64: u64::MAX, u64::MAX, |x: u64, flip| x ^ flip, |key: u64, flip| key ^ flip;
}

/// The smallest element, or with flipped bits the largest. NaN is left out; of nothing it is
/// [`Ordered::LAST`], flipped.
#[derive(Clone, Copy, Debug)]
pub struct Extreme<T: Ordered> {
    /// The bits to flip.
    pub flip: T::Flip,
}

impl<T: Ordered> Operator for Extreme<T> {
    type Input = T;
    type Value = T::Key;
    type Output = T;

    #[inline(always)]
    fn identity(self) -> T::Key {
        T::LAST
    }

    #[inline(always)]
    fn value(self, element: T) -> T::Key {
        element.key(self.flip)
    }

    #[inline(always)]
    fn join(self, a: T::Key, b: T::Key) -> T::Key {
        T::smaller(a, b)
    }

    #[inline(always)]
    fn finish(self, all: T::Key) -> T {
        T::of_key(all, self.flip)
    }
}

/// A key and where it was found: 12 or 16 bytes without gaps.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Found<K> {
    at: [u32; 2],
    key: K,
}

/// What [`Found`] holds.
///
/// # Safety
/// It has 4 or 8 bytes, and is aligned to its size.
pub unsafe trait Key: Item + Element {}

// SAFETY: 8 bytes and a key of 4 or 8 bytes that is aligned to its size: no gaps, and all plain.
unsafe impl<K: Key> Pod for Found<K> {}
// SAFETY: as above.
unsafe impl<K: Key> Zeroable for Found<K> {}

macro_rules! keys {
    ($($key:ty)*) => {$(
        // SAFETY: just compared.
        unsafe impl Key for $key {}
        const _: () = assert!(size_of::<$key>() == align_of::<$key>());
        const _: () = assert!(matches!(size_of::<$key>(), 4 | 8));
    )*};
}

keys!(f32 f64 u32 u64);

impl<K: Copy> Found<K> {
    /// Where nothing was found.
    pub const NOWHERE: u64 = u64::MAX;

    /// The key at a position.
    #[inline(always)]
    pub fn new(key: K, at: u64) -> Self {
        Self { at: [at as u32, (at >> 32) as u32], key }
    }

    /// The key.
    #[inline(always)]
    pub fn key(self) -> K {
        self.key
    }

    /// Where it is.
    #[inline(always)]
    pub fn at(self) -> u64 {
        u64::from(self.at[1]) << 32 | u64::from(self.at[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGN: u32 = 1 << 31;

    fn extreme<T: Ordered>(flip: T::Flip, values: &[T]) -> T {
        let least = Extreme::<T> { flip };
        let join = |all, &x| least.join(all, least.value(x));
        least.finish(values.iter().fold(least.identity(), join))
    }

    #[test]
    fn flipped_bits_turn_the_order_around() {
        let signed = [3i32, -7, i32::MAX, i32::MIN, 0].map(|x| x as u32);
        assert_eq!(extreme(SIGN, &signed) as i32, i32::MIN);
        assert_eq!(extreme(!SIGN, &signed) as i32, i32::MAX);
        assert_eq!((extreme(0, &[3u32, 1, 9]), extreme(!0, &[3u32, 1, 9])), (1, 9));
        assert_eq!((extreme::<u64>(0, &[]), extreme::<u64>(!0, &[])), (u64::MAX, 0));
    }

    #[test]
    fn floats_leave_nan_out() {
        let values = [1.5f32, f32::NAN, -2.0, -f32::NAN];
        assert_eq!((extreme(0, &values), extreme(SIGN, &values)), (-2.0, 1.5));
        assert_eq!(extreme(SIGN, &[f32::NAN]), f32::NEG_INFINITY);
        let halves = [1.5, -2.0, f32::NAN].map(f16::nearest);
        assert_eq!(extreme(0x8000, &halves).widen(), 1.5);
        assert_eq!(extreme::<bf16>(0x8000, &[]), bf16::NEG_INFINITY);
    }

    #[test]
    fn a_place_survives_its_two_words() {
        let found = Found::new(2.5f64, 0x1234_5678_9abc_def0);
        assert_eq!((found.key(), found.at()), (2.5, 0x1234_5678_9abc_def0));
        assert_eq!((size_of::<Found<f32>>(), size_of::<Found<u64>>()), (12, 16));
    }
}
