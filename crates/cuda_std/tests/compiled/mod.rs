//! The PTX of `tests/kernels`.

use cuda_builder::{CudaBuilder, NvvmArch};
use std::path::Path;
use std::sync::LazyLock;

/// Compiled once for all tests of a file.
pub static PTX: LazyLock<String> = LazyLock::new(|| {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR"))
        .with_file_name("cuda_std_tests")
        .join("kernels/basics");
    // Where the other tests compile kernels: `core` is compiled once for all.
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    let builder = CudaBuilder::new(kernels).archs([NvvmArch::Compute90a]).target_dir(target_dir);
    let path = builder.build().unwrap_or_else(|error| panic!("{error}"));
    std::fs::read_to_string(path).unwrap()
});
