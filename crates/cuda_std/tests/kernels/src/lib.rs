//! Kernels that use each part of cuda_std, for the tests that read their PTX.

pub mod atomics;
pub mod parameters;
pub mod shared;
pub mod warps;
