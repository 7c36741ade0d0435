//! Work of other libraries on this crate's streams, in order with all other uses of the memory.

mod enqueue;
mod memory;

pub use memory::ForeignMemory;
