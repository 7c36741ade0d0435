//! Many GPUs, many hosts: one process a GPU, started by the launchers that people have, with collectives over NCCL.
//!
//! ```no_run
//! use ferrowarp::DeviceBuffer;
//! use ferrowarp_dist::{Communicator, Reduction, World};
//!
//! let world = World::from_env()?; // which rank this is, of how many; meets the others
//! let gpu = world.gpu()?; // this rank's device
//! let ranks = Communicator::new(&world, &gpu)?; // over NCCL, or over MPI
//! let mut values = DeviceBuffer::from_slice(&gpu, &[1.0f32 + world.rank() as f32; 1000])?;
//! ranks.all_reduce_in_place(&gpu, &mut values, Reduction::Sum)?; // enqueued, like a launch
//! ranks.synchronize(&gpu)?; // ends with an error, and not never, if a rank dies
//! drop(ranks);
//! world.finish()?;
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```
//!
//! The same program runs under each of these, unchanged:
//!
//! ```text
//! ferrowarp launch -n 2 -- PROGRAM
//! torchrun --nproc-per-node 2 --no-python PROGRAM
//! srun -n 8 --gpus-per-task=1 PROGRAM
//! mpirun -n 4 PROGRAM
//! ```
//!
//! # What carries the data
//!
//! | devices | backend | what it needs |
//! |---|---|---|
//! | real | NCCL | `libnccl.so.2` of version 2.18 or later, at run time |
//! | emulated, or real without NCCL | MPI, over the host's memory | the feature `mpi`, an MPI, and its `mpirun` or `srun` |
//! | [`World::alone`] | copies | nothing |
//!
//! [`Communicator::backend`] says which it is. `ferrowarp dist demo` runs [`self_test`] on all ranks.
//!
//! With the feature `ops`, the module `ops` has operations on distributed data: reductions, histograms, scans, sorts, transposes,
//! stencils with halos, particles that migrate, sparse products, matrix products.
//!
//! # Ranks that are lost
//!
//! Each rank has a connection to rank 0, by which all others notice within seconds that it has died, and which one it
//! was. Communicators with it are then aborted: calls and waits return [`DistError::RankLost`], kernels that wait for
//! it end. A rank that is silent for 15 s (its host is down, say) counts as lost too. A call that one rank refuses, for a length
//! that does not fit, say, and others make, ends the communicator on all of them with [`DistError::CallRefused`]. Ranks that
//! make different calls are ended by a [deadline](Communicator::set_deadline).
//!
//! # Variables
//!
//! Those of launchers are listed at [`Environment`].
//!
//! | variable | what it says |
//! |---|---|
//! | `FERROWARP_DIST_BACKEND` | `nccl` or `mpi`, in place of what the devices suggest |
//! | `FERROWARP_DIST_TIMEOUT` | how many seconds ranks wait for each other when they meet; 120 |
//! | `FERROWARP_DIST_DEADLINE` | how many seconds an operation may take; 600 |
//! | `FERROWARP_DIST_PEERS` | 0: ranks of one host do not map each other's memory, and NCCL does all the work |
//! | `FERROWARP_DIST_PORT` | the port of rank 0's control connections |
//! | `FERROWARP_DIST_FILE` | a file that all ranks see, in which rank 0 writes where it listens |
//! | `FERROWARP_DIST_ID` | which run this is: processes of another one are refused |
//! | `FERROWARP_NCCL_LIBRARY` | the file `libnccl.so.2`; otherwise the loader's path, and wheels of PyPI, are searched |
//!
//! `FERROWARP_DIST_BACKEND`, `FERROWARP_DIST_PEERS` and some of NCCL's ([`Settings`]) must be the same on all ranks, which compare them
//! when they meet: [`DistError::UnlikeSettings`] names the variable, and the ranks with their values.
//!
//! The control connections are neither encrypted nor authenticated, as those of NCCL, MPI and torchrun are not: the ports are for
//! a network of one's own.

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
#[cfg(feature = "ops")]
pub mod ops;
#[cfg(feature = "ops")]
mod peers;
mod self_test;
mod transport;
mod world;

pub use communicator::{Communicator, Group};
pub use element::{Element, ElementKind, Reduction};
pub use environment::{Environment, Launcher, MeetingPlace, Settings};
pub use error::{DistError, DistResult, Loss};
pub use self_test::{Checked, self_test};
pub use transport::{Backend, Choice};
pub use world::World;

/// The chapter's examples are tests.
#[cfg(all(doctest, feature = "ops"))]
#[doc = include_str!("../../../book/src/many-gpus.md")]
struct Chapter;
