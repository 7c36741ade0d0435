//! Operations of other operations.

use super::lane::Lane;
use super::sealed::Sealed;
use super::{Complete, DeviceOperation, Immediate, Outcome};
use crate::error::GpuResult;

/// What [`DeviceOperation::then`] returns.
#[derive(Debug)]
pub struct Then<A, F> {
    first: A,
    next: F,
}

impl<A, F> Then<A, F> {
    pub(super) fn new(first: A, next: F) -> Self {
        Self { first, next }
    }
}

impl<A, F> Sealed for Then<A, F> {}

impl<A, F, N> DeviceOperation for Then<A, F>
where
    A: DeviceOperation<Outcome: Immediate>,
    F: FnOnce(A::Output) -> N,
    N: DeviceOperation,
{
    type Output = N::Output;
    type Outcome = N::Outcome;

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<N::Outcome> {
        let output = self.first.enqueue(on)?.output();
        (self.next)(output).enqueue(on)
    }
}

/// What [`DeviceOperation::zip`] returns.
#[derive(Debug)]
pub struct Zip<A, B> {
    first: A,
    second: B,
}

impl<A, B> Zip<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A, B> Sealed for Zip<A, B> {}

impl<A: DeviceOperation, B: DeviceOperation> DeviceOperation for Zip<A, B> {
    type Output = (A::Output, B::Output);
    type Outcome = (A::Outcome, B::Outcome);

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Self::Outcome> {
        on.fork(1, |branches| {
            let first = self.first.enqueue(&branches.lane(0))?;
            Ok((first, self.second.enqueue(&branches.lane(1))?))
        })
    }
}

impl<A: Outcome, B: Outcome> Outcome for (A, B) {
    type Output = (A::Output, B::Output);

    fn take(self, complete: &Complete) -> GpuResult<Self::Output> {
        Ok((self.0.take(complete)?, self.1.take(complete)?))
    }
}

impl<A: Immediate, B: Immediate> Immediate for (A, B) {
    fn output(self) -> Self::Output {
        (self.0.output(), self.1.output())
    }
}

/// Operations that are independent, as one: the output is a vector of theirs, in their order. On one stream they are
/// enqueued in that order; on a pool they are distributed over its free streams.
pub fn join_all<O: DeviceOperation>(operations: impl IntoIterator<Item = O>) -> JoinAll<O> {
    JoinAll { operations: operations.into_iter().collect() }
}

/// What [`join_all`] returns.
#[derive(Debug)]
pub struct JoinAll<O> {
    operations: Vec<O>,
}

impl<O> Sealed for JoinAll<O> {}

impl<O: DeviceOperation> DeviceOperation for JoinAll<O> {
    type Output = Vec<O::Output>;
    type Outcome = Vec<O::Outcome>;

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Self::Outcome> {
        on.fork(self.operations.len().saturating_sub(1), |branches| {
            let all = self.operations.into_iter().enumerate();
            all.map(|(at, operation)| operation.enqueue(&branches.lane(at))).collect()
        })
    }
}

impl<T: Outcome> Outcome for Vec<T> {
    type Output = Vec<T::Output>;

    fn take(self, complete: &Complete) -> GpuResult<Self::Output> {
        self.into_iter().map(|outcome| outcome.take(complete)).collect()
    }
}

impl<T: Immediate> Immediate for Vec<T> {
    fn output(self) -> Self::Output {
        self.into_iter().map(Immediate::output).collect()
    }
}

/// What [`DeviceOperation::map`] returns.
#[derive(Debug)]
pub struct Map<A, F> {
    inner: A,
    function: F,
}

impl<A, F> Map<A, F> {
    pub(super) fn new(inner: A, function: F) -> Self {
        Self { inner, function }
    }
}

impl<A, F> Sealed for Map<A, F> {}

impl<A, F, R> DeviceOperation for Map<A, F>
where
    A: DeviceOperation,
    F: FnOnce(A::Output) -> R,
{
    type Output = R;
    type Outcome = Map<A::Outcome, F>;

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Self::Outcome> {
        Ok(Map { inner: self.inner.enqueue(on)?, function: self.function })
    }
}

impl<A, F, R> Outcome for Map<A, F>
where
    A: Outcome,
    F: FnOnce(A::Output) -> R,
{
    type Output = R;

    fn take(self, complete: &Complete) -> GpuResult<R> {
        self.inner.take(complete).map(self.function)
    }
}
