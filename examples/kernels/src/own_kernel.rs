//! The kernel of `02_own_kernel`: an independent computation for each element.

use cuda_std::prelude::*;

/// Steps until the Collatz sequence of `start` reaches 1: an even number is halved, an odd one becomes `3 n + 1`.
///
/// This is plain Rust: the kernel calls it on the GPU, and the example calls it on the host to check the kernel.
pub fn steps(start: u32) -> u32 {
    let (mut n, mut steps) = (u64::from(start), 0);
    while n > 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

/// `out[i]`: the steps of `i`, for `out: [n]`. One thread for each element; threads past the end do nothing.
#[kernel]
pub fn collatz(index: ThreadIndex, mut out: DisjointSlice<u32>) {
    if let Some(out) = out.get_mut(index) {
        *out = steps(index.get() as u32);
    }
}
