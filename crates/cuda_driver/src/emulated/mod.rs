//! The driver functions over the emulated device, one file for each topic of the table.
//!
//! Errors, their codes and what stays possible after them follow NVIDIA's driver; what differs is
//! that each failure has words.

pub(crate) mod callback;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod fill;
pub(crate) mod function;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod stream;

mod allocations;
mod attributes;
mod current;
mod faults;
mod geometry;
mod jit;
mod params;
mod queue;
mod registry;
mod settings;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ::emulator::Device;

use crate::codes::{CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

static DEVICE: OnceLock<Arc<Device>> = OnceLock::new();

/// Makes the emulated device; does nothing where it is made.
pub(crate) fn start() -> Answer {
    if DEVICE.get().is_none() {
        let device = Device::new(settings::profile()?);
        // A second start at the same time made an equal one; the first stays.
        let _ = DEVICE.set(device);
    }
    Ok(())
}

/// The device; there is one.
fn the_device() -> Answer<&'static Arc<Device>> {
    DEVICE.get().ok_or_else(|| Failure::from(CUDA_ERROR_NOT_INITIALIZED))
}

/// A driver function that the emulator does not have.
pub(crate) fn unsupported(name: &str) -> Failure {
    let text = format!("the emulator does not have {name}; it needs an NVIDIA GPU");
    Failure::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

/// Locks data that is right between any two statements, so that a panic elsewhere in a thread
/// that held the lock does no harm.
fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CUDA_ERROR_INVALID_VALUE` with its words.
fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(crate::codes::CUDA_ERROR_INVALID_VALUE, text)
}

/// Fails unless `flags` has only bits of `known`.
fn check_flags(flags: u32, known: u32) -> Answer {
    match flags & !known {
        0 => Ok(()),
        odd => Err(invalid(format!("flags {flags:#x} have the unknown bits {odd:#x}"))),
    }
}
