//! Whether this thread's work is captured into a graph, which driver calls a capture allows, and captures
//! of the driver's own.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};

use crate::error::{GpuResult, GraphError};
use crate::thread_state::THREAD;

/// What this thread's work becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Work on streams.
    Execute,
    /// Nodes of a graph.
    Record,
    /// Nothing: a driver capture is under way, and this crate must call nothing meanwhile.
    Refuse,
}

thread_local! {
    /// Whether this thread lets the driver capture, so that no thread may wait for the device.
    static HOLDS_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread's launches, copies and fills are recorded.
#[inline]
pub(crate) fn is_recording() -> bool {
    mode() == Mode::Record
}

#[inline]
fn mode() -> Mode {
    THREAD.with(|thread| thread.mode.get())
}

/// Fails where a capture cannot take a driver call.
#[inline]
pub(crate) fn check(operation: &'static str) -> GpuResult<()> {
    match mode() {
        Mode::Execute => Ok(()),
        Mode::Record | Mode::Refuse => Err(GraphError::NotCapturable { operation }.into()),
    }
}

/// Records this thread's work while `work` runs.
pub(crate) fn recording<R>(work: impl FnOnce() -> R) -> R {
    let _before = Before::set(Mode::Record);
    work()
}

/// Lets this thread call the driver in a capture: for what a node needs to be made, and for what has nothing to do with it.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    let _before = Before::set(Mode::Execute);
    work()
}

/// Refuses all driver calls that this thread asks the crate for while `work` runs.
pub(crate) fn refusing<R>(work: impl FnOnce() -> R) -> R {
    let _before = Before::set(Mode::Refuse);
    work()
}

/// Held while the driver captures, which a wait for the whole device would break.
static DEVICE_WAITS: RwLock<()> = RwLock::new(());

/// Runs `work`, which lets the driver capture a stream, while no thread waits for the device.
pub(crate) fn without_device_waits<R>(work: impl FnOnce() -> R) -> R {
    let _no_waits = DEVICE_WAITS.write().unwrap_or_else(PoisonError::into_inner);
    let _holds = Holds::set();
    work()
}

/// Runs `wait`, which waits for the whole device, while the driver captures nothing. Does not run it, and
/// returns `None`, where this thread itself lets the driver capture.
pub(crate) fn device_wait<R>(wait: impl FnOnce() -> R) -> Option<R> {
    if HOLDS_WAITS.get() {
        return None;
    }
    let _no_capture = DEVICE_WAITS.read().unwrap_or_else(PoisonError::into_inner);
    Some(wait())
}

/// Marks this thread as one that lets the driver capture, until it is dropped.
struct Holds;

impl Holds {
    fn set() -> Self {
        HOLDS_WAITS.set(true);
        Self
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        HOLDS_WAITS.set(false);
    }
}

/// Restores the mode of before, after a panic too.
struct Before(Mode);

impl Before {
    fn set(mode: Mode) -> Self {
        Self(THREAD.with(|thread| thread.mode.replace(mode)))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.mode.set(self.0));
    }
}
