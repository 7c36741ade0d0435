//! Smoothing in rounds: in each, every cell becomes a mean of itself and its two neighbours. Cells are `[n]`, f32; beyond
//! an end its own cell stands once more.
//!
//! A round reads what other threads wrote in the round before, so between two rounds all threads have to meet. Four ways to
//! meet, to be read in this order:
//!
//! * [`smooth`](fn@smooth): a launch for each round. Its end is the meeting.
//! * [`smooth_dependent`](fn@smooth_dependent): the same, and the threads of the next launch are in their places when this
//!   one ends (programmatic dependent launch). Buys most of the time between two launches, where these are queued in time.
//! * [`smooth_cooperative`](fn@smooth_cooperative): one launch of a grid that is on the device as a whole, with a barrier
//!   of all its blocks. Buys the launches, and that nobody has to know the rounds before; a meeting takes as long as a
//!   launch in a graph.
//! * [`smooth_cluster`](fn@smooth_cluster): one launch; eight blocks on neighbouring multiprocessors hold the cells in
//!   their shared memory, and read across the seams there. Buys the way to global memory, for what eight blocks hold: half
//!   of the time of the others.
//!
//! All give the same bits: the products are exact (unless a quarter of a cell is subnormal), and the two sums have one order.

// The compiler for the device knows its features, and the host's does not.
#![allow(unexpected_cfgs)]

use crate::prelude::*;
use cuda_std::cluster::{self, DistributedArray};
use cuda_std::dependent;
use cuda_std::grid::GridBarrier;

/// Threads in a block of the last two.
pub const BLOCK: u32 = 1024;
const PART: usize = BLOCK as usize;
/// Blocks in a cluster of [`smooth_cluster`](fn@smooth_cluster): as many as every device with clusters can run.
pub const CLUSTER: u32 = 8;
/// Cells of a cluster, one for each thread.
pub const CLUSTER_CELLS: usize = (CLUSTER * BLOCK) as usize;

/// The mean that a cell becomes.
#[inline(always)]
pub fn mean(left: f32, own: f32, right: f32) -> f32 {
    0.25 * left + 0.5 * own + 0.25 * right
}

/// What cell `i` of `n` becomes, by what `cell` reads.
#[inline(always)]
fn smoothed(i: usize, n: usize, cell: impl Fn(usize) -> f32) -> f32 {
    mean(cell(i.saturating_sub(1)), cell(i), cell((i + 1).min(n - 1)))
}

/// One round: `out: [n]` from `x: [n]`. Threads past the end do nothing.
#[kernel]
pub fn smooth(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = smoothed(index.get(), x.len(), |i| x[i]);
    }
}

/// As [`smooth`](fn@smooth), beginning before the launch behind which it stands has ended. Its entry waits for that.
#[kernel(dependent)]
pub fn smooth_dependent(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    // The launch before is over; let the one behind take its places while this one works.
    dependent::let_next_start();
    if let Some(out) = out.get_mut(index) {
        *out = smoothed(index.get(), x.len(), |i| x[i]);
    }
}

/// All rounds. `cells: [n]` is the first and every second state after it, `next: [n]` the states between: an odd number of
/// rounds ends in `next`. `counter: [1]` is the barrier's, zero before the first launch and left to it. Any grid.
#[kernel(block = BLOCK, cooperative)]
pub fn smooth_cooperative(
    index: ThreadIndex,
    rounds: u32,
    counter: AtomicSlice<u32>,
    cells: AtomicSlice<f32>,
    next: AtomicSlice<f32>,
) {
    let barrier = GridBarrier::new(counter, 0);
    let (mut from, mut to) = (cells, next);
    for _ in 0..rounds {
        for i in index.grid_stride(from.len()) {
            let i = i.get();
            to.store(i, smoothed(i, from.len(), |i| from.load(i, Relaxed)), Relaxed);
        }
        // Every cell of this round is there before the next round reads it, and read before the one after writes it.
        barrier.sync();
        (from, to) = (to, from);
    }
}

/// All rounds, in place. Each cluster has [`CLUSTER_CELLS`] cells, which it smooths as an array of their own; the last one
/// may have fewer. Whole clusters: `cells.len()` divided by that, rounded up.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel(block = BLOCK, cluster = CLUSTER)]
pub fn smooth_cluster(index: ThreadIndex, rounds: u32, mut cells: DisjointSlice<f32>) {
    // A state of the block's cells, and the next one behind it.
    let states = shared_array![f32; 2 * PART];
    let shared = DistributedArray::new(states);
    let own = index.get() % CLUSTER_CELLS;
    let n = (cells.len().saturating_sub(index.get() - own)).min(CLUSTER_CELLS);
    let mut value = cells.get(index).copied().unwrap_or(0.0);
    for round in 0..rounds as usize {
        let state = round % 2 * PART;
        // SAFETY: a thread writes its own element. Others read it behind this round's barrier; it is written again two
        // rounds later, behind the next round's barrier, which they reach when they have read. Every block has started when
        // one is past a barrier, and none ends before the last one below.
        unsafe {
            states.set(state + own % PART, value);
            cluster::sync();
            if own < n {
                let cell = |i: usize| shared.get((i / PART) as u32, state + i % PART);
                value = smoothed(own, n, cell);
            }
        }
    }
    // Nobody reads this block's cells any more.
    cluster::sync();
    if let Some(cell) = cells.get_mut(index) {
        *cell = value;
    }
}
