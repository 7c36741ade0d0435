//! NVIDIA's assembler, where the machine has one: a check of the PTX, and what each kernel uses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use crate::report::PYTHON;
use crate::report::{FunctionUsage, NotAssembled, Report};
use crate::{CudaBuilderError, NvvmArch};

/// Assembles a module, if there is an assembler that can.
pub(crate) fn assemble(
    ptx: &Path,
    cubin: &Path,
    arch: NvvmArch,
) -> Result<Report, CudaBuilderError> {
    let Some(ptxas) = find() else {
        return Ok(Report::NotAssembled(NotAssembled::NoAssembler));
    };
    let output = Command::new(&ptxas)
        .arg("-v")
        .arg(format!("-arch={}", arch.target_cpu()))
        .args([ptx, Path::new("-o"), cubin])
        .output()
        .map_err(CudaBuilderError::read(&ptxas))?;
    read(&output, ptxas, arch)
}

fn read(output: &Output, ptxas: PathBuf, arch: NvvmArch) -> Result<Report, CudaBuilderError> {
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(Report::Assembled(functions(&text)));
    }
    let unsuited = ["is not defined for option 'gpu-name'", "Unsupported .version"];
    match text.lines().find(|line| unsuited.iter().any(|part| line.contains(part))) {
        Some(line) => {
            let reason = line.to_owned();
            Ok(Report::NotAssembled(NotAssembled::Unsuited { ptxas, reason }))
        }
        None => {
            let message = text.trim().to_owned();
            Err(CudaBuilderError::AssemblyFailed { arch, ptxas, message })
        }
    }
}

/// Reads what `ptxas -v` prints.
fn functions(text: &str) -> Vec<FunctionUsage> {
    let mut functions: Vec<FunctionUsage> = Vec::new();
    let mut kernel = "";
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or_default();
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            let (name, is_kernel) = (name.trim().to_owned(), name.trim() == kernel);
            functions.push(FunctionUsage { name, is_kernel, ..Default::default() });
        } else if let Some((_, used)) = line.split_once(": Used ") {
            let of_kernel = functions.iter_mut().rev().find(|usage| usage.name == kernel);
            if let Some(usage) = of_kernel {
                usage.registers = amount(used, " registers");
                usage.shared_bytes = amount(used, " bytes smem");
            }
        } else if let Some(usage) = functions.last_mut().filter(|_| line.contains("stack frame")) {
            usage.stack_bytes = amount(line, " bytes stack frame");
            usage.spill_store_bytes = amount(line, " bytes spill stores");
            usage.spill_load_bytes = amount(line, " bytes spill loads");
        }
    }
    functions
}

/// The number before a unit: `amount("16 registers, 4 bytes smem", " bytes smem")` is 4.
fn amount(line: &str, unit: &str) -> u32 {
    let part = line.split(',').find_map(|part| part.trim().strip_suffix(unit));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// The first assembler of the path, of a CUDA toolkit, or of the packages of the Python that the user names.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join("ptxas"));
    let toolkits = TOOLKITS.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let in_toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]);
    let mut all = on_path.chain(in_toolkits.map(|dir| dir.join("bin/ptxas")));
    all.find(|file| file.is_file()).or_else(of_python)
}

/// The variables that name a CUDA toolkit.
pub(crate) const TOOLKITS: [&str; 3] = ["CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"];

/// The assembler of the Python package `nvidia-cuda-nvcc`.
fn of_python() -> Option<PathBuf> {
    const SCRIPT: &str = "
import glob, importlib.util, os
spec = importlib.util.find_spec('nvidia')
for place in (spec.submodule_search_locations if spec else []):
    for file in sorted(glob.glob(os.path.join(place, '*', 'bin', 'ptxas'))):
        print(file)
";
    let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty())?;
    let output = Command::new(python).args(["-c", SCRIPT]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().map(PathBuf::from).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    48 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 48 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Function properties for helper
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'copy' for 'sm_90a'
ptxas info    : Function properties for copy
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
";

    #[test]
    fn usage_is_read() {
        let report = Report::Assembled(functions(TEXT));
        let gemm = report.function("gemm").unwrap();
        assert!(gemm.is_kernel && gemm.spills());
        assert_eq!((gemm.registers, gemm.shared_bytes, gemm.stack_bytes), (168, 1024, 48));
        assert_eq!((gemm.spill_store_bytes, gemm.spill_load_bytes), (16, 20));
        assert!(!report.function("helper").unwrap().is_kernel);
        assert_eq!(report.function("copy").unwrap().registers, 12);
    }

    #[test]
    fn the_table_has_a_line_for_each_function() {
        let table = Report::Assembled(functions(TEXT)).to_string();
        let expected = "\
function  registers  shared B  stack B  spilled B
gemm            168      1024       48         20
helper            0         0        8          0
copy             12         0        0          0";
        assert_eq!(table, expected);
    }
}
