//! The front for programs that are not written in Rust, such as those that load the shared library
//! of `crates/libcuda`: Python packages, CUDA's own runtime, the samples.
//!
//! What belongs here is what only such programs need of the front, whichever driver serves it: how
//! they look functions up by name and version ([`entry`], [`versions`]), and the variants of functions
//! that use the calling thread's default stream ([`per_thread`]). Functions that the host crate or
//! `cust` call do not belong here. What the emulator does for calls that only such programs make is
//! in `emulated/foreign`.

pub(crate) mod entry;
pub(crate) mod per_thread;
pub(crate) mod versions;
