//! Clusters: blocks that run at the same time and reach one another's shared memory (`sm_90`).
//!
//! A kernel runs in clusters if its contract or its launch asks for them; else every block is a cluster of its
//! own, and everything here works on that.
//!
//! | | safe |
//! |---|---|
//! | [`rank`], [`size`], [`sync`] | yes |
//! | [`ClusterCounters`]: counters in every block, that all blocks of the cluster add to | yes |
//! | [`arrive`]: half of a [`sync`] | no |
//! | [`map_shared`], [`DistributedArray`], [`store_async`]: another block's shared memory | no |
//!
//! A panic in a cluster of several blocks is a trap once it is reported, which ends the kernel: the shared
//! memory of a block whose threads have all ended is another one's, and the blocks beside it may still
//! reach for it.
//!
//! Fences and atomic operations of the cluster's scope are those of [`atomic`](crate::atomic) with
//! [`Scope::Cluster`](crate::atomic::Scope::Cluster).

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use crate::mbarrier::Mbarrier;
use crate::shared::{SharedArray, SharedAtomics};
use core::marker::PhantomData;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::atomic::{Ordering, Scope, fetch_add};
#[cfg(target_os = "cuda")]
use crate::mbarrier::shared_address;
#[cfg(target_os = "cuda")]
use core::arch::asm;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cluster.arrive"]
    fn barrier_cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed"]
    fn barrier_cluster_arrive_relaxed();
    #[link_name = "llvm.nvvm.barrier.cluster.wait"]
    fn barrier_cluster_wait();
}

/// Declares readers of special registers.
macro_rules! registers {
    ($($name:ident = $register:literal: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[gpu_only]
        #[inline(always)]
        pub fn $name() -> u32 {
            let value: u32;
            // SAFETY: reading a special register has no precondition.
            unsafe {
                asm!(concat!("mov.u32 {0}, %", $register, ";"), out(reg32) value,
                    options(pure, nomem, nostack));
            }
            value
        }
    )*};
}

registers! {
    rank = "cluster_ctarank": "The block's number in its cluster, x fastest.";
    size = "cluster_nctarank": "The number of blocks in a cluster.";
    block_idx_x = "cluster_ctaid.x": "The block's x index in its cluster.";
    block_idx_y = "cluster_ctaid.y": "The block's y index in its cluster.";
    block_idx_z = "cluster_ctaid.z": "The block's z index in its cluster.";
    dim_x = "cluster_nctaid.x": "Blocks in a cluster along x.";
    dim_y = "cluster_nctaid.y": "Blocks in a cluster along y.";
    dim_z = "cluster_nctaid.z": "Blocks in a cluster along z.";
    idx_x = "clusterid.x": "The cluster's x index in the grid.";
    idx_y = "clusterid.y": "The cluster's y index in the grid.";
    idx_z = "clusterid.z": "The cluster's z index in the grid.";
    grid_dim_x = "nclusterid.x": "Clusters in the grid along x.";
    grid_dim_y = "nclusterid.y": "Clusters in the grid along y.";
    grid_dim_z = "nclusterid.z": "Clusters in the grid along z.";
}

/// Waits until every thread of the cluster is here, and makes their writes visible to one another,
/// in global memory and in the shared memory of all its blocks.
///
/// Every thread of the cluster must reach it: else the cluster hangs.
#[gpu_only]
#[inline(always)]
pub fn sync() {
    // SAFETY: waited for at once.
    unsafe { arrive() }.wait();
}

/// An arrival at the cluster's barrier. Its [`wait`](Self::wait) comes before the next arrival.
#[derive(Debug)]
#[must_use = "a thread that has arrived must wait before it arrives again"]
pub struct ClusterArrival {
    not_send: PhantomData<*const ()>,
}

/// Arrives at the cluster's barrier without waiting. What the thread wrote before is visible to those
/// who wait.
///
/// # Safety
/// The thread [waits](ClusterArrival::wait) before it arrives again, here, in [`arrive_relaxed`] or in
/// [`sync`]: what a second arrival in one phase does is not defined. The types cannot express this, since an
/// arrival can be dropped or forgotten.
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive() -> ClusterArrival {
    // SAFETY: the caller's promise. The call is an LLVM convergent operation.
    unsafe { barrier_cluster_arrive() };
    ClusterArrival { not_send: PhantomData }
}

/// [`arrive`] that orders no memory: execution alone.
///
/// # Safety
/// As [`arrive`].
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive_relaxed() -> ClusterArrival {
    // SAFETY: as in `arrive`.
    unsafe { barrier_cluster_arrive_relaxed() };
    ClusterArrival { not_send: PhantomData }
}

impl ClusterArrival {
    /// Waits until every thread of the cluster has arrived.
    #[gpu_only]
    #[inline(always)]
    pub fn wait(self) {
        // SAFETY: this thread has arrived. The call is an LLVM convergent operation.
        unsafe { barrier_cluster_wait() }
    }
}

/// Where another block of the cluster has what this block has at `pointer` in shared memory.
///
/// The address is computed and nothing is reached; `rank` is below [`size`]. Who follows the pointer
/// knows that the other block runs: it has been at a cluster barrier, and will be at another one that
/// this thread reaches later.
#[gpu_only]
#[inline(always)]
pub fn map_shared<T>(pointer: *mut T, rank: u32) -> *mut T {
    let mapped: *mut T;
    // SAFETY: the assembly computes an address.
    unsafe {
        asm!("mapa.u64 {m}, {p}, {r};", m = out(reg64) mapped, p = in(reg64) pointer,
            r = in(reg32) rank, options(pure, nomem, nostack));
    }
    mapped
}

