//! Panics of kernels: their messages, and which waits report them.
//!
//! A thread that panics leaves a record in memory that host and device share (see
//! [`cuda_std::panic`]) and ends; the device works on. After each wait the host looks there. A panic
//! is the error of the first wait that follows for a kernel which could have panicked: on its stream,
//! on a stream that was ordered after it (through a buffer or an event), or on the device.

mod known;
mod launches;
mod message;
mod records;
mod registry;
mod report;
mod text;

pub use crate::error::KernelPanic;
pub(crate) use launches::{Epoch, Launches};
pub(crate) use records::{ModuleRecords, find_variable};
pub(crate) use registry::Panics;
