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
//! # Where to find what
//!
//! | you want | look at |
//! |---|---|
//! | a kernel, and what it may take | [`macro@kernel`]; most names come with [`prelude`] |
//! | which element is a thread's own | [`index`]: [`ThreadIndex`](index::ThreadIndex) and its strides; [`thread`](mod@thread) for the raw numbers |
//! | to write an array, a matrix or a volume | [`disjoint`]; tiles of a block in [`block`]: [`DisjointTiles`](block::DisjointTiles), [`DisjointTiles2`](block::DisjointTiles2) |
//! | to read a matrix, a column or a tile | [`view`]; several elements at once in [`vector`] |
//! | memory that a block shares | [`shared`], with the token [`Block`](block::Block) |
//! | sums, scans and sorts of a block | [`block`] |
//! | sums, scans, votes and shuffles of a warp | [`warp`] |
//! | counters and flags that any thread changes | [`atomic`]; for a value in a cache line of its own [`cache_line`], aligned to 256 bytes or more [`aligned`] |
//! | barriers of the whole grid, or of a cluster of blocks | [`grid`], [`cluster`] |
//! | copies that go on beside the arithmetic | [`copy`], [`mbarrier`] |
//! | tensor cores | [`matrix`]; tiles and swizzles as functions of coordinates in [`layout`] |
//! | mathematics | methods of [`GpuFloat`] and [`FloatExt`]; C's names in [`math`], CUDA's in [`intrinsics`] |
//! | `f16`, `bf16`, FP8 and pairs of them | [`number`]; vectors and matrices of graphics in [`glam`] |
//! | random numbers | [`random`] |
//! | loads and stores that know the caches | [`access`] |
//! | messages to and from the host while a kernel runs | [`ring`] |
//! | launches that overlap the one before | [`dependent`] |
//! | block size, registers and shared memory as part of a kernel | [`contract`] |
//! | to print, to assert, to stop in a debugger | [`io`], [`misc`] |
//! | the heap, the address space of a pointer, the GPU compiled for | [`mem`], [`ptr`], [`arch`] |
//! | what happens after a panic | [`panic`](mod@panic): the host gets an error with message, place, block and thread |
//! | the launch, on the host | [`launch`]; a library such as `ferrowarp` implements it |

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
pub mod aligned;
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
pub mod grid_constant;
pub mod index;
pub mod intrinsics;
pub mod io;
#[cfg(not(target_os = "cuda"))]
pub mod launch;
pub mod layout;
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
pub mod unroll;
pub mod vector;
pub mod view;
pub mod warp;

pub use aligned::Aligned;
pub use cache_line::CacheLineAligned;
pub use float::{FloatExt, GpuFloat};

pub use cuda_std_macros::{
    address_space, externally_visible, gpu_only, kernel, kernel_body, shared_array,
};
pub use glam;
pub use half::{self, bf16, f16};
