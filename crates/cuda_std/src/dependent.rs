//! Programmatic dependent launch: the next kernel of the stream starts while this one still runs
//! (`sm_90`).
//!
//! `#[kernel(dependent)]` lets a kernel start so. A safe one waits for the kernel before it as its first
//! act, so that its blocks are on the device and ready when that one ends; an unsafe one calls
//! [`wait_for_previous`] itself, after work that does not depend on the kernel before. That one may say
//! early that it is nearly done, by [`let_next_start`]. Without the contract both functions do nothing, and
//! the order is the stream's; so it is on devices before `sm_90`.
//!
//! ```
//! use cuda_std::dependent;
//! use cuda_std::prelude::*;
//!
//! #[kernel]
//! pub fn first(index: ThreadIndex, mut y: DisjointSlice<u32>) {
//!     dependent::let_next_start();
//!     if let Some(y) = y.get_mut(index) {
//!         *y = index.get() as u32;
//!     }
//! }
//!
//! /// Its threads are there when `first` ends.
//! #[kernel(dependent)]
//! pub fn second(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
//!     if let Some(y) = y.get_mut(index) {
//!         *y = 2 * x[index.get()];
//!     }
//! }
//! # fn main() { assert!(second::KERNEL.contract.dependent && !first::KERNEL.contract.dependent); }
//! ```

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::arch::compute_capability;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Waits until the kernels that this one depends on have ended and their memory is visible. What
/// comes before may run beside them: it reads nothing that they write, and writes nothing that they
/// reach.
///
/// Every thread of a `#[kernel(dependent)]` calls this before it touches their memory; a safe one has done
/// so before its own code.
#[gpu_only]
#[inline(always)]
pub fn wait_for_previous() {
    if compute_capability() >= 900 {
        // SAFETY: waiting has no precondition.
        unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
    }
}

/// Says that the next kernel may start: it does when every block has said so or ended. Its
/// [`wait_for_previous`] still waits for the end of this one.
#[gpu_only]
#[inline(always)]
pub fn let_next_start() {
    if compute_capability() >= 900 {
        // SAFETY: a hint to the scheduler.
        unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) }
    }
}
