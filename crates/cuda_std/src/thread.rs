//! Thread and block indices, barriers, fences and `nanosleep`.
//!
//! The names are rust-cuda's. An index that goes into memory is better taken from
//! [`ThreadIndex`](crate::index::ThreadIndex), whose arithmetic is 64 bits wide.

use cuda_std_macros::gpu_only;
use glam::{UVec2, UVec3};

#[cfg(target_os = "cuda")]
use core::arch::nvptx;

#[cfg(target_os = "cuda")]
#[allow(improper_ctypes)]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    fn barrier_sync(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    fn barrier_popc(barrier: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    fn barrier_and(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    fn barrier_or(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.membar.cta"]
    fn membar_cta();
    #[link_name = "llvm.nvvm.membar.gl"]
    fn membar_gl();
    #[link_name = "llvm.nvvm.membar.sys"]
    fn membar_sys();
    #[link_name = "llvm.nvvm.nanosleep"]
    fn nanosleep_ns(nanos: u32);
}

/// Declares readers of special registers.
macro_rules! registers {
    ($($name:ident = $intrinsic:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[gpu_only]
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: reading a special register has no precondition.
            unsafe { nvptx::$intrinsic() }
        }
    )*};
}

registers! {
    thread_idx_x = _thread_idx_x: "The thread's x index in its block.";
    thread_idx_y = _thread_idx_y: "The thread's y index in its block.";
    thread_idx_z = _thread_idx_z: "The thread's z index in its block.";
    block_idx_x = _block_idx_x: "The block's x index in the grid.";
    block_idx_y = _block_idx_y: "The block's y index in the grid.";
    block_idx_z = _block_idx_z: "The block's z index in the grid.";
    block_dim_x = _block_dim_x: "Threads in a block along x.";
    block_dim_y = _block_dim_y: "Threads in a block along y.";
    block_dim_z = _block_dim_z: "Threads in a block along z.";
    grid_dim_x = _grid_dim_x: "Blocks in the grid along x.";
    grid_dim_y = _grid_dim_y: "Blocks in the grid along y.";
    grid_dim_z = _grid_dim_z: "Blocks in the grid along z.";
}

/// Declares the three components of a position as one vector.
macro_rules! vectors {
    ($($name:ident = $x:ident, $y:ident, $z:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[gpu_only]
        #[inline(always)]
        pub fn $name() -> UVec3 {
            UVec3::new($x(), $y(), $z())
        }
    )*};
}

vectors! {
    thread_idx = thread_idx_x, thread_idx_y, thread_idx_z: "The thread's index in its block.";
    block_idx = block_idx_x, block_idx_y, block_idx_z: "The block's index in the grid.";
    block_dim = block_dim_x, block_dim_y, block_dim_z: "Threads in a block along each axis.";
    grid_dim = grid_dim_x, grid_dim_y, grid_dim_z: "Blocks in the grid along each axis.";
}

/// The thread's position in a two-dimensional grid. A component wraps at 2^32 threads;
/// [`ThreadIndex2`](crate::index::ThreadIndex2) does not.
#[gpu_only]
#[inline(always)]
pub fn index_2d() -> UVec2 {
    index_3d().truncate()
}

/// The thread's position in a three-dimensional grid. A component wraps at 2^32 threads.
#[gpu_only]
#[inline(always)]
pub fn index_3d() -> UVec3 {
    let along = |block: u32, dim: u32, thread: u32| block.wrapping_mul(dim).wrapping_add(thread);
    UVec3::new(
        along(block_idx_x(), block_dim_x(), thread_idx_x()),
        along(block_idx_y(), block_dim_y(), thread_idx_y()),
        along(block_idx_z(), block_dim_z(), thread_idx_z()),
    )
}

/// The thread's index in a one-dimensional grid: `block_idx_x * block_dim_x + thread_idx_x`.
///
/// It wraps at 2^32 threads; [`ThreadIndex`](crate::index::ThreadIndex) does not.
#[gpu_only]
#[inline(always)]
pub fn index_1d() -> u32 {
    block_idx_x().wrapping_mul(block_dim_x()).wrapping_add(thread_idx_x())
}

