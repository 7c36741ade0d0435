//! The elements of rows: `f32`, `f16` and `bf16` in memory, always `f32` in registers.

use bytemuck::Pod;
use cuda_std::access;
use cuda_std::number::{Bf16x2, F16x2, Half};
use cuda_std::prelude::*;
use cuda_std::{bf16, gpu_only};

use super::registers::build;

/// What a load leaves in the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Nothing: the row passes once.
    Once,
    /// The vector: every row uses the same weights.
    ByEveryRow,
}

/// An element type of which 16 bytes hold `V`.
pub trait Value<const V: usize>: Pod {
    /// To `f32`, exactly.
    fn widen(self) -> f32;

    /// The nearest value of this type.
    fn narrow(value: f32) -> Self;

    /// `V` elements, by one load.
    ///
    /// # Safety
    /// `from` is aligned to 16 bytes and has `V` elements that no thread writes.
    unsafe fn load(from: *const Self, reuse: Reuse) -> [f32; V];

    /// Stores `V` elements at once, each rounded to nearest.
    ///
    /// # Safety
    /// `to` is aligned to 16 bytes and has room for `V` elements that no other thread reaches.
    unsafe fn store(to: *mut Self, values: [f32; V]);
}

/// Sixteen bytes by one instruction. (Not of the read-only path: the assembler moves such loads across
/// [`pause`](super::pause).)
///
/// # Safety
/// As [`Value::load`].
#[gpu_only]
#[inline(always)]
unsafe fn load_16<V: access::Access>(from: *const V, reuse: Reuse) -> V {
    // SAFETY: the caller's promise.
    let from = unsafe { &*from };
    match reuse {
        Reuse::Once => access::load(from, access::LoadHint::NoAllocate),
        Reuse::ByEveryRow => access::load(from, access::LoadHint::AllLevels),
    }
}

/// Sixteen bytes by one instruction. Assembly, since the compiler would share the last element's store with the code
/// for rows that are not aligned, and tear the vector apart.
///
/// # Safety
/// As [`Value::store`].
#[gpu_only]
#[inline(always)]
pub(in crate::grid) unsafe fn store_16<V: access::Access>(to: *mut V, value: V) {
    // SAFETY: the caller's promise.
    access::store(unsafe { &mut *to }, value, access::StoreHint::NoAllocate);
}

impl Value<4> for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn load(from: *const Self, reuse: Reuse) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { load_16(from.cast::<Vec4<f32>>(), reuse) }.to_array()
    }

    #[inline(always)]
    unsafe fn store(to: *mut Self, values: [f32; 4]) {
        let [x, y, z, w] = values;
        // SAFETY: the caller's promise.
        unsafe { store_16(to.cast(), Vec4::new(x, y, z, w)) };
    }
}

/// Implements [`Value`] for a type of 16 bits, by way of pairs in one register.
macro_rules! halves {
    ($($half:ident $pair:ident;)*) => {$(
        impl Value<8> for $half {
            #[inline(always)]
            fn widen(self) -> f32 {
                Half::widen(self)
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                <$half as Half>::nearest(value)
            }

            #[inline(always)]
            unsafe fn load(from: *const Self, reuse: Reuse) -> [f32; 8] {
                // SAFETY: the caller's promise.
                let words = unsafe { load_16(from.cast::<Vec4<u32>>(), reuse) };
                let [a, b, c, d] = words.to_array().map(|word| {
                    $pair::from_bits(word).widen()
                });
                [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
            }

            #[inline(always)]
            unsafe fn store(to: *mut Self, values: [f32; 8]) {
                let [x, y, z, w] = build(|k| {
                    $pair::nearest(values[2 * k], values[2 * k + 1]).to_bits()
                });
                // SAFETY: the caller's promise.
                unsafe { store_16(to.cast(), Vec4::new(x, y, z, w)) };
            }
        }
    )*};
}

halves! {
    f16 F16x2;
    bf16 Bf16x2;
}
