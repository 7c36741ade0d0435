//! Barriers of the grid, and launches that overlap.

use cuda_std::dependent;
use cuda_std::grid::GridBarrier;
use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 64;

/// In each round every thread adds its neighbour's value, across blocks, to its own.
///
/// # Safety
/// `values` has two numbers for each thread of the grid.
#[kernel(block = BLOCK, cooperative)]
pub unsafe fn rounds(index: ThreadIndex, rounds: u32, counter: AtomicSlice<u32>, values: *mut u32) {
    let barrier = GridBarrier::new(counter, 1);
    let (own, total) = (index.get(), index.total());
    let mut value = own as u32;
    for round in 0..rounds as usize {
        // SAFETY: a thread writes its own value of one half, and reads another's after the barrier;
        // the other half is written next.
        unsafe {
            let half = values.add(round % 2 * total);
            half.add(own).write(value);
            barrier.sync();
            value = value.wrapping_add(half.add((own + 65) % total).read());
        }
    }
    // SAFETY: the half that nobody reads any more.
    unsafe { values.add(rounds as usize % 2 * total + own).write(value) };
}

/// Writes, and lets the next kernel start.
#[kernel(block = BLOCK)]
pub fn first(index: ThreadIndex, mut y: DisjointSlice<u32>) {
    dependent::let_next_start();
    if let Some(y) = y.get_mut(index) {
        *y = 3 * index.get() as u32;
    }
}

/// Writes after a while, and lets the next kernel start before.
#[kernel(block = BLOCK)]
pub fn slow(rounds: u32, index: ThreadIndex, mut y: DisjointSlice<u32>) {
    dependent::let_next_start();
    let mut value = index.get() as u32;
    for _ in 0..rounds {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    if let Some(y) = y.get_mut(index) {
        *y = value;
    }
}

/// Reads what the kernel before wrote; the entry waits for it.
#[kernel(block = BLOCK, dependent)]
pub fn next(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
    if let Some(y) = y.get_mut(index) {
        *y = x[x.len() - 1 - index.get()] ^ 1;
    }
}

/// As [`next`], but waits by itself, behind work that needs nothing.
///
/// # Safety
/// None is asked for: it waits before it reads.
#[kernel(block = BLOCK, dependent)]
pub unsafe fn next_by_itself(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
    let place = x.len() - 1 - index.get().min(x.len() - 1);
    dependent::wait_for_previous();
    if let Some(y) = y.get_mut(index) {
        *y = x[place] ^ 1;
    }
}

/// Reads what the kernel before wrote.
#[kernel(block = BLOCK)]
pub fn second(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
    dependent::wait_for_previous();
    if let Some(y) = y.get_mut(index) {
        *y = x[x.len() - 1 - index.get()] + 1;
    }
}
