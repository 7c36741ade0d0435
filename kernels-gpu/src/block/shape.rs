//! The block shape that a kernel was written for.

use cuda_std::thread;

/// Panics unless the block has `x × y × z` threads.
///
/// A kernel that lays out shared memory for a fixed shape calls this first: with it, the index arithmetic
/// below holds whatever the launch says, so the kernel is safe to launch.
#[inline(always)]
pub fn require(x: u32, y: u32, z: u32) {
    let is_right =
        thread::block_dim_x() == x && thread::block_dim_y() == y && thread::block_dim_z() == z;
    assert!(is_right, "launched with a block shape that this kernel is not written for");
}
