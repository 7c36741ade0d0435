//! Work, memory, streams and contexts of other libraries beside those of this crate.

mod adopt;
mod check;
mod context;
mod enqueue;
mod lent;
mod memory;
mod owner;

pub(crate) use check::check_memory;
pub use lent::LentBuffer;
pub use memory::ForeignMemory;
pub(crate) use owner::ForeignOwner;

/// The book's page, whose program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/bridges.md")]
struct Book;
