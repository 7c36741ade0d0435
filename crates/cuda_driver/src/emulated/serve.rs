//! How the front enters the emulator: its start, and what surrounds every emulated call.
//!
//! Only this file knows all parts of the emulated driver, so that they need to know neither each
//! other nor the front. It tells the contexts what to release when one is destroyed.

use super::foreign::link;
use super::{
    allocations, array, callback, current, deadlock, event, gpu, injected, kernel, module, peer,
    stream,
};
use crate::codes::CUDA_ERROR_NOT_PERMITTED;
use crate::detail::{DriverError, DriverResult};

/// Starts the emulated devices. Does nothing if they are started already.
///
/// `functions` are the names of all driver functions that the crate exports.
pub(crate) fn start(functions: &[&str]) -> DriverResult {
    injected::start(functions)?;
    current::on_destroy(&[
        stream::forget,
        event::forget,
        module::forget,
        kernel::forget,
        link::forget,
        array::forget,
        peer::forget,
        allocations::free_all,
    ]);
    gpu::start()
}

/// Makes an emulated call of driver function `name`.
pub(crate) fn call(name: &'static str, emulated: impl FnOnce() -> DriverResult) -> DriverResult {
    if callback::running_here() {
        return Err(inside_callback());
    }
    deadlock::note_host_call();
    injected::watched(name, emulated)
}

fn inside_callback() -> DriverError {
    DriverError::new(CUDA_ERROR_NOT_PERMITTED, "a host callback must not call the driver")
}
