//! Element by element: each thread computes, copies or fills elements of its own.
//!
//! * [`vecadd`](fn@vecadd), [`saxpy`](fn@saxpy): what to read first; one thread an element.
//! * [`map`]: functions of one, two or three arrays, with 16-byte loads and stores.
//! * [`copy`]: copies, from the slowest form to the fastest, and copies of rows.
//! * [`memset`]: an array full of one value.
//! * [`horner`]: a polynomial, with its coefficients in constant memory.

mod add;
pub mod axpy;
pub mod copy;
pub mod horner;
pub mod map;
pub mod memset;

pub use add::vecadd;
pub use axpy::saxpy;
pub use copy::{copy_bytes, copy_coalesced, copy_quads, copy_rows, copy_strided, copy_vectors};
pub use horner::polynomial;
pub use map::{map_bits, map_convert, map_scale, triad, zip_product, zip_sum};
pub use memset::fill;
