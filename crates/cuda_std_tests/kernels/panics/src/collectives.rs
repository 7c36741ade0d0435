//! Panics before barriers and shuffles that the other threads reach.

use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;
use cuda_std::warp;

use crate::set;

/// Thread `who` of each block, or its whole warp, panics between two barriers; the others go on.
#[kernel]
pub fn before_a_barrier(
    who: u32,
    whole_warp: u32,
    index: ThreadIndex,
    mut out: DisjointSlice<u32>,
) {
    thread::sync_threads();
    let own = thread::thread_idx_x();
    let panics = if whole_warp != 0 { own / 32 == who / 32 } else { own == who };
    if panics {
        panic!("thread {own} is out");
    }
    thread::sync_threads();
    let left = thread::sync_threads_count(1);
    set(&mut out, index, left);
}

/// Lane `who` of each warp panics before a shuffle of the whole warp.
#[kernel]
pub fn before_a_shuffle(who: u32, index: ThreadIndex, mut out: DisjointSlice<u32>) {
    let lane = warp::lane_id();
    if lane == who {
        panic!("lane {lane} is out");
    }
    // SAFETY: all lanes of the warp are named; those that have ended are not waited for.
    let (value, _) = unsafe { warp::warp_shuffle_xor(u32::MAX, lane, 1, 32) };
    // SAFETY: as above.
    let votes = unsafe { warp::warp_vote_ballot(u32::MAX, true) };
    set(&mut out, index, votes);
    if value == 77 {
        set(&mut out, index, value);
    }
}

/// Waits for a flag that thread 0 would set, were it not to panic.
///
/// # Safety
/// `flag` is valid.
#[kernel]
pub unsafe fn waits_for_ever(flag: *mut u32, at: u32, x: &[u32]) {
    // SAFETY: the caller's promise.
    let flag = unsafe { core::sync::atomic::AtomicU32::from_ptr(flag) };
    if thread::first() {
        flag.store(x[at as usize], Release);
    }
    while flag.load(Acquire) == 0 {
        cuda_std::panic::leave_after_panic();
        thread::nanosleep(100);
    }
}

/// Runs for a while, then thread 0 of block `which` panics.
#[kernel]
pub fn one_block_of_many(which: u32, rounds: u32, index: ThreadIndex, mut out: DisjointSlice<u32>) {
    let mut value = index.get() as u32;
    for _ in 0..rounds {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    if thread::block_idx_x() == which && thread::thread_idx_x() == 0 {
        panic!("block {which} is out");
    }
    set(&mut out, index, value);
}

/// The same under another name.
#[kernel]
pub fn another_block_of_many(
    which: u32,
    rounds: u32,
    index: ThreadIndex,
    mut out: DisjointSlice<u32>,
) {
    let mut value = index.get() as u32;
    for _ in 0..rounds {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    if thread::block_idx_x() == which && thread::thread_idx_x() == 0 {
        panic!("another block, {which}, is out");
    }
    set(&mut out, index, value);
}

/// Thread 0 panics before it arrives; the others wait in one of three ways, and then meet.
#[kernel]
pub fn waits_at_an_mbarrier(how: u32, at: u32, x: &[u32]) {
    let barrier = Mbarrier::new(shared_array![u64; 1], 0);
    let threads = thread::block_dim_x();
    // SAFETY: one arrival of each thread, were it not for the panic.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(threads);
            fence_init();
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 && x[at as usize] == 77 {
            return;
        }
        let arrival = barrier.arrive();
        match how {
            0 => barrier.wait(arrival),
            1 => barrier.wait_parity(0),
            _ => barrier.wait_parity_in_cluster(0),
        }
    }
    thread::sync_threads();
}
