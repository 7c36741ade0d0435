//! Loads and stores with cache hints.
//!
//! | | C++ | |
//! |---|---|---|
//! | [`load`] with a [`LoadHint`] | `__ldca`, `__ldcg`, `__ldcs`, `__ldlu` | safe: a reference guarantees the value |
//! | [`load_read_only`] with a [`ReadOnlyHint`] | `__ldg` | unsafe: nothing writes while the kernel runs |
//! | [`store`] with a [`StoreHint`] | `__stwb`, `__stcg`, `__stcs`, `__stwt` | safe, through `&mut` |
//! | [`load_by`], [`store_by`] | `createpolicy`, `.L2::cache_hint` | by a [`Policy`] of the L2 cache |
//! | [`load_volatile`], [`store_volatile`] | `volatile` | unsafe: other threads write meanwhile |
//! | [`prefetch`] | `prefetch` | |
//!
//! A hint never changes what a right program computes, only how fast. Most kernels need none: the
//! compiler's own loads of a `&[T]` are good. A kernel that reads much data once keeps the rest in
//! the cache with [`LoadHint::Streaming`].
//!
//! ```
//! use cuda_std::access::{self, LoadHint, StoreHint};
//! use cuda_std::prelude::*;
//!
//! /// Copies, and leaves the caches to others.
//! #[kernel]
//! pub fn copy(index: ThreadIndex, x: &[Vec4<f32>], mut y: DisjointSlice<Vec4<f32>>) {
//!     if let Some(y) = y.get_mut(index) {
//!         access::store(y, access::load(&x[index.get()], LoadHint::Streaming), StoreHint::Streaming);
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! # Why `load` and `store` are safe
//!
//! 1. The reference says that the memory is valid, aligned and initialised, and that nothing writes
//!    (or, of `&mut`, accesses) it meanwhile; the instruction accesses just that.
//! 2. The instructions are those of global memory. A reference into other memory, which the address
//!    tells, takes the ordinary way. (Of a kernel's slice the compiler knows that it is global.)
//!
//! [`load_read_only`] is not: it needs memory that nothing writes while the kernel runs, and a reference promises that
//! for as long as it lives alone.

mod load;
mod policy;
mod prefetch;
mod store;

pub use load::{LoadHint, ReadOnlyHint, load, load_read_only, load_volatile};
pub use policy::{Policy, load_by, store_by};
pub use prefetch::{CacheLevel, prefetch};
pub use store::{StoreHint, store, store_volatile};

use crate::number::{Bf16x2, E4m3, E4m3x2, E5m2, E5m2x2, F16x2};
use crate::vector::{Vec2, Vec4, Vec8};
use bytemuck::Pod;
use half::{bf16, f16};

/// A value of 1, 2, 4, 8 or 16 bytes, aligned to its size, which one instruction loads or stores.
#[diagnostic::on_unimplemented(
    message = "no single instruction loads or stores `{Self}`",
    label = "expected a number, a pair, or a vector of at most 16 bytes",
    note = "take `Vec2`, `Vec4` or `Vec8` of `cuda_std::vector` for several numbers"
)]
pub trait Access: Pod + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

/// Implements [`Access`], and checks the sizes.
macro_rules! accesses {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Access for $ty {}
        const _: () = assert!(size_of::<$ty>() <= 16 && align_of::<$ty>() == size_of::<$ty>());
    )*};
}

accesses! {
    u8 i8 u16 i16 u32 i32 f32 u64 i64 f64 u128 i128 f16 bf16
    F16x2 Bf16x2 E4m3 E5m2 E4m3x2 E5m2x2
    Vec2<u8> Vec2<i8> Vec2<u16> Vec2<i16> Vec2<f16> Vec2<bf16> Vec2<u32> Vec2<i32> Vec2<f32>
    Vec2<u64> Vec2<i64> Vec2<f64>
    Vec4<u8> Vec4<i8> Vec4<u16> Vec4<i16> Vec4<f16> Vec4<bf16> Vec4<u32> Vec4<i32> Vec4<f32>
    Vec8<u8> Vec8<i8> Vec8<u16> Vec8<i16> Vec8<f16> Vec8<bf16>
}

