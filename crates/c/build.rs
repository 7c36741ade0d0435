//! Sets how the shared library is linked, and checks which compilers the tests have.

use std::env::var;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rustc-check-cfg=cfg(no_cc, no_cxx)");
    if var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libferrowarp.so.0");
        // The library carries functions of the driver's names (`cuInit`, …). A program that links libcuda has NVIDIA's of the
        // same names, and neither side may call the other's.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
    if !is_there("CC", "cc") {
        println!("cargo::rustc-cfg=no_cc");
    }
    if !is_there("CXX", "c++") {
        println!("cargo::rustc-cfg=no_cxx");
    }
}

fn is_there(variable: &str, usual: &str) -> bool {
    let compiler = var(variable).unwrap_or_else(|_| usual.to_owned());
    let status = Command::new(compiler).arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
