//! What the warps of a cluster know of their parts of a row, on the way to one another (`sm_90`).

use crate::prelude::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::{cluster, gpu_only};

use super::Summary;
use super::group::WARP;
use super::registers::{build, each};

/// Rows on the way at a time: a warp tells the row after the next when it has heard of the next one, which all have told when
/// they had heard of this one.
const ROWS: usize = 2;
/// Most places that a lane reads: of 32 lanes, and 16 warps of each of eight blocks.
const PARTS: usize = 4;

/// Places that clusters of `blocks`, of each of which `warps` take part, have for what they know.
#[must_use]
pub const fn places(blocks: u32, warps: u32) -> usize {
    ROWS * (blocks * warps) as usize
}

/// Shared memory of [`Known`].
#[derive(Clone, Copy)]
pub struct KnownMemory {
    /// What each warp knows of each row: as many as [`places`] says.
    pub places: *mut Vec4<f32>,
    /// For all of a row to have come.
    pub come: SharedArray<u64, ROWS>,
}

/// The exchange, row after row. Each warp tells each block of its cluster.
///
/// The word to another block is a store that ends in an arrival there. A store and an arrival of the warp's own would be
/// slow: the arrival would wait until everything is done that the thread has stored, the results of the row before too.
#[derive(Clone, Copy)]
pub struct Known<const BLOCKS: u32> {
    memory: KnownMemory,
    /// Warps of a block that take part.
    warps: u32,
}

impl<const BLOCKS: u32> Known<BLOCKS> {
    /// Of the first `warps` of each block. A barrier of the cluster stands before the first word.
    ///
    /// # Safety
    /// The memory belongs to this exchange alone. There are clusters of `BLOCKS`, or none if that is 1, in which at most 128
    /// warps take part.
    #[inline(always)]
    pub unsafe fn new(memory: KnownMemory, warps: u32) -> Self {
        let known = Self { memory, warps };
        if thread::thread_idx_x() == 0 {
            each::<ROWS>(|turn| {
                let arrivals = if BLOCKS > 1 { 1 } else { warps };
                // SAFETY: one thread does it, before the barrier that is still to come.
                unsafe { known.come(turn as u32).init(arrivals) };
            });
            fence_init();
        }
        known
    }

    #[inline(always)]
    fn come(self, turn: u32) -> Mbarrier {
        Mbarrier::new(self.memory.come, turn as usize % ROWS)
    }

    /// The place of a warp of the cluster.
    #[inline(always)]
    fn place(self, turn: u32, warp: u32) -> *mut Vec4<f32> {
        let before = turn % ROWS as u32 * BLOCKS * self.warps;
        self.memory.places.wrapping_add((before + warp) as usize)
    }

    /// Tells all what the calling warp knows of row number `turn`. All lanes call it.
    ///
    /// # Safety
    /// Turns come one after the other from 0, each after the one before has been heard.
    #[inline(always)]
    pub unsafe fn tell<S: Summary>(self, turn: u32, of_warp: S) {
        const { assert!(!S::IS_WIDE, "a place has four words") };
        let ([words, _], come) = (of_warp.to_words(), self.come(turn));
        let thread = thread::thread_idx_x();
        let (warp, block) = (thread / WARP, thread % WARP);
        if BLOCKS == 1 {
            if block == 0 {
                // SAFETY: one writer for each place, where all have heard what was there, and one arrival in each turn.
                unsafe {
                    self.place(turn, warp).write(words);
                    let _ = come.arrive();
                }
            }
            return;
        }
        if thread == 0 {
            // SAFETY: the only arrival of the turn; so many bytes come from all warps.
            let _ = unsafe { come.arrive_expecting(BLOCKS * self.warps * 16) };
        }
        if block < BLOCKS {
            let to = self.place(turn, cluster::rank() * self.warps + warp);
            // SAFETY: one writer for each place, where all have heard what was there.
            unsafe { send(to, words, come, block) };
        }
    }

    /// Waits for what all warps know of row number `turn`: each lane gets parts of it, to join. All lanes of a warp call it.
    ///
    /// # Safety
    /// The warp has told of the row, and all others of the cluster do so.
    #[inline(always)]
    pub unsafe fn hear<S: Summary>(self, turn: u32) -> [S; PARTS] {
        let (come, parity) = (self.come(turn), turn / ROWS as u32 % 2);
        // SAFETY: the caller's promise. The phase behind the next one needs this warp's word.
        unsafe {
            if BLOCKS > 1 {
                come.wait_parity_in_cluster(parity);
            } else {
                come.wait_parity(parity);
            }
        }
        build(|k| {
            let warp = k as u32 * WARP + thread::thread_idx_x() % WARP;
            if warp >= BLOCKS * self.warps {
                return S::EMPTY;
            }
            // SAFETY: in bounds, and it has come.
            let words = unsafe { self.place(turn, warp).read() };
            S::from_words([words, words])
        })
    }
}

/// Stores to the same place in another block of the cluster, whose `barrier` gets the 16 bytes.
///
/// # Safety
/// `to` is valid for writes in shared memory. Until the phase of the barrier there is over, nobody reaches the place, and the
/// block still runs. The promises of [`Mbarrier`].
#[gpu_only]
#[inline(always)]
unsafe fn send(to: *mut Vec4<f32>, words: Vec4<f32>, barrier: Mbarrier, block: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b64 window; .reg .b32 there, theirs;",
            "cvta.to.shared.u64 window, {to}; cvt.u32.u64 there, window;",
            "mapa.shared::cluster.u32 there, there, {block};",
            "mapa.shared::cluster.u32 theirs, {barrier}, {block};",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 \
             [there], {{{x}, {y}, {z}, {w}}}, [theirs]; }}",
            to = in(reg64) to, barrier = in(reg32) barrier.address(), block = in(reg32) block,
            x = in(reg32) words.x, y = in(reg32) words.y, z = in(reg32) words.z,
            w = in(reg32) words.w, options(nostack)
        );
    }
}

/// The shared memory of [`Known`] for clusters of so many blocks.
macro_rules! known_memory {
    ($blocks:expr, $warps:expr) => {
        $crate::rows::known::KnownMemory {
            places: shared_array![Vec4<f32>; $crate::rows::known::places($blocks, $warps)]
                .as_mut_ptr(),
            come: shared_array![u64; 2],
        }
    };
}
pub(crate) use known_memory;
