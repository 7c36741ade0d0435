//! The functions of `atomic::mid` and `atomic::intrinsics`, each called once by one thread.
//!
//! Call number `i` changes `words[i]`, which holds `A` before, and writes its result to `before[i]`.
//! The tests name the calls in the same order.

use super::Sample;
use cuda_std::atomic::{Ordering, intrinsics, mid};
use cuda_std::prelude::*;
use cuda_std_macros::repeat;

/// Where the calls of a kernel write.
struct Calls {
    words: *mut u64,
    before: *mut u64,
}

impl Calls {
    /// The next word, holding `A`.
    #[inline(always)]
    fn next<T: Sample>(&mut self) -> *mut T {
        let word = self.words.cast::<T>();
        // SAFETY: the kernel's caller gives room for every call.
        unsafe {
            self.words.write(0);
            self.words = self.words.add(1);
            word.write(T::A);
        }
        word
    }

    #[inline(always)]
    fn put<T: Sample>(&mut self, before: T) {
        // SAFETY: the kernel's caller gives room for every call.
        unsafe {
            self.before.write(before.bits());
            self.before = self.before.add(1);
        }
    }
}

/// # Safety
/// `words: [612]` and `before: [612]`; one thread.
#[kernel]
pub unsafe fn mid_calls(words: *mut u64, before: *mut u64) {
    let mut calls = Calls { words, before };
    // SAFETY: one thread, and words of its own.
    unsafe {
        repeat! {
            for order in [Relaxed, Acquire, Release, AcqRel]
            for op in [and, or, xor, add, sub, exch]
            for ty in [u32, u64, i32, i64, f32, f64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(mid::$[atomic_fetch_ $op _ $ty _ $scope](word, Ordering::$order, <$ty>::B));
            }
        }
        repeat! {
            for order in [Relaxed, Acquire, Release, AcqRel]
            for op in [min, max]
            for ty in [u32, u64, i32, i64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(mid::$[atomic_fetch_ $op _ $ty _ $scope](word, Ordering::$order, <$ty>::B));
            }
        }
        repeat! {
            for order in [Relaxed, Acquire, Release, AcqRel]
            for ty in [u32, u64, i32, i64, f32, f64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                let order = Ordering::$order;
                calls.put(mid::$[atomic_compare_and_swap_ $ty _ $scope](word, <$ty>::A, <$ty>::B, order));
            }
        }
        repeat! {
            for scope in [device, block, system]
            for (bits, ty) in [(32, u32), (64, u64)]
            {
                let word = calls.next::<$ty>();
                mid::$[atomic_store_ $bits _ $scope](word, Ordering::Release, <$ty>::B);
                calls.put(mid::$[atomic_load_ $bits _ $scope](word, Ordering::Acquire));
                mid::$[atomic_store_ $bits _ $scope](word, Ordering::SeqCst, <$ty>::A);
                mid::$[$scope _thread_fence](Ordering::AcqRel);
                mid::$[$scope _thread_fence](Ordering::SeqCst);
            }
        }
    }
}

/// # Safety
/// `words: [888]` and `before: [888]`; one thread.
#[kernel]
pub unsafe fn intrinsic_calls(words: *mut u64, before: *mut u64) {
    let mut calls = Calls { words, before };
    // SAFETY: one thread, and words of its own.
    unsafe {
        repeat! {
            for order in [relaxed, acquire, release, acqrel, volatile]
            for op in [and, or, xor, add, sub, exch]
            for ty in [u32, u64, i32, i64, f32, f64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(intrinsics::$[atomic_fetch_ $op _ $order _ $ty _ $scope](word, <$ty>::B));
            }
        }
        repeat! {
            for order in [relaxed, acquire, release, acqrel, volatile]
            for op in [min, max]
            for ty in [u32, u64, i32, i64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(intrinsics::$[atomic_fetch_ $op _ $order _ $ty _ $scope](word, <$ty>::B));
            }
        }
        repeat! {
            for order in [relaxed, acquire, release, acqrel, volatile]
            for op in [inc, dec]
            for ty in [u32, u64, i32, i64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(intrinsics::$[atomic_fetch_ $op _ $order _ $ty _ $scope](word));
            }
        }
        repeat! {
            for order in [relaxed, acquire, release, acqrel, volatile]
            for ty in [u32, u64, i32, i64, f32, f64]
            for scope in [device, block, system]
            {
                let word = calls.next::<$ty>();
                calls.put(intrinsics::$[atomic_fetch_cas_ $order _ $ty _ $scope](word, <$ty>::A, <$ty>::B));
            }
        }
        repeat! {
            for scope in [device, block, system]
            for (load, store) in [(relaxed, relaxed), (acquire, release), (volatile, volatile)]
            for (bits, ty) in [(32, u32), (64, u64)]
            {
                let word = calls.next::<$ty>();
                intrinsics::$[atomic_store_ $store _ $bits _ $scope](word, <$ty>::B);
                calls.put(intrinsics::$[atomic_load_ $load _ $bits _ $scope](word));
            }
        }
    }
    repeat! {
        for kind in [membar_, fence_sc_, fence_acqrel_]
        for scope in [device, block, system]
        {
            intrinsics::$[$kind $scope]();
        }
    }
}
