//! The checks and the counters: observers of what a launch does. See [`Observer`](crate::machine::Observer).

pub mod counters;
mod init;
mod memory;
pub mod race;
mod readonly;
mod spans;

pub use crate::machine::checks::Checks;
pub use init::InitCheck;
pub use memory::MemoryCheck;
