//! Radix sorts: of keys, of keys with values, of segments, and the largest or smallest few.
//!
//! A radix sort from the lowest digit up goes through the keys once for each digit, and each time moves every key
//! behind those with a smaller digit and behind the equal ones that come before it. After the highest digit all
//! is in order, and equal keys are in the order in which they came.
//!
//! * [`plain`]: digits of four bits and three kernels a digit: count, add up, move. The keys are read twice a digit.
//! * [`histogram`] and [`pass`]: digits of eight bits; all of them are counted in one go at the start, and a pass reads and
//!   writes each key once (A. Adinets and D. Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort
//!   for GPUs", 2022). What each step buys stands in [`pass`].
//! * [`groups`]: each of a few long groups of an array by itself.
//! * [`segments`]: each of many segments of an array by itself.
//! * [`top_k`]: the first few in order, and where they stand, without sorting the others.
//!
//! Keys are unsigned words in every kernel. An [`Order`] says how the bits of signed numbers and floats become
//! words in the keys' order, and whether the largest comes first.

mod control;
pub mod groups;
pub mod histogram;
pub mod key;
mod memory;
pub mod pass;
pub mod plain;
pub mod segments;
pub mod top_k;
mod walk;

pub use control::{FIRST_COUNTS, planned_words};
pub use groups::{sort_groups_histogram, sort_groups_pass};
pub use histogram::sort_histogram;

pub use key::{Digit, NoValue, Order, Payload, RADIX, RADIX_BITS, Word, passes, planned_passes};
pub use pass::sort_pass;
pub use plain::{sort_count, sort_move, sort_sums};
pub use segments::sort_segments;
pub use top_k::{top_k_collect, top_k_count};
