//! Kernels as one writes them for cuda-oxide: safe functions that index shared statics in `unsafe` blocks.

use cuda_std::prelude::*;
use cuda_std::{address_space, shared_array};

/// Threads in a block of most kernels here.
pub const BLOCK: usize = 256;

/// Reverses each block's elements. A position is written without an index.
///
/// # Safety
/// `x` and `out` are as long, a multiple of 256, and blocks have 256 threads.
#[kernel]
pub unsafe fn reverse_blocks(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    static mut TILE: SharedArray<f32, BLOCK> = SharedArray::UNINIT;

    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread writes an element of its own.
    unsafe { TILE[thread] = x[index.get()] };
    // Every element is there before another thread reads it.
    thread::sync_threads();
    // SAFETY: nothing writes to the tile any more; each thread writes its own position, below the length by the caller's
    // promise, and the launch lends the slice.
    unsafe { *out.get_unchecked_mut(index.get()) = TILE[BLOCK - 1 - thread] };
}

/// Rows and columns of a tile.
pub const SIDE: usize = 16;

/// `c = a b` for square matrices of `n` rows, `n` a multiple of 16: `a, b, c: [n, n]`, row-major.
#[kernel(block = (16, 16))]
pub fn product(index: ThreadIndex2, n: usize, a: &[f32], b: &[f32], mut c: DisjointGrid<f32>) {
    static mut TILE_A: SharedArray<f32, { SIDE * SIDE }> = SharedArray::UNINIT;
    static mut TILE_B: SharedArray<f32, { SIDE * SIDE }> = SharedArray::UNINIT;

    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (row, column) = (index.y(), index.x());
    let mut sum = 0.0f32;
    for tile in 0..n / SIDE {
        // SAFETY: each thread writes an element of its own.
        unsafe {
            TILE_A[ty * SIDE + tx] = a[row * n + tile * SIDE + tx];
            TILE_B[ty * SIDE + tx] = b[(tile * SIDE + ty) * n + column];
        }
        // Both tiles are there before other threads read them …
        thread::sync_threads();
        for k in 0..SIDE {
            // SAFETY: every element was written before the barrier.
            sum += unsafe { TILE_A[ty * SIDE + k] * TILE_B[k * SIDE + tx] };
        }
        // … and have been read before the next ones replace them.
        thread::sync_threads();
    }
    if let Some(c) = c.get_mut(index) {
        *c = sum;
    }
}

/// Lanes of a warp, and warps of the largest block.
const WARPS: usize = 32;

/// A static of the module, for the function below. It needs its memory's name.
#[address_space(shared)]
static mut PARTIAL: SharedArray<u32, WARPS, 128> = SharedArray::UNINIT;

/// The sum of a block's values, in every thread. All threads of a block of whole warps call it.
#[inline(never)]
fn block_sum(value: u32) -> u32 {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: the handle of a static in shared memory.
    let partial = unsafe { SharedArray::from_static(&raw mut PARTIAL) };
    // A warp's sum by its lanes in turn: one lane writes at a time.
    for lane in 0..WARPS {
        if thread % WARPS == lane {
            // SAFETY: one thread of the warp uses the element until the next barrier.
            unsafe {
                let before = if lane == 0 { 0 } else { partial.get(thread / WARPS) };
                PARTIAL[thread / WARPS] = before + value;
            }
        }
        // The lane's sum is there before the next lane adds to it.
        thread::sync_threads();
    }
    let warps = thread::block_dim_x() as usize / WARPS;
    // SAFETY: every element was written before the barrier.
    let sum = (0..warps).map(|warp| unsafe { PARTIAL[warp] }).sum();
    // The sums have been read before another call replaces them.
    thread::sync_threads();
    sum
}

/// Adds to each element the sum of its block, and then the sum of those.
#[kernel]
pub fn add_sums(index: ThreadIndex, mut x: DisjointSlice<u32>) {
    let own = x.get_mut(index);
    let first = own.as_deref().copied().unwrap_or(0);
    let second = first.wrapping_add(block_sum(first));
    let all = block_sum(if own.is_some() { second } else { 0 });
    if let Some(own) = own {
        *own = second.wrapping_add(all);
    }
}

/// One static for all instances of a generic kernel: its type cannot name a parameter.
#[kernel(u8, u64)]
pub fn rotated<T: Copy + Into<u64>>(index: ThreadIndex, x: &[T], mut out: DisjointSlice<u64>) {
    static mut WORDS: SharedArray<u64, 64> = SharedArray::UNINIT;
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread writes an element of its own.
    unsafe { WORDS[thread] = x[index.get()].into() };
    // Every element is there before another thread reads it.
    thread::sync_threads();
    if let Some(out) = out.get_mut(index) {
        // SAFETY: nothing writes to the array any more.
        *out = unsafe { WORDS[(thread + 1) % 64] };
    }
}

/// Two arrays in dynamic shared memory, the second one behind the first: each thread multiplies its neighbours' elements.
/// Blocks of `n` threads need `12 * n` bytes.
#[kernel]
pub fn partitioned(index: ThreadIndex, a: &[f64], b: &[f32], mut out: DisjointSlice<f64>) {
    let (thread, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    let doubles: *mut f64 = DynamicSharedArray::<f64>::get();
    let floats: *mut f32 = DynamicSharedArray::<f32>::offset(threads * size_of::<f64>());
    // SAFETY: each thread writes elements of its own, and the launch gives room for both arrays.
    unsafe {
        *doubles.add(thread) = a[index.get()];
        *floats.add(thread) = b[index.get()];
    }
    // Every element is there before another thread reads it.
    thread::sync_threads();
    if let Some(out) = out.get_mut(index) {
        let next = (thread + 1) % threads;
        // SAFETY: nothing writes to the arrays any more.
        *out = unsafe { *doubles.add(next) * f64::from(*floats.add(next)) };
    }
}

/// The largest power of two by which the address of each kind of array can be divided, behind arrays of odd sizes:
/// `out: [8]`, one thread.
#[kernel]
pub fn alignments(out: AtomicSlice<u64>) {
    static mut ODD: SharedArray<u8, 20> = SharedArray::UNINIT;
    static mut TILE: SharedArray<f32, 32, 128> = SharedArray::UNINIT;
    static mut LARGE: SharedArray<u8, 3, 1024> = SharedArray::UNINIT;
    let odd = shared_array![u8; 7];
    let addresses = [
        (&raw mut ODD).addr(),
        (&raw mut TILE).addr(),
        (&raw mut LARGE).addr(),
        shared_array![u16; 5, align = 256].as_mut_ptr().addr(),
        SharedArray::<u8, 1, 512>::numbered::<3>().as_mut_ptr().addr(),
        odd.as_mut_ptr().addr(),
        DynamicSharedArray::<u8, 128>::get_raw().addr(),
        // It is the same memory for every type and alignment.
        DynamicSharedArray::<f64>::get().addr() - DynamicSharedArray::<u8, 128>::get().addr(),
    ];
    // SAFETY: one thread, which writes before it reads.
    let all = unsafe {
        (ODD[19], TILE[31], LARGE[2]) = (1, 2.0, 3);
        odd.set(6, 4);
        DynamicSharedArray::<u8, 128>::offset(99).write(5);
        u64::from(ODD[19])
            + TILE[31] as u64
            + u64::from(LARGE[2] + odd.get(6))
            + u64::from(*DynamicSharedArray::<u8>::offset(99))
    };
    assert!(all == 15);
    for (i, address) in addresses.into_iter().enumerate() {
        out.store(i, address as u64, Relaxed);
    }
}
