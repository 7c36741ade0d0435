//! The results of two versions of a kernel for the same arguments.

use std::fmt;
use std::sync::Arc;

use cuda_std::launch::{Access, Args, MemoryArg};

use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceBuffer, copy};
use crate::stream::{Stream, StreamInner, home_of};

/// Whether two results, as bytes, are as good as equal.
type IsSame = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// Which launches have their results compared, and how.
#[derive(Clone)]
pub(super) struct Check {
    /// One launch of this many of a kernel; not 0.
    every: u64,
    is_same: Arc<IsSame>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check(1 launch of {})", self.every)
    }
}

impl Check {
    pub(super) fn new(every: u32, is_same: Arc<IsSame>) -> Self {
        Self { every: u64::from(every.max(1)), is_same }
    }

    pub(super) fn is_due(&self, launch: u64) -> bool {
        launch.is_multiple_of(self.every)
    }

    pub(super) fn is_same(&self, one: &[Vec<u8>], other: &[Vec<u8>]) -> bool {
        one.iter().zip(other).all(|(one, other)| (self.is_same)(one, other))
    }
}

/// The memory that a launch writes, copied aside.
pub(super) struct Saved<'a> {
    outputs: Vec<(&'a MemoryArg<'a>, &'a StreamInner, DeviceBuffer<u8>)>,
}

impl<'a> Saved<'a> {
    /// Copies what `args` lend for writing.
    ///
    /// # Safety
    /// The memory lives, and other code uses it in the order of its home alone.
    pub(super) unsafe fn of(stream: &Stream, args: &'a Args<'_>) -> GpuResult<Self> {
        let written =
            args.memory().iter().filter(|own| own.access == Access::Write && own.bytes > 0);
        let mut outputs = Vec::new();
        for memory in written {
            let home = memory.home.and_then(home_of).ok_or(GpuError::Unsupported {
                what: "comparing results in memory that no stream orders, such as mapped memory and rings",
            })?;
            let saved = DeviceBuffer::zeroed(stream, memory.bytes)?;
            let (own, address) =
                (saved.as_slice().home().clone(), saved.as_slice().as_device_ptr().address());
            // SAFETY: the buffer has as many bytes and is used here alone; the rest is the caller's promise.
            unsafe { copy(&own, address, home, memory.address, memory.bytes)? };
            outputs.push((memory, home, saved));
        }
        Ok(Self { outputs })
    }

    /// Copies it back.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    pub(super) unsafe fn restore(&self) -> GpuResult<()> {
        self.outputs.iter().try_for_each(|(memory, home, saved)| {
            let saved = saved.as_slice();
            let source = saved.as_device_ptr().address();
            // SAFETY: both have as many bytes and these homes; the rest is the caller's promise.
            unsafe { copy(home, memory.address, saved.home(), source, memory.bytes) }
        })
    }

    /// The bytes, on the host.
    pub(super) fn bytes(&self) -> GpuResult<Vec<Vec<u8>>> {
        self.outputs.iter().map(|(_, _, saved)| saved.to_vec()).collect()
    }
}
