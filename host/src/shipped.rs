//! The kernels that ship with this crate, as `build.rs` compiled them.

use crate::module::Image;

/// One image for each architecture.
pub static IMAGES: &[Image] = crate::include_kernels!();
