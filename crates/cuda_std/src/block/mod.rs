//! What the threads of a block do together: the token [`Block`].

mod token;

pub use token::{Block, Thread};
