//! A project written for rust-cuda, moved as `book/src/coming-from-rust-cuda.md` says: it names the published
//! packages, and the released `cust` runs its kernel.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::texts;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The packages' files. In the manifests `ROOT` stands for the folder of this project.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        r#"[package]
name = "moved_project"
version = "0.0.0"
edition = "2021"

[workspace]
members = ["kernels", "helper"]

[dependencies]
cust = "0.3.2"
cuda_driver = { package = "ferrowarp-driver", path = "ROOT/crates/cuda_driver" }

[build-dependencies]
cuda_builder = "0.3"

[patch.crates-io]
cuda_builder = { path = "ROOT/rust-cuda/cuda_builder" }
cuda_std = { path = "ROOT/rust-cuda/cuda_std" }
"#,
    ),
    (
        ".cargo/config.toml",
        "[env]\nCUDA_LIBRARY_PATH = { value = \"ROOT/crates/cuda_driver/link\", relative = true }\n",
    ),
    (
        "build.rs",
        r#"fn main() {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    cuda_builder::CudaBuilder::new("kernels").copy_to(out.join("copied.ptx")).build().unwrap();
}
"#,
    ),
    (
        "src/main.rs",
        r#"extern crate cuda_driver as _;

use cust::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (a, b): (Vec<f32>, Vec<f32>) = (0..100).map(|i| (i as f32, 2.0 * i as f32)).unzip();
    let _context = cust::quick_init()?;
    let module = Module::from_ptx(include_str!(concat!(env!("OUT_DIR"), "/copied.ptx")), &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let (a_gpu, b_gpu) = (a.as_slice().as_dbuf()?, b.as_slice().as_dbuf()?);
    let out = DeviceBuffer::<f32>::zeroed(a.len())?;
    let vecadd = module.get_function("vecadd")?;
    unsafe {
        launch!(vecadd<<<4, 32, 0, stream>>>(
            a_gpu.as_device_ptr(), a_gpu.len(), b_gpu.as_device_ptr(), b_gpu.len(), out.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let mut sums = vec![0.0f32; a.len()];
    out.copy_to(&mut sums)?;
    assert_eq!(sums, (0..100).map(|i| 6.0 * i as f32).collect::<Vec<_>>());
    println!("{} sums are right", sums.len());
    Ok(())
}
"#,
    ),
    (
        "kernels/Cargo.toml",
        r#"[package]
name = "moved_kernels"
version = "0.0.0"
edition = "2021"

[dependencies]
cuda_std = "0.2"
helper = { package = "moved_helper", path = "../helper" }

[lib]
crate-type = ["cdylib", "rlib"]
"#,
    ),
    (
        "kernels/src/lib.rs",
        r#"use cuda_std::prelude::*;

#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn vecadd(a: &[f32], b: &[f32], c: *mut f32) {
    let idx = thread::index_1d() as usize;
    if idx < a.len() {
        let pair = cuda_std::glam::Vec3::new(a[idx], b[idx], 0.0);
        *c.add(idx) = helper::twice(pair).element_sum();
    }
}
"#,
    ),
    // It is not `no_std`, and takes the range of glam that rust-cuda takes.
    (
        "helper/Cargo.toml",
        r#"[package]
name = "moved_helper"
version = "0.0.0"
edition = "2021"

[dependencies]
glam = { version = ">=0.22", default-features = false, features = ["libm"] }
"#,
    ),
    ("helper/src/lib.rs", "pub fn twice(v: glam::Vec3) -> glam::Vec3 {\n    v * 2.0\n}\n"),
];

fn project() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved_project");
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    for (file, text) in FILES {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("ROOT", ROOT)).unwrap();
    }
    // The versions that are here already.
    fs::copy(Path::new(ROOT).join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    dir
}

#[test]
fn a_project_that_names_the_published_packages_links_and_runs() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .current_dir(project())
        .args(["run", "--offline"])
        .env("CARGO_TARGET_DIR", target)
        // As this workspace has it, so that the dependencies of both are compiled once.
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env_remove("CUDA_LIBRARY_PATH")
        .output()
        .unwrap();
    let (stdout, stderr) = texts(&output);
    assert_eq!(stdout, "100 sums are right\n", "{stderr}");
    assert!(!stderr.contains("was not used in the crate graph"), "{stderr}");
}
