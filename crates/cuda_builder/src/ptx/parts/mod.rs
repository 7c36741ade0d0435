//! Module parts: finds the parts of a text that a driver can load alone, and writes their index.
//!
//! A driver compiles all of a text before one kernel of it runs. So each module part has one kernel, or a few, with
//! the functions, variables and source files that they reach; [`ptx_format::index`] describes how a text lists them.
//! The text itself stays one module.
//!
//! Two kernels are in one module part
//! - if both reach the same state: a variable that is neither a constant of the compiler's own nor the
//!   panic handler's, of which each module has its own;
//! - if both can panic, are small and begin in the same source file: they share the panic handler, which
//!   is most of what a driver compiles for a small kernel.

mod canonical;
mod groups;
mod index;
mod items;
pub(super) mod merge;
mod names;
mod spans;

pub(super) use canonical::place;
pub use index::with_parts;
