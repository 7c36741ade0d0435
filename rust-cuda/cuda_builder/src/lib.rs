//! The builder `ferrowarp-builder` under the package name that rust-cuda's projects have in their manifests.

// The library of `ferrowarp-builder` is called `cuda_builder`, as this one is.
pub use ::cuda_builder::*;
