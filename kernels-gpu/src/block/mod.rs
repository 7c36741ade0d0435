//! Algorithms of one block: threads that share memory and barriers.

pub mod reduce;
