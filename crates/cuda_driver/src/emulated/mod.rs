//! The driver functions over the emulated device, one file for each topic of the table.
//!
//! Errors, their codes and what stays possible after them follow NVIDIA's driver; what differs is
//! that each failure has words.

pub(crate) mod boxes;
pub(crate) mod callback;
pub(crate) mod capturing;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod fill;
pub(crate) mod foreign;
pub(crate) mod function;
pub(crate) mod graph_exec;
pub(crate) mod graph_exec_nodes;
pub(crate) mod graph_nodes;
pub(crate) mod graph_parts;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod peer;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod stream_values;
pub(crate) mod tensor;

mod allocations;
mod array;
mod attributes;
mod capture;
pub(crate) mod counting;
mod current;
mod faults;
mod geometry;
mod gpu;
mod graph;
mod graph_lanes;
mod graph_memory;
mod host_thread;
pub(crate) mod injected;
mod jit;
mod kernel;
mod launch_attributes;
mod operation;
mod order;
pub(crate) mod outside;
mod pageable;
mod params;
mod pinned;
mod preferences;
mod queue;
mod registry;
mod residency;
mod settings;
mod stream_settings;
mod transfer;
mod user_object;

pub use pageable::{pageable_async_copies, pageable_on_purpose};

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::codes::CUDA_ERROR_NOT_SUPPORTED;
use crate::detail::{Answer, Failure};

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

/// `CUDA_ERROR_NOT_SUPPORTED` with its words.
fn lacking(text: impl Into<String>) -> Failure {
    Failure::new(CUDA_ERROR_NOT_SUPPORTED, text)
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
