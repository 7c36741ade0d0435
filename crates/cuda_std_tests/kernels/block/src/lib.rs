//! Every collective of a block, with blocks of several sizes, types and items a thread.

#![allow(missing_docs)]

pub mod scans;
pub mod sorts;
pub mod tiles;
