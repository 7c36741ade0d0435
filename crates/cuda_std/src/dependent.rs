//! Programmatic dependent launch: the next kernel of the stream starts while this one still runs
//! (`sm_90`).
//!
//! The host launches the second kernel with the attribute that allows it. Without the attribute both
//! functions do nothing, and the order is the stream's.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Waits until the kernels that this one depends on have ended and their memory is visible. What
/// comes before may run beside them: it reads nothing that they write, and writes nothing that they
/// reach.
///
/// A kernel launched with the attribute calls this in every thread before it touches their memory.
#[gpu_only]
#[inline(always)]
pub fn wait_for_previous() {
    // SAFETY: waiting has no precondition.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
}

/// Says that the next kernel may start: it does when every block has said so or ended. Its
/// [`wait_for_previous`] still waits for the end of this one.
#[gpu_only]
#[inline(always)]
pub fn let_next_start() {
    // SAFETY: a hint to the scheduler.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) }
}
