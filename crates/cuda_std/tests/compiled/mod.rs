//! The PTX of the kernel crates that the device library is tested with.

use cuda_builder::{CudaBuilder, NvvmArch};
use std::path::Path;

/// The PTX of the kernels in `cuda_std_tests/kernels/<name>`, for an architecture, without line numbers and comments.
pub fn ptx(name: &str, arch: NvvmArch) -> String {
    code(&whole_ptx(name, arch))
}

/// All of that PTX.
pub fn whole_ptx(name: &str, arch: NvvmArch) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("cuda_std_tests");
    // Where the other tests compile kernels: `core` is compiled once for all.
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    let kernels = CudaBuilder::new(crates.join("kernels").join(name));
    let path = kernels.archs([arch]).target_dir(target_dir).build();
    let path = path.unwrap_or_else(|error| panic!("{error}"));
    std::fs::read_to_string(path).expect("the PTX is there")
}

/// PTX without line numbers and comments.
fn code(ptx: &str) -> String {
    let is_code = |line: &&str| !line.starts_with("//") && !line.starts_with(".loc");
    ptx.lines().map(str::trim).filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The lines of a kernel's body.
pub fn kernel<'a>(ptx: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(".visible .entry {name}(");
    let mut lines = ptx.lines().skip_while(|line| *line != start);
    assert!(lines.next().is_some(), "no kernel `{name}`");
    lines.take_while(|line| *line != "}").collect()
}
