//! What most kernels use: `use cuda_std::prelude::*;`.

pub use crate::disjoint::{DisjointGrid, DisjointSlice};
pub use crate::index::{ThreadIndex, ThreadIndex2};
pub use crate::kernel;
pub use crate::thread;
