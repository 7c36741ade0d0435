//! Operations on data that is distributed over the ranks of a [`Communicator`](crate::Communicator), with the kernels of
//! [`ferrowarp::ops`] on each rank. The feature `ops` has them.
//!
//! Ranks have consecutive shares, which may differ: see [`Slabs`]. All ranks of the communicator call an operation, with the same
//! shapes and shares.

pub mod particles;
mod slabs;
pub mod spmv;
pub mod stencil;

pub use particles::SlabParticles;
pub use slabs::Slabs;
pub use spmv::RowCsr;
pub use stencil::{SlabGrid, SlabRule, Wave};
