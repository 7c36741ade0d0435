//! Compiles each kernel crate under `kernels/` to PTX; `images!` includes it by the same name.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

/// The kernel crates, by folder.
const KERNELS: &[&str] = &[
    "basics",
    "block",
    "compat",
    "contracts",
    "hopper",
    "math",
    "numbers",
    "operators",
    "orders",
    "panics",
    "panics_debug",
    "panics_light",
    "panics_trap",
    "prints",
    "published",
    "shared",
    "warp",
];

fn main() -> Result<(), CudaBuilderError> {
    for name in KERNELS {
        let kernels =
            CudaBuilder::new(format!("kernels/{name}")).release(!name.ends_with("_debug"));
        kernels.arch(NvvmArch::Compute90a).embed_file(format!("{name}.rs")).embed()?;
    }
    Ok(())
}
