//! Data races: two accesses of different threads to the same bytes, at least one of them a write,
//! that are not both strong with scopes that include each other, and that no synchronisation
//! orders.
//!
//! The check follows happens-before of the PTX memory model while the threads run, as FastTrack
//! does (Flanagan and Freund, PLDI 2009): each thread has a vector clock (`clock`); barriers of
//! the block, the warp and the cluster join the clocks of their participants; a release stores the
//! thread's clock with the cell that it writes, and an acquire from that cell joins it
//! (`sync_cell`). No other instruction orders anything, shuffles and votes included. Shadow
//! memory (`shadow`) keeps the accesses that later ones are compared with.
//!
//! So a race is found whenever both accesses *execute*, in whichever order they happened to run,
//! and accesses that are ordered are not reported. Not found are:
//! - races on paths that were not taken, and with inputs that were not tried;
//! - a store of the value that the other thread has stored;
//! - strong accesses of different sizes to the same bytes, which the manual calls a race;
//! - races that only the total order of `fence.sc` excludes or admits: two such fences are ordered
//!   only where a barrier of the block or the warp leads from the observation of a write after one
//!   of them to the other;
//! - accesses of the host itself to memory that kernels and copies access;
//! - what bulk and tensor copies do between their instruction and their completion, and races of
//!   copies that complete on an mbarrier with each other and with other accesses: these are
//!   compared with the host's copies only;
//! - with several CPU threads, an acquire that reads an old value just before a release: it counts
//!   as if it had read the new one;
//! - races in memory beyond the first 1 GiB that one launch accesses, and with more than 64
//!   unordered reads or writes of one 128-byte cell: the oldest are dropped.
//!
//! Launches, copies and fills of different streams are compared by the order that the host gave
//! them ([`stream_order`](crate::machine::stream_order)): streams, events and waits. Whether they
//! overlapped in this run does not matter. A launch without a stream is compared with the launches
//! that were running when it began. A kernel that writes strongly with system scope may notify the
//! host before it ends: operations submitted from then on are ordered after those writes. A kernel
//! that reads strongly with system scope may acquire what the host knows. What a kernel releases in
//! host memory, the host may pass on: a thread that acquires from that memory is ordered after it.
//!
//! Both kinds of order are followed together, through any number of launches (`reached`): from a launch by the host's order to
//! a release in a later one, from the acquire in another launch by the host's order to what comes after that.
//!
//! A weak load that begins a compare-and-swap loop on the same address is not reported: compilers
//! emit such loops, and the compare-and-swap detects a stale value.

mod clock;
mod lanes;
mod observer;
mod pending_copies;
mod reached;
mod report;
pub(super) mod runs;
mod session;
mod shadow;
mod sync_cell;
mod traits;
mod transfer;

pub use crate::machine::stream_order::{Clock, Moment, Order};
pub use session::{RaceCheck, RaceState};
pub use transfer::{Area, Transfer};
