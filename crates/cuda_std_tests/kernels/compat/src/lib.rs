//! Kernels written as one writes them for rust-cuda.

#![allow(missing_docs)]

pub mod atomics;
pub mod memory;
pub mod positions;
pub mod sources;
pub mod spaces;
