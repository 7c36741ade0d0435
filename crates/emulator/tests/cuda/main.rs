//! CUDA C++ compiled by nvcc, run on the emulator and checked against plain Rust.
//!
//! `README.md` says how the PTX is made.

mod basic;
mod collective;
mod gpu;
mod runtime;
