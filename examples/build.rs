//! Compiles the kernels to PTX, one image for each architecture; `ferrowarp::include_kernels!` embeds both and the
//! program loads the one that suits the device.

use std::env;
use std::path::PathBuf;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() -> Result<(), CudaBuilderError> {
    // The copies, `kernels.sm_80.ptx` and `kernels.sm_90.ptx`, are for 12_cust and 16_cust_steps, which load PTX as a rust-cuda program does.
    let copy = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("kernels.ptx");
    CudaBuilder::new("kernels")
        .archs([NvvmArch::Compute80, NvvmArch::Compute90])
        .copy_to(copy)
        .embed()?;
    Ok(())
}
