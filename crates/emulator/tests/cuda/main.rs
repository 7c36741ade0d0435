//! CUDA C++ compiled by nvcc, run on the emulator and checked against plain Rust.
//!
//! `README.md` says how the PTX is made.

mod asynchronous;
mod atomics;
mod basic;
mod calls;
mod collective;
mod gpu;
mod lines;
mod math;
mod numbers;
mod runtime;
mod tensor;
