//! Operations: descriptions of work for a device, made now, composed, and run later.
//!
//! A [`DeviceOperation`] does nothing by itself. It is run on a stream, on the streams of a pool, or recorded as a graph;
//! awaited, waited for, or only enqueued: all from one description.
//!
//! | made by | does | output |
//! |---|---|---|
//! | [`operation`] | what a closure does with a stream: launches, functions of [`ops`](crate::ops) | what the closure returns |
//! | [`upload`], [`download`] | copies from and to the host | the target; a `Vec` |
//! | [`copy`], [`fill`], [`clear`] | copies and fills on the device | the memory |
//! | [`host`] | a host callback | what the function returns |
//! | [`value`] | nothing | the value |
//! | [`a.then(f)`](DeviceOperation::then) | `a`, and the operation that `f` makes of its output | that of the second |
//! | [`a.zip(b)`](DeviceOperation::zip), [`join_all`] | operations that are independent | all of theirs |
//! | [`a.map(f)`](DeviceOperation::map) | `a`, and `f` on the host once `a` is complete | that of `f` |
//!
//! | run by | |
//! |---|---|
//! | [`async_on`](DeviceOperation::async_on) | a future, for `.await` |
//! | [`sync_on`](DeviceOperation::sync_on) | waits |
//! | [`enqueue_on`](DeviceOperation::enqueue_on) | enqueues, as a launch on a stream does |
//! | [`record`](DeviceOperation::record) | makes the nodes of a [`GraphBuilder`] |
//!
//! ```no_run
//! use ferrowarp::completion::block_on;
//! use ferrowarp::operation::{DeviceOperation, download, operation, upload};
//! use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig, Stream};
//! use kernels_gpu::elementwise::saxpy;
//!
//! let gpu = Gpu::new()?;
//! let all = LaunchConfig::for_num_elems(3);
//! let ones = DeviceBuffer::from_slice(&gpu, &[1.0f32; 3])?;
//! let update = |mut y: DeviceBuffer<f32>| {
//!     let ones = &ones;
//!     operation(move |on: &Stream| {
//!         saxpy::launch(on, all, 2.0, ones, &mut y)?;
//!         Ok(y)
//!     })
//! };
//! let work = upload([10.0f32, 20.0, 30.0], DeviceBuffer::zeroed(&gpu, 3)?).then(update).then(download);
//! assert_eq!(block_on(work.async_on(&gpu))?, [12.0, 22.0, 32.0]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Branches
//!
//! On a [`StreamPool`](crate::StreamPool) the operations of [`zip`](DeviceOperation::zip) and [`join_all`] are enqueued on
//! different streams, as far as the pool has free ones, and joined by events. Launches and copies of such branches run
//! side by side if they share no memory that one of them writes, whatever streams the buffers were made on. A use that
//! meets another one is ordered after it, in the order in which the operations stand.
//!
//! # Memory
//!
//! An operation owns or borrows what its closures have, until it is run or dropped, and its future borrows as long. What it
//! has enqueued needs no borrow: device memory is used and freed in the order of its streams, and copies from and to the
//! host go through page-locked memory that lives until they are done. So a future may be dropped or forgotten at any time.
//! One that was not polled yet has done nothing; one that was polled has enqueued all of its work, which continues.
//!
//! A buffer of an operation is not used beside it:
//! ```compile_fail,E0502
//! # use ferrowarp::operation::{DeviceOperation, fill};
//! # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
//! # fn example(gpu: &Gpu, mut x: DeviceBuffer<f32>) -> GpuResult<()> {
//! let filled = fill(&mut x, 1.0);
//! let before = x.to_vec()?;
//! filled.sync_on(gpu).map(drop)
//! # }
//! ```
//! nor in two operations at once, if one of them writes it:
//! ```compile_fail,E0499
//! # use ferrowarp::operation::{DeviceOperation, fill};
//! # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
//! # fn example(gpu: &Gpu, mut x: DeviceBuffer<f32>) -> GpuResult<()> {
//! fill(&mut x, 1.0).zip(fill(&mut x, 2.0)).sync_on(gpu).map(drop)
//! # }
//! ```

mod combinators;
mod future;
mod lane;
mod leaves;
mod memory;
mod transfers;

use std::panic::Location;

pub use combinators::{JoinAll, Map, Then, Zip, join_all};
pub use future::DeviceFuture;
pub use lane::{Lane, Streams};
pub use leaves::{Host, HostOutcome, Operation, Value, host, operation, value};
pub use memory::{DeviceSource, DeviceTarget};
pub use transfers::{
    Copy, Download, Downloaded, Fill, Upload, clear, copy, download, fill, upload,
};

use crate::error::GpuResult;
use crate::graph::GraphBuilder;
use crate::stream::AsStream;

/// Work for a device that is not enqueued yet: see the [module](self).
///
/// The types of this module implement it, and no others can: [`operation`] makes one of any code.
#[doc(alias = "DeviceOp")]
#[must_use = "an operation does nothing until it is run: `async_on(&gpu).await`, `sync_on(&gpu)`"]
pub trait DeviceOperation: sealed::Sealed + Sized {
    /// What comes of it once it is complete.
    type Output;
    /// What there is of that once it is enqueued: an [`Immediate`] one has it by then.
    type Outcome: Outcome<Output = Self::Output>;

    /// Enqueues it.
    #[doc(hidden)]
    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Self::Outcome>;

