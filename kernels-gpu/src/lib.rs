//! The kernels that ship with Ferrowarp, by families.
//!
//! Each family is a module that re-exports its kernels: `kernels_gpu::elementwise::vecadd`. A file bears another name than
//! its kernels, because [`#[kernel]`](cuda_std::kernel) makes a module of the kernel's name for the typed launcher:
//! `kernels_gpu::elementwise::vecadd::launch`.
//!
//! On the GPU this crate is `no_std`; on the host it is an ordinary crate, which holds the launchers.
//!
//! A kernel crate that wants the algorithms in kernels of its own, with its own operators, leaves the feature `entries` out
//! (`default-features = false`): then every kernel here is a plain function, and the PTX holds the other crate's
//! entries alone. [`reduce`] and [`scan`] show such kernels, and [`instances!`] writes those that take a functor.

// The builder sets this for the crate that it builds, but not for its dependencies, of which this crate may be one.
#![cfg_attr(target_os = "cuda", no_std)]
#![cfg_attr(
    target_os = "cuda",
    feature(abi_ptx, asm_experimental_arch, f16, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_os = "cuda", allow(internal_features, unused_features))]
// Without entries, what only the lists of instances name is unused.
#![cfg_attr(not(feature = "entries"), allow(unused_imports, dead_code))]

mod dependent;
mod prelude;

pub mod attention;
pub mod divisor;
pub mod elementwise;
pub mod functor;
pub mod histogram;
pub mod image;
pub mod matmul;
pub mod merge;
pub mod particles;
pub mod peers;
pub mod persistent;
pub mod quads;
pub mod random;
pub mod reduce;
pub mod rows;
pub mod scan;
pub mod search;
pub mod select;
pub mod sort;
pub mod sparse;
pub mod stencil;
pub mod training;
pub mod transpose;
