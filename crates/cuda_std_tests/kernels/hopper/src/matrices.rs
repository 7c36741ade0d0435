//! Fragments: `mma`, `ldmatrix` and `stmatrix`.

use cuda_std::matrix::*;
use cuda_std::prelude::*;
use cuda_std::{bf16, f16, warp};

/// One warp multiplies whole row-major matrices of one shape: `c += a b`, `rounds` times.
///
/// # Safety
/// The pointers lead to M × K, K × N and M × N values; one warp calls this.
#[inline(always)]
unsafe fn product<S: Multiply<T, U, V>, T: Element, U: Element, V: Element>(
    a: *const T,
    b: *const U,
    c: *mut V,
    rounds: u32,
) {
    let (warp, lane) = (Warp::current(), warp::lane_id() as usize);
    // SAFETY: the caller's promise; each lane has its own places.
    unsafe {
        let a = FragmentA::<S, T>::fill(lane, |row, column| *a.add(row * S::K + column));
        let b = FragmentB::<S, U>::fill(lane, |row, column| *b.add(row * S::N + column));
        let mut sum = FragmentC::<S, V>::fill(lane, |row, column| *c.add(row * S::N + column));
        for _ in 0..rounds {
            sum = mma(warp, a, b, sum);
        }
        // A branch that only some lanes take, behind the instruction.
        if lane < 20 {
            sum.for_each(lane, |row, column, value| c.add(row * S::N + column).write(value));
        } else {
            sum.for_each(lane, |row, column, value| c.add(row * S::N + column).write(value));
        }
    }
}

macro_rules! products {
    ($($name:ident: $shape:ident $a:ty, $b:ty, $c:ty;)*) => {$(
        /// # Safety
        /// As [`product`].
        #[kernel(block = 32)]
        pub unsafe fn $name(rounds: u32, a: *const $a, b: *const $b, c: *mut $c) {
            // SAFETY: the caller's promise; the block is one warp.
            unsafe { product::<$shape, $a, $b, $c>(a, b, c, rounds) }
        }
    )*};
}

products! {
    f16_8: M16N8K8 f16, f16, f32;
    f16_16: M16N8K16 f16, f16, f32;
    f16_8_short: M16N8K8 f16, f16, f16;
    f16_16_short: M16N8K16 f16, f16, f16;
    bf16_8: M16N8K8 bf16, bf16, f32;
    bf16_16: M16N8K16 bf16, bf16, f32;
    tf32_4: M16N8K4 Tf32, Tf32, f32;
    tf32_8: M16N8K8 Tf32, Tf32, f32;
    i8_small: M8N8K16 i8, i8, i32;
    i8_u8_small: M8N8K16 i8, u8, i32;
    u8_i8_small: M8N8K16 u8, i8, i32;
    u8_small: M8N8K16 u8, u8, i32;
    i8_16: M16N8K16 i8, i8, i32;
    i8_u8_16: M16N8K16 i8, u8, i32;
    u8_i8_16: M16N8K16 u8, i8, i32;
    u8_16: M16N8K16 u8, u8, i32;
    i8_32: M16N8K32 i8, i8, i32;
    i8_u8_32: M16N8K32 i8, u8, i32;
    u8_i8_32: M16N8K32 u8, i8, i32;
    u8_32: M16N8K32 u8, u8, i32;
    e4m3_32: M16N8K32 E4m3, E4m3, f32;
    e4m3_e5m2_32: M16N8K32 E4m3, E5m2, f32;
    e5m2_e4m3_32: M16N8K32 E5m2, E4m3, f32;
    e5m2_32: M16N8K32 E5m2, E5m2, f32;
    f64_small: M8N8K4 f64, f64, f64;
    f64_4: M16N8K4 f64, f64, f64;
    f64_8: M16N8K8 f64, f64, f64;
    f64_16: M16N8K16 f64, f64, f64;
}

