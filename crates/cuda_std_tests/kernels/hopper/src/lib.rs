//! Barriers in shared memory, copies that run by themselves, clusters, grids and tensor cores.

#![allow(missing_docs)]

pub mod barriers;
pub mod clusters;
pub mod copies;
pub mod gemm;
pub mod grids;
pub mod matrices;
pub mod tensors;
pub mod warpgroups;
