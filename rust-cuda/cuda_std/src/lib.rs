//! The device library `ferrowarp-std` under the package name that rust-cuda's projects have in their manifests.

#![no_std]

// The library of `ferrowarp-std` is called `cuda_std`, as this one is.
pub use ::cuda_std::*;
