//! Execution: a warp's 32 lanes at once, warps of a block in turn, blocks over CPU threads.
//!
//! [`warp`] keeps a program counter for each lane, as groups of lanes that are at the same place;
//! [`block`] runs the warps of a block and its barriers; [`cluster`] runs the blocks that share
//! theirs; [`grid`] spreads the clusters. The instructions themselves are in [`ops`], by family; the
//! state that they change is in [`machine`](crate::machine).

pub mod address;
pub mod block;
pub mod cluster;
pub mod copies;
pub mod grid;
pub mod ops;
pub mod ranges;
pub mod shadow;
pub mod stuck;
pub mod tensor;
pub mod warp;
pub mod watch;
