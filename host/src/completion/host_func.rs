//! Host callbacks: functions of the program that a stream calls (`cuLaunchHostFunc`).

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll};

use cuda_driver::sys;

use super::callback::{Callback, add_signal_callback};
use super::signal::{LOST, Listener, PendingSignals, SUCCESS, Signal};
use super::{Awaited, block_on};
use crate::context::{Context, ContextState, Slot};
use crate::error::{GpuError, GpuResult};
use crate::host_callback::defer_drop;
use crate::lock::lock;
use crate::stream::StreamInner;

/// The result of a host callback: a future, or [`wait`](Self::wait).
///
/// Dropping it does not cancel the callback.
#[must_use = "dropping it forgets what the function returns; its panic is the stream's next error"]
pub struct HostCall<R> {
    listener: Listener,
    end: End<R>,
    stream: Arc<StreamInner>,
}

/// What the function returned, or how it panicked.
type End<R> = Arc<Mutex<Option<Result<R, Arc<HostPanic>>>>>;

impl<R> HostCall<R> {
    /// Waits until the function has run.
    ///
    /// # Errors
    /// [`HostPanic`](GpuError::HostPanic) if it panicked; if a fault came before it, that fault: then
    /// it does not run at all.
    pub fn wait(self) -> GpuResult<R> {
        block_on(self)
    }
}

impl<R> Future for HostCall<R> {
    type Output = GpuResult<R>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let Poll::Ready(status) = self.listener.poll(task) else { return Poll::Pending };
        let end = lock(&self.end).take();
        Poll::Ready(match end {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => Err(panic.report()),
            None => {
                let status = if status == SUCCESS { LOST } else { status };
                self.stream.completion_result(status, &Awaited::Stream(0)).and(Err(
                    GpuError::InvalidArgument {
                        operation: "awaiting a host callback",
                        reason: "its value was taken before".to_owned(),
                    },
                ))
            }
        })
    }
}

impl<R> fmt::Debug for HostCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostCall")
    }
}

/// Enqueues a call of `function` on `stream`.
pub(crate) fn launch<R: Send + 'static>(
    stream: &Arc<StreamInner>,
    function: impl FnOnce() -> R + Send + 'static,
) -> GpuResult<HostCall<R>> {
    let context = stream.context().clone();
    let signal = Signal::of(stream.handle());
    let end = End::default();
    let call = Call {
        function: Some(function),
        signal: signal.clone(),
        end: end.clone(),
        context: context.clone(),
        stream: stream.handle().addr(),
    };
    // SAFETY: the stream lives.
    let added = unsafe { add_signal_callback(&context, stream.handle(), &signal, call) };
    // It counts as work: a future made before it does not wait for it.
    context.count_submission();
    added.map(|()| HostCall { listener: Listener::new(signal), end, stream: stream.clone() })
}

struct Call<F, R> {
    function: Option<F>,
    signal: Arc<Signal>,
    end: End<R>,
    context: Arc<Context>,
    stream: usize,
}

impl<R, F> Callback for Call<F, R>
where
    R: Send + 'static,
    F: FnOnce() -> R + Send + 'static,
{
    /// After a fault the function does not run. It is dropped later, where the driver may be
    /// called.
    fn call(&mut self, status: u32) {
        if let Some(function) = self.function.take_if(|_| status == SUCCESS) {
            let end = catch_unwind(AssertUnwindSafe(function));
            *lock(&self.end) = Some(end.map_err(|payload| {
                HostPanics::of(&self.context).add(self.stream, HostPanic::of_function(payload))
            }));
        }
        PendingSignals::of(&self.context).callback_done(&self.signal);
        self.signal.complete(status, HostPanics::of(&self.context));
    }
}

/// The panic of a host callback, or of a waker.
#[derive(Debug)]
pub(crate) struct HostPanic {
    message: String,
    /// Makes the error for a message.
    error: fn(String) -> GpuError,
    reported: AtomicBool,
}

impl HostPanic {
    fn of_function(payload: Box<dyn Any + Send>) -> Self {
        Self::new(payload, |message| GpuError::HostPanic { message })
    }

    pub(super) fn of_waker(payload: Box<dyn Any + Send>) -> Self {
        Self::new(payload, |message| GpuError::WakerPanic { message })
    }

    fn new(payload: Box<dyn Any + Send>, error: fn(String) -> GpuError) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("a panic that says nothing").to_owned();
        // The payload may be anything, so dropping it here could call the driver.
        defer_drop(payload);
        Self { message, error, reported: AtomicBool::new(false) }
    }

    fn report(&self) -> GpuError {
        self.reported.store(true, Ordering::Release);
        (self.error)(self.message.clone())
    }
}

/// The panics of host callbacks and wakers of a context, each with its stream.
#[derive(Debug, Default)]
pub(crate) struct HostPanics {
    list: Mutex<Vec<(usize, Arc<HostPanic>)>>,
    any: AtomicBool,
}

impl HostPanics {
    /// Those of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::CallbackPanics, Self::default)
    }

    pub(super) fn add(&self, stream: usize, panic: HostPanic) -> Arc<HostPanic> {
        let panic = Arc::new(panic);
        lock(&self.list).push((stream, panic.clone()));
        self.any.store(true, Ordering::Release);
        panic
    }

    /// The first panic on `stream` that was not reported yet.
    ///
    /// # Errors
    /// That panic.
    pub(crate) fn check(&self, stream: sys::CUstream) -> GpuResult<()> {
        self.take(|of| of == stream.addr())
    }

    /// Forgets the panics of a stream that ends: another stream may get its handle.
    pub(crate) fn forget(&self, stream: sys::CUstream) {
        if self.any.load(Ordering::Acquire) {
            lock(&self.list).retain(|(of, _)| *of != stream.addr());
        }
    }

    /// The first panic that was not reported yet.
    ///
    /// # Errors
    /// That panic.
    pub(crate) fn check_all(&self) -> GpuResult<()> {
        self.take(|_| true)
    }

    fn take(&self, which: impl Fn(usize) -> bool) -> GpuResult<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut list = lock(&self.list);
        list.retain(|(_, panic)| !panic.reported.load(Ordering::Acquire));
        let found = list.iter().position(|(stream, _)| which(*stream));
        let told = found.map(|at| list.remove(at).1.report());
        self.any.store(!list.is_empty(), Ordering::Release);
        told.map_or(Ok(()), Err)
    }
}

impl ContextState for HostPanics {}
