//! Two, four or eight values that are loaded and stored together.

use bytemuck::{Pod, Zeroable};
use core::ops::{Index, IndexMut};
use half::{bf16, f16};

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

// SAFETY: four plain values and nothing between or after them; zero is a value of each.
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

impl<T: Element> Index<usize> for Vec2<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        [&self.x, &self.y][index]
    }
}

impl<T: Element> IndexMut<usize> for Vec2<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        [&mut self.x, &mut self.y][index]
    }
}

// SAFETY: two plain values and nothing between or after them; zero is a value of each.
unsafe impl<T: Element> Zeroable for Vec2<T> {}
// SAFETY: as above; the size is twice `T`'s, a multiple of the alignment (checked below).
unsafe impl<T: Element> Pod for Vec2<T> {}

/// Eight values of `T`, aligned to eight times the size of `T`, at most 16 bytes: one instruction
/// moves eight bytes or halves, and each 16 bytes of larger values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec8<T: Element> {
    values: [T; 8],
    align: [T::Align8; 0],
}

impl<T: Element> Vec8<T> {
    /// Eight times the same value.
    #[inline(always)]
    pub const fn splat(value: T) -> Self {
        Self { values: [value; 8], align: [] }
    }

    /// The eight values as an array.
    #[inline(always)]
    pub const fn to_array(self) -> [T; 8] {
        self.values
    }

    /// Each value through `f`.
    #[inline(always)]
    pub fn map<U: Element>(self, f: impl FnMut(T) -> U) -> Vec8<U> {
        Vec8::from(self.values.map(f))
    }
}

impl<T: Element> From<[T; 8]> for Vec8<T> {
    #[inline(always)]
    fn from(values: [T; 8]) -> Self {
        Self { values, align: [] }
    }
}

impl<T: Element> Index<usize> for Vec8<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        &self.values[index]
    }
}

impl<T: Element> IndexMut<usize> for Vec8<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.values[index]
    }
}

// SAFETY: eight plain values and nothing between or after them; zero is a value of each.
unsafe impl<T: Element> Zeroable for Vec8<T> {}
// SAFETY: as above; the size is eight times `T`'s, a multiple of the alignment (checked below).
unsafe impl<T: Element> Pod for Vec8<T> {}

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

    /// Calls `f` with the number and the value of each lane: one load before, one store after.
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

/// A number that [`Vec2`], [`Vec4`] and [`Vec8`] hold.
pub trait Element: Pod + Default + PartialEq + sealed::Sealed {
    /// A type without a size that has the alignment of two values.
    #[doc(hidden)]
    type Align2: Copy + core::fmt::Debug + Default + PartialEq + 'static;
    /// A type without a size that has the alignment of four values.
    #[doc(hidden)]
    type Align: Copy + core::fmt::Debug + Default + PartialEq + 'static;
    /// A type without a size that has the alignment of eight values.
    #[doc(hidden)]
    type Align8: Copy + core::fmt::Debug + Default + PartialEq + 'static;
}

/// [`Vec2`], [`Vec4`] or [`Vec8`].
pub trait Vector: Pod + sealed::Sealed {
    /// What it holds.
    type Element: Element;
}

mod sealed {
    pub trait Sealed {}
}

/// Types without size, of an alignment.
macro_rules! alignments {
    ($($align:ident = $bytes:literal;)*) => {$(
        #[doc(hidden)]
        #[repr(align($bytes))]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $align;
    )*};
}

alignments! {
    Align2 = 2;
    Align4 = 4;
    Align8 = 8;
    Align16 = 16;
}

/// Declares elements, by the alignment of two, four and eight of them.
macro_rules! elements {
    ($($two:ident $four:ident $eight:ident: $($element:ty)*;)*) => {$($(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            type Align2 = $two;
            type Align = $four;
            type Align8 = $eight;
        }
        const _: () = assert!(size_of::<Vec2<$element>>() == 2 * size_of::<$element>());
        const _: () = assert!(size_of::<Vec4<$element>>() == 4 * size_of::<$element>());
        const _: () = assert!(size_of::<Vec8<$element>>() == 8 * size_of::<$element>());
    )*)*};
}

elements! {
    Align2 Align4 Align8: u8 i8;
    Align4 Align8 Align16: u16 i16 f16 bf16;
    Align8 Align16 Align16: u32 i32 f32;
    Align16 Align16 Align16: u64 i64 f64;
}

/// Declares vectors.
macro_rules! vectors {
    ($($vector:ident)*) => {$(
        impl<T: Element> sealed::Sealed for $vector<T> {}
        impl<T: Element> Vector for $vector<T> {
            type Element = T;
        }
    )*};
}

vectors!(Vec2 Vec4 Vec8);

/// Splits a slice into the values before the first aligned place, whole vectors, and the rest. The
/// first and the last part have fewer values than a vector if the slice is as aligned as `T` alone
/// asks.
///
/// ```
/// use cuda_std::vector::{Vec8, split};
///
/// let data: Vec<u8> = (0..100).collect();
/// let (head, body, tail) = split::<Vec8<u8>>(&data);
/// assert_eq!(head.len() + 8 * body.len() + tail.len(), 100);
/// assert_eq!(usize::from(body[0][0]), head.len());
/// ```
#[inline(always)]
pub fn split<V: Vector>(values: &[V::Element]) -> (&[V::Element], &[V], &[V::Element]) {
    // SAFETY: a vector is values of its element and nothing else, and both are plain data.
    unsafe { values.align_to::<V>() }
}

