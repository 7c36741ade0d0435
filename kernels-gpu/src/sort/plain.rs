//! The form to read first: digits of four bits, and three kernels for each.
//!
//! 1. [`sort_count`](fn@sort_count): each block counts the digits of its tile.
//! 2. [`sort_sums`](fn@sort_sums): the counts, digit by digit and within each block by block, become the place where the
//!    block's keys of that digit begin.
//! 3. [`sort_move`](fn@sort_move): each block ranks its tile again and writes every key to its place.
//!
//! The keys are read twice and written once for each four bits: for 32 bits 96 bytes a key, and the writes are
//! scattered over sixteen places a tile.

use crate::prelude::*;
use cuda_std::block::{Bytes, rank_bytes};

use super::key::{Digit, Order, Word};

/// Threads in a block.
pub const THREADS: usize = 256;
/// Keys of a thread.
const ITEMS: usize = 4;
/// Keys of a tile.
pub const TILE: usize = THREADS * ITEMS;
/// Bits of a digit.
pub const DIGIT_BITS: u32 = 4;
/// Values that a digit has.
pub const DIGITS: usize = 1 << DIGIT_BITS;

/// `counts: [DIGITS, tiles]` becomes the number of keys with each digit in each tile of `keys: [n]`; a block for
/// each tile.
#[kernel(block = THREADS)]
pub fn sort_count(keys: &[u32], order: Order, digit: Digit, counts: AtomicSlice<u32>) {
    let block = SharedAtomics::<DIGITS>::zeroed();
    let (thread, tile) = (thread::thread_idx_x() as usize, thread::block_idx_x() as usize);
    for k in 0..ITEMS {
        if let Some(key) = keys.get(tile * TILE + k * THREADS + thread) {
            block.add(key.ordered(order).digit(digit, 0) as usize, 1);
        }
    }
    // Every thread has counted.
    thread::sync_threads();
    if thread < DIGITS {
        counts.store(thread * thread::grid_dim_x() as usize + tile, block.get(thread), Relaxed);
    }
}

/// Each of `sums` becomes the sum of those before it. Launched with one block.
#[kernel]
pub fn sort_sums(mut block: Block<THREADS>, index: ThreadIndex, sums: AtomicSlice<u32>) {
    let mut running = 0u32;
    for round in 0..sums.len().div_ceil(THREADS) {
        let own = index.stride(round).get();
        let item = if own < sums.len() { sums.load(own, Relaxed) } else { 0 };
        let ([sum], _) = block.scan_with_prefix([item], u32::wrapping_add, |total| {
            let before = running;
            running = running.wrapping_add(total);
            before
        });
        if own < sums.len() {
            sums.store(own, sum, Relaxed);
        }
    }
}

/// Moves `keys: [n]` to `out: [n]`, and their values, if there are any, along with them; a block for each tile.
/// `sums` are what [`sort_sums`](fn@sort_sums) made of the counts of the same keys and the same digit.
#[kernel]
pub fn sort_move(
    mut block: Block<THREADS>,
    scratch: Shared<Bytes<{ rank_bytes(THREADS) }>>,
    keys: &[u32],
    values: &[u32],
    order: Order,
    digit: Digit,
    sums: AtomicSlice<u32>,
    out: AtomicSlice<u32>,
    out_values: AtomicSlice<u32>,
) {
    let counts = SharedAtomics::<DIGITS>::zeroed();
    let (tile, tiles) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let start = tile * TILE;
    // Behind the end are last keys, which are ranked behind all others with their digit and not written.
    let own: [u32; ITEMS] = block.load_blocked(keys, start, u32::MAX.raw(order));
    let digits = own.map(|key| key.ordered(order).digit(digit, 0));
    for digit in digits {
        counts.add(digit as usize, 1);
    }
    // The barriers in it: every thread has counted.
    let (ranks, _) = block.radix_rank(digits, scratch);
    for k in 0..ITEMS {
        let from = start + block.thread() * ITEMS + k;
        let before: u32 = (0..digits[k]).map(|digit| counts.get(digit as usize)).sum();
        if from < keys.len() {
            let begin = sums.load(digits[k] as usize * tiles + tile, Relaxed);
            let place = (begin + ranks[k] - before) as usize;
            out.store(place, own[k], Relaxed);
            if let Some(value) = values.get(from) {
                out_values.store(place, *value, Relaxed);
            }
        }
    }
}
