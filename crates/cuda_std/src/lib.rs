//! The device standard library: what a kernel in Rust needs beside `core`.
//!
//! On the GPU (`target_os = "cuda"`) this is a `no_std` library of thread indices, barriers, shared
//! memory, atomics and safe views of device memory. On the host the same names exist, so that a
//! kernel crate is an ordinary crate there, and [`launch`] holds the types that start kernels.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! #[kernel]
//! pub fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
//!     if let Some(y) = y.get_mut(index) {
//!         *y += alpha * x[index.get()];
//!     }
//! }
//!
//! # fn main() {
//! assert_eq!(saxpy::KERNEL.name, "saxpy");
//! # }
//! ```
//!
//! A panic in a kernel reaches the host as an error with message, place, block and thread: see
//! [`panic`](mod@panic).

#![cfg_attr(target_os = "cuda", no_std)]
#![cfg_attr(
    target_os = "cuda",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        const_type_name,
        link_llvm_intrinsics,
        linkage,
        stdarch_nvptx
    )
)]
#![cfg_attr(target_os = "cuda", allow(internal_features))]

extern crate alloc;

pub mod access;
pub mod arch;
pub mod atomic;
pub mod block;
#[cfg(target_os = "cuda")]
mod builtins;
pub mod cache_line;
pub mod cluster;
pub mod contract;
pub mod copy;
pub mod dependent;
pub mod disjoint;
pub mod float;
pub mod grid;
pub mod index;
pub mod intrinsics;
pub mod io;
#[cfg(not(target_os = "cuda"))]
pub mod launch;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod mem;
pub mod misc;
pub mod number;
pub mod panic;
pub mod prelude;
pub mod ptr;
pub mod random;
pub mod ring;
pub mod shared;
pub mod signature;
pub mod thread;
pub mod vector;
pub mod view;
pub mod warp;

pub use cache_line::CacheLineAligned;
pub use float::{FloatExt, GpuFloat};

pub use cuda_std_macros::{
    address_space, externally_visible, gpu_only, kernel, kernel_body, shared_array,
};
pub use glam;
pub use half::{self, bf16, f16};
