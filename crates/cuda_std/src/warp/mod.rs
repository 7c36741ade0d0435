//! The 32 threads of a warp talking to one another: shuffles, votes, matches, reductions and scans.
//!
//! | | what takes part | |
//! |---|---|---|
//! | [`Warp`] | all 32 lanes | safe |
//! | [`Tile<N>`](Tile) | 2, 4, 8 or 16 neighbours; tiles go their own ways | safe |
//! | [`Coalesced`] | the lanes that happen to run together, or have a key in common | safe |
//! | `warp_…(mask, …)` | the lanes of a mask, with rust-cuda's names | unsafe |
//!
//! ```
//! use cuda_std::prelude::*;
//! use cuda_std::warp::Warp;
//!
//! /// Adds the values of each warp. A block has a multiple of 32 threads.
//! #[kernel]
//! pub fn warp_sums(index: ThreadIndex, x: &[f32], sums: AtomicSlice<f32>) {
//!     let warp = Warp::current();
//!     // Every lane takes part, those past the end with nothing.
//!     let sum = warp.sum(x.get(index.get()).copied().unwrap_or(0.0));
//!     if warp.thread_rank() == 0 && index.get() < x.len() {
//!         sums.store(index.get() / 32, sum, Relaxed);
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! # Safety of every function that takes a mask
//!
//! Bit `i` of `mask` stands for lane `i`.
//!
//! - The calling lane is in `mask`.
//! - Every lane in `mask` reaches the same call, with the same `mask`, and none has ended.

mod coalesced;
mod masked;
mod number;
#[cfg(target_os = "cuda")]
mod raw;
mod tile;
#[cfg(target_os = "cuda")]
mod words;

pub use coalesced::Coalesced;
pub use masked::{
    WarpMatchValue, WarpReduceValue, WarpReductionOp, WarpShuffleMode, WarpShuffleValue, sync_warp,
    warp_match_all, warp_match_any, warp_reduce, warp_shuffle_down, warp_shuffle_idx,
    warp_shuffle_up, warp_shuffle_xor, warp_vote_all, warp_vote_any, warp_vote_ballot,
};
pub use number::{Bits, Number};
pub use tile::{Lanes, Tile, TileSize, Warp};

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_std_macros::gpu_only;

/// A value that lanes hand to one another: without padding, and with a meaning for all bits. Every
/// [`bytemuck::Pod`] type is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exchanged between the lanes of a warp",
    label = "a lane may receive any bit pattern, and sends every byte of its value",
    note = "derive `bytemuck::Pod` on a `#[repr(C)]` struct of plain numbers without padding"
)]
pub trait Plain: NoUninit + AnyBitPattern {}

#[diagnostic::do_not_recommend]
impl<T: NoUninit + AnyBitPattern> Plain for T {}

/// The calling thread's lane in its warp, 0 to 31.
#[gpu_only]
#[inline(always)]
pub fn lane_id() -> u32 {
    // SAFETY: reading a special register has no precondition.
    unsafe { raw::read_lane_id() }
}

/// The lanes of the warp that run this instruction together. It changes with the compiler's mood:
/// a mask that the program knows is better.
#[gpu_only]
#[inline(always)]
pub fn activemask() -> u32 {
    // SAFETY: asking for the mask has no precondition.
    unsafe { raw::read_activemask() }
}
