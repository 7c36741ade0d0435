//! The kernels of the examples; each module has the name of its example.
//!
//! This crate is compiled twice: to PTX for the GPU, and for the host, where each kernel becomes a module with a typed
//! function `launch`.

mod cust;
mod dist;
mod errors_panics;
mod own_kernel;
mod persistent_kernel;
mod shared_memory;

pub use cust::saxpy;
pub use dist::{strip, strips};
pub use errors_panics::gather;
pub use own_kernel::{collatz, steps};
pub use persistent_kernel::squares;
pub use shared_memory::{BLOCK, RADIUS, average};
