//! PTX texts of one kernel crate in compressed form, of which single module parts are unpacked.
//!
//! Kernels of one family are alike, and so is one kernel for two architectures: their text compresses to a
//! twentieth together, and to a seventh apart. So each module part is compressed by itself, but against the text of a
//! similar one, its *base*. To unpack a part takes its base, the base's base and so on, four at most, and the lines that
//! several parts share, which are stored once.
//!
//! An [`Archive`] reads, and `pack` (with feature `pack`) writes:
//!
//! ```text
//! MAGIC
//! blocks                compressed texts: lengths and base of each
//! texts                 architecture, length, hash, numbers of files, module parts, runs of blocks
//! compressed bytes      of all blocks, in order
//! ```

mod archive;
mod compression;
mod numbering;
#[cfg(feature = "pack")]
mod pack;
#[cfg(all(test, feature = "pack"))]
mod tests;
mod varint;

pub use archive::{Archive, Damaged};
#[cfg(feature = "pack")]
pub use pack::pack;

/// What an archive begins with.
const MAGIC: &[u8] = b"ferrowarp ptx 1\n";