    /// This operation, and after it the one that `next` makes of its output. `next` is called when this one is enqueued,
    /// and not yet complete: its output is memory of the device, say, which the next operation uses in order.
    ///
    /// A [`download`]'s output is not there by then, so this does not compile:
    /// ```compile_fail,E0277
    /// # use ferrowarp::operation::{DeviceOperation, download, value};
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
    /// # fn example(gpu: &Gpu, x: &DeviceBuffer<f32>) -> GpuResult<usize> {
    /// download(x).then(|x| value(x.len())).sync_on(gpu) // `map` instead
    /// # }
    /// ```
    #[doc(alias = "and_then")]
    fn then<N, F>(self, next: F) -> Then<Self, F>
    where
        F: FnOnce(Self::Output) -> N,
        N: DeviceOperation,
        Self::Outcome: Immediate,
    {
        Then::new(self, next)
    }

    /// This operation and `other`, which are independent: the output is both of theirs. On one stream they are enqueued in
    /// this order.
    fn zip<B: DeviceOperation>(self, other: B) -> Zip<Self, B> {
        Zip::new(self, other)
    }

    /// This operation, whose output `function` changes on the host once all is complete.
    fn map<R, F: FnOnce(Self::Output) -> R>(self, function: F) -> Map<Self, F> {
        Map::new(self, function)
    }

    /// A future that enqueues the operation when it is first polled, on a stream or the streams of a pool, and is ready with
    /// its output when it is complete.
    ///
    /// It may be dropped or forgotten at any time: what is enqueued continues.
    #[doc(alias = "schedule")]
    #[track_caller]
    fn async_on<S: Streams>(self, on: &S) -> DeviceFuture<'_, Self, S> {
        DeviceFuture::new(self, on)
    }

    /// Enqueues the operation and waits until it is complete.
    ///
    /// # Errors
    /// Those of its parts, with the places where those were made; the fault or panic of a kernel.
    #[doc(alias = "sync")]
    #[doc(alias = "wait")]
    fn sync_on(self, on: &impl Streams) -> GpuResult<Self::Output> {
        on.with_lane(|lane| {
            let outcome = self.enqueue(lane)?;
            lane.stream().synchronize()?;
            outcome.take(&Complete(()))
        })
    }

    /// Enqueues the operation and does not wait, as a launch on a stream. Whatever uses its memory next comes after it.
    ///
    /// # Errors
    /// Those of its parts, with the places where those were made. That of a kernel is the error of the next wait.
    #[doc(alias = "execute")]
    fn enqueue_on(self, on: &impl Streams) -> GpuResult<Self::Output>
    where
        Self::Outcome: Immediate,
    {
        on.with_lane(|lane| self.enqueue(lane).map(Immediate::output))
    }

    /// Makes a graph of the operation, in place of running it: its launches, copies and fills become nodes, whose order
    /// follows from the memory that they use. Returns the output too, which has the memory for
    /// [`build`](GraphBuilder::build).
    ///
    /// ```no_run
    /// use ferrowarp::operation::{DeviceOperation, fill};
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// let gpu = Gpu::new()?;
    /// let [x, y] = [1, 2].map(|_| DeviceBuffer::<u32>::zeroed(&gpu, 100));
    /// let (buffers, builder) = fill(x?, 1).zip(fill(y?, 2)).record(&gpu)?;
    /// let mut graph = builder.build(buffers)?;
    /// graph.launch(&gpu)?;
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// Those of its parts, among them [`NotCapturable`](crate::graph::GraphError::NotCapturable) for uploads, downloads and
    /// host callbacks: a [`HostBuffer`](crate::graph::HostBuffer) takes their place.
    #[doc(alias = "capture")]
    #[doc(alias = "graph")]
    fn record(self, on: &impl AsStream) -> GpuResult<(Self::Output, GraphBuilder)>
    where
        Self::Outcome: Immediate,
    {
        let builder = GraphBuilder::new(on);
        let lane = Lane::of(on.as_stream());
        let output = builder.capture(|| self.enqueue(&lane).map(Immediate::output))?;
        Ok((output, builder))
    }
}

/// What there is of an operation that is enqueued.
pub trait Outcome {
    /// What comes of it.
    type Output;

    /// Its output, once all of it is complete.
    #[doc(hidden)]
    fn take(self, complete: &Complete) -> GpuResult<Self::Output>;
}

/// Outcomes that are there as soon as the operation is enqueued. A function that returns an operation for
/// [`then`](DeviceOperation::then) returns `impl DeviceOperation<Output = T, Outcome: Immediate>`.
#[diagnostic::on_unimplemented(
    message = "the output of this operation is not there before it is complete",
    label = "`then`, `enqueue_on` and `record` take an operation whose output is there once it is enqueued",
    note = "a download, a host callback or a `map` has its output at the end: use `map` to go on with it on the host"
)]
pub trait Immediate: Outcome {
    /// The output, at once.
    #[doc(hidden)]
    fn output(self) -> Self::Output;
}

/// Says that an operation is complete. Only what has waited for one makes it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Complete(());

/// An outcome that is there at once.
#[doc(hidden)]
#[derive(Debug)]
pub struct Ready<R>(pub(crate) R);

impl<R> Outcome for Ready<R> {
    type Output = R;

    fn take(self, _: &Complete) -> GpuResult<R> {
        Ok(self.0)
    }
}

impl<R> Immediate for Ready<R> {
    fn output(self) -> R {
        self.0
    }
}

/// Where an operation was made, for errors.
type Place = &'static Location<'static>;

mod sealed {
    pub trait Sealed {}
}
