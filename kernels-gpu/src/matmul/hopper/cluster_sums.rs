//! The sums of a tile whose K is divided among the blocks of a cluster: each block sends every block its share, and adds the share
//! that it has got, in the order of the blocks.
//!
//! The sums are sent by asynchronous stores (`st.async`), which tell the receiver's barrier how many bytes have come. So no block waits for
//! another one but for its sums, and there is no fence; a block ends when it has got all of its own.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::tile::ROWS_OF_TILE;
use crate::prelude::*;
use cuda_std::cluster;
use cuda_std::matrix::*;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::{gpu_only, unrolled};

/// Lanes of a warp.
const WARP: usize = 32;
/// Warps of both consumers.
const WARPS: usize = 2 * WARPGROUP / WARP;

/// The bytes of a tile's sums: what a block gets of all blocks together.
pub const fn bytes(columns: usize) -> usize {
    ROWS_OF_TILE * columns * size_of::<f32>()
}

/// Four sums of a thread: two neighbours of a row, and those eight rows below.
#[derive(Clone, Copy)]
pub struct Four<const N: usize> {
    /// The consumer whose half of the tile they are in.
    pub consumer: usize,
    /// Which of the thread's `N / 8`.
    pub index: usize,
    /// The thread of the consumer.
    pub thread: usize,
}

impl<const N: usize> Four<N> {
    /// The row and the column of the first one in the tile.
    #[inline(always)]
    pub fn place(self) -> (usize, usize) {
        let (row, column) = Accumulator::<f32, 8>::position(self.thread, 0);
        (self.consumer * ROWS + row, self.index * 8 + column)
    }

    /// The number of the warp's: there are `N`.
    #[inline(always)]
    fn number(self) -> usize {
        (self.consumer * (N / 8) + self.index) * (WARPGROUP / WARP) + self.thread / WARP
    }

    /// Those of number `number` that `lane` has.
    #[inline(always)]
    fn of_number(number: usize, lane: usize) -> Self {
        let (warp, rest) = (number % (WARPGROUP / WARP), number / (WARPGROUP / WARP));
        Self { consumer: rest / (N / 8), index: rest % (N / 8), thread: warp * WARP + lane }
    }
}

/// A block's share of the sums of its cluster, as they come.
#[derive(Clone, Copy)]
pub struct ClusterSums<const N: usize> {
    /// Of each block, in their order, the share of this one: a warp's [`Four`] after the other.
    received: *mut [u32; 4],
    arrived: Mbarrier,
}

impl<const N: usize> ClusterSums<N> {
    /// In [`bytes`] of shared memory, at the same place in each block, with an element of `barriers`.
    #[gpu_only]
    #[inline(always)]
    pub fn new<const COUNT: usize, const ALIGN: usize>(
        received: *mut [u32; 4],
        barriers: SharedArray<u64, COUNT, ALIGN>,
        index: usize,
    ) -> Self {
        Self { received, arrived: Mbarrier::new(barriers, index) }
    }

    /// Makes the barrier.
    ///
    /// # Safety
    /// All threads of the block call this together, once. A fence of the barrier's initialisation follows in the first thread, and a barrier of
    /// the block.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn init(self) {
        if thread::index_in_block() == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.arrived.init(1) };
        }
    }

    /// Lets the barrier expect the share.
    ///
    /// # Safety
    /// All threads of the block call this together, once, after [`init`](Self::init). A barrier of the cluster follows before anything is sent.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn expect(self) {
        if thread::index_in_block() == 0 {
            // SAFETY: the caller's promise; the bytes are those that `send` of all blocks sends.
            let _ = unsafe { self.arrived.arrive_expecting(bytes(N) as u32) };
        }
    }

    /// Sends the sums of this thread to the blocks whose share they are.
    ///
    /// # Safety
    /// All threads of both consumers of all blocks call this, once, with their number and `parts`, the blocks of the cluster; all of these have
    /// started.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn send(
        self,
        sums: &Accumulator<f32, N>,
        (consumer, thread): (usize, usize),
        parts: u32,
    ) where
        Columns<N>: Width<f32>,
    {
        let (each, bits) = share::<N>(parts);
        let from = cluster::rank() as usize;
        unrolled!(N / 8, |index| {
            let number = Four::<N> { consumer, index, thread }.number();
            let (to, in_share) = (number >> bits, number % each);
            let place = (from * each + in_share) * WARP + thread % WARP;
            let (above, below) = (sums.pair(4 * index), sums.pair(4 * index + 2));
            let words = [above[0], above[1], below[0], below[1]].map(f32::to_bits);
            // SAFETY: a place of its own, whose bytes the receiver expects; the receiver waits for them before it ends.
            unsafe {
                let to_place = self.received.wrapping_add(place);
                cluster::store_async(to_place, words, self.arrived, to as u32);
            }
        });
    }

    /// Calls `f` with the sums of all blocks that this thread has got, after they have come.
    ///
    /// # Safety
    /// As [`send`](Self::send).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn for_each(
        self,
        (consumer, thread): (usize, usize),
        (part, parts): (u32, u32),
        mut f: impl FnMut(Four<N>, [f32; 4]),
    ) {
        let (each, _) = share::<N>(parts);
        let (warp, lane) = (consumer * (WARPGROUP / WARP) + thread / WARP, thread % WARP);
        // SAFETY: initialised, in the first phase.
        unsafe { self.arrived.wait_parity_in_cluster(0) };
        let mut in_share = warp;
        while in_share < each {
            let mut sums = [0.0; 4];
            for from in 0..parts as usize {
                // SAFETY: the block with that number has sent it.
                let words = unsafe { *self.received.add((from * each + in_share) * WARP + lane) };
                sums[0] += f32::from_bits(words[0]);
                sums[1] += f32::from_bits(words[1]);
                sums[2] += f32::from_bits(words[2]);
                sums[3] += f32::from_bits(words[3]);
            }
            f(Four::of_number(part as usize * each + in_share, lane), sums);
            in_share += WARPS;
        }
    }
}

/// How many [`Four`] of a warp are a block's share, a power of two, and which.
#[inline(always)]
fn share<const N: usize>(parts: u32) -> (usize, u32) {
    let bits = N.trailing_zeros() - parts.trailing_zeros();
    (1 << bits, bits)
}
