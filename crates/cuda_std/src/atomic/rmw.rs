//! Read-modify-write operations and fences, written as PTX with their order and scope.

use super::word::Word;
use super::{Ordering, Scope};
use half::{bf16, f16};

#[cfg(target_os = "cuda")]
use super::instruction::{atom, each_order, each_scope};
#[cfg(not(target_os = "cuda"))]
use super::word::host;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// A fence of the given order and scope. `Relaxed` is not a fence.
#[inline(always)]
pub fn fence(order: Ordering, scope: Scope) {
    #[cfg(target_os = "cuda")]
    {
        /// One fence.
        macro_rules! fence {
            ($sem:literal, $in_scope:literal) => {
                // SAFETY: a fence has no precondition.
                unsafe { asm!(concat!("fence", $sem, $in_scope, ";"), options(nostack)) }
            };
        }
        match order {
            Ordering::Relaxed => {}
            Ordering::SeqCst => each_scope!(scope, fence!(".sc",)),
            _ => each_scope!(scope, fence!(".acq_rel",)),
        }
    }
    #[cfg(not(target_os = "cuda"))]
    if order != Ordering::Relaxed {
        let _ = scope;
        core::sync::atomic::fence(order);
    }
}

/// Declares one public function over the types whose instruction is listed, with what the host
/// computes.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $trait:ident {
        $($ty:ty, $class:ident, $op:literal, $host:expr;)*
    })*) => {$(
        #[doc = concat!("The types that [`", stringify!($name), "`] takes.")]
        pub trait $trait: Word {
            #[doc(hidden)]
            #[allow(clippy::missing_safety_doc)]
            unsafe fn operate<const GLOBAL: bool>(
                ptr: *mut Self,
                value: Self,
                order: Ordering,
                scope: Scope,
            ) -> Self;
        }

        $(impl $trait for $ty {
            #[inline(always)]
            unsafe fn operate<const GLOBAL: bool>(
                ptr: *mut Self,
                value: Self,
                order: Ordering,
                scope: Scope,
            ) -> Self {
                #[cfg(target_os = "cuda")]
                // SAFETY: the caller's promise.
                return unsafe { atom!($op, $class, ptr, value, order, scope, GLOBAL) };
                #[cfg(not(target_os = "cuda"))]
                // SAFETY: the caller's promise.
                return unsafe {
                    let _ = scope;
                    let host: fn($ty, $ty) -> $ty = $host;
                    host::update(ptr, order, |before| host(before, value))
                };
            }
        })*

        $(#[$doc])*
        ///
        /// Returns the value before. Every order and scope is the instruction's own, `SeqCst` with a
        /// fence before it.
        ///
        /// # Safety
        /// - `ptr` is aligned and valid for reads and writes in global or shared memory.
        /// - Every access by a thread in `scope` at the same time is atomic, of the same size.
        #[inline(always)]
        pub unsafe fn $name<T: $trait>(ptr: *mut T, value: T, order: Ordering, scope: Scope) -> T {
            // SAFETY: the caller's promise.
            unsafe { T::operate::<false>(ptr, value, order, scope) }
        }
    )*};
}

operations! {
    /// Adds atomically; integers wrap. Subnormal `f32` in global memory count as zero.
    fetch_add, FetchAdd {
        u32, reg32, ".add.u32", u32::wrapping_add;
        i32, reg32, ".add.s32", i32::wrapping_add;
        u64, reg64, ".add.u64", u64::wrapping_add;
        i64, reg64, ".add.u64", i64::wrapping_add;
        f32, reg32, ".add.f32", |a, b| a + b;
        f64, reg64, ".add.f64", |a, b| a + b;
    }
    /// Replaces the value atomically.
    exchange, Exchange {
        u32, reg32, ".exch.b32", |_, new| new;
        i32, reg32, ".exch.b32", |_, new| new;
        u64, reg64, ".exch.b64", |_, new| new;
        i64, reg64, ".exch.b64", |_, new| new;
        f32, reg32, ".exch.b32", |_, new| new;
        f64, reg64, ".exch.b64", |_, new| new;
    }
    /// Takes the smaller of two values atomically.
    fetch_min, FetchMin {
        u32, reg32, ".min.u32", u32::min;
        i32, reg32, ".min.s32", i32::min;
        u64, reg64, ".min.u64", u64::min;
        i64, reg64, ".min.s64", i64::min;
    }
    /// Takes the larger of two values atomically.
    fetch_max, FetchMax {
        u32, reg32, ".max.u32", u32::max;
        i32, reg32, ".max.s32", i32::max;
        u64, reg64, ".max.u64", u64::max;
        i64, reg64, ".max.s64", i64::max;
    }
    /// Combines the bits by and, atomically.
    fetch_and, FetchAnd {
        u32, reg32, ".and.b32", |a, b| a & b;
        i32, reg32, ".and.b32", |a, b| a & b;
        u64, reg64, ".and.b64", |a, b| a & b;
        i64, reg64, ".and.b64", |a, b| a & b;
        f32, reg32, ".and.b32", |a, b| f32::from_bits(a.to_bits() & b.to_bits());
        f64, reg64, ".and.b64", |a, b| f64::from_bits(a.to_bits() & b.to_bits());
    }
    /// Combines the bits by or, atomically.
    fetch_or, FetchOr {
        u32, reg32, ".or.b32", |a, b| a | b;
        i32, reg32, ".or.b32", |a, b| a | b;
        u64, reg64, ".or.b64", |a, b| a | b;
        i64, reg64, ".or.b64", |a, b| a | b;
        f32, reg32, ".or.b32", |a, b| f32::from_bits(a.to_bits() | b.to_bits());
        f64, reg64, ".or.b64", |a, b| f64::from_bits(a.to_bits() | b.to_bits());
    }
    /// Combines the bits by exclusive or, atomically.
    fetch_xor, FetchXor {
        u32, reg32, ".xor.b32", |a, b| a ^ b;
        i32, reg32, ".xor.b32", |a, b| a ^ b;
        u64, reg64, ".xor.b64", |a, b| a ^ b;
        i64, reg64, ".xor.b64", |a, b| a ^ b;
        f32, reg32, ".xor.b32", |a, b| f32::from_bits(a.to_bits() ^ b.to_bits());
        f64, reg64, ".xor.b64", |a, b| f64::from_bits(a.to_bits() ^ b.to_bits());
    }
    /// Counts up to a bound: a value below `value` grows by one, any other becomes 0.
    fetch_inc, FetchInc {
        u32, reg32, ".inc.u32", |old, bound| if old >= bound { 0 } else { old + 1 };
    }
    /// Counts down from a bound: a value of 1 to `value` shrinks by one, any other becomes `value`.
    fetch_dec, FetchDec {
        u32, reg32, ".dec.u32", |old, bound| if old == 0 || old > bound { bound } else { old - 1 };
    }
}

