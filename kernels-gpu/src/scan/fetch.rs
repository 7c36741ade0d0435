//! How a tile comes to shared memory: where the device has bulk copies (`sm_90`) by one of them, else by copies of 16 bytes
//! of each lane.
//!
//! What is not there when the barrier completes is to be read from global memory: the elements of a slice that does not begin at a
//! multiple of 16 bytes, and those behind the last whole 16 bytes.

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

use cuda_std::copy;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::unroll::each;

use super::pack::Pack;

pub use device::{ARRIVALS, fence, fence_init, nothing, prefetch, tile, wait};

/// Packs to copy to shared memory.
#[derive(Clone, Copy)]
pub struct Packs {
    to: *mut Pack,
    from: *const Pack,
    len: usize,
}

impl Packs {
    /// The whole packs of `bytes[first..]`, where `first` is a multiple of 16, at most `room`.
    #[inline(always)]
    pub fn new(to: *mut Pack, bytes: &[u8], first: usize, room: usize) -> Self {
        let from = bytes.as_ptr().wrapping_add(first).cast::<Pack>();
        let there = bytes.len().saturating_sub(first) / size_of::<Pack>();
        Self { to, from, len: if from.is_aligned() { there.min(room) } else { 0 } }
    }

    /// If there are any, as many more in front of them.
    #[inline(always)]
    pub fn with_lead(self, packs: usize) -> Self {
        let lead = if self.len > 0 { packs } else { 0 };
        let (to, from) = (self.to.wrapping_sub(lead), self.from.wrapping_sub(lead));
        Self { to, from, len: self.len + lead }
    }
}

/// By one bulk copy.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
mod device {
    use super::{Mbarrier, Pack, Packs, copy, each};
    use cuda_std::mbarrier;

    /// Arrivals of a stage's barrier.
    pub const ARRIVALS: u32 = 1;

    /// Makes new barriers known to copies.
    #[inline(always)]
    pub fn fence_init() {
        mbarrier::fence_init();
    }

    /// Orders what the warp wrote to shared memory before the next copy to it.
    #[inline(always)]
    pub fn fence() {
        copy::fence_proxy_async_shared();
    }

    /// Waits for the end of a phase.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn wait(barrier: Mbarrier, parity: u32) {
        // SAFETY: the caller's promise.
        unsafe { barrier.wait_parity(parity) };
    }

    /// Prefetches what is to be copied to the L2 cache.
    #[inline(always)]
    pub fn prefetch(copies: [Packs; 2]) {
        each::<2>(|k| {
            if copies[k].len > 0 {
                let bytes = (copies[k].len * size_of::<Pack>()) as u32;
                // SAFETY: inside a slice, at multiples of 16 bytes.
                unsafe { copy::bulk_prefetch(copies[k].from, bytes) };
            }
        });
    }

    /// Starts to copy a tile and what comes with it. All lanes of a warp call it.
    ///
    /// # Safety
    /// What is copied is there to be read, to shared memory that no thread uses until the barrier's phase is over; see
    /// [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn tile(copies: [Packs; 2], full: Mbarrier, lane: usize) {
        let bytes = |packs: Packs| (packs.len * size_of::<Pack>()) as u32;
        let all = bytes(copies[0]) + bytes(copies[1]);
        if all == 0 {
            // SAFETY: the caller's promise.
            return unsafe { nothing(full, lane) };
        }
        if lane == 0 {
            // SAFETY: the caller's promise; the barrier is told of all bytes.
            unsafe {
                let _ = full.arrive_expecting(all);
                each::<2>(|k| {
                    let packs = copies[k];
                    if packs.len > 0 {
                        copy::bulk_load(packs.to, packs.from, bytes(packs), full);
                    }
                });
            }
        }
    }

    /// Says that there is nothing to copy. All lanes of a warp call it.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn nothing(full: Mbarrier, lane: usize) {
        if lane == 0 {
            // SAFETY: the caller's promise.
            let _ = unsafe { full.arrive() };
        }
    }
}

/// By copies of each lane.
#[cfg(all(target_os = "cuda", not(target_feature = "compute_90")))]
mod device {
    use super::{Mbarrier, Packs, copy, each};

    /// Arrivals of a stage's barrier: each lane when its copies are there, and the first once more, for what it wrote itself.
    pub const ARRIVALS: u32 = 33;

    /// Makes new barriers known to copies, which know them already.
    #[inline(always)]
    pub fn fence_init() {}

    /// Orders what the warp wrote to shared memory before the next copy to it, as any write is.
    #[inline(always)]
    pub fn fence() {}

    /// Waits for the end of a phase.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn wait(barrier: Mbarrier, parity: u32) {
        // SAFETY: the caller's promise.
        while !unsafe { barrier.is_parity_over(parity) } {
            cuda_std::panic::leave_after_panic();
        }
    }

    /// Would ask for what is to be copied to come to the L2 cache.
    #[inline(always)]
    pub fn prefetch(_copies: [Packs; 2]) {}

    /// Starts to copy a tile and what comes with it. All lanes of a warp call it.
    ///
    /// # Safety
    /// What is copied is there to be read, to shared memory that no thread uses until the barrier's phase is over; see
    /// [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn tile(copies: [Packs; 2], full: Mbarrier, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            each::<2>(|k| {
                let (packs, mut pack) = (copies[k], lane);
                while pack < packs.len {
                    copy::copy_async(packs.to.wrapping_add(pack), packs.from.wrapping_add(pack));
                    pack += 32;
                }
            });
            full.arrive_when_copied();
            if lane == 0 {
                let _ = full.arrive();
            }
        }
    }

    /// Says that there is nothing to copy. All lanes of a warp call it.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn nothing(full: Mbarrier, lane: usize) {
        // SAFETY: the caller's promise. Each lane arrives, and the first once more.
        unsafe {
            let _ = full.arrive();
            if lane == 0 {
                let _ = full.arrive();
            }
        }
    }
}
