//! Sums of small messages.

use cuda_std::launch::{Args, DevicePtr, LaunchConfig};
use ferrowarp::Stream;
use ferrowarp::memory::resource::StreamRef;
use kernels_gpu::peers::{BLOCK, CALLS, Exchange, line_blocks, lines_bytes, quad_blocks};

use super::kernels::Sums;
use super::{MOST_SUMMED_BYTES, PeerMemory, lock};
use crate::element::Reduction;
use crate::error::DistResult;
use crate::transport::Primitive;

/// The calls of a communicator, which use its memory one after the other.
#[derive(Default)]
pub(super) struct Calls {
    /// How many there were.
    count: u32,
    /// The stream of the last one.
    pub(super) last: Option<Stream>,
}

/// A sum that is made here.
#[derive(Clone, Copy)]
pub(crate) struct Sum<'a> {
    sums: &'a Sums,
    from: u64,
    to: u64,
    len: usize,
    bytes: usize,
}

impl PeerMemory {
    /// The sum that the primitives are, if it is to be made here: all ranks find the same.
    pub(crate) fn sum(&self, primitives: &[Primitive]) -> Option<Sum<'_>> {
        let [Primitive::AllReduce { from, to, len, kind, reduction: Reduction::Sum }] = *primitives
        else {
            return None;
        };
        let bytes = len * kind.size_bytes();
        let sums = self.kernels.sums(kind).filter(|_| (1..=MOST_SUMMED_BYTES).contains(&bytes))?;
        Some(Sum { sums, from, to, len, bytes })
    }

    /// Enqueues a sum; `false`, on all ranks, if there were too many, and nothing was done.
    ///
    /// The memory is used by one call after the other. So one on another stream than the one before waits for what is enqueued
    /// there now.
    ///
    /// # Safety
    /// As [`Transport::run`](crate::transport::Transport::run); the stream is not captured.
    pub(crate) unsafe fn all_reduce(&self, on: &Stream, sum: Sum<'_>) -> DistResult<bool> {
        let mut calls = lock(&self.calls);
        let call = calls.count + 1;
        if call == CALLS {
            return Ok(false);
        }
        let is_last = |last: &Stream| StreamRef::of(last).as_raw() == StreamRef::of(on).as_raw();
        if !calls.last.as_ref().is_some_and(is_last) {
            if let Some(last) = &calls.last {
                on.join(std::slice::from_ref(last))?;
            }
            calls.last = Some(on.clone());
        }
        let is_lines = sum.bytes <= lines_bytes(self.ranks);
        let (function, blocks) = match is_lines {
            true => (&sum.sums.lines, line_blocks(sum.bytes)),
            false => (&sum.sums.quads, quad_blocks(sum.bytes)),
        };
        let mut args = Args::new();
        args.push_value(Exchange {
            memory: self.mapping.addresses(),
            given_up: self.given_up(),
            slot_bytes: MOST_SUMMED_BYTES as u64,
            rank: self.rank as u32,
            ranks: self.ranks as u32,
            call,
            padding: 0,
        });
        // In place there is no input: the kernel's arrays do not overlap.
        let read = if sum.from == sum.to { 0 } else { sum.len };
        for (address, len) in [(sum.from, read), (sum.to, sum.len)] {
            args.push_pointer(DevicePtr::<u8>::from_raw(address));
            args.push_value(len);
        }
        let config =
            LaunchConfig { grid: (blocks, 1, 1), block: (BLOCK as u32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel is that of the type, whose parameters are these; source and target hold as many elements. The numbers
        // of calls are the same on all ranks, since all make the same calls, and each begins after the one before: on one
        // stream, or by the wait above.
        unsafe { function.launch(on, config, &args) }?;
        calls.count = call;
        Ok(true)
    }
}
