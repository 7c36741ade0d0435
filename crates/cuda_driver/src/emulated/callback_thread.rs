//! The one thread that runs the host callbacks of all streams.
//!
//! NVIDIA's driver has one such thread in a process, so a callback that blocks delays those of all
//! other streams. It also limits the number of pending callbacks: a call that enqueues one more
//! blocks until some have run.

use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::lock;
use crate::codes::CUDA_ERROR_OPERATING_SYSTEM;
use crate::detail::{DriverError, DriverResult};

/// The limit of pending callbacks. The driver of an H200 blocks somewhere between 20 and 101.
const MAX_PENDING: usize = 64;

type Callback = Box<dyn FnOnce() + Send>;

/// Runs `function` on that thread, and waits for its end.
pub(super) fn run(function: impl FnOnce() + Send + 'static) -> DriverResult {
    let (done, end) = sync_channel::<()>(0);
    let callback: Callback = Box::new(move || {
        function();
        drop(done);
    });
    sender()?.send(callback).map_err(|error| failure(&error))?;
    // Nothing is ever sent: the receiver returns when the sender is dropped.
    let _ = end.recv();
    Ok(())
}

/// The channel to the thread, which starts with the first callback and never ends.
fn sender() -> DriverResult<Sender<Callback>> {
    static THREAD: Mutex<Option<Sender<Callback>>> = Mutex::new(None);
    let mut thread = lock(&THREAD);
    if let Some(sender) = &*thread {
        return Ok(sender.clone());
    }
    let (sender, callbacks) = channel::<Callback>();
    thread::Builder::new()
        .name("emulated host functions".to_owned())
        .spawn(move || callbacks.into_iter().for_each(|callback| callback()))
        .map_err(|error| failure(&error))?;
    Ok(thread.insert(sender).clone())
}

fn failure(error: &dyn std::error::Error) -> DriverError {
    DriverError::new(CUDA_ERROR_OPERATING_SYSTEM, error.to_string())
}

static PENDING: Mutex<usize> = Mutex::new(0);
static SLOT_FREED: Condvar = Condvar::new();

/// The slot of a pending callback. It is dropped when the callback has run, or will never run.
pub(super) struct PendingSlot(());

impl PendingSlot {
    /// Waits for a free slot.
    pub(super) fn wait_for() -> Self {
        let pending = lock(&PENDING);
        let pending = SLOT_FREED.wait_while(pending, |pending| *pending >= MAX_PENDING);
        *pending.unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        *lock(&PENDING) -= 1;
        SLOT_FREED.notify_all();
    }
}
