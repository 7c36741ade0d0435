//! An emulated CUDA device: PTX text in, results out.
pub mod fault;
pub mod memory;
pub mod numeric;
pub mod ptx;
