//! Panics of kernels: their messages, and which waits report them.
//!
//! A thread that panics leaves a record in memory that host and device share (see
//! [`cuda_std::panic`]) and ends; the device works on. After each wait the host looks there. A panic
//! is the error of the first wait that follows for a kernel which could have panicked: on its stream,
//! on a stream that was ordered after it (through a buffer or an event), or on the device.
//!
//! That wait may be for another launch of the same kernel, while the grid that panicked still runs. Its other threads end when
//! they find the record (see [`cuda_std::panic::leave_after_panic`]), so the record is freed only when each stream is idle
//! whose launch may have panicked.

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
pub(crate) use report::LaunchQueue;
