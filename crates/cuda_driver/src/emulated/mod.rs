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
mod errors;
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
mod lock;
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

pub(crate) use errors::unsupported;
pub use pageable::{pageable_async_copies, pageable_on_purpose};

use errors::{check_flags, invalid_value, not_supported};
use lock::lock;
