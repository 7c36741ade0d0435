//! Peers in CUDA C++, compiled where `nvcc` is on the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use ferrowarp_tools::bench::peers::nvcc;

/// The executable of `source` in `dir`, or why there is none.
pub fn build(dir: &Path, name: &str, source: &str) -> Result<PathBuf, String> {
    let nvcc = nvcc().ok_or("nvcc is not on this machine")?;
    let (file, program) = (dir.join(format!("{name}.cu")), dir.join(name));
    std::fs::write(&file, source).map_err(|error| error.to_string())?;
    let output = Command::new(nvcc)
        .args(["-O3", "-std=c++17", "--extended-lambda", "-arch=native", "-o"])
        .args([&program, &file])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(program);
    }
    Err(format!("nvcc failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What the program writes, or what it complains of.
pub fn run(program: &Path, args: &[String]) -> Result<String, String> {
    let output = Command::new(program).args(args).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
