//! The state of a block that operations can access: shared memory, barriers, copies that are not
//! complete.

use super::copies::WarpCopies;
use super::slots::LANES;
use crate::fault::{BarrierFault, TrapKind};
use std::sync::atomic::AtomicU64;

/// Barriers of a block.
pub const BARRIERS: usize = 16;

/// An arrival at a barrier of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the barrier.
    pub barrier: u32,
    /// Threads that it waits for; `None` for all of the block.
    pub threads: Option<u32>,
    /// Whether the lanes wait.
    pub waits: bool,
    /// Whether all lanes of a warp have to arrive at the same instruction.
    pub aligned: bool,
    /// The lanes whose predicate holds, for a reduction.
    pub votes: u32,
}

/// One barrier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Barrier {
    /// Threads it waits for, when an arrival said so.
    pub threads: Option<u32>,
    /// Threads that arrived and did not wait.
    pub passed: u32,
    /// Whether anyone arrived.
    pub used: bool,
}

/// What operations can see of their block.
#[derive(Default)]
pub struct BlockState {
    /// Number in the grid.
    pub number: u64,
    /// Index x, y, z.
    pub index: [u32; 3],
    /// Shared memory, in words.
    pub shared: Vec<AtomicU64>,
    /// Its length in bytes.
    pub shared_bytes: u64,
    /// Copies of each warp that are not done.
    pub copies: Vec<WarpCopies>,
    /// Its barriers, by number.
    pub barriers: [Barrier; BARRIERS],
    /// How many groups of `wgmma` each warp has committed.
    pub committed: Vec<u64>,
}

impl BlockState {
    /// Lanes of a warp arrive at a barrier.
    pub fn arrive(&mut self, arrival: Arrival, mask: u32, alive: u32) -> Result<(), TrapKind> {
        let Arrival { barrier, threads, waits, .. } = arrival;
        let invalid =
            |why| Err(TrapKind::InvalidBarrier { barrier, threads: threads.unwrap_or(0), why });
        let Some(own) = self.barriers.get_mut(barrier as usize) else {
            return invalid(BarrierFault::Number);
        };
        if threads.is_some_and(|own| own == 0 || !own.is_multiple_of(LANES as u32)) {
            return invalid(BarrierFault::Count);
        }
        if own.used && own.threads != threads {
            return invalid(BarrierFault::Mixed { other: own.threads });
        }
        (own.used, own.threads) = (true, threads);
        if !waits {
            own.passed += weight(mask, alive);
        }
        Ok(())
    }
}

/// How many threads the lanes of a warp count for: all that are left count for a whole warp.
pub fn weight(mask: u32, alive: u32) -> u32 {
    if mask == alive { LANES as u32 } else { mask.count_ones() }
}
