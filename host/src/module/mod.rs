//! Kernel images, the best one for a device, and the functions of the loaded one.
//!
//! A typed launcher (`saxpy::launch(&gpu, …)`) needs none of this. [`Module`] is for what is not known when the program
//! is compiled: PTX text from elsewhere, kernels by their names ([`Module::function`]), and variables of the device
//! ([`Module::global`]).

#![cfg_attr(
    not(feature = "reload"),
    allow(dead_code, unused_imports, reason = "hot reload loads and compares texts")
)]

mod ahead;
mod arch;
mod code;
pub(crate) mod entry;
mod function;
mod function_cache;
mod global;
mod handle;
mod image;
mod image_text;
mod kernel_module;
mod params;
mod part;
mod program;
mod stream_uses;
mod text;
mod variables;

pub(crate) use ahead::HeadStart;
pub(crate) use arch::{best_arch, target};
pub(crate) use code::Code;
pub use cuda_std::launch::Args;
pub use function::ModuleFunction;
pub(crate) use function_cache::CheckedLaunch;
pub use global::Global;
pub use handle::Module;
pub use image::{EmbeddedPtx, Image, assert_name, best_image};
pub use kernel_module::LoadedImage;
pub(crate) use kernel_module::{Function, KernelModule};
pub(crate) use part::not_stopped_by_captures;
pub(crate) use text::{Digest, Text};

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/own-project.md")]
struct Chapter;