/// Whether a pointer leads to global memory: a constant for a kernel's own slices.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn is_global<T>(pointer: *const T) -> bool {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.isspacep.global"]
        fn isspacep_global(pointer: *const u8) -> bool;
    }
    // SAFETY: the address alone is looked at.
    unsafe { isspacep_global(pointer.cast()) }
}

/// The address in global memory of a pointer that leads there.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn in_global<T>(pointer: *const T) -> *mut T {
    let global;
    // SAFETY: arithmetic on an address.
    unsafe {
        core::arch::asm!(
            "cvta.to.global.u64 {0}, {1};",
            out(reg64) global,
            in(reg64) pointer,
            options(pure, nomem, nostack),
        );
    }
    global
}

/// One load: `ld$words` of a value's size, through `$pointer`, and `$operand` after the address.
#[cfg(target_os = "cuda")]
macro_rules! load_instruction {
    ($ty:ty, $words:literal, $operand:literal, $pointer:expr, ($($extra:tt)*)) => {{
        let pointer: *const $ty = $pointer;
        match size_of::<$ty>() {
            1 => $crate::access::load_instruction!(@one reg16 u16, ".u8", $words, $operand, pointer, ($($extra)*)),
            2 => $crate::access::load_instruction!(@one reg16 u16, ".b16", $words, $operand, pointer, ($($extra)*)),
            4 => $crate::access::load_instruction!(@one reg32 u32, ".b32", $words, $operand, pointer, ($($extra)*)),
            8 => $crate::access::load_instruction!(@one reg64 u64, ".b64", $words, $operand, pointer, ($($extra)*)),
            _ => {
                let (low, high): (u64, u64);
                core::arch::asm!(
                    concat!("ld", $words, ".v2.b64 {{{low}, {high}}}, [{pointer}]", $operand, ";"),
                    low = out(reg64) low,
                    high = out(reg64) high,
                    pointer = in(reg64) pointer,
                    $($extra)*
                );
                core::mem::transmute_copy(&[low, high])
            }
        }
    }};
    (@one $class:ident $bits:ty, $size:literal, $words:literal, $operand:literal, $pointer:ident, ($($extra:tt)*)) => {{
        let bits: $bits;
        core::arch::asm!(
            concat!("ld", $words, $size, " {bits}, [{pointer}]", $operand, ";"),
            bits = out($class) bits,
            pointer = in(reg64) $pointer,
            $($extra)*
        );
        core::mem::transmute_copy(&bits)
    }};
}

/// One store: `st$words` of a value's size, through `$pointer`, and `$operand` after the value.
#[cfg(target_os = "cuda")]
macro_rules! store_instruction {
    ($ty:ty, $words:literal, $operand:literal, $pointer:expr, $value:expr, ($($extra:tt)*)) => {{
        let (pointer, value): (*mut $ty, $ty) = ($pointer, $value);
        match size_of::<$ty>() {
            1 => $crate::access::store_instruction!(@one reg16 u16, u8, ".u8", $words, $operand, pointer, value, ($($extra)*)),
            2 => $crate::access::store_instruction!(@one reg16 u16, u16, ".b16", $words, $operand, pointer, value, ($($extra)*)),
            4 => $crate::access::store_instruction!(@one reg32 u32, u32, ".b32", $words, $operand, pointer, value, ($($extra)*)),
            8 => $crate::access::store_instruction!(@one reg64 u64, u64, ".b64", $words, $operand, pointer, value, ($($extra)*)),
            _ => {
                let [low, high]: [u64; 2] = core::mem::transmute_copy(&value);
                core::arch::asm!(
                    concat!("st", $words, ".v2.b64 [{pointer}], {{{low}, {high}}}", $operand, ";"),
                    low = in(reg64) low,
                    high = in(reg64) high,
                    pointer = in(reg64) pointer,
                    $($extra)*
                );
            }
        }
    }};
    (@one $class:ident $wide:ty, $bits:ty, $size:literal, $words:literal, $operand:literal, $pointer:ident, $value:ident, ($($extra:tt)*)) => {{
        let bits: $bits = core::mem::transmute_copy(&$value);
        core::arch::asm!(
            concat!("st", $words, $size, " [{pointer}], {bits}", $operand, ";"),
            bits = in($class) <$wide>::from(bits),
            pointer = in(reg64) $pointer,
            $($extra)*
        );
    }};
}

#[cfg(target_os = "cuda")]
use load_instruction;
#[cfg(target_os = "cuda")]
use store_instruction;
