//! Tiles of a tensor in shared memory, and the swizzles that spread their bytes over the banks.

use crate::layout;
use core::marker::PhantomData;

/// A tile of a tensor in shared memory: nested arrays of elements, `Tile<[[f32; 32]; 64]>` for 64
/// rows of 32, the innermost array being contiguous in the tensor too.
///
/// With a swizzle each row of the innermost array is as long as the swizzle's span, and
/// [`offset`](Self::offset) says where an element is.
///
/// ```
/// use cuda_std::copy::{Swizzle128, Tile};
///
/// type T = Tile<[[u16; 64]; 128], Swizzle128>;
/// assert_eq!((T::BYTES, align_of::<T>()), (16384, 1024));
/// // Row 1: its 16-byte pieces trade places, 0 with 1, 2 with 3, …
/// assert_eq!((T::offset([0, 8]), T::offset([1, 0]), T::offset([1, 8])), (16, 144, 128));
/// ```
///
/// Rows of another length do not compile:
///
/// ```compile_fail,E0080
/// use cuda_std::copy::{Swizzle128, Tile};
///
/// const BYTES: usize = Tile::<[[f32; 16]; 4], Swizzle128>::BYTES;
/// # fn main() { let _ = BYTES; }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tile<A: Extents, S: Swizzle = Unswizzled> {
    elements: A,
    align: [S::Align; 0],
}

impl<A: Extents, S: Swizzle> Tile<A, S> {
    /// The size, without trailing padding.
    pub const BYTES: usize = {
        let span = A::EXTENTS[0] as usize * size_of::<A::Element>();
        assert!(A::RANK >= 1 && A::RANK <= 5, "a tile has one to five dimensions");
        assert!(
            S::SPAN == 0 || span == S::SPAN,
            "a swizzled tile's innermost array is as long as the swizzle's span, in bytes"
        );
        assert!(span.is_multiple_of(16), "a tile's innermost array is a multiple of 16 bytes");
        size_of::<A>()
    };

    /// The offset in bytes of the element at `at`, outermost index first. Indices past the end give
    /// offsets past the end.
    #[inline(always)]
    pub const fn offset<const RANK: usize>(at: [usize; RANK]) -> usize {
        const { assert!(RANK == A::RANK, "one index for each dimension of the tile") };
        let (mut linear, mut dim) = (0, 0);
        while dim < RANK {
            linear = linear * A::EXTENTS[RANK - 1 - dim] as usize + at[dim];
            dim += 1;
        }
        S::PATTERN.apply(linear * size_of::<A::Element>())
    }

    /// The element at `at`, outermost index first. Panics past the end.
    #[inline(always)]
    pub fn get<const RANK: usize>(&self, at: [usize; RANK]) -> A::Element {
        let offset = Self::offset(at);
        assert!(offset < size_of::<A>());
        // SAFETY: inside, a multiple of the element's size, and elements are plain data.
        unsafe { core::ptr::from_ref(self).cast::<u8>().add(offset).cast::<A::Element>().read() }
    }

    /// Sets the element at `at`, outermost index first. Panics past the end.
    #[inline(always)]
    pub fn set<const RANK: usize>(&mut self, at: [usize; RANK], value: A::Element) {
        // SAFETY: exclusively borrowed.
        unsafe { Self::write(self, at, value) }
    }

    /// Sets the element at `at` of a tile that other threads write to as well. Panics past the end.
    ///
    /// # Safety
    /// `tile` is valid, and no other thread reaches this element.
    #[inline(always)]
    pub unsafe fn write<const RANK: usize>(tile: *mut Self, at: [usize; RANK], value: A::Element) {
        let offset = Self::offset(at);
        assert!(offset < size_of::<A>());
        // SAFETY: inside, a multiple of the element's size; the rest is the caller's promise.
        unsafe { tile.cast::<u8>().add(offset).cast::<A::Element>().write(value) }
    }
}

