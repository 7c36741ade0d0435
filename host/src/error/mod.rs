//! Errors: one type, [`GpuError`], and [`GpuContext`] to say what was being done.

mod codes;
mod context;
mod driver;
mod gpu_error;
mod graph;
mod launch;
mod panic;
mod words;

pub(crate) use codes::is_sticky;
pub use context::{GpuContext, InContext};
pub use driver::DriverError;
pub use gpu_error::{GpuError, GpuResult};
pub use graph::GraphError;
pub use launch::{LaunchBound, LaunchLimit};
pub use panic::KernelPanic;
pub(crate) use words::{bytes, debug_as_display, with_causes};
