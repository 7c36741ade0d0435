//! Parts of buffers that go to other ranks, and come from them.

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use ferrowarp::error::GpuResult;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::{GpuError, Stream};

use crate::communicator::{Communicator, Group};
use crate::driver::is_captured;
use crate::error::DistResult;

/// What goes to a rank.
pub(super) type Sent<'a, T> = (u32, DeviceSlice<'a, T>);
/// What comes from a rank.
pub(super) type Received<'a, T> = (u32, DeviceSliceMut<'a, T>);

/// Adds the exchange with all ranks but `own` to a group. Parts of two ranks for each other are in the same order on both.
pub(super) fn exchange_with_others<'a, T: Pod>(
    mut group: Group<'a>,
    own: u32,
    sent: &'a [Sent<'_, T>],
    received: &'a mut [Received<'_, T>],
) -> DistResult<Group<'a>> {
    for (rank, part) in sent.iter().filter(|(rank, part)| *rank != own && part.raw().len > 0) {
        group = group.send(part, *rank)?;
    }
    let others = received.iter_mut().filter(|(rank, part)| *rank != own && part.raw().len > 0);
    for (rank, part) in others {
        group = group.receive(part, *rank)?;
    }
    Ok(group)
}

/// Copies what rank `own` would send to itself: a backend takes longer for it than a copy does.
pub(super) fn copy_own<T: Pod>(
    own: u32,
    sent: &[Sent<'_, T>],
    received: &mut [Received<'_, T>],
) -> DistResult<()> {
    let from = sent.iter().filter(|(rank, _)| *rank == own);
    let to = received.iter_mut().filter(|(rank, _)| *rank == own);
    for ((_, from), (_, to)) in from.zip(to) {
        to.copy_from_device(from)?;
    }
    Ok(())
}

/// Divides memory into parts of these lengths.
pub(super) fn divide<'a, T: Pod>(
    to: DeviceSliceMut<'a, T>,
    lens: impl Iterator<Item = (u32, usize)>,
) -> Vec<Received<'a, T>> {
    let mut rest = Some(to);
    let part = |(rank, len)| {
        let all = rest.take().expect("each round leaves the rest");
        let (part, behind) = all.split_at_mut(len);
        rest = Some(behind);
        (rank, part)
    };
    lens.map(part).collect()
}

/// Enqueues what `exchange` enqueues on `on`, by the memory of the ranks: as one call, which all ranks make.
///
/// # Safety
/// As [`Stream::foreign`], of which `exchange` is the work.
pub(super) unsafe fn enqueue_by_peers(
    ranks: &Communicator,
    on: &Stream,
    operation: &'static str,
    memory: ForeignMemory,
    exchange: impl FnOnce() -> DistResult<()>,
) -> DistResult<()> {
    ranks.check()?;
    let mut failure = None;
    let work = |stream: StreamRef<'_>| -> GpuResult<()> {
        let what = "an exchange of large messages by the memory of the ranks, in a graph";
        if is_captured(stream).unwrap_or(true) {
            return Err(GpuError::Unsupported { what });
        }
        ranks.begin_call().and_then(|_| exchange()).map_err(|error| {
            failure = Some(error);
            GpuError::Unsupported { what: operation }
        })
    };
    // SAFETY: the caller's promise.
    let enqueued = unsafe { on.foreign(operation, memory, work) };
    match failure {
        Some(error) => Err(error),
        None => Ok(enqueued?),
    }
}