/// The types that [`fetch_sub`] takes.
pub trait FetchSub: FetchAdd {
    /// The value whose addition subtracts this one.
    #[doc(hidden)]
    fn negated(self) -> Self;
}

/// Subtracts atomically; integers wrap.
///
/// Returns the value before.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
pub unsafe fn fetch_sub<T: FetchSub>(ptr: *mut T, value: T, order: Ordering, scope: Scope) -> T {
    // SAFETY: the caller's promise.
    unsafe { fetch_add(ptr, value.negated(), order, scope) }
}

/// Declares how a type is negated.
macro_rules! negated {
    ($($ty:ty: $negated:expr;)*) => {$(
        impl FetchSub for $ty {
            #[inline(always)]
            fn negated(self) -> Self {
                $negated(self)
            }
        }
    )*};
}

negated! {
    u32: u32::wrapping_neg;
    i32: i32::wrapping_neg;
    u64: u64::wrapping_neg;
    i64: i64::wrapping_neg;
    f32: core::ops::Neg::neg;
    f64: core::ops::Neg::neg;
}

/// A half-precision number that [`fetch_add_half`] and [`fetch_add_half_x2`] add: `f16` (on `sm_70`
/// and later) or `bf16` (on `sm_90` and later).
pub trait Half: Word {
    /// # Safety
    /// As [`fetch_add_half`].
    #[doc(hidden)]
    unsafe fn add_one(ptr: *mut Self, value: Self, order: Ordering, scope: Scope) -> Self;
    /// # Safety
    /// As [`fetch_add_half_x2`].
    #[doc(hidden)]
    unsafe fn add_two(ptr: *mut u32, value: u32, order: Ordering, scope: Scope) -> u32;
}

macro_rules! halves {
    ($($ty:ident, $one:literal, $two:literal;)*) => {$(
        impl Half for $ty {
            #[inline(always)]
            unsafe fn add_one(ptr: *mut Self, value: Self, order: Ordering, scope: Scope) -> Self {
                #[cfg(target_os = "cuda")]
                {
                    let bits = value.to_bits();
                    // SAFETY: the caller's promise.
                    let before: u16 = unsafe { atom!($one, reg16, ptr, bits, order, scope, false) };
                    Self::from_bits(before)
                }
                #[cfg(not(target_os = "cuda"))]
                {
                    let _ = scope;
                    // SAFETY: the caller's promise.
                    unsafe { host::update(ptr, order, |before| before + value) }
                }
            }

            #[inline(always)]
            unsafe fn add_two(ptr: *mut u32, value: u32, order: Ordering, scope: Scope) -> u32 {
                #[cfg(target_os = "cuda")]
                // SAFETY: the caller's promise.
                return unsafe { atom!($two, reg32, ptr, value, order, scope, false) };
                #[cfg(not(target_os = "cuda"))]
                {
                    let _ = scope;
                    let add = |a: u32, b: u32| ($ty::from_bits(a as u16) + $ty::from_bits(b as u16)).to_bits();
                    let both = |old: u32| {
                        u32::from(add(old, value)) | u32::from(add(old >> 16, value >> 16)) << 16
                    };
                    // SAFETY: the caller's promise.
                    unsafe { host::update(ptr, order, both) }
                }
            }
        }
    )*};
}

halves! {
    f16, ".add.noftz.f16", ".add.noftz.f16x2";
    bf16, ".add.noftz.bf16", ".add.noftz.bf16x2";
}

/// Adds a half-precision number atomically, and returns the value before. Subnormals are kept.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
pub unsafe fn fetch_add_half<T: Half>(ptr: *mut T, value: T, order: Ordering, scope: Scope) -> T {
    // SAFETY: the caller's promise.
    unsafe { T::add_one(ptr, value, order, scope) }
}

/// Adds two neighbouring half-precision numbers, each atomically (the pair may be seen half added),
/// in one instruction. Returns the values before.
///
/// # Safety
/// As [`fetch_add`], and `ptr` is aligned to 4 bytes.
#[inline(always)]
pub unsafe fn fetch_add_half_x2<T: Half>(
    ptr: *mut [T; 2],
    [low, high]: [T; 2],
    order: Ordering,
    scope: Scope,
) -> [T; 2] {
    let value = (low.to_bits_64() | high.to_bits_64() << 16) as u32;
    // SAFETY: the caller's promise.
    let before = u64::from(unsafe { T::add_two(ptr.cast(), value, order, scope) });
    [T::from_bits_64(before & 0xffff), T::from_bits_64(before >> 16)]
}
