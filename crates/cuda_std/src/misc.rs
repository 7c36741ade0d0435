//! Breakpoints, profiler counters and the clock.

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Stops for a debugger. Without one the kernel fails, as with a trap.
#[gpu_only]
#[inline(always)]
pub fn breakpoint() {
    // SAFETY: a breakpoint has no precondition.
    unsafe { asm!("brkpt;", options(nostack)) }
}

/// Adds one for each warp to the profiler's counter `counter`, 0 to 7. Panics past that.
#[gpu_only]
#[inline(always)]
pub fn profiler_counter(counter: u32) {
    /// One instruction for each number, which is part of it.
    macro_rules! events {
        ($($number:literal)*) => {
            match counter {
                $($number => asm!(concat!("pmevent ", $number, ";"), options(nostack)),)*
                _ => panic!("the profiler's counters are 0 to 7"),
            }
        };
    }
    // SAFETY: counting has no precondition.
    unsafe { events!(0 1 2 3 4 5 6 7) }
}

/// The multiprocessor's clock, in cycles. The difference of two readings in one thread is the time between.
#[gpu_only]
#[inline(always)]
pub fn clock() -> u64 {
    let cycles: u64;
    // SAFETY: reading a special register has no precondition. The assembly is not `pure`, so that
    // two readings are two.
    unsafe { asm!("mov.u64 {0}, %clock64;", out(reg64) cycles, options(nostack)) };
    cycles
}
