//! Gives the shipped kernels to the library, where the feature `ops` asks for them: one module for each architecture, which
//! the library embeds with `include_kernels!` and of which it picks the best one when it loads.
//!
//! A package has the kernels compiled, so that its users need no source of `core`. A checkout compiles them, and so does a
//! package with the feature `compile-kernels`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use cuda_builder::{CudaBuilder, NvvmArch};

/// The oldest GPU that the kernels serve (Ampere), and the one that they are tuned for (Hopper).
const ARCHS: [NvvmArch; 2] = [NvvmArch::Compute80, NvvmArch::Compute90a];

/// Blackwell, in data centres and elsewhere. The kernels take Hopper's forms there. No test has run on one.
const BLACKWELL: [NvvmArch; 2] = [NvvmArch::Compute100a, NvvmArch::Compute120a];

/// The compiled kernels of a package, which `scripts/package` makes.
const SHIPPED: &str = "shipped/kernels.packed";

/// The sources of the kernels in a checkout.
const SOURCES: &str = "kernels-gpu";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if env::var_os("CARGO_FEATURE_OPS").is_none() {
        println!("cargo::rerun-if-changed=build.rs");
    } else if Path::new(SOURCES).exists() {
        // Plain, they are 150 MB of each of the hundred executables that a debug build of all tests and examples links.
        CudaBuilder::new(SOURCES).archs(archs()).pack(true).embed()?;
    } else if env::var_os("CARGO_FEATURE_COMPILE_KERNELS").is_some() {
        CudaBuilder::new(copied_sources()?).archs(archs()).embed()?;
    } else {
        cuda_builder::embed_archive(SHIPPED)?;
    }
    Ok(())
}

fn archs() -> Vec<NvvmArch> {
    let has_blackwell = env::var_os("CARGO_FEATURE_BLACKWELL").is_some();
    ARCHS.into_iter().chain(BLACKWELL.into_iter().filter(|_| has_blackwell)).collect()
}

/// The kernel crate in a folder of this build: cargo must not write into the folder of a package.
fn copied_sources() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let root =
        env::var_os("DEP_FERROWARP_KERNELS_ROOT").ok_or("`ferrowarp-kernels` names no folder")?;
    let copy = PathBuf::from(env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?).join("kernels");
    copy_folder(Path::new(&root), &copy)?;
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
