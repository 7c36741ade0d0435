//! C programs on the shared library, on the emulator.

use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The library under its names: the one that linkers look for, and its soname.
fn folder() -> TempDir {
    let built = env::current_exe().unwrap().with_file_name("libferrowarp_c.so");
    assert!(built.exists(), "cargo built no {}", built.display());
    let folder = tempfile::tempdir().unwrap();
    for name in ["libferrowarp.so", "libferrowarp.so.0"] {
        symlink(&built, folder.path().join(name)).unwrap();
    }
    folder
}

/// Compiles a program of `tests/c` into the folder.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    compile_file(folder, &sources.join(name).with_extension("c"))
}

fn compile_file(folder: &Path, source: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(source.file_stem().unwrap());
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(cc);
    command.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]);
    command.arg("-I").arg(root.join("include")).arg(source);
    command.arg("-L").arg(folder).args(["-lferrowarp", "-lm", "-ldl", "-o"]).arg(&program);
    let compiled = command.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

fn run(folder: &Path, program: &Path) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder).env("FERROWARP_DEVICE", "emulator");
    command.output().unwrap()
}

/// What a program of `tests/c` prints that ends well.
fn said(name: &str) -> String {
    let folder = folder();
    said_by(folder.path(), &compile(folder.path(), name))
}

fn said_by(folder: &Path, program: &Path) -> String {
    let ran = run(folder, program);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn operations_are_those_of_plain_loops() {
    let said = said("operations");
    assert!(said.starts_with("emulator: every operation is right"), "{said}");
}

#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn errors_have_a_status_and_a_message() {
    let said = said("errors");
    assert!(said.starts_with("every error is the right one"), "{said}");
}

#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn a_fault_of_the_device_is_reported() {
    assert_eq!(said("fault"), "the fault is reported\n");
}

#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn the_program_of_the_book_runs() {
    let book = include_str!("../../../book/src/c.md");
    let (_, program) = book.split_once("```c\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let folder = folder();
    let source = folder.path().join("book.c");
    std::fs::write(&source, program).unwrap();
    let said = said_by(folder.path(), &compile_file(folder.path(), &source));
    assert_eq!(said, "the best is number 1, then 3\n");
}

/// The emulated driver as a shared library stands in for NVIDIA's. The library recognises its own driver by a mark, and refuses it: the
/// stand-in has another one.
#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler")]
fn a_program_uses_the_driver_beside_the_library() {
    const MARK: &[u8] = b"\0FERROWARP_LIBCUDA\0";
    let folder = folder();
    let own = env::current_exe().unwrap().with_file_name("libferrowarp_libcuda.so");
    let mut driver = std::fs::read(own).unwrap();
    let marks = (0..driver.len()).filter(|&at| driver[at..].starts_with(MARK)).collect::<Vec<_>>();
    assert!(!marks.is_empty(), "the driver has no mark");
    marks
        .iter()
        .for_each(|at| driver[*at..][..MARK.len()].copy_from_slice(b"\0FERROWARP_STANDIN\0"));
    let path = folder.path().join("libcuda.so.1");
    std::fs::write(&path, driver).unwrap();
    let mut command = Command::new(compile(folder.path(), "beside_libcuda"));
    command.arg("12").env("LD_LIBRARY_PATH", folder.path());
    command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_CUDA_LIBRARY", path);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(ran.stdout.starts_with(b"beside libcuda: right"));
}

#[test]
#[cfg_attr(no_cxx, ignore = "this machine has no C++ compiler")]
fn the_header_is_cpp_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cxx = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(cxx);
    command.args([
        "-x",
        "c++",
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
    ]);
    let checked = command.arg(root.join("include/ferrowarp.h")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Of the driver's functions that the library carries none is visible to a program that has NVIDIA's.
#[test]
#[cfg_attr(no_cc, ignore = "this machine has no C compiler, and so perhaps no nm")]
fn only_functions_of_the_header_are_exported() {
    let folder = folder();
    let library = folder.path().join("libferrowarp.so");
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8(nm.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!(names.contains(&"ferrowarp_sort"), "{text}");
    let others: Vec<_> = names.iter().filter(|name| !name.starts_with("ferrowarp_")).collect();
    assert!(others.is_empty(), "{others:?}");
}
