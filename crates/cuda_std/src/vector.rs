//! Two or four values that are loaded and stored together.

use bytemuck::{Pod, Zeroable};
use core::ops::{Index, IndexMut};

/// Four values of `T`, aligned so that one instruction (`ld.global.v4`) moves them all: to four
/// times the size of `T`, at most 16 bytes.
///
/// ```
/// use cuda_std::vector::Vec4;
///
/// let v = Vec4::new(1.0f32, 2.0, 3.0, 4.0);
/// assert_eq!(v.to_array().iter().sum::<f32>(), 10.0);
/// assert_eq!((size_of::<Vec4<u8>>(), align_of::<Vec4<u8>>()), (4, 4));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec4<T: Element> {
    /// The first value.
    pub x: T,
    /// The second value.
    pub y: T,
    /// The third value.
    pub z: T,
    /// The fourth value.
    pub w: T,
    align: [T::Align; 0],
}

impl<T: Element> Vec4<T> {
    /// Puts four values together.
    #[inline(always)]
    pub const fn new(x: T, y: T, z: T, w: T) -> Self {
        Self { x, y, z, w, align: [] }
    }

    /// Four times the same value.
    #[inline(always)]
    pub const fn splat(value: T) -> Self {
        Self::new(value, value, value, value)
    }

    /// The four values as an array.
    #[inline(always)]
    pub const fn to_array(self) -> [T; 4] {
        [self.x, self.y, self.z, self.w]
    }

    /// Each value through `f`.
    #[inline(always)]
    pub fn map<U: Element>(self, mut f: impl FnMut(T) -> U) -> Vec4<U> {
        Vec4::new(f(self.x), f(self.y), f(self.z), f(self.w))
    }
}

impl<T: Element> From<[T; 4]> for Vec4<T> {
    #[inline(always)]
    fn from([x, y, z, w]: [T; 4]) -> Self {
        Self::new(x, y, z, w)
    }
}

impl<T: Element> Index<usize> for Vec4<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        [&self.x, &self.y, &self.z, &self.w][index]
    }
}

impl<T: Element> IndexMut<usize> for Vec4<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        [&mut self.x, &mut self.y, &mut self.z, &mut self.w][index]
    }
}

// SAFETY: four plain values and nothing between or behind them; zero is a value of each.
unsafe impl<T: Element> Zeroable for Vec4<T> {}
// SAFETY: as above; the size is four times `T`'s, a multiple of the alignment (checked below).
unsafe impl<T: Element> Pod for Vec4<T> {}

/// Two values of `T`, aligned so that one instruction (`ld.global.v2`) moves them both: to twice the
/// size of `T`.
///
/// ```
/// use cuda_std::vector::Vec2;
///
/// let v = Vec2::new(1.0f32, 2.0);
/// assert_eq!(v.to_array().iter().sum::<f32>(), 3.0);
/// assert_eq!((size_of::<Vec2<u8>>(), align_of::<Vec2<f64>>()), (2, 16));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec2<T: Element> {
    /// The first value.
    pub x: T,
    /// The second value.
    pub y: T,
    align: [T::Align2; 0],
}

impl<T: Element> Vec2<T> {
    /// Puts two values together.
    #[inline(always)]
    pub const fn new(x: T, y: T) -> Self {
        Self { x, y, align: [] }
    }

    /// Twice the same value.
    #[inline(always)]
    pub const fn splat(value: T) -> Self {
        Self::new(value, value)
    }

    /// The two values as an array.
    #[inline(always)]
    pub const fn to_array(self) -> [T; 2] {
        [self.x, self.y]
    }

    /// Each value through `f`.
    #[inline(always)]
    pub fn map<U: Element>(self, mut f: impl FnMut(T) -> U) -> Vec2<U> {
        Vec2::new(f(self.x), f(self.y))
    }
}

impl<T: Element> From<[T; 2]> for Vec2<T> {
    #[inline(always)]
    fn from([x, y]: [T; 2]) -> Self {
        Self::new(x, y)
    }
}

// SAFETY: two plain values and nothing between or behind them; zero is a value of each.
unsafe impl<T: Element> Zeroable for Vec2<T> {}
// SAFETY: as above; the size is twice `T`'s, which is the alignment (checked below).
unsafe impl<T: Element> Pod for Vec2<T> {}

/// The vector of `N` values of a type: [`Vec2`] or [`Vec4`].
///
/// # Safety
/// `Vector` is `N` values of `Self` and nothing else.
#[diagnostic::on_unimplemented(
    message = "there is no vector of {N} `{Self}`",
    label = "a vector has 2 or 4 plain numbers",
    note = "write `DisjointVectors<f32, 2>` or `DisjointVectors<f32, 4>`"
)]
pub unsafe trait Lanes<const N: usize>: Element {
    /// The vector.
    type Vector: Pod;

    /// Calls `f` with the number and the value of each lane: one load before, one store behind.
    #[doc(hidden)]
    fn map_lanes(vector: &mut Self::Vector, f: impl FnMut(usize, &mut Self));
}

