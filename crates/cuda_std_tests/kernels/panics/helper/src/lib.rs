//! A crate that kernels use and that can panic; it knows nothing of GPUs.

#![no_std]

/// The element `n`.
///
/// # Panics
/// If there is none.
#[inline(never)]
pub fn nth(x: &[u32], n: usize) -> u32 {
    x[n]
}
