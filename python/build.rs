//! Keeps the driver functions that the library carries (`cuInit`, …) to itself: a process that also loads NVIDIA's driver,
//! through PyTorch for instance, has two functions of each such name, and neither side may call the other's.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
