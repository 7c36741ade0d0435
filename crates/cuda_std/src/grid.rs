//! Barriers of the whole grid, for cooperative launches.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use crate::atomic::AtomicSlice;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::{atomic::Ordering, thread};

/// The bit that changes when all blocks have come.
#[cfg(target_os = "cuda")]
const ROUND: u32 = 1 << 31;

/// A barrier of all threads of the grid, on one counter in global memory that starts at zero and is
/// used for nothing else.
///
/// All blocks must run at the same time: the launch is a cooperative one, which the driver refuses if
/// they do not fit. In another launch, blocks may wait for one that never starts.
///
/// ```
/// use cuda_std::grid::GridBarrier;
/// use cuda_std::prelude::*;
///
/// /// Counts in rounds, each after all of the round before.
/// #[kernel]
/// pub fn rounds(index: ThreadIndex, rounds: u32, counter: AtomicSlice<u32>,
///               sums: AtomicSlice<u32>) {
///     let barrier = GridBarrier::new(counter, 0);
///     for round in 0..rounds {
///         sums.fetch_add(round as usize, 1, Relaxed);
///         barrier.sync();
///         assert!(sums.load(round as usize, Relaxed) as usize == index.total());
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Method
///
/// Each block adds 1, and the first block what is missing to 2^31: whatever the order, the top bit
/// changes with the last arrival, and the lower bits are zero again. A block waits until the top bit
/// is not what it saw. Thread 0 of each block arrives with release and looks with acquire order, of
/// device scope; the block's own barriers before and after carry the order to its other threads.
///
/// # Why it is safe
///
/// Every access to the counter is an atomic one inside its slice. A thread that is missing makes the
/// others wait, and nothing worse.
#[derive(Clone, Copy, Debug)]
pub struct GridBarrier<'a> {
    counter: AtomicSlice<'a, u32>,
    at: usize,
}

impl<'a> GridBarrier<'a> {
    /// The barrier on element `at` of `counter`. Panics past the end.
    #[inline(always)]
    pub fn new(counter: AtomicSlice<'a, u32>, at: usize) -> Self {
        assert!(at < counter.len());
        Self { counter, at }
    }

    /// Waits until every thread of the grid is here, and makes their writes visible to one another.
    #[gpu_only]
    #[inline(always)]
    pub fn sync(self) {
        // Every thread of the block is here.
        thread::sync_threads();
        if thread::index_in_block() == 0 {
            let before = self.counter.fetch_add(self.at, arrival(), Ordering::AcqRel);
            while (before ^ self.counter.load(self.at, Ordering::Acquire)) & ROUND == 0 {
                thread::nanosleep(32);
                // The one who has not come may have panicked.
                crate::panic::leave_after_panic();
            }
        }
        // Every block is here.
        thread::sync_threads();
    }
}

/// What this block adds.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn arrival() -> u32 {
    let blocks = thread::grid_dim_x() * thread::grid_dim_y() * thread::grid_dim_z();
    match thread::block_idx_x() | thread::block_idx_y() | thread::block_idx_z() {
        0 => ROUND - (blocks - 1),
        _ => 1,
    }
}
