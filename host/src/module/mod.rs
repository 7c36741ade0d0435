//! Kernel images, the best one for a device, and the functions of the loaded one.

mod ahead;
mod arch;
mod code;
mod image;
mod kernel_module;
mod known;
mod params;
mod part;
mod program;
mod text;

pub(crate) use ahead::HeadStart;
pub(crate) use arch::{best_arch, target};
pub(crate) use code::Code;
pub use image::{EmbeddedPtx, Image, assert_name, best_image};
pub use kernel_module::LoadedImage;
pub(crate) use kernel_module::{Function, KernelModule};
pub(crate) use part::not_stopped_by_captures;
pub(crate) use text::{Digest, Text};

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/own-project.md")]
struct Chapter;
