//! The panic handler: a trap.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(_info: &PanicInfo) -> ! {
    // SAFETY: a trap has no precondition.
    unsafe { core::arch::nvptx::trap() }
}
