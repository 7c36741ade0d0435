//! `cp.async`, pipelines of it, and bulk copies.

use cuda_std::copy::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 64;
/// Values of a tile of the pipelines: not a multiple of the block.
pub const TILE: usize = 200;
/// Values of a bulk copy.
pub const BULK: usize = 1024;

/// Each thread copies one `T`, of which only the first `bytes` arrive, and writes it back.
#[inline(always)]
fn copied<T: Copy + 'static>(
    tile: SharedArray<T, BLOCK>,
    index: ThreadIndex,
    bytes: u32,
    x: &[T],
    mut y: DisjointSlice<T>,
) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread's own element.
    unsafe {
        let to = tile.as_mut_ptr().add(thread);
        let from = core::ptr::from_ref(&x[index.get()]);
        if bytes as usize == size_of::<T>() {
            copy_async(to, from);
        } else {
            copy_async_part(to, from, bytes);
        }
    }
    commit_group();
    if thread.is_multiple_of(2) {
        wait_groups::<0>()
    } else {
        wait_all_copies()
    }
    if let Some(y) = y.get_mut(index) {
        // SAFETY: the thread's own element has come.
        *y = unsafe { tile.get(thread) };
    }
}

#[kernel(block = BLOCK)]
pub fn copied_4(index: ThreadIndex, bytes: u32, x: &[u32], y: DisjointSlice<u32>) {
    copied(shared_array![u32; BLOCK], index, bytes, x, y);
}

#[kernel(block = BLOCK)]
pub fn copied_8(index: ThreadIndex, bytes: u32, x: &[u64], y: DisjointSlice<u64>) {
    copied(shared_array![u64; BLOCK], index, bytes, x, y);
}

#[kernel(block = BLOCK)]
pub fn copied_16(index: ThreadIndex, bytes: u32, x: &[Vec4<u32>], y: DisjointSlice<Vec4<u32>>) {
    copied(shared_array![Vec4<u32>; BLOCK], index, bytes, x, y);
}

/// Sums the tiles of one block, `ahead` of them in flight before the first is read: each thread adds
/// up the values at its own place, and at its neighbour's.
#[inline(always)]
fn pipelined<const STAGES: usize>(
    memory: SharedArray<[u32; TILE], STAGES>,
    index: ThreadIndex,
    tiles: u32,
    ahead: u32,
    x: &[u32],
    mut y: DisjointSlice<u32>,
) {
    // SAFETY: all threads make it and use it together, and nothing else uses the memory.
    let mut pipeline = unsafe { Pipeline::new(memory) };
    let (own, mut sum) = (thread::thread_idx_x() as usize, 0);
    for step in 0..tiles + ahead {
        if step < tiles {
            pipeline.load(x, step as usize * TILE);
        }
        if step >= ahead {
            sum += pipeline.read(|tile| {
                let places = (0..).map(|i| own + BLOCK * i).take_while(|at| *at < TILE);
                places.map(|at| tile[at] + 1000 * tile[TILE - 1 - at]).sum::<u32>()
            });
        }
    }
    if let Some(y) = y.get_mut(index) {
        *y = sum + pipeline.pending() as u32;
    }
}

#[kernel(block = BLOCK)]
pub fn pipelined_1(index: ThreadIndex, tiles: u32, x: &[u32], y: DisjointSlice<u32>) {
    pipelined(shared_array![[u32; TILE]; 1], index, tiles, 0, x, y);
}

#[kernel(block = BLOCK)]
pub fn pipelined_2(index: ThreadIndex, tiles: u32, x: &[u32], y: DisjointSlice<u32>) {
    pipelined(shared_array![[u32; TILE]; 2], index, tiles, 1, x, y);
}

#[kernel(block = BLOCK)]
pub fn pipelined_3(index: ThreadIndex, tiles: u32, x: &[u32], y: DisjointSlice<u32>) {
    pipelined(shared_array![[u32; TILE]; 3], index, tiles, 2, x, y);
}

#[kernel(block = BLOCK)]
pub fn pipelined_4(index: ThreadIndex, tiles: u32, x: &[u32], y: DisjointSlice<u32>) {
    pipelined(shared_array![[u32; TILE]; 4], index, tiles, 2, x, y);
}

