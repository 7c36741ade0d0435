//! Which tile a block takes next.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use crate::prelude::*;
use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::gpu_only;
use cuda_std::matrix::converge;
use cuda_std::mbarrier::{Mbarrier, Ring};
use cuda_std::warp::{lane_id, warp_shuffle_idx};

/// Shared memory, in bytes: two barriers, an index, and a word of the consumers.
pub const BYTES: usize = 3 * 8;

/// The index of the next tile in shared memory, from the producer to all threads of the consumers.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Queue {
    index: *mut u32,
    full: Mbarrier,
    free: Mbarrier,
}

impl Queue {
    /// An empty one, for this many threads of consumers.
    ///
    /// # Safety
    /// All threads of the block call this together, and meet at a barrier of the block before one uses the queue; nothing else uses the memory.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new(memory: SharedArray<u64, 3>, consumers: u32) -> Self {
        let (full, free) = (Mbarrier::new(memory, 0), Mbarrier::new(memory, 1));
        if thread::index_in_block() == 0 {
            // SAFETY: one thread, before the barrier of the caller.
            unsafe {
                full.init(1);
                free.init(consumers);
            }
        }
        Self { index: memory.as_mut_ptr().wrapping_add(2).cast(), full, free }
    }

    /// The producer's side.
    #[inline(always)]
    pub fn producer(self) -> Next {
        Next { queue: self, ring: Ring::new() }
    }

    /// A word of shared memory for the consumers alone.
    #[inline(always)]
    pub fn word(self) -> *mut u32 {
        self.index.wrapping_add(1)
    }

    /// A consumer's side.
    #[inline(always)]
    pub fn consumer(self) -> Next {
        Next { queue: self, ring: Ring::new() }
    }
}

/// One side of a [`Queue`].
pub(in crate::attention) struct Next {
    queue: Queue,
    ring: Ring<1>,
}

impl Next {
    /// The index after `index` of `len`: the next one that no block has taken, or one past the end if there are as many blocks.
    ///
    /// # Safety
    /// All lanes of the producer's warp call this together, once after each index below `len` that it returns, and once after the block's own.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn fetch(&self, counter: *mut u32, index: u32, len: u32) -> u32 {
        if len <= thread::grid_dim_x() {
            // Each block has its own index alone, and the counter is not needed.
            return index + thread::grid_dim_x();
        }
        let mut taken = 0;
        // SAFETY: the caller's promise. All blocks together ask as many times as there are tiles: each has its own one without asking, and asks once in vain.
        unsafe {
            if lane_id() == 0 {
                taken = atomic::fetch_add(counter, 1, Ordering::Relaxed, Scope::Device);
                if taken == len - 1 {
                    atomic::store(counter, 0, Ordering::Relaxed, Scope::Device);
                }
            }
            converge();
            warp_shuffle_idx(!0, taken, 0, 32).0 + thread::grid_dim_x()
        }
    }

    /// Gives the consumers an index, as soon as they have taken the previous one.
    ///
    /// # Safety
    /// All lanes of the producer's warp call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn give(&mut self, index: u32) {
        let Queue { index: to, full, free } = self.queue;
        // SAFETY: the barriers are initialised; consumers read before they arrive.
        unsafe {
            free.wait_parity(self.ring.parity_before());
            if lane_id() == 0 {
                to.write(index);
                let _ = full.arrive();
            }
            converge();
        }
        self.ring.advance();
    }

    /// Takes an index.
    ///
    /// # Safety
    /// Every thread of the consumers calls this once for each index that is given.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn take(&mut self) -> u32 {
        let Queue { index, full, free } = self.queue;
        // SAFETY: the barriers are initialised; the index is written before the producer arrives.
        let index = unsafe {
            full.wait_parity(self.ring.parity());
            let index = index.read();
            let _ = free.arrive();
            index
        };
        self.ring.advance();
        index
    }
}
