//! A warp: a program counter for each lane, kept as groups of lanes that are at the same operation.
//!
//! Of several groups, the one in the deepest call and then at the lowest program counter runs,
//! which makes divergent lanes reconverge where their paths meet. A group that has not run for a
//! long time gets a time slice out of this order, so that a lane which spins on a store of another
//! lane of its warp makes progress.
//!
//! `group` holds what the lanes of a group have in common; `choose` picks the group to run and
//! `run` runs it; `calls`, `barrier`, `cluster` and `together` act on what a run ends with.

mod barrier;
mod calls;
mod choose;
mod cluster;
mod group;
mod rounds;
mod run;
mod state;
mod together;

pub use group::{Group, Wait};
pub use run::{Pause, Stopped};
pub use state::Warp;
