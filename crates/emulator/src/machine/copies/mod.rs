//! Asynchronous copies that are under way.
//!
//! A GPU may perform an asynchronous copy at any moment between its instruction and the wait for it. Here
//! that is the last possible one: when a thread waits for the copy's group, tests the mbarrier that the
//! copy signals, or when its block ends. So a kernel that reads the target too early always finds
//! what was there before, and one that overwrites the source too early always copies the new bytes.

mod bulk;
mod bytes;
mod threads;

pub use bulk::{Bulk, Completion, Landing, Piece, Source};
pub use bytes::{Reduction, reduction};
pub use threads::{Performed, Request, WarpCopies};
