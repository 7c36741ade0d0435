//! Shared memory: fast memory that the threads of one block have in common.
//!
//! | | size | safe |
//! |---|---|---|
//! | [`Shared`] | fixed, or chosen at launch (`Shared<[T]>`) | yes: phases that a barrier parts |
//! | [`SharedAtomics`] | counters | yes |
//! | [`shared_array!`](crate::shared_array) | fixed, concrete type | no: the program orders its accesses |
//! | [`SharedArray::numbered`] | fixed, generic type or length | no |
//! | [`dynamic_shared_mem`] | chosen at launch | no |
//!
//! Accesses through all of them compile to `ld.shared` and `st.shared`.
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

mod array;
mod atomics;
mod double;
mod halving;
mod layout;
mod phase;

#[cfg(target_os = "cuda")]
pub(crate) use array::assume_shared;
pub use array::{SharedArray, align_bytes, dynamic_shared_bytes, dynamic_shared_mem, size_bytes};
#[doc(hidden)]
pub use array::{Uninitialised, assert_uninitialised};
pub use atomics::SharedAtomics;
pub use double::{Double, DoubleReader, DoubleWriter};
pub use halving::{Halving, Pairs};
pub(crate) use layout::own_places;
pub use layout::{Blocked, Element, Layout, PerWarp, Tile};
pub(crate) use phase::sealed::Sealed;
#[doc(hidden)]
pub use phase::{Declared, are_distinct, dynamic_handle, handle};
pub use phase::{Phase, Reader, Shared, Writer};
