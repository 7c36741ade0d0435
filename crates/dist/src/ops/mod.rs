//! Operations on arrays that are split over the ranks.
//!
//! Each rank has a share of an array, [any length](Shares), perhaps none. The array is the shares in the order of the ranks.
//! All ranks call an operation together, with the same options. The kernels are those of [`ferrowarp::ops`], of which each
//! operation here has the name.
//!
//! | operation | what each rank gives | what each rank gets |
//! |---|---|---|
//! | [`reduce`] | its share | the sum, product, least or greatest of all elements, or the index of that |
//! | [`histogram`] | its share | the counts of all samples |
//! | [`scan`] | its share | its share of the scan of the whole array |
//! | [`sort`](mod@sort) | its share of keys, or of pairs | a share of the sorted array |
//! | [`transpose`](mod@transpose) | rows of a matrix | rows of the transposed matrix |
//!
//! Results depend on the input and the shares alone: they have the same bits in every run.

pub mod histogram;
mod memory;
mod parts;
pub mod reduce;
pub mod scan;
mod self_test;
mod shares;
pub mod sort;
pub mod transpose;

pub use self_test::self_test;
pub use shares::Shares;
