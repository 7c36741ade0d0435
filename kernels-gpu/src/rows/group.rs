//! The threads that share a row: some lanes of a warp, a block, or a cluster of blocks.
//!
//! They combine what each knows of its part of the row in one round: over the lanes by shuffles, over the
//! warps through shared memory behind one barrier, over the blocks of a cluster through one another's
//! shared memory behind one barrier of the cluster. The order is that of a tree whose shape depends on the
//! number of threads alone.

use crate::prelude::*;
use cuda_std::cluster;
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_xor};

use super::registers::each;

/// Threads in a warp.
pub const WARP: u32 = 32;
/// Most warps in a block.
pub const MAX_WARPS: usize = 32;
/// Blocks of a cluster that share a row.
pub const CLUSTER: u32 = 8;
/// Those of a smaller one, for rows that it holds.
pub const SMALL_CLUSTER: u32 = 4;

const ALL_LANES: u32 = u32::MAX;

/// What a thread knows of its part of a row, and how that becomes what is known of the whole.
pub trait Summary: Copy {
    /// Of no elements.
    const EMPTY: Self;
    /// Whether more than four of the words are used.
    const IS_WIDE: bool;

    /// Over `parts` that each of `lanes` has, which all call it: all get the same bits.
    fn join_parts<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> Self;

    /// Over `lanes`, as [`join_parts`](Self::join_parts).
    #[inline(always)]
    fn join(self, lanes: impl Lanes) -> Self {
        Self::join_parts([self], lanes)
    }

    /// The same of two parts that one thread has seen.
    fn merge(self, later: Self) -> Self;

    /// As words, to hand to other threads.
    fn to_words(self) -> [Vec4<f32>; 2];

    /// Back from words; the second one is anything unless [`Self::IS_WIDE`].
    fn from_words(words: [Vec4<f32>; 2]) -> Self;
}

/// Lanes of a warp that combine their values.
pub trait Lanes: Copy {
    /// The sum of each lane's `value`.
    fn sum(self, value: f32) -> f32;
    /// The largest `value`; NaN is left out.
    fn max(self, value: f32) -> f32;
}

/// Sums and extremes by a butterfly over `count` neighbouring lanes, a power of two.
#[derive(Clone, Copy)]
pub struct Butterfly {
    count: u32,
}

impl Butterfly {
    /// Over all lanes.
    pub const WHOLE_WARP: Self = Self { count: WARP };

    /// All lanes of the warp call it, whatever `count` is. Both partners of a step compute the same sum, so
    /// all lanes hold the same bits.
    #[inline(always)]
    fn combine(self, mut value: f32, op: impl Fn(f32, f32) -> f32) -> f32 {
        each::<5>(|step| {
            let distance = 16 >> step;
            if distance < self.count {
                // SAFETY: all lanes of the warp are here, and `count` is the same in all.
                let (other, _) = unsafe { warp_shuffle_xor(ALL_LANES, value, distance, WARP) };
                value = op(value, other);
            }
        });
        value
    }
}

impl Lanes for Butterfly {
    #[inline(always)]
    fn sum(self, value: f32) -> f32 {
        self.combine(value, |a, b| a + b)
    }

    #[inline(always)]
    fn max(self, value: f32) -> f32 {
        self.combine(value, f32::max)
    }
}

/// The threads of one row, and the calling thread's place among them.
#[derive(Clone, Copy)]
pub struct Group {
    /// The row.
    pub row: usize,
    /// Threads that share it.
    pub threads: u32,
    /// The calling thread's number among them.
    pub rank: u32,
}

/// Shared memory of [`Group::join`].
#[derive(Clone, Copy)]
pub struct Exchange {
    /// A pair of vectors for each warp of the block.
    pub warps: SharedArray<Vec4<f32>, { 2 * MAX_WARPS }>,
    /// A pair of vectors for each block of the cluster.
    pub blocks: SharedArray<Vec4<f32>, { 2 * CLUSTER as usize }>,
}

