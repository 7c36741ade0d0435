//! Kernel launches, batches of them, their attributes, and occupancy.

mod batch;
mod enqueue;
mod groups;
mod limits;
mod occupancy;
mod unordered;

pub use batch::Batch;
pub(crate) use enqueue::{Prepared, check_homes, prepare};
#[cfg(feature = "ops")]
pub(crate) use groups::ClustersAtOnce;
pub(crate) use groups::is_of_streams;
pub use occupancy::Occupancy;

/// The book's pages, whose programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/first-kernel.md")]
#[doc = include_str!("../../../book/src/running.md")]
#[doc = include_str!("../../../book/src/asynchrony.md")]
#[doc = include_str!("../../../book/src/atomics.md")]
struct Book;
