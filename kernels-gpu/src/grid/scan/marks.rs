//! Which elements are marked: where segments begin, or what a selection keeps.

use cuda_std::number::{Half, bf16, f16};
use cuda_std::warp::Plain;

use super::pack::{Pack, each, element, per_pack};

/// Marks some of the elements of an array of `T`.
pub trait Marks<T>: Copy {
    /// The marks of the elements of `pack`, which are those from `first` on: bit `e` for element `first + e`.
    /// Bits of elements past the array's end may be anything.
    fn of(self, first: usize, pack: &Pack) -> u32;
}

/// One bit for each element of a pack.
#[inline(always)]
fn bits<T>(mut bit: impl FnMut(usize) -> bool) -> u32 {
    let mut bits = 0;
    each(per_pack::<T>(), |e| bits |= u32::from(bit(e)) << e);
    bits
}

/// The elements whose flag is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a>(pub &'a [u8]);

impl<T> Marks<T> for Flags<'_> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        bits::<T>(|e| self.0.get(first + e).is_some_and(|&flag| flag != 0))
    }
}

/// The elements whose bit is set: bit `i % 32` of word `i / 32`.
#[derive(Clone, Copy, Debug)]
pub struct BitFlags<'a>(pub &'a [u32]);

impl<T> Marks<T> for BitFlags<'_> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        // A pack has at most 16 elements, and begins at a multiple of their number.
        self.0.get(first / 32).map_or(0, |word| word >> (first % 32))
    }
}

/// The elements whose key differs from the one before, and the first.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a, K>(pub &'a [K]);

impl<T, K: Copy + PartialEq> Marks<T> for Changes<'_, K> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        let mut before = first.checked_sub(1).and_then(|i| self.0.get(i).copied());
        bits::<T>(|e| {
            let own = self.0.get(first + e).copied();
            let differs = own != before;
            before = own;
            differs
        })
    }
}

/// The elements that differ from the one before, and the first: of the array itself.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a, T>(pub &'a [T]);

impl<T: Plain + PartialEq> Marks<T> for Runs<'_, T> {
    #[inline(always)]
    fn of(self, first: usize, pack: &Pack) -> u32 {
        let mut before = first.checked_sub(1).and_then(|i| self.0.get(i).copied());
        bits::<T>(|e| {
            let own = Some(element::<T>(pack, e));
            let differs = own != before;
            before = own;
            differs
        })
    }
}

/// The elements of which a predicate holds.
#[derive(Clone, Copy, Debug)]
pub struct Where<P>(pub P);

impl<T: Plain, P: Fn(T) -> bool + Copy> Marks<T> for Where<P> {
    #[inline(always)]
    fn of(self, _: usize, pack: &Pack) -> u32 {
        bits::<T>(|e| (self.0)(element(pack, e)))
    }
}

/// A number that may be zero.
pub trait MaybeZero: Plain {
    /// Whether it is: for floats, either zero. NaN is not.
    fn is_zero(self) -> bool;
}

macro_rules! maybe_zero {
    ($($ty:ty: $zero:expr;)*) => {$(
        impl MaybeZero for $ty {
            #[inline(always)]
            fn is_zero(self) -> bool {
                $zero(self)
            }
        }
    )*};
}

maybe_zero! {
    u8: |x| x == 0;
    u16: |x| x == 0;
    u32: |x| x == 0;
    u64: |x| x == 0;
    f32: |x| x == 0.0;
    f64: |x| x == 0.0;
    f16: |x: f16| x.widen() == 0.0;
    bf16: |x: bf16| x.widen() == 0.0;
}
