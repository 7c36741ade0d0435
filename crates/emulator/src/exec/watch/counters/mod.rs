//! Counters: what each instruction of a launch did, and what it cost in memory.
//!
//! [`Counting`] goes with a launch like a check that finds nothing. Its observers keep a table for
//! each CPU thread, and add it to the whole when the thread is through.

mod counting;
mod report;
mod request;
mod work;

pub use crate::isa::Class;
pub use counting::Counting;
pub use report::{
    ClassCounts, Counters, Counts, InstructionCounts, LineCounts, MemoryCounts, Occupancy, Sample,
};
pub use request::{Banks, Request, SameAddress, Sectors};
pub use work::Operations;
