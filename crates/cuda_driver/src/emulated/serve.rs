//! How the front enters the emulator: its start, and what surrounds every emulated call.
//!
//! This file knows the rooms of the emulated driver, so that they need not know each other, nor the
//! front: it tells the contexts what to free when one is destroyed.

use super::foreign::link;
use super::{
    allocations, array, callback, current, event, gpu, injected, kernel, module, outside, peer,
    stream,
};
use crate::codes::CUDA_ERROR_NOT_PERMITTED;
use crate::detail::{Answer, Failure};

/// Starts the emulated devices; does nothing where they are started already.
///
/// `functions` are the names of all driver functions that the crate exports.
pub(crate) fn start(functions: &[&str]) -> Answer {
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

/// An emulated call of driver function `name`.
pub(crate) fn call(name: &'static str, emulated: impl FnOnce() -> Answer) -> Answer {
    if callback::running_here() {
        return Err(inside_callback());
    }
    outside::host_calls();
    injected::watched(name, emulated)
}

fn inside_callback() -> Failure {
    Failure::new(
        CUDA_ERROR_NOT_PERMITTED,
        "a function that a stream calls on the host must not call the driver",
    )
}
