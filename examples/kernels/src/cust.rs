//! The kernel of `12_cust`, as it would be written for rust-cuda: an unsafe function with a raw pointer.

use cuda_std::prelude::*;

/// `y[i] = alpha * x[i] + y[i]` for each `i` below `x.len()`.
///
/// # Safety
/// `y` points to as many elements as `x` has, which nothing else reads or writes while the kernel runs.
#[kernel]
pub unsafe fn saxpy(alpha: f32, x: &[f32], y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < x.len() {
        // SAFETY: `i` is below the length of both, and no other thread has this index.
        unsafe { *y.add(i) += alpha * x[i] };
    }
}
