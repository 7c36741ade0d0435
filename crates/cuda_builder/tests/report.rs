//! The assembler's report: with a stand-in that says what a test wants, and with the real one.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use common::{Fixture, texts};

/// A folder with a `ptxas` that prints `says` and exits with `code`, first on the returned `PATH`.
fn stand_in(fixture: &Fixture, says: &str, code: u8) -> String {
    let dir = fixture.dir.join("bin");
    fs::create_dir_all(&dir).unwrap();
    let ptxas = dir.join("ptxas");
    fs::write(&ptxas, format!("#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")).unwrap();
    fs::set_permissions(&ptxas, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

const SPILLING: &str = "\
ptxas info    : Compiling entry function 'checked' for 'sm_75'
ptxas info    : Function properties for checked
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem, 360 bytes cmem[0]
";

#[test]
fn the_report_is_a_table() {
    let fixture = Fixture::copy("plain", "report_table");
    let path = stand_in(&fixture, SPILLING, 0);
    let output = fixture.command().arg("--report").env("PATH", path).output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("checked         255      2048       16         12"), "{stdout}");
}

#[test]
fn spills_can_be_denied() {
    let fixture = Fixture::copy("plain", "denied_spills");
    let path = stand_in(&fixture, SPILLING, 0);
    let output = fixture.command().arg("--deny-spills").env("PATH", path).output().unwrap();
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    let expected = "for compute_75, registers are spilled to memory in `checked` \
                    (12 bytes stored, 8 loaded)";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn refused_ptx_is_an_error_with_the_assemblers_words() {
    let fixture = Fixture::copy("plain", "refused_ptx");
    let path = stand_in(&fixture, "ptxas k.ptx, line 7; error : Parsing error", 255);
    let output = fixture.command().arg("--report").env("PATH", path).output().unwrap();
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("refuses the PTX for compute_75"), "{stderr}");
    assert!(stderr.contains("line 7; error : Parsing error"), "{stderr}");
}

#[test]
fn an_assembler_that_lacks_the_architecture_is_said_and_no_error() {
    let fixture = Fixture::copy("plain", "lacking_assembler");
    let says = "ptxas fatal   : Value 'sm_75' is not defined for option 'gpu-name'";
    let path = stand_in(&fixture, says, 1);
    let output = fixture.command().arg("--report").env("PATH", path).output().unwrap();
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("cannot assemble this module: ptxas fatal"), "{stdout}");
}

#[test]
fn a_python_package_serves() {
    let fixture = Fixture::copy("plain", "python_package");
    stand_in(&fixture, SPILLING, 0);
    let package = fixture.dir.join("python/nvidia/cu13");
    fs::create_dir_all(&package).unwrap();
    fs::rename(fixture.dir.join("bin"), package.join("bin")).unwrap();
    let report = |python: &str| {
        let output = fixture
            .command()
            .arg("--report")
            .env("PATH", without_ptxas())
            .env("PYTHONPATH", fixture.dir.join("python"))
            .env("CUDA_BUILDER_PYTHON", python)
            .env_remove("CUDA_PATH")
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_ROOT")
            .output()
            .unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{stderr}");
        stdout
    };
    let found = report("python3");
    assert!(found.contains("checked  "), "{found}");
    let unasked = report("");
    assert!(unasked.contains("`CUDA_BUILDER_PYTHON=python3` finds"), "{unasked}");
}

/// `PATH` without the folders that hold an assembler.
fn without_ptxas() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    let kept: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|dir| !dir.join("ptxas").exists()).collect();
    std::env::join_paths(kept).unwrap()
}

#[test]
#[ignore = "needs NVIDIA's ptxas: `pip install nvidia-cuda-nvcc`"]
fn the_real_assembler_accepts_every_option() {
    let fixture = Fixture::copy("plain", "real_assembler");
    let builds = [
        fixture.compile(|b| b.report(true).deny_spills(true)),
        fixture.compile(|b| b.report(true).ftz(true)),
        fixture.compile(|b| b.report(true).ftz(true).fast_div(true).fast_sqrt(true)),
        fixture.compile(|b| b.report(true).fma_contraction(false).generate_line_info(false)),
    ];
    for compiled in builds {
        let report = compiled.unwrap().modules.remove(0).report.unwrap();
        let arithmetic = report.function("arithmetic").expect("an assembled kernel");
        assert!(arithmetic.is_kernel && arithmetic.registers > 0);
    }
}
