//! Counts all digits of all keys at once, and plans the passes of the sort.
//!
//! Each block counts in shared memory. Of each counter there are several copies beside one another, one for every
//! few lanes, so that lanes with equal digits, and lanes with unlike ones in the same bank, seldom wait for one another. The last block to finish turns the
//! counts of each digit into the place where each of its values begins, and decides which passes run: one over a digit that is the
//! same in all keys moves nothing.

use crate::prelude::*;
use cuda_std::shared::dynamic_shared_mem;

use super::key::{Digit, Order, RADIX, Word, planned_passes};
use super::pass::{Control, Step};
use super::walk::each_key_of;

/// Threads in a block.
pub const THREADS: usize = 512;
/// Most digits that a key has.
pub const MAX_PASSES: usize = 8;
/// Counters of a block: [`RADIX`] for each digit, and copies of them as far as there is room for three blocks.
pub(super) const COUNTERS: usize = RADIX * 64;
/// Keys for which another block is worth its start and its end.
const KEYS_OF_BLOCK: usize = 64 * THREADS;
/// Most blocks: three for each of 132 multiprocessors.
const MAX_BLOCKS: usize = 3 * 132;

/// Blocks to launch for `n_elems` keys.
#[must_use]
pub const fn blocks(n_elems: usize) -> u32 {
    let blocks = n_elems.div_ceil(KEYS_OF_BLOCK);
    if blocks < MAX_BLOCKS { blocks as u32 } else { MAX_BLOCKS as u32 }
}

/// Counts the digits of the bits `begin..end` of `keys: [n]`, and plans the passes: [`planned_passes`], where
/// `in_place` that is not 0 means that the keys are in the memory where the result goes.
///
/// # Safety
/// - `control` has the words that [`control_words`](super::pass::control_words) asks for, all of them 0.
/// - `begin < end <= K::BITS`, and the launch has [`blocks`]`(n)` blocks.
#[kernel(u8, u16, u32, u64, dynamic_shared = 4 * COUNTERS)]
pub unsafe fn sort_histogram<K: Word>(
    mut block: Block<THREADS>,
    keys: &[K],
    order: Order,
    begin: u32,
    end: u32,
    in_place: u32,
    control: AtomicSlice<u32>,
) {
    let counters = dynamic_shared_mem::<u32>();
    let control = Control::new(control.as_mut_ptr());
    let thread = block.thread();
    let passes = super::passes(begin, end);
    // SAFETY: the counters are reached atomically, or behind barriers by their owners; the rest is the caller's promise.
    unsafe {
        clear(counters, thread);
        // Every counter is 0 before any thread counts.
        block.sync(());
        let blocks = thread::grid_dim_x() as usize;
        let first = thread::block_idx_x() as usize * THREADS + thread;
        count(counters, keys, (first, blocks * THREADS), order, (begin, end));
        // Every key is counted.
        block.sync(());
        if thread < RADIX {
            for pass in 0..passes {
                let n = sum_of_copies::<K>(counters, pass, thread);
                if n > 0 {
                    control.count(pass, thread, n);
                }
            }
        }
        // The counts of all threads are in global memory before the block says that it has finished.
        block.sync(());
        let last = block.once(|| control.finish() == thread::grid_dim_x() - 1).unwrap_or(false);
        if block.any(last) {
            plan(&mut block, control, keys.len(), begin, end, in_place != 0);
        }
    }
}

/// Sets the thread's share of the block's counters to 0.
///
/// # Safety
/// No other thread reaches them before the next barrier.
#[inline(always)]
pub(super) unsafe fn clear(counters: *mut u32, thread: usize) {
    let mut i = thread;
    while i < COUNTERS {
        // SAFETY: a counter.
        unsafe { counters.add(i).write(0) };
        i += THREADS;
    }
}

/// Copies of each counter, so that all fit.
const fn copies<K: Word>() -> usize {
    COUNTERS / RADIX / (K::BITS as usize / 8)
}

/// The first copy of a counter.
#[inline(always)]
fn counter<K: Word>(counters: *mut u32, pass: usize, digit: usize) -> *mut u32 {
    counters.wrapping_add((pass * RADIX + digit) * const { copies::<K>() })
}

/// Counts the keys of the thread that is the `first` of `stride` threads.
///
/// # Safety
/// As for the kernel; the counters are reached atomically alone.
#[inline(always)]
pub(super) unsafe fn count<K: Word>(
    counters: *mut u32,
    keys: &[K],
    (first, stride): (usize, usize),
    order: Order,
    (begin, end): (u32, u32),
) {
    let lane = thread::thread_idx_x() as usize % const { copies::<K>() };
    let passes = super::passes(begin, end);
    let add = |key: K| {
        let key = key.ordered(order);
        let mut pass = 0;
        while pass < const { K::BITS as usize / 8 } {
            if pass < passes {
                let value = key.digit(Digit::of(pass as u32, begin, end), 0) as usize;
                let counter = counter::<K>(counters, pass, value).wrapping_add(lane);
                // SAFETY: a counter of the block.
                unsafe { core::sync::atomic::AtomicU32::from_ptr(counter) }.fetch_add(1, Relaxed);
            }
            pass += 1;
        }
    };
    each_key_of(keys, first, stride, add);
}

/// # Safety
/// All keys of the block are counted.
#[inline(always)]
pub(super) unsafe fn sum_of_copies<K: Word>(counters: *mut u32, pass: usize, digit: usize) -> u32 {
    let first = counter::<K>(counters, pass, digit);
    let mut sum = 0;
    let mut copy = 0;
    while copy < const { copies::<K>() } {
        // Neighbouring threads begin with different copies, which lie in different banks.
        // SAFETY: one of the counter's copies.
        sum += unsafe { *first.add((copy + digit) % const { copies::<K>() }) };
        copy += 1;
    }
    sum
}

/// Where each value of each digit begins, and what each pass reads and writes. The last block alone calls it.
///
/// # Safety
/// All blocks have counted.
#[inline(always)]
unsafe fn plan(
    block: &mut Block<THREADS>,
    control: Control,
    n: usize,
    begin: u32,
    end: u32,
    in_place: bool,
) {
    let thread = block.thread();
    let digit = thread.min(RADIX - 1);
    let (counted, passes) = (super::passes(begin, end), planned_passes(begin, end, in_place));
    let mut moves = 0u32;
    for pass in 0..passes {
        let count = match pass < counted {
            _ if thread >= RADIX => 0,
            // SAFETY: all blocks have counted, which the counter of finished blocks acquired.
            true => unsafe { control.counted(pass, digit) },
            // A digit of no bits is 0 in all keys.
            false if digit == 0 => n as u64,
            false => 0,
        };
        let ([before], _) = block.exclusive_scan([count], 0, u64::wrapping_add);
        if thread < RADIX {
            // SAFETY: a word of the thread's own.
            unsafe { control.begin_group(0, pass, digit, before) };
        }
        let is_constant = block.any(count == n as u64);
        moves |= u32::from(!is_constant) << pass;
    }
    let moves = Step::plan(moves, passes, in_place);
    if thread < passes {
        // SAFETY: a word of the thread's own.
        unsafe { control.set_step(thread, Step::of(moves, thread as u32, in_place)) };
    }
}
