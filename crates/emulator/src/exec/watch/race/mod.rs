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
//! - the order that `fence.sc` has of itself: an order has to be observed through a cell;
//! - accesses of the host, and copies, while a kernel runs. Launches that ran at the same time are compared
//!   with each other; one that ended before another began is ordered before it;
//! - with several CPU threads, an acquire that read an old value a moment before a release: it counts as if it
//!   had read the new one;
//! - memory beyond 1 GiB that one launch touches, and more than 64 reads or writes of one 128-byte line that
//!   nothing orders: the oldest are forgotten.
//!
//! A weak load that begins a compare-and-swap loop on the same address is not reported: compilers write it
//! so, and the loop finds an old value out.

mod clock;
mod location;
mod observer;
mod report;
mod runs;
mod session;
mod shadow;
mod team;
mod traits;

pub use session::{RaceCheck, RaceState};
