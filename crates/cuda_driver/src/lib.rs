//! The CUDA driver API, from the installed NVIDIA driver or from the emulator.
//!
//! This crate exports the C functions `cuInit`, `cuMemAlloc_v2`, … that a CUDA program links
//! against, so that one binary runs with a GPU and without one. The first `cuInit` chooses a
//! backend for the whole process:
//!
//! | `FERROWARP_DEVICE` | backend |
//! |---|---|
//! | unset or `auto` | the NVIDIA driver if it opens and has a device, else the emulator |
//! | `cuda` | the NVIDIA driver; without a usable one `cuInit` fails and says what to do |
//! | `emulator` | the emulator |
//!
//! The NVIDIA driver's library is opened under the first of its names that opens, or under the name
//! in `FERROWARP_CUDA_LIBRARY` alone. On Linux it is `libcuda.so.1`, in the folders that the system
//! searches, then in those of WSL 2 (`/usr/lib/wsl/lib`), NixOS, Tegra and some containers; on Windows
//! `nvcuda.dll`, in the system folder. For macOS there is no driver. If the library turns out to be
//! this front itself, built as a shared library (see `crates/libcuda`), it is not used.
//! [`installed_driver`] returns what was found, or what was tried.
//!
//! `FERROWARP_EMULATOR_DEVICES` (1 to 16) sets the number of emulated devices, and
//! `FERROWARP_EMULATOR_MEMORY` (bytes, or with a suffix `K`, `M` or `G`) the memory of each. These
//! variables control the checks and the scheduling of emulated kernels:
//!
//! | variable | values |
//! |---|---|
//! | `FERROWARP_CHECK` | `all`, `none`, or some of `memory,init,race,sync`, and `strict`; unset: `all` in builds with debug assertions, else `memory,sync` |
//! | `FERROWARP_SCHEDULE` | `window` (the default), `sequential`, `reversed`, `random:SEED` |
//! | `FERROWARP_FUEL` | warp instructions after which a launch is stopped; unset: never |
//! | `FERROWARP_EMULATOR_FAIL` | for tests of error paths: `cuMemAlloc_v2:46` makes every call of that function return 46, `cuMemAlloc_v2#3:46` its third one; several with commas. See also [`injection`] |
//!
//! `cuInit` fails if a variable has any other value.
//!
//! A driver function returns only a number. [`take_detail`] returns the explanation: the log of the
//! PTX compiler, the kernel and the source line of a fault, the size that did not fit. With
//! `FERROWARP_VERBOSE=1` explanations also go to standard error.
//!
//! `cust` 0.3.2 reads results into a Rust enum that has only the codes of CUDA 11.4. A newer code
//! is returned as `CUDA_ERROR_UNKNOWN` (999), and [`Detail::code`] holds the true one.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod abi;
mod backend;
mod before_init;
mod codes;
mod constants;
pub mod counters;
mod detail;
mod emulated;
mod exports;
mod foreign;
mod front;
pub mod injection;
mod process;
mod real;
mod structs;
mod symbols;
pub mod sys;
mod table;

pub use abi::*;
pub use backend::{Backend, backend, cuda_passed_over, forked};
pub use codes::*;
pub use detail::{Detail, take_detail};
pub use emulated::{pageable_async_copies, pageable_on_purpose};
pub use exports::*;
pub use foreign::per_thread::*;
pub use real::{InstalledDriver, Tried, Unusable, installed_driver};
pub use structs::*;
pub use symbols::FUNCTIONS;
