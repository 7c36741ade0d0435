//! Where operations are enqueued.

use crate::capture;
use crate::error::GpuResult;
use crate::pool::{Pooled, StreamPool};
use crate::stream::{AsStream, ForkScope, Stream};

/// What operations are run on: a [`Stream`], a [`Gpu`](crate::Gpu), or the streams of a [`StreamPool`].
///
/// Of a pool an operation takes one stream, waiting for a free one, and for branches those that are free besides. All go
/// back as soon as the operation is enqueued.
#[diagnostic::on_unimplemented(
    message = "operations are run on a stream, a device or a pool of streams, and `{Self}` is none of them",
    note = "pass `&gpu`, `&stream` or `&pool`"
)]
pub trait Streams {
    /// Calls `work` with the stream to enqueue on.
    #[doc(hidden)]
    fn with_lane<R>(&self, work: impl FnOnce(&Lane<'_>) -> GpuResult<R>) -> GpuResult<R>;
}

impl<S: AsStream> Streams for S {
    fn with_lane<R>(&self, work: impl FnOnce(&Lane<'_>) -> GpuResult<R>) -> GpuResult<R> {
        work(&Lane::of(self.as_stream()))
    }
}

impl Streams for StreamPool {
    fn with_lane<R>(&self, work: impl FnOnce(&Lane<'_>) -> GpuResult<R>) -> GpuResult<R> {
        let main = self.acquire()?;
        work(&Lane { stream: &main, pool: Some(self) })
    }
}

/// A stream on which an operation is enqueued, and where its branches come from.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    stream: &'a Stream,
    pool: Option<&'a StreamPool>,
}

impl<'a> Lane<'a> {
    /// One stream, without branches.
    pub(super) fn of(stream: &'a Stream) -> Self {
        Self { stream, pool: None }
    }

    pub(super) fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Enqueues `work` on this stream and up to `more` others, which begin after the work that this one has now. Later work
    /// here comes after all of it.
    pub(super) fn fork<R>(
        &self,
        more: usize,
        work: impl FnOnce(&Branches<'_>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        // In a capture the order comes from the memory that nodes use.
        let Some(pool) = self.pool.filter(|_| more > 0 && !capture::is_recording()) else {
            return work(&Branches { main: *self, others: Vec::new() });
        };
        let mut others = Vec::new();
        while others.len() < more
            && let Some(stream) = pool.try_acquire()?
        {
            others.push(stream);
        }
        let branches = Branches { main: *self, others };
        let scope = ForkScope::enter();
        branches.begin()?;
        let value = work(&branches)?;
        drop(scope);
        branches.join()?;
        Ok(value)
    }
}

/// The streams of operations that are independent.
pub(super) struct Branches<'a> {
    main: Lane<'a>,
    others: Vec<Pooled<Stream>>,
}

impl Branches<'_> {
    /// That of the operation of this number.
    pub(super) fn lane(&self, number: usize) -> Lane<'_> {
        match number % (self.others.len() + 1) {
            0 => self.main,
            other => Lane { stream: &self.others[other - 1], ..self.main },
        }
    }

    fn begin(&self) -> GpuResult<()> {
        let main = self.main.stream.inner();
        self.others.iter().try_for_each(|other| other.inner().branch_from(main))
    }

    fn join(&self) -> GpuResult<()> {
        let main = self.main.stream.inner();
        self.others.iter().try_for_each(|other| main.wait_stream(other.inner()))
    }
}
