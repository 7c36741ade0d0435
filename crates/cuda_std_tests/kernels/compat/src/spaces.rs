//! Statics in shared, constant and global memory.

use core::mem::MaybeUninit;
use cuda_std::prelude::*;
use cuda_std::{address_space, externally_visible};

/// Rows and columns of a tile.
pub const TILE: usize = 16;

/// `c = a * b` for square matrices of `n` rows, as rust-cuda's tiled example has it.
///
/// # Safety
/// `n` is a multiple of 16, the matrices are that large, and blocks are 16 × 16 threads.
#[kernel]
#[allow(improper_ctypes_definitions)]
pub unsafe fn gemm_tiled(a: &[f32], b: &[f32], c: *mut f32, n: usize) {
    #[address_space(shared)]
    static mut TILE_A: [MaybeUninit<f32>; TILE * TILE] =
        [const { MaybeUninit::uninit() }; TILE * TILE];
    #[address_space(shared)]
    static mut TILE_B: [MaybeUninit<f32>; TILE * TILE] =
        [const { MaybeUninit::uninit() }; TILE * TILE];

    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let row = thread::block_idx_y() as usize * TILE + ty;
    let col = thread::block_idx_x() as usize * TILE + tx;
    let mut sum = 0.0f32;
    for tile in 0..n / TILE {
        // SAFETY: each thread writes its own element of each tile.
        unsafe {
            TILE_A[ty * TILE + tx].write(a[row * n + tile * TILE + tx]);
            TILE_B[ty * TILE + tx].write(b[(tile * TILE + ty) * n + col]);
        }
        thread::sync_threads();
        for k in 0..TILE {
            // SAFETY: every element was written before the barrier.
            sum += unsafe {
                TILE_A[ty * TILE + k].assume_init() * TILE_B[k * TILE + tx].assume_init()
            };
        }
        thread::sync_threads();
    }
    // SAFETY: the caller's promise.
    unsafe { *c.add(row * n + col) = sum };
}

#[address_space(shared)]
static mut SCRATCH: MaybeUninit<[u32; 64]> = MaybeUninit::uninit();

/// Passes a pointer on, to code that does not know the memory.
#[inline(never)]
unsafe fn store_at(memory: *mut u32, at: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { memory.add(at).write(value) };
}

/// Reverses 64 numbers through a module's shared static, by pointer, by slice and by a function.
///
/// # Safety
/// `x: [64]`, blocks of 64.
#[kernel]
pub unsafe fn reverse(x: *mut u32) {
    let own = thread::thread_idx_x() as usize;
    // SAFETY: own elements, or behind a barrier.
    unsafe {
        let scratch = (&raw mut SCRATCH).cast::<u32>();
        let value = *x.add(own);
        store_at(scratch, own, value);
        store_at(x, own, 0);
        thread::sync_threads();
        let all = core::slice::from_raw_parts(scratch, 64);
        let sum: u32 = all.iter().sum();
        *x.add(own) = all[63 - own].wrapping_add(sum);
    }
}

/// Known to the compiler and never changed.
#[address_space(constant)]
static WEIGHTS: [f32; 5] = [1.0, 4.0, 6.0, 4.0, 1.0];

/// The host fills it.
#[address_space(constant)]
#[externally_visible]
#[unsafe(no_mangle)]
static mut COMPAT_TABLE: [u32; 32] = [0; 32];

#[address_space(global)]
#[externally_visible]
#[unsafe(no_mangle)]
static mut COMPAT_TOTAL: u32 = 5;

/// A function that another module could call.
#[externally_visible]
#[unsafe(no_mangle)]
pub extern "C" fn compat_twice(x: u32) -> u32 {
    x.wrapping_mul(2)
}

/// `out: [32]`, one warp.
///
/// # Safety
/// `out` is that long.
#[kernel]
pub unsafe fn constants(shift: usize, weighted: *mut f32, out: *mut u32) {
    let own = thread::thread_idx_x() as usize;
    // SAFETY: the caller's promise; nothing writes constants, and one thread the total.
    unsafe {
        weighted.add(own).write(WEIGHTS[(own + shift) % 5]);
        out.add(own).write(compat_twice(COMPAT_TABLE[own ^ shift]));
        if own == 0 {
            COMPAT_TOTAL += 1;
        }
    }
}