/// Nested arrays of [`TensorElement`]s, one to five deep.
pub trait Extents: Copy + 'static + sealed::Sealed {
    /// The innermost type.
    type Element: TensorElement;
    /// How deep the arrays are nested.
    const RANK: usize;
    /// The lengths, innermost first; 1 past the rank.
    const EXTENTS: [u32; 5];
}

impl<A: Extents, const N: usize> sealed::Sealed for [A; N] {}
impl<A: Extents, const N: usize> Extents for [A; N] {
    type Element = A::Element;
    const RANK: usize = A::RANK + 1;
    const EXTENTS: [u32; 5] = {
        assert!(A::RANK < 5, "a tile has at most five dimensions");
        assert!(N >= 1 && N <= 256, "a tile is 1 to 256 elements long in each dimension");
        let mut extents = A::EXTENTS;
        extents[A::RANK] = N as u32;
        extents
    };
}

/// The type of a tensor's elements, as a tensor map names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum TensorType {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    S32 = 3,
    U64 = 4,
    S64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
}

/// An element of a tensor that copies move.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of a tensor",
    note = "elements are u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16, Tf32, E4m3 and E5m2"
)]
pub trait TensorElement: bytemuck::Pod + Extents<Element = Self> {
    /// Its type in a tensor map: what a reducing copy computes with.
    const TYPE: TensorType;
}

/// Declares elements; each is an array of no dimensions.
macro_rules! elements {
    ($($ty:ty = $kind:ident;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl TensorElement for $ty {
            const TYPE: TensorType = TensorType::$kind;
        }
        impl Extents for $ty {
            type Element = Self;
            const RANK: usize = 0;
            const EXTENTS: [u32; 5] = [1; 5];
        }
    )*};
}

elements! {
    u8 = U8; i8 = U8; u16 = U16; i16 = U16; u32 = U32; i32 = S32; u64 = U64; i64 = S64;
    f32 = F32; f64 = F64; half::f16 = F16; half::bf16 = Bf16;
    crate::matrix::Tf32 = F32; crate::matrix::E4m3 = U8; crate::matrix::E5m2 = U8;
}

/// How the 16-byte pieces of a tile are exchanged, so that a column of them lies in different banks:
/// in the `i`-th 128 bytes, piece `p` of a span stands at `p ^ i`, modulo the pieces of the span.
pub trait Swizzle: Copy + core::fmt::Debug + 'static + sealed::Sealed {
    /// Bytes of a row, 0 if there is no swizzle.
    const SPAN: usize;
    /// The pattern's number in a tensor map.
    const MODE: u32;
    /// A type without size that has the alignment of a tile.
    #[doc(hidden)]
    type Align: Copy + core::fmt::Debug + 'static;

    /// Where the byte at an offset of the tile goes.
    const PATTERN: layout::Swizzle =
        layout::Swizzle::new(if Self::SPAN == 0 { 0 } else { Self::SPAN.ilog2() - 4 }, 4, 3);
}

mod sealed {
    pub trait Sealed {}
}

/// Declares the patterns.
macro_rules! swizzles {
    ($($(#[$doc:meta])* $name:ident: $span:literal $mode:literal $align:ident $bytes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(PhantomData<()>);

        #[doc(hidden)]
        #[repr(align($bytes))]
        #[derive(Clone, Copy, Debug)]
        pub struct $align;

        impl sealed::Sealed for $name {}
        impl Swizzle for $name {
            const SPAN: usize = $span;
            const MODE: u32 = $mode;
            type Align = $align;
        }
    )*};
}

swizzles! {
    /// Row-major, aligned to 128 bytes.
    Unswizzled: 0 0 Align128 128;
    /// Rows of 32 bytes, two pieces.
    Swizzle32: 32 1 Align256 256;
    /// Rows of 64 bytes, four pieces.
    Swizzle64: 64 2 Align512 512;
    /// Rows of 128 bytes, eight pieces. A tile's start is a multiple of 1024.
    Swizzle128: 128 3 Align1024 1024;
}
