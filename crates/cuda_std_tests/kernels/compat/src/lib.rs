//! Kernels written as one writes them for rust-cuda.

#![allow(missing_docs)]

pub mod positions;