impl Group {
    /// Where the calling thread stands. `threads` of a row are a power of two up to 32, or 0 for the whole
    /// block; in clusters all threads of the cluster share a row.
    #[inline(always)]
    pub fn of_thread<const CLUSTERED: bool>(threads: u32) -> Self {
        let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
        let size = thread::block_dim_x();
        if CLUSTERED {
            let rank = cluster::rank() * size + thread;
            return Self { row: (block / CLUSTER) as usize, threads: CLUSTER * size, rank };
        }
        if threads == 0 {
            return Self { row: block as usize, threads: size, rank: thread };
        }
        // A power of two: shifts in place of divisions.
        let shift = threads.trailing_zeros();
        let row = block as usize * (size >> shift) as usize + (thread >> shift) as usize;
        Self { row, threads, rank: thread & (threads - 1) }
    }

    /// The same, of which no compiler sees that it is the same: each lane shuffles with itself. Else every vector's place
    /// stays in registers that the row itself needs, from the loads to the stores. All lanes of the warp call it.
    #[inline(always)]
    pub fn anew(self) -> Self {
        let lane = thread::thread_idx_x() % WARP;
        // SAFETY: all lanes of the warp are here.
        let (rank, _) = unsafe { warp_shuffle_idx(ALL_LANES, self.rank, lane, WARP) };
        Self { rank, ..self }
    }

    /// What all threads of the row know together; every thread gets it. All threads of the block (of the
    /// cluster) call it, once in a kernel: the shared memory is not free again afterwards.
    #[inline(always)]
    pub fn join<S: Summary, const CLUSTERED: bool>(self, own: S, exchange: Exchange) -> S {
        if !CLUSTERED && self.threads <= WARP {
            return own.join(Butterfly { count: self.threads });
        }
        let of_block = join_block(own, exchange);
        if CLUSTERED { join_cluster(of_block, exchange) } else { of_block }
    }
}

/// What all threads of the block know together. All call it.
#[inline(always)]
fn join_block<S: Summary>(own: S, exchange: Exchange) -> S {
    let (thread, lanes) = (thread::thread_idx_x(), Butterfly::WHOLE_WARP);
    let (warp, lane) = ((thread / WARP) as usize, thread % WARP);
    let of_warp = own.join(lanes);
    let place = exchange.warps.as_mut_ptr();
    if lane == 0 {
        // SAFETY: one writer for each warp, and a block has at most `MAX_WARPS`.
        unsafe { write_pair::<S>(place.add(2 * warp), of_warp) };
    }
    // Every warp reads what all have written.
    thread::sync_threads();
    let of_lane = if lane < thread::block_dim_x() / WARP {
        // SAFETY: that warp exists, and wrote before the barrier.
        unsafe { read_pair::<S>(place.add(2 * lane as usize)) }
    } else {
        S::EMPTY
    };
    of_lane.join(lanes)
}

/// What all blocks of the cluster know together. All threads call it. Every block writes what it knows into every block's
/// memory, so that after the barrier each reads its own and none has to wait for another one's end.
#[inline(always)]
fn join_cluster<S: Summary>(of_block: S, exchange: Exchange) -> S {
    // All blocks have started, so their shared memory is there.
    cluster::sync();
    let (thread, place) = (thread::thread_idx_x(), exchange.blocks.as_mut_ptr());
    if thread < CLUSTER {
        // SAFETY: in bounds, each block has a place of its own in every other one, and the barriers stand
        // before and behind.
        unsafe {
            let own = place.add(2 * cluster::rank() as usize);
            write_pair::<S>(cluster::map_shared(own, thread), of_block);
        }
    }
    // Every block has written.
    cluster::sync();
    let lane = thread % WARP;
    let of_lane = if lane < CLUSTER {
        // SAFETY: written before the barrier.
        unsafe { read_pair::<S>(place.add(2 * lane as usize)) }
    } else {
        S::EMPTY
    };
    of_lane.join(Butterfly::WHOLE_WARP)
}

/// # Safety
/// Two vectors are at `to`, and no other thread reaches them meanwhile.
#[inline(always)]
unsafe fn write_pair<S: Summary>(to: *mut Vec4<f32>, summary: S) {
    let [first, second] = summary.to_words();
    // SAFETY: the caller's promise.
    unsafe {
        to.write(first);
        if S::IS_WIDE {
            to.add(1).write(second);
        }
    }
}

/// # Safety
/// [`write_pair`] of the same type has written at `from`, and nobody writes meanwhile.
#[inline(always)]
unsafe fn read_pair<S: Summary>(from: *const Vec4<f32>) -> S {
    // SAFETY: the caller's promise.
    unsafe {
        let first = from.read();
        S::from_words([first, if S::IS_WIDE { from.add(1).read() } else { first }])
    }
}
