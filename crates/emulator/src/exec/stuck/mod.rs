//! Launches that never end because all that still runs only polls.
//!
//! **The criterion.** A launch is stuck when, over a stretch of time in which every CPU thread that
//! works on it watches all that it executes,
//!
//! 1. no memory changed: each store and each atomic left the bytes as they were, and nothing else
//!    was executed that acts on more than registers (arrivals, asynchronous copies, `printf`, an
//!    exit, …); an instruction that is not known to be harmless counts as a change;
//! 2. nothing was read that changes by itself or that the host can write: clocks, timers,
//!    `activemask`, host and managed memory, memory of another device; and no asynchronous copy is
//!    pending;
//! 3. each warp whose lanes can run (those that an mbarrier keeps waiting observe that it is not
//!    ready) came back to a state it was in before, with each of these lanes having run in between:
//!    the same places, the same registers;
//! 4. nothing outside of the launch acted, or can act: see [`Outside`].
//!
//! **Why that is enough.** While memory stays as it is, what a warp does is a function of its own
//! state: by 2 it reads nothing else, and lanes of a warp meet only in collective operations, whose
//! results do not depend on the order in which lanes come to them. So a warp that came back to a
//! state comes back to it forever, in any order of warps and blocks, until memory changes. By 1
//! none of these rounds changes memory, by 4 nothing else does, and threads at barriers go on only
//! when one arrives. So nothing ever changes. The stretches of the CPU threads have to overlap for
//! that: [`Quorum`] counts epochs, which end with every change, and asks for the proof of all
//! threads within one.
//!
//! **What is never reported**, then: a loop that counts its rounds, reads a clock, or backs off for
//! longer and longer times, until its count or time is over; a kernel that polls what the host can
//! write. A loop with a barrier in it is not proven either, nor one that writes something else each
//! time.
//!
//! It costs nothing until a CPU thread has gone many rounds without bringing a block to its end.
//! Then it watches for one turn of a cluster, and looks away where that changed something, for
//! twice as long as before.

mod observer;
mod probe;
mod quorum;

pub use probe::Probe;
pub use quorum::{Nobody, Outside, Quorum};
