//! Kernels as rust-cuda's examples write them: raw pointers, unsafe functions, `index_1d`.

// The host's compiler does not know `compute_90` and its like.
#![allow(unexpected_cfgs)]

use cuda_std::prelude::*;

#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn vecadd(a: &[f32], b: &[f32], c: *mut f32) {
    let idx = thread::index_1d() as usize;
    if idx < a.len() {
        // SAFETY: each thread writes its own element.
        let elem = unsafe { &mut *c.add(idx) };
        *elem = a[idx] + b[idx];
    }
}

/// `c = alpha * a * b + beta * c`, one thread an element.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc, clippy::too_many_arguments)]
pub unsafe fn gemm_naive(
    mat_a: &[f32],
    mat_b: &[f32],
    mat_c: *mut f32,
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    beta: f32,
) {
    let row = (thread::block_dim_x() * thread::block_idx_x() + thread::thread_idx_x()) as usize;
    let col = (thread::block_dim_y() * thread::block_idx_y() + thread::thread_idx_y()) as usize;
    if row < m && col < n {
        let mut sum = 0.0f32;
        for i in 0..k {
            sum += mat_a[row * k + i] * mat_b[i * n + col];
        }
        // SAFETY: each thread writes its own element.
        let elem = unsafe { &mut *mat_c.add(row * n + col) };
        *elem = alpha * sum + beta * *elem;
    }
}

/// 128-bit arithmetic: `out: [8]` for each pair of words.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn i128_ops(a: &[u64], b: &[u64], out: *mut u128, len: usize) {
    let idx = thread::index_1d() as usize;
    if idx >= len {
        return;
    }
    let wide = |words: &[u64]| u128::from(words[2 * idx]) | u128::from(words[2 * idx + 1]) << 64;
    let (a, b) = (wide(a), wide(b));
    let shift = (b % 127) as u32;
    let (sa, sb) = (a as i128, (b as i128) | 1);
    let results = [
        a.wrapping_add(b),
        a.wrapping_mul(b),
        a / (b | 1),
        a % (b | 1),
        (sa.wrapping_div(sb)) as u128,
        (sa.wrapping_rem(sb)) as u128,
        a << shift ^ b >> shift,
        u128::from(a.leading_zeros()) << 64 | u128::from(b.count_ones()),
    ];
    for (k, result) in results.into_iter().enumerate() {
        // SAFETY: eight places for each thread.
        unsafe { out.add(8 * idx + k).write(result) };
    }
}

/// Which code is compiled for which GPU.
#[kernel]
#[allow(clippy::missing_safety_doc)]
pub unsafe fn features(out: *mut u32) {
    let mut bits = 0;
    if cfg!(target_feature = "compute_80") {
        bits |= 1;
    }
    if cfg!(target_feature = "compute_90") {
        bits |= 2;
    }
    if cfg!(target_feature = "compute_100") {
        bits |= 4;
    }
    if cfg!(all(target_os = "cuda", target_arch = "nvptx64")) {
        bits |= 8;
    }
    // SAFETY: one word.
    unsafe { *out = bits };
}

/// `partial[block]` becomes the dot product of the block's elements; blocks of a power of two of threads, with four bytes of
/// dynamic shared memory for each.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn dot(a: &[f32], b: &[f32], partial: *mut f32) {
    let sums = cuda_std::shared::dynamic_shared_mem::<f32>();
    let thread = thread::thread_idx_x() as usize;
    let idx = thread::index_1d() as usize;
    let own = if idx < a.len() { a[idx] * b[idx] } else { 0.0 };
    // SAFETY: each thread writes its own element.
    unsafe { *sums.add(thread) = own };
    let mut half = thread::block_dim_x() as usize / 2;
    while half > 0 {
        // The sums of the step before are there.
        thread::sync_threads();
        if thread < half {
            // SAFETY: the upper half is read and the lower one written, by one thread each.
            unsafe { *sums.add(thread) += *sums.add(thread + half) };
        }
        half /= 2;
    }
    if thread == 0 {
        // SAFETY: the caller's promise; this thread wrote the sum.
        unsafe { *partial.add(thread::block_idx_x() as usize) = *sums };
    }
}
