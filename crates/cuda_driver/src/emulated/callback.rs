//! Host callbacks: functions on the host that a stream calls in its order.
#![allow(non_snake_case)]

use std::cell::Cell;
use std::sync::Arc;

use super::callback_thread::{self, PendingSlot};
use super::gpu::Gpu;
use super::operation::{NodeType, Operation};
use super::queue::Task;
use super::{capture, check_flags, happens_before, invalid_value, stream};
use crate::abi::{CUhostFn, CUstream, CUstreamCallback, HostPtr};
use crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
use crate::detail::DriverResult;
use crate::structs::HostNodeParams;

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a host callback, which must not call the driver.
pub(crate) fn running_here() -> bool {
    RUNNING.get()
}

/// Runs a host callback, which must not call the driver, on the thread of all callbacks.
fn run_callback(function: impl FnOnce() + Send + 'static) -> DriverResult {
    let mut answer = Ok(());
    happens_before::host_call(|| {
        answer = callback_thread::run(|| {
            RUNNING.set(true);
            function();
            RUNNING.set(false);
        });
    });
    answer
}

/// A host function and its argument.
#[derive(Clone, Copy)]
pub(super) struct HostCall {
    pub(super) params: HostNodeParams,
}

impl HostCall {
    pub(super) fn new(params: HostNodeParams) -> DriverResult<Self> {
        match params.function {
            Some(_) => Ok(Self { params }),
            None => Err(invalid_value("the function is null")),
        }
    }

    fn call(self) -> DriverResult {
        let HostNodeParams { function, data } = self.params;
        let Some(function) = function else { return Ok(()) };
        run_callback(move || {
            let HostPtr(data) = { data };
            // SAFETY: the program passed both for this call, which by the API may come from any
            // thread.
            unsafe { function(data) }
        })
    }
}

impl Operation for HostCall {
    fn node_type(&self) -> NodeType {
        NodeType::Host
    }

    fn name(&self) -> String {
        "host function".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        self.call()
    }
}

/// The function is not called if the device is lost before.
pub(crate) fn cuLaunchHostFunc(
    stream: CUstream,
    function: CUhostFn,
    data: HostPtr,
) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    let host_call = HostCall::new(HostNodeParams { function, data })?;
    if stream.is_capturing() {
        return stream::enqueue(&context, &stream, Arc::new(host_call));
    }
    capture::check_implicit(&context, &stream)?;
    let slot = PendingSlot::wait_for();
    let task = Task::new(move || {
        let _slot = slot;
        host_call.call()
    });
    context.enqueue(stream.queue(), task).map(drop)
}

/// The stream's handle, to pass to the callback.
struct StreamHandle(CUstream);

// SAFETY: a handle is a number that is never dereferenced.
unsafe impl Send for StreamHandle {}

/// The callback runs also if the device was lost meanwhile, with that error as its status.
pub(crate) fn cuStreamAddCallback(
    stream: CUstream,
    callback: CUstreamCallback,
    data: HostPtr,
    flags: u32,
) -> DriverResult {
    let handle = StreamHandle(stream);
    let (context, stream) = stream::from_handle(stream)?;
    check_flags(flags, 0)?;
    let callback = callback.ok_or_else(|| invalid_value("the callback is null"))?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    let gpu = context.gpu;
    let slot = PendingSlot::wait_for();
    let task = Task::new(move || {
        let _slot = slot;
        let status = gpu.fault().map_or(0, |fault| crate::codes::returned_as(fault.code));
        run_callback(move || {
            let (StreamHandle(stream), HostPtr(data)) = { (handle, data) };
            // SAFETY: the program passed both for this call, which by the API may come from any
            // thread.
            unsafe { callback(stream, status, data) }
        })
    });
    context.enqueue(stream.queue(), task.even_if_lost()).map(drop)
}
