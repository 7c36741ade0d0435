//! Many GPUs, many hosts.

mod control;
mod environment;
mod error;
mod mpi;
mod world;

pub use environment::{Environment, Launcher, MeetingPlace};
pub use error::{DistError, DistResult, Loss};
pub use world::World;
