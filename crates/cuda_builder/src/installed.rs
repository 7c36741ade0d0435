//! What a machine has of the tools that build kernels, for programs that report it.

use std::path::{Path, PathBuf};

use crate::{CudaBuilderError, toolchain};

pub use crate::ptxas::find as find_ptxas;

/// The compiler that builds the kernel crates of a folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiler {
    /// What `rustc --version` prints.
    pub version: String,
    /// The folder of its libraries.
    pub sysroot: PathBuf,
    /// The releases that kernels are tested with: `1.96 to 1.99`. A newer one may work.
    pub tested: String,
}

impl Compiler {
    /// The compiler that rustup, `RUSTC` or `PATH` selects for a crate in `folder`.
    ///
    /// # Errors
    /// It does not run, or is too old for kernels.
    pub fn find(folder: &Path) -> Result<Self, CudaBuilderError> {
        let run = |args: &[&str]| {
            let missing = |said| CudaBuilderError::CompilerMissing { said };
            toolchain::rustc(folder, args).map_err(missing)
        };
        let version = run(&["--version"])?;
        toolchain::check_release(&version)?;
        let (sysroot, tested) = (run(&["--print", "sysroot"])?.into(), toolchain::tested());
        Ok(Self { version, sysroot, tested })
    }

    /// The source of the Rust library, which every kernel crate is compiled with.
    ///
    /// # Errors
    /// It is not installed.
    pub fn library_source(&self) -> Result<PathBuf, CudaBuilderError> {
        let sysroot = self.sysroot.clone();
        if toolchain::has_library_source(&sysroot) {
            Ok(sysroot.join("lib/rustlib/src/rust/library"))
        } else {
            Err(CudaBuilderError::LibrarySourceMissing { sysroot })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_compiler_is_found_with_its_source() {
        let compiler = Compiler::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(compiler.version.starts_with("rustc 1."), "{}", compiler.version);
        assert!(compiler.library_source().unwrap().join("core").is_dir());
    }

    #[test]
    fn an_empty_sysroot_lacks_the_source() {
        let sysroot = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let (version, tested) = (String::new(), String::new());
        let text = Compiler { version, sysroot, tested }.library_source().unwrap_err();
        assert!(text.to_string().contains("rustup component add rust-src"), "{text}");
    }
}
