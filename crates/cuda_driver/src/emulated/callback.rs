//! Functions on the host that a stream calls when it comes to them.
#![allow(non_snake_case)]

use std::cell::Cell;
use std::sync::Arc;

use super::gpu::Gpu;
use super::host_thread::{self, Place};
use super::operation::Operation;
use super::queue::Work;
use super::{capture, check_flags, invalid, order, stream};
use crate::abi::{CUhostFn, CUstream, CUstreamCallback, HostPtr};
use crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
use crate::detail::Answer;
use crate::structs::HostNodeParams;

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in such a function, from which the driver must not be called.
pub(crate) fn running_here() -> bool {
    RUNNING.get()
}

/// Runs `function` as one that must not call the driver, on the thread of all such functions.
fn guarded(function: impl FnOnce() + Send + 'static) -> Answer {
    let mut answer = Ok(());
    order::host_call(|| {
        answer = host_thread::run(|| {
            RUNNING.set(true);
            function();
            RUNNING.set(false);
        });
    });
    answer
}

/// A function of the program, with what it is called with.
#[derive(Clone, Copy)]
pub(super) struct HostCall {
    pub(super) params: HostNodeParams,
}

impl HostCall {
    pub(super) fn new(params: HostNodeParams) -> Answer<Self> {
        match params.function {
            Some(_) => Ok(Self { params }),
            None => Err(invalid("the function is null")),
        }
    }

    fn call(self) -> Answer {
        let HostNodeParams { function, data } = self.params;
        let Some(function) = function else { return Ok(()) };
        guarded(move || {
            let HostPtr(data) = { data };
            // SAFETY: the program handed both in for this call, from whatever thread it comes.
            unsafe { function(data) }
        })
    }
}

impl Operation for HostCall {
    fn node_type(&self) -> i32 {
        3
    }

    fn name(&self) -> String {
        "host function".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        self.call()
    }
}

/// Once the device is lost the function is not called any more.
pub(crate) fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: HostPtr) -> Answer {
    let (context, stream) = stream::named(stream)?;
    let call = HostCall::new(HostNodeParams { function, data })?;
    if stream.is_capturing() {
        return stream::enqueue(&context, &stream, Arc::new(call));
    }
    capture::check_implicit(&context, &stream)?;
    let place = Place::wait_for();
    let work = Work::new(move || {
        let _place = place;
        call.call()
    });
    context.submit(stream.line(), work).map(drop)
}

/// The stream's handle, to hand back to the program.
struct Given(CUstream);

// SAFETY: a number that nobody follows.
unsafe impl Send for Given {}

/// The callback runs also when the device was lost meanwhile, and is told so.
pub(crate) fn cuStreamAddCallback(
    stream: CUstream,
    callback: CUstreamCallback,
    data: HostPtr,
    flags: u32,
) -> Answer {
    let given = Given(stream);
    let (context, stream) = stream::named(stream)?;
    check_flags(flags, 0)?;
    let callback = callback.ok_or_else(|| invalid("the callback is null"))?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    let gpu = context.gpu;
    let place = Place::wait_for();
    let work = Work::new(move || {
        let _place = place;
        let status = gpu.fault().map_or(0, |fault| crate::codes::returned_as(fault.code));
        guarded(move || {
            let (Given(handle), HostPtr(data)) = { (given, data) };
            // SAFETY: the program handed both in for this call, from whatever thread it comes.
            unsafe { callback(handle, status, data) }
        })
    });
    context.submit(stream.line(), work.even_if_lost()).map(drop)
}
