//! `mbarrier` in every form.

use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;

/// Threads in a block of [`neighbours`].
pub const BLOCK: usize = 64;
/// Answers that [`phases`] writes.
pub const ANSWERS: usize = 12;

/// Each thread gets its neighbour's value, `rounds` times through the same barrier.
#[kernel(block = BLOCK)]
pub fn neighbours(index: ThreadIndex, rounds: u32, x: &[u32], mut y: DisjointSlice<u32>) {
    let (tile, memory) = (shared_array![[u32; BLOCK]; 2], shared_array![u64; 1]);
    let thread = thread::thread_idx_x() as usize;
    let barrier = Mbarrier::new(memory, 0);
    let mut value = x[index.get()];
    if thread == 0 {
        // SAFETY: one thread, before anybody uses it.
        unsafe { barrier.init(BLOCK as u32) };
    }
    thread::sync_threads();
    for round in 0..rounds {
        // SAFETY: each thread writes its own element of one array, and reads another's when all have
        // arrived; the other array is written meanwhile.
        unsafe {
            let tile = tile.as_mut_ptr().add(round as usize % 2).cast::<u32>();
            tile.add(thread).write(value + 1);
            let arrival = barrier.arrive();
            barrier.wait(arrival);
            value = tile.add(thread ^ 1).read();
        }
    }
    if let Some(y) = y.get_mut(index) {
        *y = value;
    }
}

/// What one thread sees of a barrier's phases.
#[kernel(block = 1)]
pub fn phases(answers: AtomicSlice<u32>) {
    let barrier = Mbarrier::new(shared_array![u64; 2], 1);
    let answer = |at: usize, is: bool| answers.store(at, u32::from(is), Relaxed);
    // SAFETY: one thread, which arrives as often as the barrier expects.
    unsafe {
        barrier.init(3);
        fence_init();
        answer(0, barrier.is_parity_over(0));
        answer(1, barrier.is_parity_over(1));
        let first = barrier.arrive();
        let second = barrier.arrive_many(2);
        answer(2, barrier.is_over(&first));
        answer(3, barrier.is_parity_over(0));
        answer(4, barrier.is_parity_over(1));
        barrier.wait(first);
        barrier.wait(second);
        // The second phase: one of three leaves; the third expects two.
        let leaving = barrier.arrive_and_leave();
        answer(5, barrier.is_over(&leaving));
        let rest = barrier.arrive_many(2);
        answer(6, barrier.is_over(&rest));
        barrier.wait_parity(1);
        let pair = barrier.arrive_many(2);
        answer(7, barrier.is_over(&pair));
        answer(8, barrier.is_parity_over(0));
        barrier.wait_parity_in_cluster(0);
        barrier.invalidate();
        // The same memory as another barrier.
        barrier.init(1);
        answer(9, barrier.is_parity_over(0));
        let alone = barrier.arrive();
        answer(10, barrier.is_over(&alone));
        answer(11, barrier.address().is_multiple_of(8));
        let _ = (leaving, rest, pair, alone);
    }
}

/// A copy of 4 bytes by each thread arrives for it.
#[kernel(block = BLOCK)]
pub fn copied_to_barrier(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
    let (tile, memory) = (shared_array![u32; BLOCK], shared_array![u64; 1]);
    let thread = thread::thread_idx_x() as usize;
    let barrier = Mbarrier::new(memory, 0);
    if thread == 0 {
        // SAFETY: one thread, before anybody uses it.
        unsafe { barrier.init(BLOCK as u32) };
    }
    thread::sync_threads();
    // SAFETY: each thread copies one element and arrives once; all is there when all have.
    let value = unsafe {
        let from = core::ptr::from_ref(&x[index.get()]);
        cuda_std::copy::copy_async(tile.as_mut_ptr().add(thread), from);
        barrier.arrive_when_copied();
        barrier.wait_parity(0);
        tile.get(BLOCK - 1 - thread)
    };
    if let Some(y) = y.get_mut(index) {
        *y = value;
    }
}
