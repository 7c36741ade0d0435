//! Algorithms of one warp: 32 threads that exchange registers.

pub mod reduce;
