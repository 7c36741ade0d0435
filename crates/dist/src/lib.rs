//! Many GPUs, many hosts.

mod alone;
mod communicator;
mod control;
mod driver;
mod element;
mod environment;
mod error;
mod fate;
mod mpi;
mod nccl;
mod self_test;
mod transport;
mod world;

pub use communicator::{Choice, Communicator, Group};
pub use element::{Element, ElementKind, Reduction};
pub use environment::{Environment, Launcher, MeetingPlace};
pub use error::{DistError, DistResult, Loss};
pub use self_test::{Checked, self_test};
pub use transport::Backend;
pub use world::World;
