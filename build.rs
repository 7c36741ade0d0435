//! Compiles the kernels to PTX, one module for each architecture, where the feature `ops` asks for them. The host crate
//! embeds them with `include_kernels!` and picks the best one when it loads.

use std::env;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

/// The oldest GPU that the kernels serve (Ampere), and the one that they are tuned for (Hopper).
const ARCHS: [NvvmArch; 2] = [NvvmArch::Compute80, NvvmArch::Compute90a];

fn main() -> Result<(), CudaBuilderError> {
    if env::var_os("CARGO_FEATURE_OPS").is_some() {
        CudaBuilder::new("kernels-gpu").archs(ARCHS).embed()?;
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    Ok(())
}
