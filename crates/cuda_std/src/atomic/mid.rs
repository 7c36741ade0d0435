//! Atomic functions with the scope and the type in their names, and the order as an argument.
//!
//! They are rust-cuda's names for what the functions of [`atomic`](super) do with types and
//! [`Scope`]s: new code is shorter with those. They differ from rust-cuda's in that the orders reach
//! the instruction as PTX spells them, and that the functions work on the host too.
//!
//! # Safety of every function that takes a pointer
//!
//! - The pointer is aligned, and valid for the access in global or shared memory.
//! - Every access by a thread in the scope at the same time is atomic, of the same size.

use super::{Ordering, Scope};
use cuda_std_macros::repeat;

repeat! {
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("A fence among the threads of the ", stringify!($scope), ".")]
        #[inline(always)]
        pub fn $[$scope _thread_fence](order: Ordering) {
            super::fence(order, Scope::$Scope);
        }
    }
}

repeat! {
    for (bits, uint) in [(32, u32), (64, u64)]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("Loads ", stringify!($bits), " bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_load_ $bits _ $scope](ptr: *mut $uint, order: Ordering) -> $uint {
            // SAFETY: the caller's promise.
            unsafe { super::load(ptr, order, Scope::$Scope) }
        }

        #[doc = concat!("Stores ", stringify!($bits), " bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_store_ $bits _ $scope](ptr: *mut $uint, order: Ordering, value: $uint) {
            // SAFETY: the caller's promise.
            unsafe { super::store(ptr, value, order, Scope::$Scope) }
        }
    }
}

repeat! {
    for (op, function) in [
        (and, fetch_and), (or, fetch_or), (xor, fetch_xor), (add, fetch_add), (sub, fetch_sub),
        (exch, exchange),
    ]
    for ty in [u32, u64, i32, i64, f32, f64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`", stringify!($function), "` of `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_ $op _ $ty _ $scope](
            ptr: *mut $ty,
            order: Ordering,
            value: $ty,
        ) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::$function(ptr, value, order, Scope::$Scope) }
        }
    }
}

repeat! {
    for op in [min, max]
    for ty in [u32, u64, i32, i64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`fetch_", stringify!($op), "` of `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_ $op _ $ty _ $scope](
            ptr: *mut $ty,
            order: Ordering,
            value: $ty,
        ) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::$[fetch_ $op](ptr, value, order, Scope::$Scope) }
        }
    }
}

repeat! {
    for ty in [u32, u64, i32, i64, f32, f64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`compare_and_swap` of `", stringify!($ty), "`, by its bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_compare_and_swap_ $ty _ $scope](
            ptr: *mut $ty,
            current: $ty,
            new: $ty,
            order: Ordering,
        ) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::compare_and_swap(ptr, current, new, order, Scope::$Scope) }
        }
    }
}
