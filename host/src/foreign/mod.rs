//! Work, memory and streams of other libraries beside those of this crate.

mod adopt;
mod enqueue;
mod memory;

pub use memory::ForeignMemory;

/// The book's page, whose program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/bridges.md")]
struct Book;