/// [`split`] into vectors of four.
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
    split(values)
}

/// The values as vectors, if the slice begins at an aligned place and ends with a whole vector.
///
/// Device buffers begin at a multiple of 256 bytes: a buffer's own slice, checked once here, is then
/// read 16 bytes at a time.
///
/// ```
/// use cuda_std::vector::{Vec4, whole};
///
/// let data: Vec<Vec4<f32>> = vec![Vec4::splat(1.0); 3];
/// let values: &[f32] = bytemuck::cast_slice(&data);
/// assert_eq!(whole::<Vec4<f32>>(values).map(<[_]>::len), Some(3));
/// assert_eq!(whole::<Vec4<f32>>(&values[1..5]), None);
/// assert_eq!(whole::<Vec4<f32>>(&values[..5]), None);
/// ```
#[inline(always)]
pub fn whole<V: Vector>(values: &[V::Element]) -> Option<&[V]> {
    let per_vector = size_of::<V>() / size_of::<V::Element>();
    let (pointer, len) = (values.as_ptr().cast::<V>(), values.len());
    if !pointer.is_aligned() || !len.is_multiple_of(per_vector) {
        return None;
    }
    // SAFETY: aligned, and whole vectors of the slice's own plain values.
    Some(unsafe { core::slice::from_raw_parts(pointer, len / per_vector) })
}

/// The values as vectors, without a test.
///
/// # Safety
/// The slice begins at an address that is aligned for `V`, and its length is a multiple of the
/// vector's.
#[inline(always)]
pub unsafe fn assume_whole<V: Vector>(values: &[V::Element]) -> &[V] {
    let per_vector = size_of::<V>() / size_of::<V::Element>();
    // SAFETY: the caller's promise; a vector is values of its element and nothing else.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), values.len() / per_vector) }
}

/// The slice, known to the compiler to begin at a multiple of `BYTES`.
///
/// # Safety
/// It does, and `BYTES` is a power of two.
#[inline(always)]
pub unsafe fn assume_aligned<const BYTES: usize, T>(values: &[T]) -> &[T] {
    let address = values.as_ptr().addr();
    // SAFETY: the caller's promise.
    unsafe { core::hint::assert_unchecked(address & (BYTES - 1) == 0) };
    values
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
        assert_eq!([align_of::<Vec2<u8>>(), align_of::<Vec2<f16>>()], [2, 4]);
        assert_eq!([align_of::<Vec2<f32>>(), align_of::<Vec2<f64>>()], [8, 16]);
        assert_eq!([align_of::<Vec8<u8>>(), align_of::<Vec8<bf16>>()], [8, 16]);
        assert_eq!((align_of::<Vec8<f32>>(), size_of::<Vec8<f32>>()), (16, 32));
    }

    #[test]
    fn an_index_names_each_value() {
        let mut v = Vec4::from([1, 2, 3, 4]);
        v[2] += 10;
        assert_eq!([v[0], v[1], v[2], v[3]], [1, 2, 13, 4]);
        assert_eq!(v.map(|value| value as f32).to_array(), [1.0, 2.0, 13.0, 4.0]);
        assert_eq!(Vec4::splat(7u8), Vec4::new(7, 7, 7, 7));
        let mut v = Vec2::from([1u16, 2]);
        v[1] *= 3;
        assert_eq!((v[0], v.map(u32::from).to_array(), Vec2::splat(5i8).y), (1, [1, 6], 5));
        let mut v = Vec8::from([1u8, 2, 3, 4, 5, 6, 7, 8]);
        v[7] += 1;
        assert_eq!((v[0], v.map(|x| x as f32)[7], Vec8::splat(2u64)[3]), (1, 9.0, 2));
    }

    #[test]
    fn slices_become_vectors_only_where_they_are_whole() {
        let aligned = [Vec8::from([0u16, 1, 2, 3, 4, 5, 6, 7]); 4];
        let data: &[u16] = bytemuck::cast_slice(&aligned);
        assert_eq!(whole::<Vec8<u16>>(data), Some(&aligned[..]));
        assert_eq!(whole::<Vec8<u16>>(&data[8..16]), Some(&aligned[1..2]));
        assert_eq!(
            (whole::<Vec8<u16>>(&data[1..9]), whole::<Vec2<u16>>(&data[1..9])),
            (None, None)
        );
        assert_eq!(whole::<Vec2<u16>>(&data[..3]), None);
        assert_eq!(whole::<Vec2<u16>>(&data[2..2]), Some(&[][..]));
        // SAFETY: the array is aligned to 16 bytes.
        let (vectors, same) =
            unsafe { (assume_whole::<Vec4<u16>>(data), assume_aligned::<16, _>(data)) };
        assert_eq!((vectors[1].x, vectors.len(), same), (4, 8, data));
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
