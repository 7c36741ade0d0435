//! `cp.async.bulk`: one thread starts the copy of a whole range of bytes.

use crate::mbarrier::Mbarrier;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::mbarrier::shared_address;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Starts a copy of `bytes` from global to shared memory. The barrier gets the bytes; it has been
/// told to expect them ([`Mbarrier::arrive_expecting`]), or will be in the same phase.
///
/// # Safety
/// - `from` is valid for reads in global memory, `to` for writes in shared memory; both and `bytes`
///   are multiples of 16.
/// - Until the barrier's phase is over, nothing writes what is read, or reaches what is written.
/// - The promises of [`Mbarrier`].
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_load<T>(to: *mut T, from: *const T, bytes: u32, barrier: Mbarrier) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {f};",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [{t}], [global], {n}, [{b}]; }}",
            t = in(reg32) shared_address(to), f = in(reg64) from, n = in(reg32) bytes,
            b = in(reg32) barrier.address(), options(nostack));
    }
}

/// [`bulk_load`] into the same place of every block of the cluster whose bit in `ranks` is set, and
/// to the same barrier of each.
///
/// # Safety
/// As [`bulk_load`], for each of the blocks, which all still run.
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_load_multicast<T>(
    to: *mut T,
    from: *const T,
    bytes: u32,
    barrier: Mbarrier,
    ranks: u16,
) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {f};",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
             [{t}], [global], {n}, [{b}], {r}; }}",
            t = in(reg32) shared_address(to), f = in(reg64) from, n = in(reg32) bytes,
            b = in(reg32) barrier.address(), r = in(reg16) ranks, options(nostack));
    }
}

/// Starts a copy of `bytes` from this block's shared memory to the place `to` of the block with that
/// rank in the cluster, whose `barrier` gets the bytes.
///
/// # Safety
/// As [`bulk_load`]; `from` lies in shared memory, what was written there has had
/// [`fence_proxy_async`] and a barrier, and the other block still runs.
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_send<T>(to: *mut T, from: *const T, bytes: u32, barrier: Mbarrier, rank: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b32 there, theirs; mapa.shared::cluster.u32 there, {t}, {r};",
            "mapa.shared::cluster.u32 theirs, {b}, {r};",
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
             [there], [{f}], {n}, [theirs]; }}",
            t = in(reg32) shared_address(to), f = in(reg32) shared_address(from),
            n = in(reg32) bytes, b = in(reg32) barrier.address(), r = in(reg32) rank,
            options(nostack));
    }
}

/// Starts a copy of `bytes` from shared to global memory, in the thread's current bulk group.
///
/// # Safety
/// - `from` is valid for reads in shared memory, `to` for writes in global memory; both and `bytes`
///   are multiples of 16.
/// - What was written to shared memory has had [`fence_proxy_async`] in the writing threads, and then
///   a barrier.
/// - Until the group is done, nothing reaches what is written; until it has been read, nothing writes
///   what is read.
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_store<T>(to: *mut T, from: *const T, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {t};",
            "cp.async.bulk.global.shared::cta.bulk_group [global], [{f}], {n}; }}",
            t = in(reg64) to, f = in(reg32) shared_address(from), n = in(reg32) bytes,
            options(nostack));
    }
}

/// Asks for global memory to be brought to the L2 cache.
///
/// # Safety
/// `from` is valid for reads of `bytes`; both are multiples of 16.
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_prefetch<T>(from: *const T, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 global; cvta.to.global.u64 global, {f};",
            "cp.async.bulk.prefetch.L2.global [global], {n}; }}",
            f = in(reg64) from, n = in(reg32) bytes, options(nostack));
    }
}

/// What a reducing copy does to each element of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Adds; integers wrap.
    Add,
    /// Keeps the smaller.
    Min,
    /// Keeps the larger.
    Max,
    /// Bit by bit and.
    And,
    /// Bit by bit or.
    Or,
    /// Bit by bit exclusive or.
    Xor,
}

/// A type that [`bulk_reduce`] works on. Each operation that the type lacks panics.
pub trait BulkReduce: Copy {
    /// Starts the copy.
    ///
    /// # Safety
    /// As [`bulk_reduce`].
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn start(to: *mut Self, from: *const Self, bytes: u32, reduction: Reduction);
}

/// Declares the types and the instructions of their operations.
macro_rules! reductions {
    ($($ty:ty { $($op:ident $name:literal,)* })*) => {$(
        impl BulkReduce for $ty {
            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn start(to: *mut Self, from: *const Self, bytes: u32, reduction: Reduction) {
                // SAFETY: the caller's promise.
                unsafe {
                    match reduction {
                        $(Reduction::$op => asm!(
                            "{{ .reg .b64 global; cvta.to.global.u64 global, {t};",
                            concat!("cp.reduce.async.bulk.global.shared::cta.bulk_group.", $name,
                                " [global], [{f}], {n}; }}"),
                            t = in(reg64) to, f = in(reg32) shared_address(from),
                            n = in(reg32) bytes, options(nostack),
                        ),)*
                        #[allow(unreachable_patterns)]
                        _ => panic!("this type has no such reducing copy"),
                    }
                }
            }
        }
    )*};
}

reductions! {
    u32 {
        Add "add.u32", Min "min.u32", Max "max.u32", And "and.b32", Or "or.b32", Xor "xor.b32",
    }
    i32 {
        Add "add.s32", Min "min.s32", Max "max.s32", And "and.b32", Or "or.b32", Xor "xor.b32",
    }
    u64 {
        Add "add.u64", Min "min.u64", Max "max.u64", And "and.b64", Or "or.b64", Xor "xor.b64",
    }
    f32 { Add "add.f32", }
    f64 { Add "add.f64", }
}

/// Starts a copy of `bytes` from shared to global memory that combines each element with what is
/// there, atomically for each element, in the thread's current bulk group.
///
/// # Safety
/// As [`bulk_store`], but other reducing copies and atomic operations of device scope may reach the
/// target at the same time.
#[gpu_only]
#[inline(always)]
pub unsafe fn bulk_reduce<T: BulkReduce>(
    to: *mut T,
    from: *const T,
    bytes: u32,
    reduction: Reduction,
) {
    // SAFETY: the caller's promise.
    unsafe { T::start(to, from, bytes, reduction) }
}

/// Ends a bulk group: the thread's stores and reductions since the last one.
#[gpu_only]
#[inline(always)]
pub fn commit_bulk_group() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) }
}

/// Waits until all but the youngest `PENDING` of the thread's bulk groups are done.
#[gpu_only]
#[inline(always)]
pub fn wait_bulk_groups<const PENDING: usize>() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.bulk.wait_group {n};", n = const PENDING, options(nostack)) }
}

/// Waits until all but the youngest `PENDING` of the thread's bulk groups have read their sources:
/// shared memory may be written again, while global memory is not yet complete.
#[gpu_only]
#[inline(always)]
pub fn wait_bulk_groups_read<const PENDING: usize>() {
    // SAFETY: no precondition.
    unsafe { asm!("cp.async.bulk.wait_group.read {n};", n = const PENDING, options(nostack)) }
}

/// Orders this thread's ordinary accesses with those of bulk copies and `wgmma`, in shared and global
/// memory.
#[gpu_only]
#[inline(always)]
pub fn fence_proxy_async() {
    // SAFETY: a fence has no precondition.
    unsafe { asm!("fence.proxy.async;", options(nostack)) }
}

/// [`fence_proxy_async`] for the block's shared memory alone.
#[gpu_only]
#[inline(always)]
pub fn fence_proxy_async_shared() {
    // SAFETY: a fence has no precondition.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) }
}
