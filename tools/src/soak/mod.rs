//! `ferrowarp soak`: mixed work for minutes or months. All numbers are compared with the CPU's, all that begins has to end,
//! every planted fault has to be reported, and the memory of host and device has to stay as it was.
//!
//! [`Soak`] runs threads that pick works at random, by a seed. One of the works takes a sample of the memory
//! while nothing else runs. The first [miss](SoakError) ends the run.

mod counts;
mod error;
mod kernel;
mod memory;
mod poison;
mod random;
mod session;
mod site;
mod works;

pub use counts::FlowCount;
pub use error::SoakError;
pub use memory::{MemoryReport, Sample};
pub use poison::Poison;
pub use session::{Soak, SoakReport, Status, WorkCount};
pub use works::names;
