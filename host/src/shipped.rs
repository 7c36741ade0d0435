//! The kernels that ship with this crate for [`ops`](crate::ops), as `build.rs` compiled them.

use crate::module::Image;

/// One image for each architecture; none without the feature `ops`.
#[cfg(feature = "ops")]
pub static IMAGES: &[Image] = crate::include_kernels!();

/// Without the feature `ops` no kernels ship.
#[cfg(not(feature = "ops"))]
pub static IMAGES: &[Image] = &[];
