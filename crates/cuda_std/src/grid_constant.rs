//! Values of a launch that a kernel reads where the launch put them.
//!
//! A parameter of any other type is a value of each thread's own: whoever takes a reference to it has the compiler copy
//! it to the thread's local memory. The copy engine must not be given such a copy of a tensor map. So a kernel that takes
//! its maps by value, and not from device memory that was filled before, takes a [`GridConstant`], which is
//! `__grid_constant__` in CUDA C++.
//!
//! ```
//! use cuda_std::copy::TensorMap;
//! use cuda_std::grid_constant::{GridConstant, MapWords};
//! use cuda_std::prelude::*;
//!
//! #[kernel(block = 32)]
//! /// # Safety
//! /// The second map is one of f32 in boxes of 8 × 32.
//! pub unsafe fn prefetched(maps: GridConstant<[MapWords; 2]>) {
//!     // SAFETY: the host encodes the second map for such tiles.
//!     let map: &TensorMap<[[f32; 32]; 8]> = unsafe { maps.map(1) };
//!     map.prefetch();
//! }
//! # fn main() {}
//! ```

use crate::copy::{Extents, Swizzle, TensorMap, TensorMapMut};
use core::marker::PhantomData;
use core::ops::Deref;

/// A parameter of a kernel, in the memory of the launch's parameters, aligned to 64 bytes. It is the kernel's first parameter
/// that a launch passes; the launcher takes a `T`.
///
/// Any pattern of bits of the right size reaches the kernel as it is, so `T` is plain data, aligned to at most 16 bytes.
#[derive(Debug)]
pub struct GridConstant<'a, T> {
    value: *const T,
    launch: PhantomData<&'a T>,
}

impl<T> GridConstant<'_, T> {
    /// The parameter at an address. `#[kernel]` calls this.
    ///
    /// # Safety
    /// `value` is valid for reads of a `T` as long as the kernel runs, and nothing writes there.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw_parts(value: *const T) -> Self {
        Self { value, launch: PhantomData }
    }

    /// Where it is: a generic address.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *const T {
        self.value
    }
}

impl<T> Clone for GridConstant<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GridConstant<'_, T> {}

impl<T> Deref for GridConstant<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: valid by the promise of `from_raw_parts`.
        unsafe { &*self.value }
    }
}

/// What a PTX entry takes for a [`GridConstant`]: as many units of 16 bytes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Carrier<const UNITS: usize>([[u64; 2]; UNITS]);

/// The units of a [`Carrier`] for a `T`. Does not compile for types that are no whole number of units.
#[doc(hidden)]
#[must_use]
pub const fn units<T>() -> usize {
    assert!(
        size_of::<T>() > 0 && size_of::<T>().is_multiple_of(16),
        "a `GridConstant` has a size that is a multiple of 16 bytes"
    );
    assert!(align_of::<T>() <= 16, "a `GridConstant` is aligned to at most 16 bytes");
    size_of::<T>() / 16
}

/// The 128 bytes of a tensor map as the host's driver encodes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
pub struct MapWords {
    /// The driver's words.
    pub words: [u64; 16],
}

impl<'a, const N: usize> GridConstant<'a, [MapWords; N]> {
    /// Map `index`, for tiles of this type. Panics past the end.
    ///
    /// # Safety
    /// The host encoded the words for such tiles, to be read.
    #[inline(always)]
    pub unsafe fn map<A: Extents, S: Swizzle>(&self, index: usize) -> &'a TensorMap<A, S> {
        assert!(index < N);
        // SAFETY: a tensor map is 16 words, of which the caller knows that they are one. The parameter is aligned to 64 bytes,
        // and so is each element, of 128.
        unsafe { &*self.value.cast::<TensorMap<A, S>>().add(index) }
    }

    /// Map `index`, for tiles of this type. Panics past the end.
    ///
    /// # Safety
    /// The host encoded the words for such tiles, to be written.
    #[inline(always)]
    pub unsafe fn map_mut<A: Extents, S: Swizzle>(&self, index: usize) -> &'a TensorMapMut<A, S> {
        assert!(index < N);
        // SAFETY: as above.
        unsafe { &*self.value.cast::<TensorMapMut<A, S>>().add(index) }
    }
}
