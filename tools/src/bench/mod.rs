//! The benchmark: what our operations take, and beside them, in the same run, whichever peers the machine has.
//!
//! A family of operations gives its cases in [`cases`], and its peers as programs of their own in
//! `tools/peers`: CUDA C++ that is compiled where `nvcc` is, and Python. They travel inside the executable, so that
//! `ferrowarp bench` needs nothing but itself.
//!
//! # Method
//! * Both sides make random data on the device, in as many copies as it takes to outgrow the L2 cache twice (at most
//!   [`MOST_COPIES`](measure::MOST_COPIES)), and run on one after the other.
//! * A sample is the time between two events around a batch of runs, for one run. A batch takes about a millisecond.
//!   A kernel that only waits is queued before it, so that the host has queued the batch when it begins: a sample is
//!   the device's time, whatever the host's.
//! * A peer that can be called in several ways is measured in all of them, and the fastest is quoted by its name: CUB
//!   with its items counted in an `int` and in a `size_t`, each mode of `torch.compile`, each algorithm of cuSPARSE.
//! * Ours and theirs take turns, sitting by sitting. Medians are compared, with the slowest and fastest tenth.
//! * Outputs are poisoned before and checked after. A wrong result is a failure of the run; a peer that is missing
//!   is a line of text.

pub mod baseline;
pub mod case;
pub mod cases;
pub mod check;
pub mod data;
mod error;
pub mod machine;
pub mod measure;
pub mod page;
pub mod peers;
pub mod picture;
pub mod report;
pub mod session;
pub mod stats;

pub use case::{Case, Rig, Scale, rig};
pub use check::Fault;
pub use data::Random;
pub use error::BenchError;
