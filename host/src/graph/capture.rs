//! Captures: what a thread gives to streams becomes nodes of a graph.

use std::cell::{Cell, RefCell};

use super::builder::GraphBuilder;
use super::error::GraphError;
use crate::error::GpuResult;

thread_local! {
    /// The graph that this thread's work goes to.
    static CURRENT: RefCell<Option<GraphBuilder>> = const { RefCell::new(None) };
    /// Whether there is one: what every call of the driver asks.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
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

/// Puts back what was before, after a panic too.
struct Before(Option<GraphBuilder>);

impl Before {
    fn set(builder: Option<GraphBuilder>) -> Self {
        IS_ON.set(builder.is_some());
        Self(CURRENT.replace(builder))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        IS_ON.set(self.0.is_some());
        CURRENT.set(self.0.take());
    }
}
