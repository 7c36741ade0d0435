//! Sets how the shared library is linked, and checks whether the tests have a C compiler.

use std::env::var;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-check-cfg=cfg(no_cc)");
    if var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libferrowarp.so.0");
        // The library carries functions of the driver's names (`cuInit`, …). A program that links libcuda has NVIDIA's of the
        // same names, and neither side may call the other's.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
    if !has_cc() {
        println!("cargo::rustc-cfg=no_cc");
    }
}

fn has_cc() -> bool {
    let cc = var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(cc).arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
