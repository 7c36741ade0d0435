//! What can go wrong between a kernel crate and its PTX.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::ptx::PtxError;
use crate::{FunctionUsage, NvvmArch};

/// Why a kernel crate did not become PTX.
///
/// `Debug` prints the same sentence as `Display`, so that a build script whose `main` returns this
/// error, or unwraps it, shows its user a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// There is no crate at the path given to `CudaBuilder::new`.
    #[error("there is no kernel crate at `{}`: it has no Cargo.toml", .0.display())]
    CratePathDoesntExist(PathBuf),
    /// The PTX could not be copied to the path given to `copy_to`.
    #[error("the PTX could not be copied: {0}")]
    FailedToCopyPtxFile(#[source] io::Error),
    /// The kernel crate did not compile.
    #[error("the kernel crate did not compile; the compiler's own messages stand above")]
    BuildFailed,
    /// The kernel crate did not compile, and the compiler's messages were kept
    /// ([`CudaBuilder::keep_messages`](crate::CudaBuilder::keep_messages)).
    #[error("the kernel crate did not compile:\n{}", messages.trim_end())]
    Rejected {
        /// The compiler's own text.
        messages: String,
    },
    /// The build was ended by [`Cancel::cancel`](crate::Cancel::cancel).
    #[error("the build was cancelled")]
    Cancelled,
    /// `cargo` could not be started.
    #[error(
        "`{program}` could not be started: {source}; `make toolchain` in Ferrowarp's folder installs it"
    )]
    CargoMissing {
        /// The program that was tried.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// `rustc` does not run: rustup lacks the toolchain, say.
    #[error(
        "the Rust compiler does not run: {said}; \
         `rustup toolchain install` beside `rust-toolchain.toml`, or `make toolchain` in Ferrowarp's folder, installs it"
    )]
    CompilerMissing {
        /// Its own words, or the system's.
        said: String,
    },
    /// The compiler lacks the library's source, which every kernel crate is compiled with.
    #[error(
        "the Rust library's source is missing below `{}`: \
         `rustup component add rust-src` or `make toolchain` in Ferrowarp's folder installs it", sysroot.display()
    )]
    LibrarySourceMissing {
        /// The compiler's sysroot.
        sysroot: PathBuf,
    },
    /// The compiler is older than the first one that compiles kernels.
    #[error(
        "kernels need Rust {needed} and this is {found}: copy Ferrowarp's `rust-toolchain.toml` \
         beside your `Cargo.toml`, which makes rustup take the right one"
    )]
    CompilerTooOld {
        /// What `rustc --version` says.
        found: String,
        /// The releases that serve: `1.96 to 1.99`.
        needed: String,
    },
    /// An option was set to a value that this compiler cannot honour.
    #[error("`{option}` cannot be honoured: {reason}")]
    Unsupported {
        /// The option and its value, as written in the build script.
        option: &'static str,
        /// Why not, and what to do instead.
        reason: &'static str,
    },
    /// The name of an architecture is not one of [`NvvmArch::ALL`].
    #[error("`{name}` is not a GPU architecture; one is written `compute_90a` or `sm_90a`")]
    UnknownArch {
        /// The name given.
        name: String,
    },
    /// The compiler's code generator does not know the architecture.
    #[error("this compiler does not know {arch}; it knows {known}")]
    UnsupportedArch {
        /// The architecture asked for.
        arch: NvvmArch,
        /// The processors that it knows, with commas between.
        known: String,
    },
    /// `archs` was given an empty list.
    #[error("`archs` was given no architecture")]
    NoArch,
    /// `embed` was called outside a build script.
    #[error("`embed` writes into OUT_DIR, which only a build script has")]
    NoOutDir,
    /// A file could not be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// `read`, `write` or `remove`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Cargo reported success, and left no PTX where it was told to.
    #[error("cargo left no PTX at `{}`: delete `{}` and build again", path.display(), target_dir.display())]
    NoPtx {
        /// Where it was expected.
        path: PathBuf,
        /// The builder's own target directory.
        target_dir: PathBuf,
    },
    /// NVIDIA's assembler refused the PTX.
    #[error("`{}` refuses the PTX for {arch}:\n{message}", ptxas.display())]
    AssemblyFailed {
        /// Which architecture's PTX.
        arch: NvvmArch,
        /// Which assembler.
        ptxas: PathBuf,
        /// Its own words.
        message: String,
    },
    /// Functions spill registers, which `deny_spills` forbids.
    #[error("for {arch}, registers are spilled to memory in {}", list(functions))]
    Spills {
        /// Which architecture's PTX.
        arch: NvvmArch,
        /// The functions that spill.
        functions: Vec<FunctionUsage>,
    },
    /// The PTX breaks a rule that the builder checks.
    #[error("the PTX for {arch}: {source}")]
    Ptx {
        /// Which architecture's PTX.
        arch: NvvmArch,
        /// The rule and the place.
        source: PtxError,
    },
}

impl fmt::Debug for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `gemm` (16 bytes stored, 20 loaded), `conv` (…).
fn list(functions: &[FunctionUsage]) -> String {
    let one = |usage: &FunctionUsage| {
        let FunctionUsage { name, spill_store_bytes, spill_load_bytes, .. } = usage;
        format!("`{name}` ({spill_store_bytes} bytes stored, {spill_load_bytes} loaded)")
    };
    functions.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl CudaBuilderError {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CudaBuilderError::File { action: "read", path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CudaBuilderError::File { action: "write", path, source }
    }
}
