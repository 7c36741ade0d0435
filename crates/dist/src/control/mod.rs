//! The control connections: each rank has one to rank 0, for as long as the world lasts.
//!
//! By them the ranks meet, exchange a few bytes (NCCL's id, names of devices, who splits off with whom), tell which calls they refuse, and notice it when one of
//! them is lost: the system closes the connection of a process that dies, and one that is silent for [`SILENCE`] counts as lost
//! too. Data of programs goes another way, by NCCL or MPI.
//!
//! A message is a line of JSON over TCP. Rank 0 serves, and is a client of itself like all others.

mod client;
mod message;
mod peers;
mod place;
mod server;

use std::time::Duration;

pub(crate) use client::Control;
pub(crate) use message::Refusal;
pub(crate) use peers::{Peers, Watcher};
pub(crate) use place::{host_id, host_name};

/// How long a rank may be silent before it counts as lost.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

/// How often each rank says that it is there.
const BEAT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
