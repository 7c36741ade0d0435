//! A stream that stands still until the test says go: so a test sees who waits, and no clock is asked.

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use cust::sys;
use ferrowarp::AsStream;
use ferrowarp::memory::resource::StreamRef;

/// Longer than any test, so that one that waits wrongly ends and fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Work on a stream that lasts until the gate is opened, or dropped.
pub struct Gate(#[expect(dead_code, reason = "its drop opens the gate")] SyncSender<()>);

impl Gate {
    /// Closes a gate behind what is queued on the stream now. What is queued later waits for it.
    pub fn on(stream: &impl AsStream) -> Self {
        let (opener, gate) = sync_channel(0);
        let data = Box::into_raw(Box::new(gate)).cast();
        let stream = StreamRef::of(stream).as_raw().cast();
        // SAFETY: the stream lives, and the function takes the box, once.
        let code = unsafe { sys::cuLaunchHostFunc(stream, Some(wait), data) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        Self(opener)
    }

    /// Lets the stream go on.
    pub fn open(self) {}
}

/// # Safety
/// `data` is a box of a receiver, and this its only use.
unsafe extern "C" fn wait(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let gate: Box<Receiver<()>> = unsafe { Box::from_raw(data.cast()) };
    // Nothing is sent: the end of the sender is the sign.
    let _ = gate.recv_timeout(PATIENCE);
}
