//! The program `ferrowarp`: the shipped operations on the command line, demos that check themselves, a benchmark
//! beside CUDA C++ and PyTorch, a profiler with pages to look at, hot reload of a kernel crate, a soak test, and new projects.
//!
//! Programs that use Ferrowarp depend on the library, the package `ferrowarp`, and not on this package.

pub mod bench;
pub mod cli;
pub mod demo;
pub mod language;
pub mod soak;
