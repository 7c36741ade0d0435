//! Programs that are not written in Rust.

mod common;

use std::path::Path;
use std::process::Command;

/// Compiles the C client against the library, runs it, and reads what it says.
#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn a_c_program_that_links_lcuda_runs() {
    let folder = common::folder();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = folder.path().join("client");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compile = Command::new(cc);
    compile.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(sources.join("client.c"));
    compile.arg("-L").arg(folder.path()).arg("-lcuda");
    let compiled = compile.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut run = Command::new(program);
    run.arg(sources.join("kernels.ptx"));
    run.env("LD_LIBRARY_PATH", folder.path()).env("FERROWARP_DEVICE", "emulator");
    let ran = run.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(said, "Ferrowarp emulator: map, reduction, atomics and stencil are right\n");
}

/// The Python clients, as the Makefile sets them up.
#[test]
#[ignore = "installs packages from PyPI; run it with `make libcuda-test`"]
fn python_programs_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new("make").arg("libcuda-test").current_dir(root).status().unwrap();
    assert!(status.success());
}