/// Starts to store 16 bytes where the block with that rank has what this block has at `to`, and lets the barrier at the place of
/// `barrier` there count them (`st.async`). A thread that waits for the barrier's phase sees them.
///
/// # Safety
/// - `to` is in shared memory, the place is valid for writes, aligned to 16 bytes, and nothing else reaches it until the phase is over.
/// - The promises of [`Mbarrier`], for the other block's: the phase expects the bytes.
/// - The other block has started, and does not end before the phase is over.
#[gpu_only]
#[inline(always)]
pub unsafe fn store_async(to: *mut [u32; 4], words: [u32; 4], barrier: Mbarrier, rank: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b32 to, barrier; mapa.shared::cluster.u32 to, {t}, {r};",
            "mapa.shared::cluster.u32 barrier, {b}, {r};",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to], {{{x}, {y}, {z}, {w}}}, [barrier]; }}",
            t = in(reg32) shared_address(to), b = in(reg32) barrier.address(), r = in(reg32) rank,
            x = in(reg32) words[0], y = in(reg32) words[1], z = in(reg32) words[2],
            w = in(reg32) words[3], options(nostack));
    }
}

/// A shared array of every block of the cluster, at the same address in each.
///
/// # Safety of every unsafe function
///
/// - The rules of [`SharedArray`], across the threads of the cluster, with [`sync`] as the barrier.
/// - The other block has started (a `sync` has been reached) and does not end (another one follows).
#[derive(Debug)]
pub struct DistributedArray<T, const N: usize> {
    own: *mut [T; N],
}

impl<T, const N: usize> Clone for DistributedArray<T, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for DistributedArray<T, N> {}

impl<T: Copy, const N: usize> DistributedArray<T, N> {
    /// The arrays of all blocks, from this block's.
    #[inline(always)]
    pub fn new<const ALIGN: usize>(own: SharedArray<T, N, ALIGN>) -> Self {
        Self { own: own.as_mut_ptr().cast() }
    }

    /// The array of the block with that rank. Panics if there is none.
    #[gpu_only]
    #[inline(always)]
    pub fn as_mut_ptr(self, rank: u32) -> *mut T {
        assert!(rank < size());
        map_shared(self.own.cast(), rank)
    }

    /// An element of the block with that rank. Panics past the end.
    ///
    /// # Safety
    /// See [`DistributedArray`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn get(self, rank: u32, index: usize) -> T {
        assert!(index < N);
        // SAFETY: in bounds; the rest is the caller's promise.
        unsafe { self.as_mut_ptr(rank).add(index).read() }
    }

    /// Sets an element of the block with that rank. Panics past the end.
    ///
    /// # Safety
    /// See [`DistributedArray`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn set(self, rank: u32, index: usize, value: T) {
        assert!(index < N);
        // SAFETY: in bounds; the rest is the caller's promise.
        unsafe { self.as_mut_ptr(rank).add(index).write(value) }
    }
}

/// `N` counters in the shared memory of each block, that every thread of the cluster reaches.
///
/// # Why it is safe
///
/// 1. The memory holds `u32`s and nothing else: only the functions here reach it.
/// 2. Every access by other blocks is an atomic one of the cluster's scope, so no order of accesses is
///    a data race, and any bits are a `u32`. The first zeroing is over at the cluster barrier before
///    the closure.
/// 3. Every access compares the rank with the size and the index with `N`.
/// 4. The memory lives: all blocks have started, by the barrier before the closure, and none ends
///    before the one behind it, since a panic in the closure is a trap. Nothing of it leaves the closure,
///    since the lifetime is the closure's.
#[derive(Clone, Copy, Debug)]
pub struct ClusterCounters<'a, const N: usize> {
    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    own: SharedAtomics<N>,
    borrow: PhantomData<&'a ()>,
}

impl<const N: usize> ClusterCounters<'_, N> {
    /// Lends the counters, all zero, to `f`. All threads of the cluster call this together.
    #[gpu_only]
    #[inline(always)]
    pub fn with<R>(f: impl for<'a> FnOnce(ClusterCounters<'a, N>) -> R) -> R {
        let own = SharedAtomics::<N>::numbered::<{ u32::MAX }>();
        // Every block's counters are zero, and every block runs.
        sync();
        let result = f(ClusterCounters { own, borrow: PhantomData });
        // No block ends while another one uses its counters.
        sync();
        result
    }

    /// Adds to a counter of the block with that rank, wrapping, and returns what it was before.
    /// Panics past the end.
    #[gpu_only]
    #[inline(always)]
    pub fn fetch_add(self, rank: u32, index: usize, value: u32) -> u32 {
        // SAFETY: a live counter, reached atomically.
        unsafe { fetch_add(self.counter(rank, index), value, Ordering::Relaxed, Scope::Cluster) }
    }

    /// A counter of the block with that rank. Panics past the end.
    ///
    /// Others may still add to it: a [`sync`] comes first.
    #[gpu_only]
    #[inline(always)]
    pub fn get(self, rank: u32, index: usize) -> u32 {
        let value: u32;
        // SAFETY: a live counter, reached atomically.
        unsafe {
            asm!("ld.relaxed.cluster.u32 {v}, [{p}];", v = out(reg32) value,
                p = in(reg64) self.counter(rank, index), options(nostack));
        }
        value
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn counter(self, rank: u32, index: usize) -> *mut u32 {
        assert!(rank < size() && index < N);
        map_shared(self.own.as_mut_ptr().wrapping_add(index), rank)
    }
}
