//! The driver functions on emulated devices, with one file for each topic of the table.
//!
//! Errors, their codes, and what a program can still do after them follow NVIDIA's driver, except
//! that every error comes with an explanation.

pub(crate) mod callback;
pub(crate) mod capturing;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod copy_pitched;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod foreign;
pub(crate) mod function;
pub(crate) mod graph_exec;
pub(crate) mod graph_exec_nodes;
pub(crate) mod graph_nodes;
pub(crate) mod graph_topology;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod memset;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod peer;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod stream_memops;
pub(crate) mod tensor;

mod allocations;
mod array;
mod callback_thread;
mod capture;
pub(crate) mod counting;
mod current;
pub(crate) mod deadlock;
mod device_attributes;
mod faults;
mod geometry;
mod gpu;
mod graph;
mod graph_launch;
mod graph_memory;
mod happens_before;
pub(crate) mod injected;
mod jit;
mod kernel;
mod launch_attributes;
mod memory_copy;
mod operation;
mod pageable;
mod params;
mod pinned;
mod preferences;
mod queue;
mod registry;
mod residency;
mod settings;
mod stream_settings;
mod user_object;

pub use pageable::{pageable_async_copies, pageable_on_purpose};

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::codes::CUDA_ERROR_NOT_SUPPORTED;
use crate::detail::{DriverError, DriverResult};

/// The error for a driver function that the emulator does not implement.
pub(crate) fn unsupported(name: &str) -> DriverError {
    let text = format!("the emulator does not have {name}; it needs an NVIDIA GPU");
    DriverError::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

/// Locks data that is consistent between any two statements, so that a panic of a thread that held
/// the lock does no harm.
fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CUDA_ERROR_NOT_SUPPORTED` with an explanation.
fn not_supported(text: impl Into<String>) -> DriverError {
    DriverError::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

/// `CUDA_ERROR_INVALID_VALUE` with an explanation.
fn invalid_value(text: impl Into<String>) -> DriverError {
    DriverError::new(crate::codes::CUDA_ERROR_INVALID_VALUE, text)
}

/// Fails unless `flags` has only bits of `known`.
fn check_flags(flags: u32, known: u32) -> DriverResult {
    match flags & !known {
        0 => Ok(()),
        odd => Err(invalid_value(format!("flags {flags:#x} have the unknown bits {odd:#x}"))),
    }
}