// SAFETY: a `Vec2` is two values.
unsafe impl<T: Element> Lanes<2> for T {
    type Vector = Vec2<T>;

    #[inline(always)]
    fn map_lanes(vector: &mut Vec2<T>, mut f: impl FnMut(usize, &mut T)) {
        let Vec2 { mut x, mut y, .. } = *vector;
        f(0, &mut x);
        f(1, &mut y);
        (vector.x, vector.y) = (x, y);
    }
}

// SAFETY: a `Vec4` is four values.
unsafe impl<T: Element> Lanes<4> for T {
    type Vector = Vec4<T>;

    #[inline(always)]
    fn map_lanes(vector: &mut Vec4<T>, mut f: impl FnMut(usize, &mut T)) {
        let Vec4 { mut x, mut y, mut z, mut w, .. } = *vector;
        f(0, &mut x);
        f(1, &mut y);
        f(2, &mut z);
        f(3, &mut w);
        (vector.x, vector.y, vector.z, vector.w) = (x, y, z, w);
    }
}

/// A number that [`Vec2`] and [`Vec4`] hold.
pub trait Element: Pod + Default + PartialEq + sealed::Sealed {
    /// A type without a size that has the alignment of four values.
    #[doc(hidden)]
    type Align: Copy + core::fmt::Debug + Default + PartialEq + 'static;
    /// A type without a size that has the alignment of two values.
    #[doc(hidden)]
    type Align2: Copy + core::fmt::Debug + Default + PartialEq + 'static;
}

mod sealed {
    pub trait Sealed {}
}

/// Declares types without a size, of an alignment.
macro_rules! aligns {
    ($($align:ident = $bytes:literal;)*) => {$(
        #[doc(hidden)]
        #[repr(align($bytes))]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $align;
    )*};
}

aligns! {
    Align2 = 2;
    Align4 = 4;
    Align8 = 8;
    Align16 = 16;
}

/// The elements, with the alignments of two and of four.
macro_rules! elements {
    ($($align2:ident $align4:ident: $($element:ty)*;)*) => {$($(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            type Align = $align4;
            type Align2 = $align2;
        }
        const _: () = assert!(size_of::<Vec4<$element>>() == 4 * size_of::<$element>());
        const _: () = assert!(size_of::<Vec2<$element>>() == 2 * size_of::<$element>());
    )*)*};
}

elements! {
    Align2 Align4: u8 i8;
    Align4 Align8: u16 i16;
    Align8 Align16: u32 i32 f32;
    Align16 Align16: u64 i64 f64;
}

/// Splits a slice into the values before the first aligned place, whole vectors, and the rest. The
/// first and the last part have at most three values if the slice is as aligned as `T` alone asks.
///
/// ```
/// use cuda_std::vector::split_vectors;
///
/// let data: Vec<f32> = (0..100).map(|i| i as f32).collect();
/// let (head, body, tail) = split_vectors(&data);
/// assert!(head.len() < 4 && tail.len() < 4);
/// assert_eq!(head.len() + 4 * body.len() + tail.len(), 100);
/// assert_eq!(body[0].x, head.len() as f32);
/// ```
#[inline(always)]
pub fn split_vectors<T: Element>(values: &[T]) -> (&[T], &[Vec4<T>], &[T]) {
    // SAFETY: a `Vec4` is four values of `T`, and both are plain data.
    unsafe { values.align_to::<Vec4<T>>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_aligned_for_one_access() {
        assert_eq!(align_of::<Vec4<i8>>(), 4);
        assert_eq!(align_of::<Vec4<u16>>(), 8);
        assert_eq!(align_of::<Vec4<f32>>(), 16);
        assert_eq!((align_of::<Vec4<f64>>(), size_of::<Vec4<f64>>()), (16, 32));
    }

    #[test]
    fn an_index_names_each_value() {
        let mut v = Vec4::from([1, 2, 3, 4]);
        v[2] += 10;
        assert_eq!([v[0], v[1], v[2], v[3]], [1, 2, 13, 4]);
        assert_eq!(v.map(|value| value as f32).to_array(), [1.0, 2.0, 13.0, 4.0]);
        assert_eq!(Vec4::splat(7u8), Vec4::new(7, 7, 7, 7));
    }

    #[test]
    fn a_split_keeps_every_value_in_order() {
        let aligned = [Vec4::from([0u32, 1, 2, 3]), Vec4::from([4, 5, 6, 7])];
        let data: &[u32] = bytemuck::cast_slice(&aligned);
        for (start, end) in [(0, 8), (1, 8), (0, 7), (3, 5), (1, 3), (4, 4)] {
            let (head, body, tail) = split_vectors(&data[start..end]);
            let body = body.iter().flat_map(|v| v.to_array());
            let all: Vec<u32> =
                head.iter().copied().chain(body).chain(tail.iter().copied()).collect();
            assert_eq!(all, data[start..end]);
        }
    }
}
