//! How messages get from the host to the device.

use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::sys::{self, StreamMemOp, stream_mem_op::WRITE_VALUE_32};

use crate::context::Context;
use crate::error::GpuResult;
use crate::memory::MemoryVisibility;
use crate::stream::Stream;

/// How many operations the driver takes at once.
const MOST_OPERATIONS: usize = 255;

/// How messages get from the host to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bridge {
    /// What [`for_visibility`](Self::for_visibility) says of the device and the platform: the choice where nothing else
    /// is known.
    #[default]
    Automatic,
    /// The host writes to mapped memory of its own, where the kernel polls and reads over the bus. The
    /// least work for the host, and the first choice.
    Mapped,
    /// The host's messages are copied to the device's memory on a stream of the ring's, where the kernel
    /// polls and reads. Better where messages are large or the kernel reads them often; each send costs
    /// the host two calls of the driver.
    Copied,
    /// As `Mapped`, in unified memory, on devices that let host and kernels use it at once.
    Unified,
}

impl Bridge {
    /// `Mapped` where kernels see what the host writes while they run; elsewhere, as under WSL2, `Copied`: the driver
    /// brings the messages.
    #[must_use]
    pub fn for_visibility(visibility: MemoryVisibility) -> Self {
        match visibility {
            MemoryVisibility::System => Self::Mapped,
            MemoryVisibility::Device | MemoryVisibility::Explicit => Self::Copied,
        }
    }
}

/// What copies messages to the device's memory: the ring's stream, and the addresses there.
#[derive(Clone, Debug)]
pub(super) struct Copier {
    pub(super) stream: Stream,
    pub(super) values: u64,
    pub(super) arrived: u64,
}

impl Copier {
    fn context(&self) -> &Arc<Context> {
        self.stream.inner().context()
    }

    /// Copies `count` neighbouring messages, which begin at `index`.
    ///
    /// # Safety
    /// They lie at `source`, which is pinned and stays as it is until they were copied.
    pub(super) unsafe fn messages<T: Pod>(
        &self,
        source: *const T,
        index: usize,
        count: usize,
    ) -> GpuResult<()> {
        let to = self.values + (index * size_of::<T>()) as u64;
        // SAFETY: the caller's promise; the slots are this ring's.
        unsafe { self.copy(source.cast(), to, count * size_of::<T>()) }
    }

    unsafe fn copy(&self, source: *const u8, to: u64, bytes: usize) -> GpuResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().call("cuMemcpyHtoDAsync", || {
            let stream = self.stream.inner().handle();
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, source.cast_mut().cast(), bytes, stream) }
        })
    }

    /// Lets the kernels know that messages are there: (slot, position) of each. The driver makes all
    /// that was copied before visible to the whole system before it writes such a word.
    ///
    /// # Safety
    /// As [`Slots::announce`](cuda_std::ring::Slots::announce), for copies that are queued.
    pub(super) unsafe fn announce(
        &self,
        messages: impl Iterator<Item = (usize, u64)>,
    ) -> GpuResult<()> {
        let writes: Vec<_> = messages
            .map(|(index, position)| StreamMemOp {
                operation: WRITE_VALUE_32,
                barrier_flags: 0,
                address: self.arrived + 4 * index as u64,
                value: u64::from((position as u32).wrapping_add(1)),
                flags: 0,
                pad: [0; 5],
            })
            .collect();
        writes.chunks(MOST_OPERATIONS).try_for_each(|writes| {
            self.context().call("cuStreamBatchMemOp", || {
                let (stream, count) = (self.stream.inner().handle(), writes.len() as u32);
                // SAFETY: the stream lives, the words are this ring's, and there are as many writes.
                unsafe { sys::cuStreamBatchMemOp_v2(stream, count, writes.as_ptr(), 0) }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_copied_where_kernels_do_not_see_the_hosts_writes() {
        let of = Bridge::for_visibility;
        assert_eq!(of(MemoryVisibility::System), Bridge::Mapped);
        assert_eq!(of(MemoryVisibility::Device), Bridge::Copied);
        assert_eq!(of(MemoryVisibility::Explicit), Bridge::Copied);
        assert_eq!(Bridge::default(), Bridge::Automatic);
    }
}
