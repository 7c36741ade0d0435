//! Memory of the host that kernels read and write where it lies: nothing is copied.
//!
//! Each access of a kernel goes over the bus, so this is for data that is read or written once, for
//! small results, and for words by which host and kernel talk to each other.

mod atomics;
mod buffer;

pub use atomics::MappedAtomics;
pub use buffer::{MappedBox, MappedBuffer};
