//! Operations on data that is distributed over the ranks of a [`Communicator`](crate::Communicator), with the kernels of
//! [`ferrowarp::ops`] on each rank. The feature `ops` has them.
//!
//! Each rank has a share of an array, [any length](Shares), perhaps none. The array is the shares in the order of the ranks.
//! Shares also say how many planes of a grid, layers of a box of particles, or rows of a matrix each rank has: its slab. All ranks
//! call an operation together, with the same options and shapes.
//!
//! | operation | what each rank gives | what each rank gets |
//! |---|---|---|
//! | [`reduce`] | its share | the sum, product, least or greatest of all elements, or the index of that |
//! | [`histogram`] | its share | the counts of all samples |
//! | [`scan`] | its share | its share of the scan of the whole array |
//! | [`sort`](mod@sort) | its share of keys, or of pairs | a share of the sorted array |
//! | [`transpose`](mod@transpose) | rows of a matrix | rows of the transposed matrix |
//! | [`stencil`] | a slab of a grid | the slab some steps later |
//! | [`particles`] | the particles in its slab | those in its slab some steps later |
//! | [`spmv`] | rows of a matrix, its share of a vector | its share of the product |
//! | [`matmul`] | rows of A and columns of B, or columns of A and rows of B | columns, or rows, of the product |
//!
//! Results of arrays, grids and particles depend on the input and the shares alone: they have the same bits in every run.

pub mod histogram;
pub mod matmul;
mod memory;
pub mod particles;
mod parts;
pub mod reduce;
pub mod scan;
mod self_test;
mod shares;
pub mod sort;
pub mod spmv;
pub mod stencil;
pub mod transpose;

pub use matmul::{ColumnParallel, RowParallel};
pub use particles::SlabParticles;
pub use self_test::self_test;
pub use shares::Shares;
pub use spmv::RowCsr;
pub use stencil::{SlabGrid, SlabRule, Wave};
