//! Tensor cores: matrix multiply-accumulate of a warp (`mma.sync`) or a warpgroup (`wgmma`).
//!
//! | | who | operands | since |
//! |---|---|---|---|
//! | [`mma`] | a warp | [`FragmentA`], [`FragmentB`] and [`FragmentC`], in registers | `sm_80` |
//! | [`FragmentA::load`], [`FragmentB::load_rows`], … (`ldmatrix`) | a warp | 16-bit elements from shared memory | `sm_75` |
//! | [`FragmentC::store`] (`stmatrix`) | a warp | `f16` results to shared memory | `sm_90` |
//! | [`Accumulator::multiply`] (`wgmma`) | a warpgroup: 4 warps | two [`Tile`](crate::copy::Tile)s in shared memory, accumulators in registers | `sm_90a` |
//!
//! Around them: [`TileGrid`], the tiles of a matrix in an order that the L2 cache likes; [`warp_specialized!`](crate::warp_specialized), which divides a
//! block into a producer and consumers; [`TileStores`], results on their way to memory. With the tiles and pipelines of
//! [`copy`](crate::copy) these are what the library's own products are made of.
//!
//! Every fragment has its shape and element in its type, so operands that do not belong together do
//! not compile. Which element of a matrix a lane holds is one function for all:
//! [`Fragment::position`]; [`fill`](Fragment::fill) and [`for_each`](Fragment::for_each) use it.
//!
//! All of these are collective: every lane of the warp (or thread of the warpgroup) executes them
//! together. [`mma`] takes the token of a warp; callers of the unsafe functions promise it. An instruction here is never
//! copied to two places or moved into a branch by the compiler: each follows a warp barrier in
//! the same block of code, which costs nothing where the warp is together already. (LLVM's own
//! intrinsics for `mma` may be moved: they are not marked as convergent.)

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports, unused_macros))]

use cuda_std_macros::gpu_only;

mod accumulator;
mod element;
mod fragment;
mod instructions;
mod move_matrix;
mod tile_stores;
mod tiles;
mod warpgroup;

pub use crate::number::{E4m3, E5m2};
pub use accumulator::{
    Accumulator, Columns, Descriptor, Instruction, ROWS, Width, wait_multiplications,
};
pub use element::{Element, Tf32};
pub use fragment::{
    A, B, C, Fragment, FragmentA, FragmentB, FragmentC, Holds, M8N8K4, M8N8K16, M16N8K4, M16N8K8,
    M16N8K16, M16N8K32, Role, Shape,
};
pub use instructions::{Multiply, mma, mma_converged, mma_unchecked};
pub use move_matrix::*;
pub use tile_stores::{STORED_COLUMNS, TileStores};
pub use tiles::TileGrid;
pub use warpgroup::*;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
}

/// Reconverges the warp, and keeps the next instruction where it is: a convergent operation in the
/// same block of code may be neither copied nor moved, and with it the block. The assembler moves no access to
/// memory across it.
///
/// # Safety
/// Every lane of the warp calls this together.
#[gpu_only]
#[inline(always)]
pub unsafe fn converge() {
    // SAFETY: the caller's promise.
    unsafe { bar_warp_sync(!0) }
}
