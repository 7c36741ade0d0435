//! `cp.async`: copies of 4, 8 or 16 bytes by each thread, without a register.

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::mbarrier::shared_address;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Starts a copy of one `T` of 4, 8 or 16 bytes from global to shared memory. It is done when
/// [`wait_groups`] or [`wait_all_copies`] returns, or when
/// [`Mbarrier::arrive_when_copied`](crate::mbarrier::Mbarrier::arrive_when_copied) arrives.
///
/// A copy of 16 bytes leaves the L1 cache alone.
///
/// # Safety
/// - `from` is valid for reads in global memory, `to` for writes in shared memory; both are aligned
///   to the size of `T`.
/// - Until the copy is done and, for other threads, a barrier has followed, nothing writes `*from`, and
///   nothing reads or writes `*to`.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_async<T: Copy>(to: *mut T, from: *const T) {
    // SAFETY: the caller's promise.
    unsafe { copy_async_part(to, from, size_of::<T>() as u32) }
}

/// [`copy_async`] of the first `bytes` of `*from`; the rest of `*to` becomes zero. With 0 bytes
/// `from` is not followed.
///
/// # Safety
/// As [`copy_async`], `from` being valid for `bytes`, at most the size of `T`.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_async_part<T: Copy>(to: *mut T, from: *const T, bytes: u32) {
    const {
        assert!(matches!(size_of::<T>(), 4 | 8 | 16), "`cp.async` copies 4, 8 or 16 bytes");
    }
    let to = shared_address(to);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 16 {
            asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {f};",
                "cp.async.cg.shared.global [{t}], [global], 16, {b}; }}",
                t = in(reg32) to, f = in(reg64) from, b = in(reg32) bytes, options(nostack));
        } else {
            asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {f};",
                "cp.async.ca.shared.global [{t}], [global], {n}, {b}; }}",
                t = in(reg32) to, f = in(reg64) from, n = const size_of::<T>(),
                b = in(reg32) bytes, options(nostack));
        }
    }
}

/// Ends a group: the thread's copies since the last one.
#[gpu_only]
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) }
}

/// Waits until at most the youngest `PENDING` of the thread's groups are under way.
///
/// Other threads see what was copied after a barrier.
#[gpu_only]
#[inline(always)]
pub fn wait_groups<const PENDING: usize>() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.wait_group {n};", n = const PENDING, options(nostack)) }
}

/// Waits for all of the thread's copies.
#[gpu_only]
#[inline(always)]
pub fn wait_all_copies() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.wait_all;", options(nostack)) }
}
