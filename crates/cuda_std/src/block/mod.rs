//! Block-wide collectives, and the token [`Block`] that they take.
//!
//! | | result | shared memory, and [cost](#cost) |
//! |---|---|---|
//! | [`reduce`](Block::reduce), [`sum`](Block::sum), [`min`](Block::min), [`max`](Block::max), [`broadcast`](Block::broadcast) | in every thread | the token's own |
//! | [`reduce_to_first`](Block::reduce_to_first) | `Some` in thread 0 | the token's own |
//! | [`inclusive_scan`](Block::inclusive_scan), [`exclusive_scan`](Block::exclusive_scan), [`scan_with_prefix`](Block::scan_with_prefix) | a thread's own, and the total | the token's own |
//! | [`left`](Block::left), [`right`](Block::right), [`heads`](Block::heads), [`differences`](Block::differences) | a thread's own | the token's own |
//! | [`blocked_to_striped`](Block::blocked_to_striped), [`striped_to_blocked`](Block::striped_to_blocked) | a thread's own | [`exchange_bytes`] |
//! | [`sort`](Block::sort), [`sort_pairs`](Block::sort_pairs), [`radix_rank`](Block::radix_rank) | a thread's own, blocked | [`sort_bytes`], [`rank_bytes`] |
//! | [`histogram`](Block::histogram) | a [`Reader`](crate::shared::Reader) of the bins | the bins |
//! | [`load_blocked`](Block::load_blocked) and the other loads, [`DisjointTiles`] | a thread's own | none, or [`exchange_bytes`] |
//! | [`Matrix::tile`](crate::view::Matrix::tile), [`DisjointTiles2`] | tiles of matrices | none |
//!
//! # The contract of every collective
//!
//! - All threads of the block call it, in the same order, as barriers. It contains at least one barrier, unless
//!   it says otherwise.
//! - The number of threads is a multiple of 32, else the kernel does not compile.
//! - Items are *blocked* (thread `t` has the items `t * K` to `t * K + K - 1` of the tile) or *striped*
//!   (it has `t`, `t + THREADS`, …). They stay in registers.
//! - An operator is associative; it need not be commutative: it always joins what comes earlier in
//!   the tile with what comes later. For floating-point numbers, whose addition is not quite
//!   associative, the order is fixed, so the bits are the same in every run.
//! - The token's own shared memory may be used again at once: collectives alternate between its two
//!   halves, and the barrier of one frees the half of the one before. Larger memory is a
//!   [`Shared`](crate::shared::Shared) that comes back as [`Used`], which a barrier makes a `Shared` again.
//!
//! # Cost
//!
//! Each collective states its barriers, its shuffles and its shared memory. A shuffle moves 4 bytes of each
//! lane, so a value of 8 bytes takes two. The token's own shared memory is 1 KiB of each block, in kernels that
//! call a collective that uses it: two halves of 32 values of at most 16 bytes.

mod adjacent;
mod exchange;
mod histogram;
mod item;
mod lanes;
mod memory;
mod plane;
mod radix;
mod reduce;
mod scan;
mod scratch;
mod sort;
mod token;

pub use exchange::exchange_bytes;
pub use item::Item;
pub use memory::{Blocked, DisjointTiles, Striped};
pub use plane::{DisjointTiles2, WholeTile};
pub use radix::{SortKey, rank_bytes};
pub use scratch::{Bytes, Used};
pub use sort::{Bits, sort_bytes};
pub use token::{Block, Thread};
