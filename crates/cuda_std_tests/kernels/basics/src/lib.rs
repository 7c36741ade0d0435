//! Parameters, shared memory, warps, barriers and atomics, each in small kernels.

#![allow(missing_docs)]

pub mod atomics;
pub mod parameters;
pub mod shared;
pub mod warps;
