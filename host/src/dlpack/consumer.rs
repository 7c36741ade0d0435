//! The stream of a consumer.

use std::ptr;

use dlpark::ffi::DLDevice;

use super::export::refused;
use crate::error::GpuResult;
use crate::stream::StreamInner;

/// The stream on which a consumer uses a tensor: the argument `stream` of DLPack's `__dlpack__`. The export makes it wait for
/// the work that the memory has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerStream(Option<isize>);

impl ConsumerStream {
    /// `None`: the legacy default stream waits. Tensors of the CPU have no streams: for one of the emulator the calling thread waits.
    pub const OMITTED: Self = Self(None);
    /// `-1`: no stream waits. The consumer uses the memory after other means of synchronization.
    pub const NO_SYNC: Self = Self(Some(-1));
    /// `1`: the legacy default stream waits.
    pub const LEGACY_DEFAULT: Self = Self(Some(1));
    /// `2`: the default stream of the calling thread waits.
    pub const PER_THREAD_DEFAULT: Self = Self(Some(2));

    /// The argument as it was passed: `None`, -1, 1, 2, or a stream's handle (`CUstream`, or `cudaStream_t`) as a number. The
    /// export refuses others, 0 among them, which DLPack does not allow because it has two meanings.
    ///
    /// # Safety
    /// What is greater than 2 is a stream that exists until the export returns, of the primary context of the tensor's device.
    #[must_use]
    pub unsafe fn from_raw(stream: Option<isize>) -> Self {
        Self(stream)
    }

    /// Makes it wait for the work that `home` has now.
    pub(super) fn wait_for(self, home: &StreamInner, device: DLDevice) -> GpuResult<()> {
        let handle = match self.0 {
            None if device == DLDevice::CPU => return home.synchronize(),
            None => 1,
            Some(-1) => return Ok(()),
            Some(handle @ 1..) => handle,
            Some(other) => {
                return Err(refused(format!(
                    "the consumer's stream is {other}, and has to be -1, 1, 2 or the handle of a stream"
                )));
            }
        };
        let handle = ptr::with_exposed_provenance_mut(handle.cast_unsigned());
        // SAFETY: the driver takes 1 and 2 as its default streams; other streams exist by the promise of `from_raw`.
        unsafe { home.raw_waits(handle) }
    }
}
