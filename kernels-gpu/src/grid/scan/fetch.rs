//! How a tile comes to shared memory: where the device has bulk copies (`sm_90`) by one of them, else by copies of 16 bytes
//! of each lane.
//!
//! What is not there when the barrier says so is to be read from global memory: the elements of a slice that does not begin at a
//! multiple of 16 bytes, and those behind the last whole 16 bytes.

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

use cuda_std::copy;
use cuda_std::mbarrier::Mbarrier;

use super::pack::Pack;

pub use device::{ARRIVALS, fence, fence_init, nothing, soon, tile, wait};

/// Packs to copy of `x[start..]`, of which at most `packs` are wanted.
#[inline(always)]
fn whole_packs<T>(x: &[T], start: usize, packs: usize) -> usize {
    let there = (x.len() - start) * size_of::<T>() / size_of::<Pack>();
    if x.as_ptr().cast::<Pack>().is_aligned() { there.min(packs) } else { 0 }
}

/// By one bulk copy.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
mod device {
    use super::{Mbarrier, Pack, copy, whole_packs};
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

    /// Starts to copy the tile that begins at `x[start]` to the `packs` packs at `to`. All lanes of a warp call it.
    ///
    /// # Safety
    /// `to` is shared memory that nobody uses until the barrier's phase is over; there is such an element; see [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn tile<T>(
        (to, packs): (*mut Pack, usize),
        x: &[T],
        start: usize,
        full: Mbarrier,
        lane: usize,
    ) {
        let bytes = (whole_packs(x, start, packs) * size_of::<Pack>()) as u32;
        if bytes == 0 {
            // SAFETY: the caller's promise.
            return unsafe { nothing(full, lane) };
        }
        if lane == 0 {
            // SAFETY: so many bytes are inside the slice, and begin at a multiple of 16.
            unsafe {
                let _ = full.arrive_expecting(bytes);
                copy::bulk_load(to, x.as_ptr().wrapping_add(start).cast(), bytes, full);
            }
        }
    }

    /// Asks for `len` bytes from `first` on to be brought to the L2 cache, as far as they are there.
    #[inline(always)]
    pub fn soon(bytes: &[u8], first: usize, len: usize) {
        let from = bytes.as_ptr().wrapping_add(first);
        let head = from.align_offset(size_of::<Pack>());
        let there = bytes.len().saturating_sub(first).min(len).saturating_sub(head);
        let whole = there / size_of::<Pack>() * size_of::<Pack>();
        if whole > 0 {
            // SAFETY: inside the slice, at multiples of 16 bytes.
            unsafe { copy::bulk_prefetch(from.wrapping_add(head), whole as u32) };
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
    use super::{Mbarrier, Pack, copy, whole_packs};

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

    /// Starts to copy the tile that begins at `x[start]` to the `packs` packs at `to`. All lanes of a warp call it.
    ///
    /// # Safety
    /// `to` is shared memory that nobody uses until the barrier's phase is over; there is such an element; see [`Mbarrier`].
    #[inline(always)]
    pub unsafe fn tile<T>(
        (to, packs): (*mut Pack, usize),
        x: &[T],
        start: usize,
        full: Mbarrier,
        lane: usize,
    ) {
        let from = x.as_ptr().wrapping_add(start).cast::<Pack>();
        let mut pack = lane;
        // SAFETY: so many packs are inside the slice, and begin at a multiple of 16 bytes.
        unsafe {
            while pack < whole_packs(x, start, packs) {
                copy::copy_async(to.wrapping_add(pack), from.wrapping_add(pack));
                pack += 32;
            }
            full.arrive_when_copied();
            if lane == 0 {
                let _ = full.arrive();
            }
        }
    }

    /// Would ask for bytes to be brought to the L2 cache.
    #[inline(always)]
    pub fn soon(_bytes: &[u8], _first: usize, _len: usize) {}

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
