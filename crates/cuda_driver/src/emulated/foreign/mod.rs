//! Emulated calls that only programs outside of this workspace make: those that load the shared
//! library of `crates/libcuda`, such as Python packages and CUDA's own runtime.
//!
//! What belongs here is a function of the driver API that neither the host crate nor the parts of
//! `cust` under it call, and whatever only such functions need. An object that others need as well
//! (an array, a library, a user object) has its file in `emulated`, and its remaining calls here. No
//! file of `emulated` imports one from here but `serve.rs`, which tells contexts what to free.

pub(crate) mod array;
pub(crate) mod boxes;
pub(crate) mod graph_exec_nodes;
pub(crate) mod graph_nodes;
pub(crate) mod graph_parts;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod stream_attributes;
pub(crate) mod user_object;
pub(crate) mod virtual_memory;