/// The thread's linear index in a grid of up to three dimensions: blocks in row-major order, x
/// fastest, and within a block its threads in row-major order. It wraps at 2^32 threads.
#[gpu_only]
#[inline(always)]
pub fn index() -> u32 {
    let plane = block_idx_z().wrapping_mul(grid_dim_y()).wrapping_add(block_idx_y());
    let block = plane.wrapping_mul(grid_dim_x()).wrapping_add(block_idx_x());
    block.wrapping_mul(threads_in_block()).wrapping_add(index_in_block())
}

/// The block's linear index in the grid, x fastest.
#[gpu_only]
#[inline(always)]
pub fn block_in_grid() -> usize {
    let row = block_idx_z() as usize * grid_dim_y() as usize + block_idx_y() as usize;
    row * grid_dim_x() as usize + block_idx_x() as usize
}

/// The number of blocks in the grid.
#[gpu_only]
#[inline(always)]
pub fn blocks_in_grid() -> usize {
    grid_dim_x() as usize * grid_dim_y() as usize * grid_dim_z() as usize
}

/// The thread's linear index in its block, x fastest.
#[gpu_only]
#[inline(always)]
pub fn index_in_block() -> u32 {
    let row = thread_idx_z() * block_dim_y() + thread_idx_y();
    row * block_dim_x() + thread_idx_x()
}

/// The number of threads in a block.
#[gpu_only]
#[inline(always)]
pub fn threads_in_block() -> u32 {
    block_dim_x() * block_dim_y() * block_dim_z()
}

/// Whether this is the very first thread of the grid.
#[gpu_only]
#[inline(always)]
pub fn first() -> bool {
    let block = block_idx_x() | block_idx_y() | block_idx_z();
    block | thread_idx_x() | thread_idx_y() | thread_idx_z() == 0
}

/// Threads in a warp: 32 on every NVIDIA GPU so far.
#[gpu_only]
#[inline(always)]
pub fn warp_size() -> u32 {
    let size: u32;
    // SAFETY: reading a special register has no precondition.
    unsafe {
        core::arch::asm!("mov.u32 {0}, WARP_SZ;", out(reg32) size, options(pure, nomem, nostack));
    }
    size
}

/// Waits until every thread of the block is here, and makes their writes visible to one another.
///
/// Every thread of the block must reach the same call: a barrier inside a branch that only some
/// threads take hangs or worse.
#[gpu_only]
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: barrier 0 is the block's own. The call is an LLVM convergent operation.
    unsafe { barrier_sync(0) }
}

/// [`sync_threads`], and the number of threads whose `predicate` is not zero.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_count(predicate: u32) -> u32 {
    // SAFETY: as in `sync_threads`.
    unsafe { barrier_popc(0, predicate != 0) }
}

/// [`sync_threads`], and 1 if every thread's `predicate` is not zero, else 0.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_and(predicate: u32) -> u32 {
    // SAFETY: as in `sync_threads`.
    unsafe { barrier_and(0, predicate != 0) as u32 }
}

/// [`sync_threads`], and 1 if any thread's `predicate` is not zero, else 0.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_or(predicate: u32) -> u32 {
    // SAFETY: as in `sync_threads`.
    unsafe { barrier_or(0, predicate != 0) as u32 }
}

/// Orders this thread's memory accesses for the threads of its block (`__threadfence_block`).
#[gpu_only]
#[inline(always)]
pub fn grid_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { membar_cta() }
}

/// Orders this thread's memory accesses for every thread of the device (`__threadfence`).
#[gpu_only]
#[inline(always)]
pub fn device_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { membar_gl() }
}

/// Orders this thread's memory accesses for the device, its peers and the host
/// (`__threadfence_system`).
#[gpu_only]
#[inline(always)]
pub fn system_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { membar_sys() }
}

/// Sleeps for about `nanos` nanoseconds: between nothing and twice as long, at most a millisecond.
#[gpu_only]
#[inline(always)]
pub fn nanosleep(nanos: u32) {
    // SAFETY: sleeping has no precondition.
    unsafe { nanosleep_ns(nanos) }
}
