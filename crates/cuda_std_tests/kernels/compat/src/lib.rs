//! Kernels written as one writes them for rust-cuda, and for cuda-oxide.

#![allow(missing_docs)]

pub mod atomics;
pub mod memory;
pub mod oxide;
pub mod positions;
pub mod sources;
pub mod spaces;
