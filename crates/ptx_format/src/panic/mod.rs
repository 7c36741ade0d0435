//! Kernel panics in PTX: names and layouts that the Rust compiler and `cuda_std` give them.
//!
//! With `cuda_builder`'s `ptx/panic`, this is all that depends on the compiler's internals, which are alike in the
//! releases [`RELEASES`]. A new release changes the constant and whatever the golden tests of both folders then report;
//! `make compilers` runs them with the first release and the last.

#[cfg(test)]
mod golden;
mod needed;
pub mod template;

use std::ops::RangeInclusive;

pub use needed::drop_unneeded;

/// The Rust releases that compile kernels, major and minor: those whose symbols and `fmt::Arguments` are read.
pub const RELEASES: RangeInclusive<(u32, u32)> = (1, 96)..=(1, 99);

/// A part of the symbol of the panic handler's main function, `cuda_std::panic::device::report`.
pub const REPORT: &str = "5panic6device6report";

/// A part of the symbol of the function that formats a message on the device with `core::fmt`. Code of the user's can
/// panic there, and such a panic is reported too.
pub const FORMAT: &str = "22ferrowarp_panic_format";
