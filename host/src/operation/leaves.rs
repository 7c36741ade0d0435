//! Operations of closures.

use std::fmt;
use std::panic::Location;

use super::lane::Lane;
use super::sealed::Sealed;
use super::{Complete, DeviceOperation, Outcome, Place, Ready};
use crate::completion::HostCall;
use crate::error::{GpuError, GpuResult};
use crate::stream::Stream;

/// What `function` enqueues on the stream that it is called with, as an operation: launches, functions of
/// [`ops`](crate::ops), or whatever else takes a stream. It is called once, when the operation is enqueued; what it returns
/// is the output.
///
/// ```no_run
/// # use ferrowarp::operation::{DeviceOperation, operation};
/// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig, Stream};
/// # use kernels_gpu::elementwise::vecadd;
/// # async fn example(gpu: &Gpu, a: &DeviceBuffer<f32>, out: &mut DeviceBuffer<f32>) -> GpuResult<()> {
/// let all = LaunchConfig::for_num_elems(a.len());
/// operation(|on: &Stream| vecadd::launch(on, all, a, a, out)).async_on(gpu).await
/// # }
/// ```
///
/// Work that `function` enqueues elsewhere, or waits for, is not a part of the operation.
#[doc(alias = "launch")]
#[track_caller]
pub fn operation<R, F: FnOnce(&Stream) -> GpuResult<R>>(function: F) -> Operation<F> {
    Operation { function, place: Location::caller() }
}

/// What [`operation`] returns.
pub struct Operation<F> {
    function: F,
    place: Place,
}

impl<F> Sealed for Operation<F> {}

impl<R, F: FnOnce(&Stream) -> GpuResult<R>> DeviceOperation for Operation<F> {
    type Output = R;
    type Outcome = Ready<R>;

    #[inline]
    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Ready<R>> {
        (self.function)(on.stream()).map(Ready).map_err(|error| made_at(error, self.place))
    }
}

/// The error with the place where its operation was made.
#[cold]
pub(super) fn made_at(error: GpuError, place: Place) -> GpuError {
    error.context(format!("the operation of {place}"))
}

/// A host callback: `function` is called by a thread of the driver, after the operations before it. Its output is what the
/// function returns. See [`Stream::launch_host_func`] for what it must not do.
#[track_caller]
pub fn host<R: Send + 'static, F: FnOnce() -> R + Send + 'static>(function: F) -> Host<F> {
    Host { function, place: Location::caller() }
}

/// What [`host`] returns.
pub struct Host<F> {
    function: F,
    place: Place,
}

impl<F> Sealed for Host<F> {}

impl<R: Send + 'static, F: FnOnce() -> R + Send + 'static> DeviceOperation for Host<F> {
    type Output = R;
    type Outcome = HostOutcome<R>;

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<HostOutcome<R>> {
        let call = on.stream().launch_host_func(self.function);
        let call = call.map_err(|error| made_at(error, self.place))?;
        Ok(HostOutcome { call, place: self.place })
    }
}

/// What a host callback returns.
#[doc(hidden)]
#[derive(Debug)]
pub struct HostOutcome<R> {
    call: HostCall<R>,
    place: Place,
}

impl<R> Outcome for HostOutcome<R> {
    type Output = R;

    fn take(self, _: &Complete) -> GpuResult<R> {
        // It has run, so this does not block.
        self.call.wait().map_err(|error| made_at(error, self.place))
    }
}

/// An operation that does nothing, with the output `value`: the start of a chain, or a branch without work.
pub fn value<T>(value: T) -> Value<T> {
    Value(value)
}

/// What [`value`] returns.
#[derive(Debug)]
pub struct Value<T>(T);

impl<T> Sealed for Value<T> {}

impl<T> DeviceOperation for Value<T> {
    type Output = T;
    type Outcome = Ready<T>;

    fn enqueue(self, _: &Lane<'_>) -> GpuResult<Ready<T>> {
        Ok(Ready(self.0))
    }
}

impl<F> fmt::Debug for Operation<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operation({})", self.place)
    }
}

impl<F> fmt::Debug for Host<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.place)
    }
}