/// More loads than stages.
#[kernel(block = BLOCK)]
pub fn overfull(x: &[u32]) {
    // SAFETY: all threads make it and use it together, and nothing else uses the memory.
    let mut pipeline = unsafe { Pipeline::new(shared_array![[u32; TILE]; 2]) };
    for tile in 0..3 {
        pipeline.load(x, tile * TILE);
    }
}

/// Brings `BULK` values of each block to shared memory in one copy, adds 1 to each, and takes them
/// back in another.
///
/// # Safety
/// `x` and `y` are aligned to 16 bytes and have `BULK` values for each block.
#[kernel(block = BLOCK)]
pub unsafe fn bulk_round_trip(x: *const u32, y: *mut u32) {
    let (tile, memory) = (shared_array![u32; BULK], shared_array![u64; 1]);
    let (thread, first) = (thread::thread_idx_x() as usize, thread::block_idx_x() as usize * BULK);
    let barrier = Mbarrier::new(memory, 0);
    // SAFETY: the caller's promise; the tile is reached when the copy has ended, by each thread at
    // its own elements, and read by the copy back after a barrier.
    unsafe {
        if thread == 0 {
            bulk_prefetch(x.add(first), 4 * BULK as u32);
            barrier.init(1);
            fence_init();
            barrier.expect(4 * BULK as u32 - 16);
            let _ = barrier.arrive_expecting(16);
            bulk_load(tile.as_mut_ptr(), x.add(first), 4 * BULK as u32, barrier);
        }
        thread::sync_threads();
        barrier.wait_parity(0);
        for i in 0..BULK / BLOCK {
            *tile.as_mut_ptr().add(thread + i * BLOCK) += 1;
        }
        fence_proxy_async_shared();
        // The copy back sees all elements.
        thread::sync_threads();
        if thread == 0 {
            bulk_store(y.add(first), tile.as_mut_ptr(), 4 * BULK as u32);
            commit_bulk_group();
            wait_bulk_groups_read::<0>();
            wait_bulk_groups::<0>();
        }
    }
}

/// Every block combines 16 values of its own with the same 16 in `totals`.
///
/// # Safety
/// `totals` is aligned to 16 bytes and has 16 values.
#[inline(always)]
unsafe fn reduced<T: BulkReduce>(
    tile: SharedArray<T, 16>,
    value: T,
    totals: *mut T,
    reduction: Reduction,
) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread's own element, read by the copy after a barrier; the caller's promise.
    unsafe {
        tile.set(thread, value);
        fence_proxy_async();
        thread::sync_threads();
        if thread == 0 {
            bulk_reduce(totals, tile.as_mut_ptr(), 16 * size_of::<T>() as u32, reduction);
            commit_bulk_group();
            wait_bulk_groups::<0>();
        }
        thread::sync_threads();
    }
}

/// The operations by number.
pub const REDUCTIONS: [Reduction; 6] =
    [Reduction::Add, Reduction::Min, Reduction::Max, Reduction::And, Reduction::Or, Reduction::Xor];

/// # Safety
/// Each has 16 values for each of the operations: all six for integers, the first for floats.
#[kernel(block = 16)]
pub unsafe fn bulk_reductions(
    words: *mut u32,
    ints: *mut i32,
    wide: *mut u64,
    singles: *mut f32,
    doubles: *mut f64,
) {
    let value = thread::block_idx_x() * 16 + thread::thread_idx_x();
    macro_rules! all {
        ($($operation:literal)*) => {$(
            // SAFETY: the caller's promise.
            unsafe {
                let (at, r) = (16 * $operation, REDUCTIONS[$operation]);
                reduced(shared_array![u32; 16], value, words.add(at), r);
                let tile = shared_array![i32; 16];
                reduced(tile, value as i32 - 30, ints.add(at), r);
                let tile = shared_array![u64; 16];
                reduced(tile, u64::from(value) << 33, wide.add(at), r);
            }
        )*};
    }
    all!(0 1 2 3 4 5);
    // SAFETY: the caller's promise.
    unsafe {
        reduced(shared_array![f32; 16], value as f32, singles, Reduction::Add);
        reduced(shared_array![f64; 16], f64::from(value), doubles, Reduction::Add);
    }
}
