//! What most kernels use: `use cuda_std::prelude::*;`.

pub use crate::atomic::{AtomicSlice, SystemAtomics};
pub use crate::block::Block;
pub use crate::disjoint::{
    DisjointChunks, DisjointGrid, DisjointPitched, DisjointSlice, DisjointVectors, DisjointVolume,
};
pub use crate::index::{ThreadIndex, ThreadIndex2, ThreadIndex3};
pub use crate::ring::{RingConsumer, RingProducer};
pub use crate::shared::{DynamicSharedArray, Shared, SharedArray, SharedAtomics};
pub use crate::vector::{Vec2, Vec4, Vec8};
pub use crate::view::{Matrix, Strided};
pub use crate::warp::{Coalesced, Warp};
pub use crate::{FloatExt, GpuFloat, f16, kernel, shared_array, thread};
#[cfg(target_os = "cuda")]
pub use crate::{print, println};
pub use alloc::borrow::ToOwned;
pub use alloc::boxed::Box;
pub use alloc::format;
pub use alloc::rc::Rc;
pub use alloc::string::{String, ToString};
pub use alloc::vec::Vec;
pub use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
