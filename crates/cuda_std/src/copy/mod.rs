//! Asynchronous copies: `cp.async`, bulk copies and TMA.
//!
//! | | moves | done when | since |
//! |---|---|---|---|
//! | [`copy_async`] | 4, 8 or 16 bytes, by each thread | [`wait_groups`] returns | `sm_80` |
//! | [`Pipeline`] | tiles of a slice through `STAGES` buffers | [`Pipeline::read`] lends them | `sm_80` |
//! | [`bulk_load`] | a range, by one thread | its [`Mbarrier`](crate::mbarrier::Mbarrier) has the bytes | `sm_90` |
//! | [`bulk_store`], [`bulk_reduce`] | a range, by one thread | [`wait_bulk_groups`] returns | `sm_90` |
//! | [`TensorMap`] | a box of a tensor of 1 to 5 dimensions, by one thread | as the bulk copies | `sm_90` |
//! | [`TilePipeline`] | boxes of tensors through `STAGES` buffers | [`TileConsumer::with_tile`] lends them | `sm_90` |
//!
//! Ordinary writes to shared memory that a bulk copy is to read need [`fence_proxy_async`] in each
//! writing thread and then a barrier: the copy engine looks at memory through a *proxy* of its own.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod bulk;
mod group;
mod pipeline;
mod tensor;
mod tile;
mod tile_pipeline;

pub use bulk::*;
pub use group::*;
pub use pipeline::Pipeline;
pub use tensor::{TensorMap, TensorMapMut};
pub use tile::{
    Extents, Swizzle, Swizzle32, Swizzle64, Swizzle128, TensorElement, TensorType, Tile, Unswizzled,
};
pub use tile_pipeline::{Slot, TileConsumer, TilePipeline, TileProducer};
