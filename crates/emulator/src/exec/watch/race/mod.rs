//! Data races: two accesses of different threads to the same bytes, at least one of them a write, not both
//! strong with scopes that mean each other, that no synchronisation orders.
//!
//! The order is that of the PTX memory model (happens-before), followed as the threads run: barriers of the
//! block and of the warp let their participants know each other's accesses (`clock`); a release publishes
//! what a thread knows through a cell, and who acquires from that cell learns it (`location`); all other
//! instructions, shuffles and votes among them, order nothing. `shadow` keeps the accesses that later ones
//! are compared with.
//!
//! So a race is found whenever both accesses *execute*, in whatever order they happened to run, and what is
//! ordered is never reported. What is not seen:
//! - paths that were not taken, and inputs that were not tried;
//! - stores of the value that the other thread has stored, which are left unreported;
//! - strong accesses of different sizes to the same bytes, which the manual calls a race;
//! - the total order of `fence.sc`, but where a barrier of the block or the warp leads from the observation
//!   of a write after one such fence to another such fence: nothing else orders two of them by itself;
//! - accesses of the host itself to memory that kernels and copies touch;
//! - what bulk and tensor copies do between the moment they were asked for and their completion, and what
//!   those that an mbarrier completes do to each other and to other accesses: they are
//!   compared with the host's copies alone;
//! - with several CPU threads, an acquire that read an old value a moment before a release: it counts as if it
//!   had read the new one;
//! - memory beyond 1 GiB that one launch touches, and more than 64 reads or writes of one 128-byte line that
//!   nothing orders: the oldest are forgotten.
//!
//! Launches, copies and fills of different streams are compared by the order that the host gave them
//! ([`stream_order`](crate::machine::stream_order)): streams, events, waits; whether they happened to run at the same time does not matter. A
//! launch that was not handed in through a stream is compared with those that ran when it began. Kernels
//! that write strongly with system scope may tell the host what they did before they end: what is handed
//! in from then on is ordered behind them; and those that read so may know what the host knows. What a
//! kernel releases in the host's memory the host may hand on: who acquires from that memory knows it.
//!
//! A weak load that begins a compare-and-swap loop on the same address is not reported: compilers write it
//! so, and the loop finds an old value out.

mod clock;
mod flights;
mod location;
mod observer;
mod report;
pub(super) mod runs;
mod session;
mod shadow;
mod team;
mod traits;
mod transfer;

pub use crate::machine::stream_order::{Clock, Moment, Order};
pub use session::{RaceCheck, RaceState};
pub use transfer::{Area, Transfer};
