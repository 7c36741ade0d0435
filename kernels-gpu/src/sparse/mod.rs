//! Sparse matrices.

pub mod spmv;

pub use spmv::{rows_to_offsets, spmv_carry, spmv_plain, spmv_rows, spmv_splits, spmv_tiles};
