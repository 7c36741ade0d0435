//! Read-modify-write operations and fences, written as PTX with their order and scope.

use super::{Ordering, Scope};
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use core::arch::asm;

/// A fence of the given order and scope. `Relaxed` is no fence.
#[gpu_only]
#[inline(always)]
pub fn fence(order: Ordering, scope: Scope) {
    /// One arm for each scope.
    macro_rules! fences {
        ($sem:literal) => {
            match scope {
                Scope::Block => asm!(concat!("fence.", $sem, ".cta;"), options(nostack)),
                Scope::Device => asm!(concat!("fence.", $sem, ".gpu;"), options(nostack)),
                Scope::System => asm!(concat!("fence.", $sem, ".sys;"), options(nostack)),
            }
        };
    }
    // SAFETY: a fence has no precondition.
    unsafe {
        match order {
            Ordering::Relaxed => {}
            Ordering::SeqCst => fences!("sc"),
            _ => fences!("acq_rel"),
        }
    }
}

/// One `atom` instruction for each order and scope: `$op` on the bits of `$value` in `$class`. If
/// `$global`, the address is known to lie in global memory.
#[cfg(target_os = "cuda")]
macro_rules! atom {
    ($op:literal, $class:ident, $ptr:ident, $value:ident, $order:ident, $scope:ident, $global:ident) => {{
        let before;
        macro_rules! generic {
                    ($sem:literal, $in_scope:literal) => {
                        asm!(
                            concat!("atom.", $sem, $in_scope, $op, " {before}, [{ptr}], {value};"),
                            before = out($class) before,
                            ptr = in(reg64) $ptr,
                            value = in($class) $value,
                            options(nostack),
                        )
                    };
                }
        macro_rules! global {
                    ($sem:literal, $in_scope:literal) => {
                        asm!(
                            "{{ .reg .b64 global; cvta.to.global.u64 global, {ptr};",
                            concat!("atom.", $sem, $in_scope, ".global", $op),
                            "{before}, [global], {value}; }}",
                            before = out($class) before,
                            ptr = in(reg64) $ptr,
                            value = in($class) $value,
                            options(nostack),
                        )
                    };
                }
        macro_rules! scopes {
            ($sem:literal) => {
                match $scope {
                    Scope::Device if $global => global!($sem, ".gpu"),
                    Scope::Block => generic!($sem, ".cta"),
                    Scope::Device => generic!($sem, ".gpu"),
                    Scope::System => generic!($sem, ".sys"),
                }
            };
        }
        match $order {
            Ordering::Relaxed => scopes!("relaxed"),
            Ordering::Acquire => scopes!("acquire"),
            Ordering::Release => scopes!("release"),
            Ordering::AcqRel => scopes!("acq_rel"),
            _ => {
                fence(Ordering::SeqCst, $scope);
                scopes!("acq_rel")
            }
        }
        before
    }};
}

/// Declares one public function over the types whose instruction is listed.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident, $trait:ident { $($ty:ty, $class:ident, $op:literal;)* })*) => {$(
        #[doc = concat!("The types that [`", stringify!($name), "`] takes.")]
        pub trait $trait: Copy {
            #[cfg(target_os = "cuda")]
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
            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn operate<const GLOBAL: bool>(
                ptr: *mut Self,
                value: Self,
                order: Ordering,
                scope: Scope,
            ) -> Self {
                // SAFETY: the caller's promise.
                unsafe { atom!($op, $class, ptr, value, order, scope, GLOBAL) }
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
        #[gpu_only]
        #[inline(always)]
        pub unsafe fn $name<T: $trait>(ptr: *mut T, value: T, order: Ordering, scope: Scope) -> T {
            // SAFETY: the caller's promise.
            unsafe { T::operate::<false>(ptr, value, order, scope) }
        }
    )*};
}

operations! {
    /// Adds atomically; integers wrap.
    fetch_add, FetchAdd {
        u32, reg32, ".add.u32";
        i32, reg32, ".add.s32";
        u64, reg64, ".add.u64";
        i64, reg64, ".add.u64";
        f32, reg32, ".add.f32";
        f64, reg64, ".add.f64";
    }
    /// Replaces the value atomically.
    exchange, Exchange {
        u32, reg32, ".exch.b32";
        i32, reg32, ".exch.b32";
        u64, reg64, ".exch.b64";
        i64, reg64, ".exch.b64";
        f32, reg32, ".exch.b32";
        f64, reg64, ".exch.b64";
    }
    /// Takes the smaller of two values atomically.
    fetch_min, FetchMin {
        u32, reg32, ".min.u32";
        i32, reg32, ".min.s32";
        u64, reg64, ".min.u64";
        i64, reg64, ".min.s64";
    }
    /// Takes the larger of two values atomically.
    fetch_max, FetchMax {
        u32, reg32, ".max.u32";
        i32, reg32, ".max.s32";
        u64, reg64, ".max.u64";
        i64, reg64, ".max.s64";
    }
    /// Combines by bitwise and, atomically.
    fetch_and, FetchAnd {
        u32, reg32, ".and.b32";
        i32, reg32, ".and.b32";
        u64, reg64, ".and.b64";
        i64, reg64, ".and.b64";
    }
    /// Combines by bitwise or, atomically.
    fetch_or, FetchOr {
        u32, reg32, ".or.b32";
        i32, reg32, ".or.b32";
        u64, reg64, ".or.b64";
        i64, reg64, ".or.b64";
    }
    /// Combines by bitwise exclusive or, atomically.
    fetch_xor, FetchXor {
        u32, reg32, ".xor.b32";
        i32, reg32, ".xor.b32";
        u64, reg64, ".xor.b64";
        i64, reg64, ".xor.b64";
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
#[gpu_only]
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
