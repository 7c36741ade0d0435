//! Compiles a kernel crate to PTX from a build script, with the stock Rust compiler.
//!
//! A build script of three lines serves:
//!
//! ```no_run
//! use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
//!
//! fn main() -> Result<(), CudaBuilderError> {
//!     CudaBuilder::new("kernels").archs([NvvmArch::Compute80, NvvmArch::Compute90a]).embed()?;
//!     Ok(())
//! }
//! ```
//!
//! The interface is rust-cuda's `cuda_builder`; `archs`, `embed` and `compile` stand beside it.
//! Options that have no meaning without NVIDIA's NVVM make `build` return
//! [`CudaBuilderError::Unsupported`] when they are set.
//!
//! # What is compiled
//!
//! The crate's library, for `nvptx64-nvidia-cuda`, together with `core` and `alloc` from the
//! compiler's own source. The first build compiles those two (about 20 seconds); after that an
//! edit of a kernel, or another architecture, takes well under a second. The compiler's messages
//! reach the user unchanged. The crate root needs no attributes: `no_std` and the features that
//! kernels use are set from outside, `no_std` for dependencies too.
//!
//! Every `#[unsafe(no_mangle)] extern "ptx-kernel"` function becomes an entry of the PTX, those of
//! dependencies included, if the crate uses the dependency at all (`use its_name as _;` is enough).
//! The panic handler comes from `cuda_std`, or from whatever the crate uses in its place.
//!
//! The very first build looks the library's own dependencies up in the crates.io index, so it needs
//! the network, as a host crate with dependencies does.
//!
//! # Conditional compilation
//!
//! In the kernel crate itself `cfg(target_feature = "compute_80")` holds where the PTX is for that
//! architecture or a later one; see [`NvvmArch::all_target_features`]. Dependencies do not see it,
//! since they are not compiled for any one of them.
//!
//! # What is embedded
//!
//! [`CudaBuilder::embed`] writes the PTX of all architectures for `ferrowarp::include_kernels!`: as it is for a program
//! at `opt-level = 0`, compressed for an optimised one ([`CudaBuilder::pack`]). A build script is itself not optimised
//! unless the workspace asks for it, and then compresses about three megabytes a second. With more PTX than that, add
//! `[profile.release.package.lzma-rust2] opt-level = 3`, and the same for `ferrowarp-ptx-format`.
//!
//! A library that ships kernels can publish them compiled: [`embed_archive`] embeds the `kernels.packed` of an earlier build.
//!
//! # Faster builds during development
//!
//! A kernel crate is compiled once for each architecture. The environment variable
//! `CUDA_BUILDER_ARCHS` (`CUDA_BUILDER_ARCHS=sm_90a cargo test`, several with commas) leaves of a
//! build script's architectures only those that it names. A kernel crate that is for none of them
//! is built for all of its own, so that every program still has its kernels.
//!
//! A program that builds kernels while it runs need not wait for all of them after an edit:
//! [`CudaBuilder::rebuild`] compiles those that the edit can concern.
//!
//! # Documentation builds
//!
//! docs.rs sets `DOCS_RS` and has neither a network nor the source of `core`. With that variable [`CudaBuilder::embed`]
//! compiles nothing and embeds no image, so that the host crate is still checked and documented:
//! `DOCS_RS=1 cargo doc`, `DOCS_RS=1 cargo check`. The launches of a program that is built so return an error.
//!
//! # What is checked and added
//!
//! - `// ferrowarp.once TAG`, a comment in an `asm!`: the same tag twice in one function of the
//!   PTX is an error. It guards collective operations that LLVM must not duplicate.
//! - `// ferrowarp.bounds KERNEL maxntid=384,1,1 minnctapersm=1`, a comment in a `global_asm!`:
//!   becomes the launch bounds of that kernel. `reqntid`, `maxnreg`, `reqnctapercluster` and
//!   `maxclusterrank` are known too.
//! - The order of `core`'s atomic read-modify-writes, which LLVM 22 drops, is written back; those on
//!   a thread's own variable, which no assembler takes, become plain instructions.
//!
//! # What the assembler says
//!
//! Nothing here needs NVIDIA's tools. Where the machine has `ptxas` (on `PATH`, in a CUDA toolkit,
//! or from `pip install nvidia-cuda-nvcc` in the Python that `CUDA_BUILDER_PYTHON` names),
//! [`CudaBuilder::report`] assembles the PTX as a check and shows what each kernel uses, and
//! [`CudaBuilder::deny_spills`] refuses spilled registers.
//!
//! # What it leaves alone
//!
//! The environment and flags of the host build (`RUSTFLAGS`, wrappers, `CARGO_TARGET_DIR`, …) do
//! not reach the kernels, but `--offline`, `--locked` and `--frozen` do (on Linux). Cargo runs the build script again when one of the files changes that the
//! kernels were made from, and only then.

mod arch;
mod arch_name;
mod build;
mod builder;
mod cancel;
mod cargo;
mod cargo_flags;
mod compile;
mod embed;
mod environment;
mod error;
pub mod installed;
mod notes;
mod ptx;
mod ptxas;
mod report;
mod script;
mod snapshot;
mod sources;
mod stamps;
mod toolchain;
mod unsupported;
mod written;

pub use arch::NvvmArch;
pub use builder::{CudaBuilder, DebugInfo, EmitOption};
pub use cancel::Cancel;
pub use compile::{Compiled, Module};
pub use embed::embed_archive;
pub use error::CudaBuilderError;
pub use ptx::{PtxError, with_parts};
pub use ptx_format::index::{
    ModulePart, ModulePart as Part, Reading, parts, parts_at_end, read_ptx,
};
pub use ptx_format::panic::template;
pub use report::{FunctionUsage, NotAssembled, Report};
pub use snapshot::{Scope, Snapshot};
