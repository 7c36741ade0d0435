//! Compiles the kernels to PTX, one module for each architecture. The host crate embeds them with
//! `include_kernels!` and picks the best one when it loads.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

/// The oldest GPU that the kernels serve (Ampere), and the one that they are tuned for (Hopper).
const ARCHS: [NvvmArch; 2] = [NvvmArch::Compute80, NvvmArch::Compute90a];

fn main() -> Result<(), CudaBuilderError> {
    CudaBuilder::new("kernels-gpu").archs(ARCHS).embed()?;
    Ok(())
}
