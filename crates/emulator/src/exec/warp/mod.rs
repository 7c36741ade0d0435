//! A warp: a program counter for each lane, kept as groups of lanes that are at the same place.
//!
//! Of several groups, the one in the deepest call and then at the lowest place runs, which brings
//! lanes together again where their paths meet. A group that is passed over for long gets its turn,
//! so that a lane which spins on what another lane of its warp will do does not wait for ever.
//!
//! [`group`] is what the lanes of a group have in common; `choose` picks the group to run, `run` runs it;
//! `calls`, `barrier`, `cluster` and `together` act on what a run ends with.

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
