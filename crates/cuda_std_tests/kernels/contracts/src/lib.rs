//! Launch contracts, generic kernels, thread indices and views of device memory.

#![allow(missing_docs)]

pub mod gemm;
pub mod generic;
pub mod launches;
pub mod views;
