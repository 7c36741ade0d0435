//! What the kernels here use.

pub use cuda_std::prelude::*;

// Hides the one above.
#[cfg(not(feature = "entries"))]
pub use cuda_std::kernel_body as kernel;
