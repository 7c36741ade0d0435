//! Memory on the device, and memory of the host that the device uses.
//!
//! | type | what it is | the host reaches it by |
//! |---|---|---|
//! | [`DeviceBuffer<T>`] | an array | copies |
//! | [`DeviceVec<T>`] | an array that grows | copies |
//! | [`UninitBuffer<T>`], [`UninitSlice<T>`] | an array that is not written yet, or a part of one, borrowed | copies to it |
//! | [`DeviceBox<T>`] | one value, or one `[T; N]` | copies |
//! | [`DeviceSlice<T>`], [`DeviceSliceMut<T>`] | a part of an array, borrowed | copies |
//! | [`GridMut<T>`] | an array as rows of equal width, borrowed | copies |
//! | [`PitchedMut<T>`] | rows of equal width at equal distances, borrowed | copies |
//! | [`VolumeMut<T>`] | an array as planes of rows, borrowed | copies |
//! | [`MappedBuffer<T>`], [`MappedBox<T>`] | the host's memory, which kernels reach | a plain slice |
//! | [`MappedAtomics<T>`] | words for host and kernels at the same time | atomics |
//! | [`PooledBuffer`] | bytes of a pool, without a type | copies to a view of them |
//! | [`PeerSlice<T>`], [`PeerSliceMut<T>`] | an array of another device, borrowed | its owner's copies |
//! | [`UnifiedBuffer<T>`] | an array that moves between host and device by itself | a plain slice |
//! | [`UnifiedBox<T>`] | one such value | a plain reference |
//! | [`PinnedBuffer<T>`], [`PinnedBox<T>`] | page-locked host memory | a plain slice |
//! | [`RegisteredVec<T>`] | a `Vec`, page-locked where it is | a plain slice |
//! | [`WriteCombined<T>`] | page-locked host memory past the caches | writes |
//! | [`HostSlice<T>`], [`HostSliceMut<T>`] | plain host memory as a kernel's argument | what it is |
//! | [`HostRef<T>`], [`HostRefMut<T>`] | one plain value of the host as a kernel's argument | what it is |
//!
//! Device, page-locked and unified memory comes from the driver, or from a [resource]: a pool, or an allocator of your own.
//!
//! Elements are [`bytemuck::Pod`]: plain data, for which every bit pattern is a value. All memory that is
//! allocated here is aligned to 256 bytes. Every copy is ordered after what was queued for the memory before, and
//! memory of no bytes calls no driver. Copies of pageable memory of [`STAGED_FROM_BYTES`] or more go
//! through page-locked chunks, by several threads; [`Transfer`] names the ways that data can take.

mod advice;
mod allocation;
mod boxed;
mod buffer;
mod device_vec;
mod fill;
mod futures;
mod host_scope;
mod mapped;
mod pageable;
mod peer;
mod pending;
mod pinned;
mod platform;
mod pooled;
mod registered;

pub mod resource;
mod rows;
mod shapes;
mod slice;
mod staging;
mod strategy;
mod transfer;
mod unified;
mod uninit;
mod visibility;
mod write_combined;

pub use advice::{MemoryAdvice, MemoryLocation, RangeAttributes};
pub(crate) use allocation::check_alignment;
pub use boxed::DeviceBox;
pub use buffer::DeviceBuffer;
pub use device_vec::DeviceVec;
pub use futures::{CopyFromVec, ToVec};
pub(crate) use futures::{download_on, upload_on};
pub use host_scope::{HostRef, HostRefMut, HostScope, HostSlice, HostSliceMut};
pub use mapped::{MappedAtomics, MappedBox, MappedBuffer};
pub use pageable::STAGED_FROM_BYTES;
pub(crate) use peer::PeerHome;
pub use peer::{PeerAccess, PeerSlice, PeerSliceMut};
pub use pending::{CopyDone, PendingCopy, PinnedRange, PinnedSource, PinnedTarget};
pub use pinned::{PinnedBox, PinnedBuffer, PinnedOptions};
pub use platform::{Platform, is_wsl2};
pub use pooled::PooledBuffer;
pub use registered::RegisteredVec;
pub use resource::DeferredFrees;
pub use rows::Pitched;
pub use slice::{DeviceSlice, DeviceSliceMut, GridMut, PitchedMut, VolumeMut};
pub(crate) use staging::Staging;
pub use strategy::{Transfer, TransferReport};
#[cfg(feature = "reload")]
pub(crate) use transfer::copy;
pub(crate) use transfer::{download, upload};
pub use unified::{UnifiedBox, UnifiedBuffer};
pub use uninit::{UninitBuffer, UninitSlice};
pub use visibility::{HostPages, MemoryVisibility};
pub use write_combined::{WriteCombined, WriteSlice};

pub use crate::foreign::LentBuffer;

/// The book's pages, whose programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/memory.md")]
#[doc = include_str!("../../../book/src/host-memory.md")]
struct Book;
