//! Shared memory: fast memory that the threads of one block have in common.
//!
//! | | size | safe |
//! |---|---|---|
//! | [`Shared`] | fixed, or chosen at launch (`Shared<[T]>`; [`Shared::split`]) | yes, but for barriers that diverge (below) |
//! | [`SharedAtomics`] | counters | yes: where its barriers diverge, the counts are anything |
//! | [`shared_array!`](crate::shared_array) | fixed, concrete type | no: the program orders its accesses |
//! | `static mut` [`SharedArray`] | fixed, concrete type | no |
//! | [`SharedArray::numbered`] | fixed, generic type or length | no |
//! | [`DynamicSharedArray`], [`dynamic_shared_mem`] | chosen at launch | no |
//!
//! Accesses through all of them compile to `ld.shared` and `st.shared`.
//!
//! # What no type refuses
//!
//! | safe code that is wrong nonetheless | consequence | found by |
//! |---|---|---|
//! | a barrier in a branch that not all threads of the block take, or two barriers that meet from two branches: `if t < 32 { block.sync(tile) } else { block.sync(()) }` | a phase begins in some threads alone: one writes what another reads | the emulator's `sync` check, which is on by default, and `race` |
//! | [`sync_threads`](crate::thread::sync_threads) or [`SharedAtomics::zeroed`] in such a branch | the block hangs, or the counts are anything | `sync` |
//! | a thread that panics or returns before a barrier | its elements are unwritten, and the others read any numbers ([`Element`]) | `sync` and `init`; of a panic the host's error |
//! | a read-modify-write of an [`Atomic`](crate::atomic::Atomic) on a thread's own stack | the kernel ends with a fault | `memory` |
//!
//! # The protocol
//!
//! A kernel takes its shared memory as a parameter, beside the token of its [`Block`](crate::block::Block):
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// Reverses each block's 256 elements.
//! #[kernel]
//! pub fn reverse(
//!     mut block: Block<256>,
//!     index: ThreadIndex,
//!     tile: Shared<[u32; 256]>,
//!     x: &[u32],
//!     mut y: DisjointSlice<u32>,
//! ) {
//!     // Every thread writes an element of its own …
//!     let tile = tile.put(&block, x[index.get()]);
//!     // … and when all have, every thread reads what it likes.
//!     let tile = block.sync(tile);
//!     if let Some(y) = y.get_mut(index) {
//!         *y = tile[255 - block.thread()];
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! | phase | a thread may | next |
//! |---|---|---|
//! | [`Shared`] | write its own elements for the first time | [`Shared::put`], [`Shared::fill`], [`Shared::zeroed`]: [`Writer`] |
//! | [`Writer`] | read and write its own elements | [`Block::sync`](crate::block::Block::sync): [`Reader`] |
//! | [`Reader`] | read every element | [`Block::sync`](crate::block::Block::sync): [`Writer`] |
//! | [`Halving`] | combine pairs of elements, step by step | [`Block::sync`](crate::block::Block::sync): [`Reader`] |
//! | [`DoubleReader`] | read one array and write its own elements of another | [`DoubleReader::fill`], then [`Block::sync`](crate::block::Block::sync) |
//!
//! Which elements are a thread's own is a matter of the array's type, its [`Layout`].

mod alignment;
mod array;
mod atomics;
mod declared;
mod double;
mod dynamic;
mod halving;
mod layout;
mod parts;
mod phase;
mod statics;

pub use alignment::{Align, Alignment};
pub use array::SharedArray;
#[cfg(target_os = "cuda")]
pub(crate) use array::assume_shared;
#[doc(hidden)]
pub use array::{align_bytes, aligned_bytes, size_bytes};
pub use atomics::SharedAtomics;
#[doc(hidden)]
pub use declared::{Excess, Space, excess, space};
pub use double::{Double, DoubleReader, DoubleWriter};
pub use dynamic::{DynamicSharedArray, dynamic_shared_bytes, dynamic_shared_mem};
pub use halving::{Halving, Pairs};
pub(crate) use layout::own_places;
pub use layout::{Blocked, Element, Layout, PerWarp, Tile};
pub use parts::{Part, Parts, Token, split_bytes};
pub(crate) use phase::sealed::Sealed;
#[doc(hidden)]
pub use phase::{Declared, are_distinct, dynamic_handle, handle};
pub use phase::{Phase, Reader, Shared, Writer};
pub use statics::SharedStatic;
#[doc(hidden)]
pub use statics::{InStatic, Uninitialised, assert_uninitialised};

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../book/src/shared-memory.md")]
struct Chapter;
