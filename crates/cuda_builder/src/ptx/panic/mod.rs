//! Panics of kernels, as far as the builder reads and edits them in the PTX.
//!
//! What the compiler writes for a panic (symbols of `core::fmt`, the bytes of message templates and of source
//! locations) is internal to it. This folder and `ptx_format::panic` read it, for the releases
//! [`RELEASES`](ptx_format::panic::RELEASES), and nothing else does.

pub(super) mod handler_traps;
pub(super) mod polls;
pub(super) mod table;

mod formatters;
mod symbols;
mod templates;
