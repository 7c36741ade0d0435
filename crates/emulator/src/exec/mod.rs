//! Execution: the 32 lanes of a warp in lockstep, the warps of a block in turn, blocks on CPU
//! threads.
//!
//! [`warp`] keeps a program counter for each lane, as groups of lanes at the same operation;
//! [`block`] schedules the warps of a block and its barriers; [`cluster`] schedules the blocks of a
//! cluster; [`grid`] distributes clusters over CPU threads. [`ops`] holds the handlers of the
//! instructions, by family. The state that they all change is in [`machine`](crate::machine).

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
