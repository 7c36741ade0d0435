//! Compiles the kernels to PTX, one image for each architecture; `ferrowarp::include_kernels!` embeds both and the
//! program loads the one that suits the device.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() -> Result<(), Box<dyn Error>> {
    // The copies, `kernels.sm_80.ptx` and `kernels.sm_90.ptx`, are for 12_cust and 16_cust_steps, which load PTX as a rust-cuda program does.
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    CudaBuilder::new("kernels")
        .archs([NvvmArch::Compute80, NvvmArch::Compute90])
        .copy_to(out.join("kernels.ptx"))
        .embed()?;
    // Documentation and lints need no kernels, and then there are no copies. (The builder asks cargo to look at the variable.)
    if env::var_os("DOCS_RS").is_some() {
        fs::write(out.join("kernels.sm_80.ptx"), "")?;
    }
    Ok(())
}
