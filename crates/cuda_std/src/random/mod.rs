//! Random numbers, on the device and, with the same bits, on the host.
//!
//! | | state | for |
//! |---|---|---|
//! | [`Philox`] | 40 bytes, made where it is used | most kernels: a stream for each thread, from a seed and the thread's index |
//! | [`xoshiro`] | 8 to 64 bytes, kept in memory | a long sequence for each thread, continued by the next launch |
//!
//! Every generator is a [`rand_core::Rng`], so that the crates that build on it run in kernels;
//! [`GpuRand`] gives each of them uniform and normal numbers. The names of the xoshiro family and of
//! [`GpuRand`] are those of rust-cuda's `gpu_rand`.
//!
//! ```
//! use cuda_std::prelude::*;
//! use cuda_std::random::{GpuRand, Philox};
//!
//! /// Normally distributed numbers, the same for the same seed whatever the grid.
//! #[kernel]
//! pub fn noise(index: ThreadIndex, seed: u64, mut y: DisjointSlice<f32>) {
//!     for i in index.grid_stride(y.len()) {
//!         if let Some(y) = y.get_mut(i) {
//!             *y = Philox::new(seed, i.get() as u64).normal_f32();
//!         }
//!     }
//! }
//! # fn main() {}
//! ```

mod philox;
mod uniform;
pub mod xoshiro;

pub use philox::{Philox, philox4x32};
pub use rand_core;
pub use uniform::GpuRand;

/// The generator of `gpu_rand`'s name: [`Xoroshiro128StarStar`](xoshiro::Xoroshiro128StarStar).
pub type DefaultRand = xoshiro::Xoroshiro128StarStar;
