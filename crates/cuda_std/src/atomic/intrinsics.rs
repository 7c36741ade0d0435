//! Atomic functions with everything in their names: operation, order, type and scope.
//!
//! They are rust-cuda's lowest layer, here names for the functions of [`atomic`](super). `volatile`
//! is what PTX says it is: a relaxed access (of system scope for loads and stores). `inc` and `dec`
//! take no bound, so they wrap at the type's own: [`fetch_inc`](super::fetch_inc) takes one.
//!
//! # Safety of every function that takes a pointer
//!
//! - The pointer is aligned, and valid for the access in global or shared memory.
//! - Every access by a thread in the scope at the same time is atomic, of the same size.

use super::{Ordering, Scope};
use cuda_std_macros::repeat;

repeat! {
    for (scope, Scope, fence) in [
        (device, Device, device_fence), (block, Block, grid_fence), (system, System, system_fence),
    ]
    {
        #[doc = concat!("`membar` for the threads of the ", stringify!($scope), ".")]
        #[inline(always)]
        pub fn $[membar_ $scope]() {
            crate::thread::$fence();
        }

        #[doc = concat!("`fence.sc` among the threads of the ", stringify!($scope), ".")]
        #[inline(always)]
        pub fn $[fence_sc_ $scope]() {
            super::fence(Ordering::SeqCst, Scope::$Scope);
        }

        #[doc = concat!("`fence.acq_rel` among the threads of the ", stringify!($scope), ".")]
        #[inline(always)]
        pub fn $[fence_acqrel_ $scope]() {
            super::fence(Ordering::AcqRel, Scope::$Scope);
        }
    }
}

repeat! {
    for (bits, uint) in [(32, u32), (64, u64)]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("Loads ", stringify!($bits), " bits as a volatile access.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_load_volatile_ $bits _ $scope](ptr: *mut $uint) -> $uint {
            // SAFETY: the caller's promise.
            unsafe { super::access::load_volatile(ptr) }
        }

        #[doc = concat!("Stores ", stringify!($bits), " bits as a volatile access.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_store_volatile_ $bits _ $scope](ptr: *mut $uint, value: $uint) {
            // SAFETY: the caller's promise.
            unsafe { super::access::store_volatile(ptr, value) }
        }
    }
}

repeat! {
    for (load, Load, store, Store) in [
        (relaxed, Relaxed, relaxed, Relaxed), (acquire, Acquire, release, Release),
    ]
    for (bits, uint) in [(32, u32), (64, u64)]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("Loads ", stringify!($bits), " bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_load_ $load _ $bits _ $scope](ptr: *mut $uint) -> $uint {
            // SAFETY: the caller's promise.
            unsafe { super::load(ptr, Ordering::$Load, Scope::$Scope) }
        }

        #[doc = concat!("Stores ", stringify!($bits), " bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_store_ $store _ $bits _ $scope](ptr: *mut $uint, value: $uint) {
            // SAFETY: the caller's promise.
            unsafe { super::store(ptr, value, Ordering::$Store, Scope::$Scope) }
        }
    }
}

repeat! {
    for (op, function) in [(inc, fetch_add), (dec, fetch_sub)]
    for (order, Order) in [
        (relaxed, Relaxed), (acquire, Acquire), (release, Release), (acqrel, AcqRel),
        (volatile, Relaxed),
    ]
    for ty in [u32, u64, i32, i64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`", stringify!($function), "` of one, wrapping.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_ $op _ $order _ $ty _ $scope](ptr: *mut $ty) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::$function(ptr, 1, Ordering::$Order, Scope::$Scope) }
        }
    }
}

repeat! {
    for (op, function) in [
        (and, fetch_and), (or, fetch_or), (xor, fetch_xor), (exch, exchange), (add, fetch_add),
        (sub, fetch_sub),
    ]
    for (order, Order) in [
        (relaxed, Relaxed), (acquire, Acquire), (release, Release), (acqrel, AcqRel),
        (volatile, Relaxed),
    ]
    for ty in [u32, u64, i32, i64, f32, f64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`", stringify!($function), "` of `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_ $op _ $order _ $ty _ $scope](ptr: *mut $ty, value: $ty) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::$function(ptr, value, Ordering::$Order, Scope::$Scope) }
        }
    }
}

repeat! {
    for op in [min, max]
    for (order, Order) in [
        (relaxed, Relaxed), (acquire, Acquire), (release, Release), (acqrel, AcqRel),
        (volatile, Relaxed),
    ]
    for ty in [u32, u64, i32, i64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`fetch_", stringify!($op), "` of `", stringify!($ty), "`.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_ $op _ $order _ $ty _ $scope](ptr: *mut $ty, value: $ty) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::$[fetch_ $op](ptr, value, Ordering::$Order, Scope::$Scope) }
        }
    }
}

repeat! {
    for (order, Order) in [
        (relaxed, Relaxed), (acquire, Acquire), (release, Release), (acqrel, AcqRel),
        (volatile, Relaxed),
    ]
    for ty in [u32, u64, i32, i64, f32, f64]
    for (scope, Scope) in [(device, Device), (block, Block), (system, System)]
    {
        #[doc = concat!("`compare_and_swap` of `", stringify!($ty), "`, by its bits.")]
        ///
        /// # Safety
        /// See the [module](self).
        #[inline(always)]
        pub unsafe fn $[atomic_fetch_cas_ $order _ $ty _ $scope](
            ptr: *mut $ty,
            current: $ty,
            new: $ty,
        ) -> $ty {
            // SAFETY: the caller's promise.
            unsafe { super::compare_and_swap(ptr, current, new, Ordering::$Order, Scope::$Scope) }
        }
    }
}
