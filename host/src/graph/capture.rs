//! Captures: what a thread gives to streams becomes nodes of a graph.

use std::cell::{Cell, RefCell};
use std::sync::{PoisonError, RwLock};

use super::builder::GraphBuilder;
use super::error::GraphError;
use crate::error::GpuResult;

thread_local! {
    /// The graph that this thread's work goes to.
    static CURRENT: RefCell<Option<GraphBuilder>> = const { RefCell::new(None) };
    /// Whether there is one: what every call of the driver asks.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    /// Whether it lets the driver capture, so that nobody may wait for the device.
    static HOLDS_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// The graph that this thread's work goes to, if it is captured.
#[inline]
pub(crate) fn current() -> Option<GraphBuilder> {
    if IS_ON.get() { CURRENT.with_borrow(Option::clone) } else { None }
}

/// Fails where a capture cannot take a call of the driver.
#[inline]
pub(crate) fn check(operation: &'static str) -> GpuResult<()> {
    if IS_ON.get() { Err(GraphError::NotCapturable { operation }.into()) } else { Ok(()) }
}

/// Sends this thread's work to `builder` while `work` runs.
pub(super) fn capture<R>(builder: &GraphBuilder, work: impl FnOnce() -> R) -> R {
    let _before = Before::set(Some(builder.clone()));
    work()
}

/// Lets this thread call the driver in a capture: for what a node needs to be made, and for what has nothing to do with it.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    if !IS_ON.get() {
        return work();
    }
    let _before = Before::set(None);
    work()
}

/// Held by a capture of the driver's, which a wait for the whole device would break.
static DEVICE_WAITS: RwLock<()> = RwLock::new(());

/// Runs `work`, which lets the driver capture a stream, while no thread waits for the device.
pub(super) fn without_device_waits<R>(work: impl FnOnce() -> R) -> R {
    let _no_waits = DEVICE_WAITS.write().unwrap_or_else(PoisonError::into_inner);
    let _holds = Holds::set();
    work()
}

/// Runs `wait`, which waits for the whole device, while the driver captures nothing; not at all where
/// this thread is what captures.
pub(crate) fn device_wait<R>(wait: impl FnOnce() -> R) -> Option<R> {
    if HOLDS_WAITS.get() {
        return None;
    }
    let _no_capture = DEVICE_WAITS.read().unwrap_or_else(PoisonError::into_inner);
    Some(wait())
}

/// Refuses all calls of the driver that this thread asks the crate for while `work` runs.
pub(super) fn refusing<R>(work: impl FnOnce() -> R) -> R {
    let _before = Before { is_on: IS_ON.replace(true), builder: CURRENT.replace(None) };
    work()
}

/// Says that this thread captures, until it is dropped.
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

/// Puts back what was before, after a panic too.
struct Before {
    is_on: bool,
    builder: Option<GraphBuilder>,
}

impl Before {
    fn set(builder: Option<GraphBuilder>) -> Self {
        let is_on = IS_ON.replace(builder.is_some());
        Self { is_on, builder: CURRENT.replace(builder) }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        IS_ON.set(self.is_on);
        CURRENT.set(self.builder.take());
    }
}
