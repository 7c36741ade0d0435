//! What the warps of a cluster know of their parts of a row, on the way to one another (`sm_90`).

use crate::prelude::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::{cluster, gpu_only};

use super::Summary;
use super::group::{Butterfly, WARP};

/// Rows on the way at a time, where the next one is told before the last one is waited for: with three, a fast warp would
/// write where a slow one still reads.
pub const ROWS: usize = 4;
/// Most warps of a cluster.
pub const MAX_WARPS: usize = 128;
/// Places for what they know of all those rows.
pub const PLACES: usize = ROWS * MAX_WARPS;

/// Shared memory of [`Known`].
#[derive(Clone, Copy)]
pub struct KnownMemory {
    /// What each warp knows of each row.
    pub places: SharedArray<Vec4<f32>, PLACES>,
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
    /// The memory belongs to this exchange alone. There are clusters of `BLOCKS`, or none if that is 1, and at most
    /// [`MAX_WARPS`] in them take part.
    #[inline(always)]
    pub unsafe fn new(memory: KnownMemory, warps: u32) -> Self {
        let known = Self { memory, warps };
        if thread::thread_idx_x() == 0 {
            let mut turn = 0;
            while turn < ROWS as u32 {
                // SAFETY: one thread does it, before the barrier that is still to come.
                unsafe { known.come(turn).init(if BLOCKS > 1 { 1 } else { warps }) };
                turn += 1;
            }
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
        let place = (turn as usize % ROWS) * MAX_WARPS + warp as usize;
        self.memory.places.as_mut_ptr().wrapping_add(place)
    }

    /// Tells all what the calling warp knows of row number `turn`. All lanes call it.
    ///
    /// # Safety
    /// Turns come one after the other from 0, and [`of_all`](Self::of_all) of each before the word of the one after the next.
    #[inline(always)]
    pub unsafe fn tell<S: Summary>(self, turn: u32, own: S) {
        const { assert!(!S::IS_WIDE, "a place has four words") };
        let [words, _] = own.join(Butterfly::WHOLE_WARP).to_words();
        let (come, thread) = (self.come(turn), thread::thread_idx_x());
        let (warp, block) = (thread / WARP, thread % WARP);
        // The place's words of four turns ago have been read: this warp has waited for those of two turns ago, which each
        // warp told after that.
        if BLOCKS == 1 {
            if block == 0 {
                // SAFETY: one writer for each place, which arrives once in each turn.
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
            // SAFETY: one writer for each place.
            unsafe {
                send(self.place(turn, cluster::rank() * self.warps + warp), words, come, block)
            };
        }
    }

    /// Waits for what all warps know of row number `turn`, and joins it. All lanes of a warp call it, and get the same bits
    /// as all others.
    ///
    /// # Safety
    /// The warp has told of the row, and all others of the cluster do so.
    #[inline(always)]
    pub unsafe fn of_all<S: Summary>(self, turn: u32) -> S {
        let (come, parity) = (self.come(turn), turn / ROWS as u32 % 2);
        // SAFETY: the caller's promise. No phase later than the next one ends before all have told of that turn.
        unsafe {
            if BLOCKS > 1 { come.wait_parity_in_cluster(parity) } else { come.wait_parity(parity) }
        };
        let mut known = S::EMPTY;
        let mut warp = thread::thread_idx_x() % WARP;
        while warp < BLOCKS * self.warps {
            // SAFETY: in bounds, and it has come.
            let words = unsafe { self.place(turn, warp).read() };
            known = known.merge(S::from_words([words, words]));
            warp += WARP;
        }
        known.join(Butterfly::WHOLE_WARP)
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

/// The shared memory of [`Known`].
macro_rules! known_memory {
    () => {
        $crate::grid::rows::known::KnownMemory {
            places: shared_array![Vec4<f32>; $crate::grid::rows::known::PLACES],
            come: shared_array![u64; $crate::grid::rows::known::ROWS],
        }
    };
}
pub(in crate::grid) use known_memory;
