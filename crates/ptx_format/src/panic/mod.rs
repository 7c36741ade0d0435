//! Kernel panics in PTX: names and layouts that one release of the Rust compiler and `cuda_std` give them.
//!
//! With `cuda_builder`'s `ptx/panic`, this is all that depends on the internals of [`RUSTC`]. An upgrade of the
//! compiler changes the constant and whatever the golden tests of both folders then report.

mod needed;
pub mod template;

pub use needed::drop_unneeded;

/// The Rust release whose symbols and `fmt::Arguments` are read.
pub const RUSTC: &str = "1.96";

/// A part of the symbol of the panic handler's main function, `cuda_std::panic::device::report`.
pub const REPORT: &str = "5panic6device6report";

/// A part of the symbol of the function that formats a message on the device with `core::fmt`. Code of the user's can
/// panic there, and such a panic is reported too.
pub const FORMAT: &str = "22ferrowarp_panic_format";
