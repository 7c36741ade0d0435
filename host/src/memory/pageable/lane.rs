//! One thread's share of the ring: two chunks of page-locked memory and a stream.

use std::ptr;

use cuda_driver::sys::{self, event_flags, stream_flags::NON_BLOCKING};

use super::copy::copy_past_caches;
use super::staged_copy::{Segment, StagedCopy};
use crate::context::Context;
use crate::error::GpuResult;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 2 << 20;
/// While one chunk is on the bus, the other one is filled or emptied.
const CHUNKS: usize = 2;

/// Chunks, and the stream that copies them. No other code enqueues work there, so a copy waits for
/// nothing but the bus.
///
/// It holds no `Arc` of the context, which owns it: whoever has it closes it.
pub(super) struct Lane {
    stream: sys::CUstream,
    memory: *mut u8,
    /// For each chunk, the event after its last copy.
    ends: [sys::CUevent; CHUNKS],
    turn: usize,
}

// SAFETY: the memory is owned, and the driver may be called from any thread.
unsafe impl Send for Lane {}

impl Lane {
    pub(super) fn open(context: &Context) -> GpuResult<Self> {
        let (stream, memory, ends) = (ptr::null_mut(), ptr::null_mut(), [ptr::null_mut(); CHUNKS]);
        let mut lane = Self { stream, memory, ends, turn: 0 };
        match lane.fill(context) {
            Ok(()) => Ok(lane),
            Err(error) => {
                lane.close(context);
                Err(error)
            }
        }
    }

    fn fill(&mut self, context: &Context) -> GpuResult<()> {
        context.call("cuStreamCreateWithPriority", || {
            // SAFETY: the handle is writable.
            unsafe { sys::cuStreamCreateWithPriority(&mut self.stream, NON_BLOCKING, 0) }
        })?;
        for end in &mut self.ends {
            let flags = event_flags::DISABLE_TIMING;
            // SAFETY: the handle is writable.
            context.call("cuEventCreate", || unsafe { sys::cuEventCreate(end, flags) })?;
        }
        let memory = (&raw mut self.memory).cast();
        context.call("cuMemHostAlloc", || {
            // SAFETY: the address is writable.
            unsafe { sys::cuMemHostAlloc(memory, CHUNKS * CHUNK_BYTES, 0) }
        })
    }

    /// Gives all back that it has. Nothing is under way.
    pub(super) fn close(self, context: &Context) {
        for end in self.ends.into_iter().filter(|end| !end.is_null()) {
            // SAFETY: the handle is this lane's own and is not used again.
            context.release(|| unsafe { sys::cuEventDestroy_v2(end) });
        }
        if !self.stream.is_null() {
            // SAFETY: as above.
            context.release(|| unsafe { sys::cuStreamDestroy_v2(self.stream) });
        }
        if !self.memory.is_null() {
            // SAFETY: as above.
            context.release(|| unsafe { sys::cuMemFreeHost(self.memory.cast()) });
        }
    }

    /// Takes segments of the host's memory to the device until there are none, and waits for them.
    ///
    /// # Safety
    /// As `work` says; it is a copy to the device.
    pub(super) unsafe fn upload(&mut self, context: &Context, work: &StagedCopy) -> GpuResult<()> {
        while let Some(segment) = work.next() {
            let chunk = self.next_chunk();
            self.wait(context, chunk)?;
            let memory = self.chunk(chunk);
            // SAFETY: the segment is inside the host's memory and not larger than a chunk, which no copy
            // reads any more.
            unsafe { copy_past_caches(work.host_at(segment), memory, segment.bytes) };
            context.call("cuMemcpyHtoDAsync", || {
                let (to, stream) = (work.device_at(segment), self.stream);
                // SAFETY: the segment is inside the device's memory; the chunk stays as it is until its
                // end has been waited for.
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, memory.cast(), segment.bytes, stream) }
            })?;
            self.mark(context, chunk)?;
        }
        (0..CHUNKS).try_for_each(|chunk| self.wait(context, chunk))
    }

    /// Takes segments of the device's memory to the host until there are none.
    ///
    /// # Safety
    /// As `work` says; it is a copy to the host.
    pub(super) unsafe fn download(
        &mut self,
        context: &Context,
        work: &StagedCopy,
    ) -> GpuResult<()> {
        let mut under_way: Option<(usize, Segment)> = None;
        loop {
            let next = work.next().map(|segment| (self.next_chunk(), segment));
            if let Some((chunk, segment)) = next {
                context.call("cuMemcpyDtoHAsync", || {
                    let (to, from) = (self.chunk(chunk).cast(), work.device_at(segment));
                    // SAFETY: the segment is inside the device's memory, and the chunk has been emptied.
                    unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, segment.bytes, self.stream) }
                })?;
                self.mark(context, chunk)?;
            }
            if let Some((chunk, segment)) = under_way {
                self.wait(context, chunk)?;
                let (from, to) = (self.chunk(chunk), work.host_at(segment));
                // SAFETY: the segment is inside the host's memory, which no other lane writes there.
                unsafe { copy_past_caches(from, to, segment.bytes) };
            }
            under_way = next;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Waits until nothing is under way, where a call has failed.
    pub(super) fn try_synchronize(&self, context: &Context) {
        // SAFETY: the stream lives.
        context.release(|| unsafe { sys::cuStreamSynchronize(self.stream) });
    }

    fn next_chunk(&mut self) -> usize {
        self.turn = (self.turn + 1) % CHUNKS;
        self.turn
    }

    fn chunk(&self, chunk: usize) -> *mut u8 {
        self.memory.wrapping_add(chunk * CHUNK_BYTES)
    }

    fn mark(&self, context: &Context, chunk: usize) -> GpuResult<()> {
        // SAFETY: event and stream live.
        let record = || unsafe { sys::cuEventRecord(self.ends[chunk], self.stream) };
        context.call("cuEventRecord", record)
    }

    /// Waits for the chunk's last copy; an event that was never recorded has passed.
    fn wait(&self, context: &Context, chunk: usize) -> GpuResult<()> {
        // SAFETY: the event lives.
        context.call("cuEventSynchronize", || unsafe { sys::cuEventSynchronize(self.ends[chunk]) })
    }
}
