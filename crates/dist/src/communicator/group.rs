//! Operations that are enqueued as one.

use ferrowarp::AsStream;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::{GpuError, error::GpuResult};

use super::Communicator;
use super::refusal::Call;
use crate::error::{DistError, DistResult};
use crate::transport::Primitive;

/// Operations that are enqueued as one: see [`Communicator::group`].
#[must_use = "nothing happens before `enqueue`"]
pub struct Group<'a> {
    pub(super) communicator: &'a Communicator,
    pub(super) primitives: Vec<Primitive>,
    pub(super) memory: ForeignMemory,
    /// What a graph calls it: the first operation.
    name: &'static str,
    /// Whether all members make this call, and count it.
    is_counted: bool,
}

impl Communicator {
    /// No operations yet, to which some are added, and which [`enqueue`](Group::enqueue) then enqueues as one: none waits for
    /// another, so a rank can send to a second one while it receives from a third, whatever the order in which they were added.
    /// Buffers stay borrowed until then.
    ///
    /// ```no_run
    /// # use ferrowarp_dist::{Communicator, DistResult};
    /// # use ferrowarp::{DeviceBuffer, Gpu};
    /// /// Gives each rank the values of its left neighbour.
    /// fn shift(ranks: &Communicator, gpu: &Gpu, from: &DeviceBuffer<f32>, to: &mut DeviceBuffer<f32>) -> DistResult<()> {
    ///     let (left, right) = ((ranks.rank() + ranks.size() - 1) % ranks.size(), (ranks.rank() + 1) % ranks.size());
    ///     ranks.group().send(from, right)?.receive(to, left)?.enqueue(gpu)
    /// }
    /// ```
    pub fn group(&self) -> Group<'_> {
        let (primitives, memory) = (Vec::new(), ForeignMemory::new());
        Group { communicator: self, primitives, memory, name: "group", is_counted: false }
    }
}

impl<'a> Group<'a> {
    /// And these primitives of an operation that all members make, with the memory that they use.
    pub(super) fn with(
        self,
        name: &'static str,
        primitives: impl IntoIterator<Item = Primitive>,
        memory: impl FnOnce(ForeignMemory) -> ForeignMemory,
    ) -> Self {
        self.with_single(name, primitives, memory).counted()
    }

    /// And those of a send or a receive.
    pub(super) fn with_single(
        mut self,
        name: &'static str,
        primitives: impl IntoIterator<Item = Primitive>,
        memory: impl FnOnce(ForeignMemory) -> ForeignMemory,
    ) -> Self {
        if self.primitives.is_empty() {
            self.name = name;
        }
        self.primitives.extend(primitives);
        self.memory = memory(self.memory);
        self
    }

    /// One that all members make, whatever it has.
    pub(crate) fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// Which call is refused, if it is this one.
    pub(super) fn call(&self) -> Call {
        if self.is_counted { Call::Next } else { Call::Uncounted }
    }

    /// Enqueues all of it on a stream of the communicator's device, in order with all other uses of the buffers.
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost) if a member is lost, [`Deadline`](DistError::Deadline) or
    /// [`Aborted`](DistError::Aborted) if the communicator has ended; [`CallRefused`](DistError::CallRefused) if another rank
    /// has refused the call; [`WrongDevice`](GpuError::WrongDevice);
    /// [`NotInGraphs`](DistError::NotInGraphs) within a capture over MPI; NCCL's, MPI's or the driver's refusal.
    pub fn enqueue(self, on: &impl AsStream) -> DistResult<()> {
        let (communicator, mut call) = (self.communicator, self.call());
        self.enqueue_as(on, &mut call).map_err(|error| communicator.refuse(error, call))
    }

    /// Makes the call: what may be refused is checked before it has its number.
    fn enqueue_as(self, on: &impl AsStream, call: &mut Call) -> DistResult<()> {
        let Self { communicator, primitives, memory, name, is_counted } = self;
        communicator.check()?;
        check_device(communicator, on)?;
        let transport = &*communicator.inner.transport;
        let mut begin = || -> DistResult<()> {
            if is_counted {
                *call = Call::Made(communicator.begin_call()?);
            }
            Ok(())
        };
        if primitives.is_empty() || transport.is_noop(&primitives) {
            return begin();
        }
        let mut failure = None;
        let work = |stream: StreamRef<'_>| -> GpuResult<()> {
            let allowed = transport.check_call(stream, &primitives).and_then(|()| begin());
            // SAFETY: the primitives were made of this memory, which is the device's and is ordered by the stream.
            let run = || unsafe { communicator.run(on.as_stream(), stream, &primitives) };
            let done = allowed.and_then(|()| run());
            done.map_err(|error| {
                let reason = error.to_string();
                failure = Some(error);
                GpuError::InvalidArgument { operation: name, reason }
            })
        };
        // SAFETY: what carries them uses the memory that the primitives name, which `memory` lists; what else it
        // uses lives as long as the communicator, which does not end before what was enqueued.
        let enqueued = unsafe { on.as_stream().foreign(name, memory, work) };
        match failure {
            Some(error) => Err(communicator.explain(on, error)),
            None => Ok(enqueued?),
        }
    }
}

/// An error unless the stream is of the communicator's device.
fn check_device(communicator: &Communicator, on: &impl AsStream) -> DistResult<()> {
    let (expected, found) = (communicator.gpu().info().ordinal, StreamRef::of(on).device());
    if expected == found {
        return Ok(());
    }
    let what = "the stream of a collective";
    Err(GpuError::WrongDevice { what, expected, found }.into())
}

impl Communicator {
    /// The driver's error with all that is known of it, if it is one of the driver's.
    fn explain(&self, on: &impl AsStream, error: DistError) -> DistError {
        match error {
            DistError::Driver { .. } => match on.as_stream().is_idle() {
                Err(fault) => fault.into(),
                Ok(_) => error,
            },
            DistError::RankLost { rank, how } => {
                self.inner.end(crate::fate::End::Lost { rank, how }).into()
            }
            DistError::Deadline { what, waited } => {
                self.inner.end(crate::fate::End::Deadline { what, waited }).into()
            }
            // Perhaps of a connection to another rank, which is gone. Wrong arguments end nothing.
            DistError::Nccl { code: 1 | 2 | 3 | 6, .. } => self.blame(error),
            error => error,
        }
    }
}
