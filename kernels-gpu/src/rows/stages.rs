//! A ring of stages in dynamic shared memory: bulk copies fill some of them while the block works on another one
//! (`sm_90`). What is on the way does not depend on how many registers the work takes.

use crate::prelude::*;
use cuda_std::copy::bulk_load;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::shared::{dynamic_shared_bytes, dynamic_shared_mem};

use super::Pack;
use super::registers::each;

/// Most stages; a power of two.
pub const MAX_STAGES: usize = 16;

/// Where the first stage begins is a multiple of so many bytes: copies to anywhere else write more lines than they fill.
const ALIGNMENT: usize = 128;
/// What that may leave empty of the dynamic shared memory, which is aligned to 16 bytes.
const BEFORE: u32 = ALIGNMENT as u32 - 16;

/// Dynamic shared memory for `count` stages of `bytes`.
#[must_use]
pub const fn shared_bytes(count: u32, bytes: u32) -> u32 {
    count * bytes + BEFORE
}

/// The stages, and the one that the block works on.
#[derive(Clone, Copy)]
pub struct Stages {
    barriers: SharedArray<u64, MAX_STAGES>,
    /// The first one.
    first: *mut Pack,
    /// Bytes of a stage.
    bytes: u32,
    count: u32,
    stage: u32,
    parity: u32,
}

impl Stages {
    /// As many stages of `bytes` as the dynamic shared memory holds, all empty. All threads of the block call it.
    ///
    /// # Safety
    /// `barriers` belong to this ring alone. `bytes` are a multiple of 16, and the dynamic shared memory is that of
    /// [`shared_bytes`] for at least one stage.
    #[inline(always)]
    pub unsafe fn new(barriers: SharedArray<u64, MAX_STAGES>, bytes: u32) -> Self {
        let fitting = (dynamic_shared_bytes() as u32).saturating_sub(BEFORE) / bytes.max(1);
        let count = fitting.min(MAX_STAGES as u32);
        let memory = dynamic_shared_mem::<Pack>();
        let first = memory.wrapping_byte_add(memory.addr().wrapping_neg() % ALIGNMENT);
        let ring = Self { barriers, first, bytes, count, stage: 0, parity: 0 };
        if thread::thread_idx_x() == 0 {
            let mut stage = 0;
            while stage < count {
                // SAFETY: one thread does it, before the barrier below.
                unsafe { ring.barrier(stage).init(1) };
                stage += 1;
            }
            fence_init();
        }
        // Nobody waits for a stage before it is a barrier.
        thread::sync_threads();
        ring
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.count
    }

    /// The number of the current one.
    #[inline(always)]
    pub fn current(self) -> u32 {
        self.stage
    }

    /// The parity of its phase.
    #[inline(always)]
    pub fn parity(self) -> u32 {
        self.parity
    }

    #[inline(always)]
    fn barrier(self, stage: u32) -> Mbarrier {
        Mbarrier::new(self.barriers, stage as usize % MAX_STAGES)
    }

    #[inline(always)]
    fn packs(self, stage: u32) -> *mut Pack {
        self.first.wrapping_byte_add((stage * self.bytes) as usize)
    }

    /// Starts the copies of `bytes` from each of `from` into `stage`, one behind the other.
    ///
    /// # Safety
    /// - One thread calls it, for each stage in turn, once before each time that the block waits for it.
    /// - All of `from` are aligned to 16 bytes, and nobody writes what is read; the stage holds it.
    /// - No thread reads the stage any more: a barrier of the block stands behind the last read.
    #[inline(always)]
    pub unsafe fn fill<const I: usize>(self, stage: u32, from: [*const Pack; I], bytes: u32) {
        let barrier = self.barrier(stage);
        // SAFETY: the caller's promise.
        let _ = unsafe { barrier.arrive_expecting(I as u32 * bytes) };
        each::<I>(|i| {
            let to = self.packs(stage).wrapping_add(i * (bytes / 16) as usize);
            // SAFETY: the caller's promise.
            unsafe { bulk_load(to, from[i], bytes, barrier) };
        });
    }

    /// Waits until the current stage is full. It stays readable until it is filled again.
    ///
    /// # Safety
    /// Its copies have been started, or will be without the calling thread.
    #[inline(always)]
    pub unsafe fn wait(self) -> *const Pack {
        // SAFETY: the caller's promise.
        unsafe { self.barrier(self.stage).wait_parity(self.parity) };
        self.packs(self.stage)
    }

    /// Steps to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.count {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}
