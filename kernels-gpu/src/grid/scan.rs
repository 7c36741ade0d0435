//! Sums of all elements before each element: `out[i] = x[0] + … + x[i - 1]`, modulo 2³².
//!
//! * [`scan_running`](fn@scan_running): one block goes through the array, tile by tile, with a running total.
//! * [`scan_exclusive`](fn@scan_exclusive): all blocks at once, each element read and written once. A tile says its own sum at once,
//!   and the sum of everything up to its end as soon as it knows it; the tiles behind it look back until they
//!   meet one that knows (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
//!
//! Integer sums do not depend on the order of additions, so both give the same numbers in every run.

use cuda_std::block::{Bytes, exchange_bytes};
use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Elements of a tile that each thread adds up.
pub const ITEMS: usize = 12;
/// Elements that a block takes at a time.
pub const TILE: usize = BLOCK * ITEMS;

/// Scratch words of [`scan_exclusive`](fn@scan_exclusive) for `n_elems` elements: a ticket counter, and a state for each tile.
#[must_use]
pub const fn scratch_len(n_elems: usize) -> usize {
    1 + n_elems.div_ceil(TILE)
}

/// What a tile has said so far. A word of 0 says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The sum of the tile's own elements.
    Own = 1,
    /// The sum of all elements up to the tile's end.
    UpTo = 2,
}

/// A tile's state as one word, so that what is known and the sum are seen together.
fn state(known: Known, sum: u32) -> u64 {
    (known as u64) << 32 | u64::from(sum)
}

/// The plain form. `x: [n]`, `out: [n]`; launched with one block.
#[kernel]
pub fn scan_running(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    x: &[u32],
    mut out: DisjointSlice<u32>,
) {
    let mut running = 0u32;
    for tile in 0..x.len().div_ceil(BLOCK) {
        let own = index.stride(tile);
        let item = x.get(own.get()).copied().unwrap_or(0);
        let ([sum], _) = block.scan_with_prefix([item], u32::wrapping_add, |total| {
            let before = running;
            running = running.wrapping_add(total);
            before
        });
        if let Some(out) = out.get_mut(own) {
            *out = sum;
        }
    }
}

/// The fast form. `x: [n]`, `out: [n]`, a block for each tile.
///
/// `states:` [`scratch_len`]`(n)` words of 0, which are not 0 afterwards. A block takes the next tile and
/// not the tile of its own number, so those before it have started, in whatever order blocks start.
#[kernel]
pub fn scan_exclusive(
    mut block: Block<BLOCK>,
    scratch: Shared<Bytes<{ exchange_bytes::<u32>(TILE) }>>,
    x: &[u32],
    states: AtomicSlice<u64>,
    out: AtomicSlice<u32>,
) {
    let warp = block.whole_warp();
    let ticket = block.once(|| states.fetch_add(0, 1, Relaxed)).unwrap_or(0);
    let tile = block.broadcast(ticket, 0) as usize;
    let start = tile * TILE;

    let (items, used) = block.load_transposed::<_, _, ITEMS, _>(x, start, 0, scratch);
    let look = |total| look_back(warp, states, tile, total);
    let (sums, _) = block.scan_with_prefix(items, u32::wrapping_add, look);
    // The scratch was read by other threads than write it now.
    let scratch = block.sync(used);
    let (sums, _) = block.blocked_to_striped(sums, scratch);
    for (k, &sum) in sums.iter().enumerate() {
        let i = start + k * BLOCK + block.thread();
        if i < out.len() {
            out.store(i, sum, Relaxed);
        }
    }
}

/// Says the sum `total` of this tile, and finds the sum of all tiles before it. All lanes of one warp call it.
fn look_back(warp: Warp, states: AtomicSlice<u64>, tile: usize, total: u32) -> u32 {
    let lane = warp.thread_rank() as usize;
    let say = |known, sum| {
        if lane == 0 {
            states.store(1 + tile, state(known, sum), Relaxed);
        }
    };
    if tile > 0 {
        say(Known::Own, total);
    }
    let mut before = 0u32;
    // The tiles from `first` to this one are in `before`.
    let mut first = tile;
    loop {
        // Lane 0 looks at the nearest of 32 tiles. What comes before tile 0 is known to be nothing.
        let seen = match first.checked_sub(1 + lane) {
            Some(other) => wait_for(states, 1 + other),
            None => state(Known::UpTo, 0),
        };
        let known = warp.ballot(seen >> 32 == Known::UpTo as u64);
        let counts = lane as u32 <= known.trailing_zeros();
        before = before.wrapping_add(warp.sum(if counts { seen as u32 } else { 0 }));
        if known != 0 {
            break;
        }
        first -= 32;
    }
    say(Known::UpTo, before.wrapping_add(total));
    before
}

/// The state of a tile, once it says anything.
fn wait_for(states: AtomicSlice<u64>, word: usize) -> u64 {
    loop {
        let seen = states.load(word, Relaxed);
        if seen != 0 {
            return seen;
        }
        thread::nanosleep(20);
        // The block that has not said anything may have panicked.
        cuda_std::panic::leave_after_panic();
    }
}