/// Multiplies through shared memory, rows of A and of B or its columns by `ldmatrix`, and stores the
/// product by `stmatrix`.
///
/// # Safety
/// As [`product`]; `b` is stored by columns if `by_columns`.
#[inline(always)]
unsafe fn moved<S: Multiply<f16, f16, f16>>(
    memory: SharedArray<[f16; 512], 1>,
    by_columns: bool,
    a: *const f16,
    b: *const f16,
    c: *mut f16,
) {
    let (lane, tile) = (warp::lane_id() as usize, memory.as_mut_ptr().cast::<f16>());
    // SAFETY: the caller's promise; one warp writes, and reads after a barrier.
    unsafe {
        let (left, right, out) = (tile, tile.add(256), tile.add(384));
        for i in (lane..16 * S::K).step_by(32) {
            left.add(i).write(*a.add(i));
        }
        for i in (lane..8 * S::K).step_by(32) {
            right.add(i).write(*b.add(i));
        }
        thread::sync_threads();
        let a = FragmentA::<S, f16>::load(lane, |row, column| left.add(row * S::K + column));
        let b = if by_columns {
            FragmentB::<S, f16>::load_columns(lane, |column, row| right.add(column * S::K + row))
        } else {
            FragmentB::<S, f16>::load_rows(lane, |row| right.add(row * 8))
        };
        let sum = mma_unchecked(a, b, FragmentC::<S, f16>::zeroed());
        sum.store(lane, |row| out.add(row * 8));
        thread::sync_threads();
        for i in (lane..128).step_by(32) {
            c.add(i).write(out.add(i).read());
        }
    }
}

/// # Safety
/// As [`moved`], for K = 16.
#[kernel(block = 32)]
pub unsafe fn moved_16(by_columns: bool, a: *const f16, b: *const f16, c: *mut f16) {
    // SAFETY: the caller's promise.
    unsafe { moved::<M16N8K16>(shared_array![[f16; 512]; 1], by_columns, a, b, c) }
}

/// # Safety
/// As [`moved`], for K = 8.
#[kernel(block = 32)]
pub unsafe fn moved_8(by_columns: bool, a: *const f16, b: *const f16, c: *mut f16) {
    // SAFETY: the caller's promise.
    unsafe { moved::<M16N8K8>(shared_array![[f16; 512]; 1], by_columns, a, b, c) }
}

/// Loads matrices by every form of `ldmatrix`, and stores each by the form of `stmatrix` of the same
/// kind, or the other (`crossed`), which transposes.
///
/// # Safety
/// `x` has 256 values and `y` 6 times as many.
#[kernel(block = 32)]
pub unsafe fn round_trips(crossed: bool, x: *const u16, y: *mut u16) {
    let (from, to) = (shared_array![[u16; 8]; 32], shared_array![[u16; 8]; 32]);
    let lane = warp::lane_id() as usize;
    macro_rules! trips {
        ($($at:literal: $count:literal $transposed:literal;)*) => {$(
            // SAFETY: a row for each lane, zeros where nothing is stored.
            unsafe {
                for i in 0..8 {
                    from.as_mut_ptr().add(lane).cast::<u16>().add(i).write(*x.add(8 * lane + i));
                    to.as_mut_ptr().add(lane).cast::<u16>().add(i).write(0);
                }
                thread::sync_threads();
                let (row, out) = (from.as_mut_ptr().add(lane), to.as_mut_ptr().add(lane));
                let registers = load_matrices::<$count, $transposed>(row.cast());
                if crossed {
                    store_matrices::<$count, { !$transposed }>(out.cast(), registers);
                } else {
                    store_matrices::<$count, $transposed>(out.cast(), registers);
                }
                thread::sync_threads();
                for i in 0..8 {
                    let value = out.cast::<u16>().add(i).read();
                    y.add(256 * $at + 8 * lane + i).write(value);
                }
                thread::sync_threads();
            }
        )*};
    }
    trips! { 0: 1 false; 1: 1 true; 2: 2 false; 3: 2 true; 4: 4 false; 5: 4 true; }
}
