//! Views of device memory of which every thread writes its own part.
//!
//! All of them are a [`Disjoint`], which has the argument why safe code cannot make two threads reach the
//! same element; they differ by the [`Shape`] that says which elements belong to an index:
//!
//! | parameter of a kernel | memory | a thread's index | its own elements |
//! |---|---|---|---|
//! | [`DisjointSlice<T>`] | `len` elements | [`ThreadIndex`] | one |
//! | [`DisjointChunks<T, N>`](DisjointChunks) | `len` elements | [`ThreadIndex`] | `N` neighbours |
//! | [`DisjointVectors<T, N>`](DisjointVectors) | `len` elements | [`ThreadIndex`] | an aligned vector of `N`, and one each of head and tail |
//! | [`DisjointGrid<T>`] | `height` rows of `width` | [`ThreadIndex2`] | one |
//! | [`DisjointPitched<T>`] | `height` rows of `width`, `pitch` apart | [`ThreadIndex2`] | one |
//! | [`DisjointVolume<T>`] | `depth` planes of `height` rows of `width` | [`ThreadIndex3`] | one |
//!
//! [`ThreadIndex`]: crate::index::ThreadIndex
//! [`ThreadIndex2`]: crate::index::ThreadIndex2
//! [`ThreadIndex3`]: crate::index::ThreadIndex3

mod brackets;
mod linear;
mod spatial;
mod view;

pub use linear::{Chunks, DisjointChunks, DisjointSlice, DisjointVectors, Slice, Vectors};
pub use spatial::{DisjointGrid, DisjointPitched, DisjointVolume, Grid, Pitched, Volume};
pub use view::{Disjoint, Rows, Shape};
