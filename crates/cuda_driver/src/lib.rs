//! The CUDA driver API, from the installed NVIDIA driver or from the emulator.
//!
//! This crate exports the C functions `cuInit`, `cuMemAlloc_v2`, … that a CUDA program links
//! against, so that one program runs with a GPU and without. At the first `cuInit` it decides
//! who answers, and never mixes the two:
//!
//! | `FERROWARP_DEVICE` | who answers |
//! |---|---|
//! | unset or `auto` | the NVIDIA driver if it opens and has a device, else the emulator |
//! | `cuda` | the NVIDIA driver; without a usable one `cuInit` fails and says what to do |
//! | `emulator` | the emulator |
//!
//! The NVIDIA driver is opened as `libcuda.so.1`, or under the name that `FERROWARP_CUDA_LIBRARY`
//! gives. Where that is this front itself as a shared library (see `crates/libcuda`), it is passed
//! over.
//!
//! `FERROWARP_EMULATOR_DEVICES` (1 to 16) says how many devices the emulator has, and
//! `FERROWARP_EMULATOR_MEMORY` (bytes, or with a suffix `K`, `M` or `G`) sizes the emulated
//! device's memory. What its kernels are checked for, and in which order their blocks and warps run:
//!
//! | variable | values |
//! |---|---|
//! | `FERROWARP_CHECK` | `all`, `none`, or some of `memory,init,race,sync`, and `strict`; unset: `all` in builds with debug assertions, else `memory,sync` |
//! | `FERROWARP_SCHEDULE` | `window` (the default), `sequential`, `reversed`, `random:SEED` |
//! | `FERROWARP_FUEL` | warp instructions after which a launch is stopped; unset: never |
//! | `FERROWARP_EMULATOR_FAIL` | for tests of error paths: `cuMemAlloc_v2:46` makes every call of that function answer 46, `cuMemAlloc_v2#3:46` its third one; several with commas. See also [`injection`] |
//!
//! A value that is none of these is an error of `cuInit`.
//!
//! A driver function returns one number. [`take_detail`] has the rest: the log of the PTX
//! compiler, the kernel and the source line of a fault, the size that did not fit. With
//! `FERROWARP_VERBOSE=1` each is also written to standard error.
//!
//! `cust` 0.3.2 reads results into a Rust enum that knows the codes of CUDA 11.4. A code that it
//! lacks is returned as `CUDA_ERROR_UNKNOWN` (999), and the true one is in the detail.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod abi;
mod anytime;
mod backend;
mod codes;
pub mod counters;
mod detail;
mod emulated;
mod foreign;
mod front;
pub mod injection;
mod process;
mod real;
mod structs;
mod table;

pub use abi::*;
pub use backend::{Backend, backend, cuda_passed_over, forked};
pub use codes::*;
pub use detail::{Detail, take_detail};
pub use emulated::{pageable_async_copies, pageable_on_purpose};
pub use foreign::per_thread::*;
pub use structs::*;
pub use table::*;
