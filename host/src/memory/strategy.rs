//! The ways that data can take between host and device, by name.

use std::fmt;
use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use cuda_driver::pageable_on_purpose;
use cuda_driver::sys;
use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};

use super::pageable::{self, Way};
use super::pending::wait_surely;
use super::transfer::{check_len, download_by_driver, upload_by_driver};
use super::unified::UnifiedBuffer;
use crate::error::{GpuError, GpuResult};
use crate::stream::{AsStream, StreamInner, home_of};

/// A way for data between host and device.
///
/// Copies choose by themselves: this is for comparing the ways, and for programs that know better.
/// Whichever is chosen, the data is there when the call returns.
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu, PinnedBuffer, Transfer};
///
/// let gpu = Gpu::new()?;
/// let source = PinnedBuffer::from_slice(&gpu, &vec![1.0f32; 1 << 20])?;
/// let mut target = DeviceBuffer::zeroed(&gpu, 1 << 20)?;
/// for way in Transfer::ALL {
///     let report = way.upload(&gpu, &source, &mut target)?;
///     println!("{way}: {:.1} GB/s", report.gigabytes_per_second());
/// }
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transfer {
    /// The driver's copy in the order of the device's memory, waited for. Pageable memory goes through
    /// a buffer of the driver's.
    Synchronous,
    /// The driver's copy on a stream, with an event after it that the host waits for.
    Asynchronous,
    /// Through a ring of page-locked chunks, by several threads.
    Staged,
    /// Through memory that moves to where it is used: written by the one side, read by the other.
    Unified,
    /// As asynchronous, but the host asks whether it is done until it is.
    Polled {
        /// The time that the host sleeps between two questions. With [`Duration::ZERO`] it spins: the soonest to know,
        /// and a processor's core is spent on it.
        interval: Duration,
    },
}

/// What a transfer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferReport {
    /// Bytes that were moved.
    pub bytes: usize,
    /// The time from the call until the data was there, after all work before.
    pub time: Duration,
    /// How often the host asked in vain whether it was done.
    pub polls: u64,
}

impl TransferReport {
    /// 10⁹ bytes a second.
    #[must_use]
    pub fn gigabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }
}

/// A side on the device, and the stream of the call.
struct Device<'a> {
    memory: &'a RawSlice<'a>,
    home: &'a StreamInner,
    bytes: usize,
}

impl Transfer {
    /// All ways; the polled one spins.
    pub const ALL: [Self; 5] = [
        Self::Synchronous,
        Self::Asynchronous,
        Self::Staged,
        Self::Unified,
        Self::Polled { interval: Duration::ZERO },
    ];

    /// Moves `source` to the device.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the lengths differ, [`GpuError::WrongDevice`] if the stream is
    /// another device's than `target`, [`GpuError::Unsupported`] where the way is not open; the fault of a
    /// kernel before.
    pub fn upload<T: Pod>(
        self,
        on: &impl AsStream,
        source: &[T],
        target: &mut impl DeviceWrite<T>,
    ) -> GpuResult<TransferReport> {
        let memory = target.raw_mut();
        check_len("moving data to the device", memory.len, source.len())?;
        let device = Device::of::<T>(on, &memory)?;
        let host = source.as_ptr().cast_mut().cast::<u8>();
        self.timed(on, &device, |way| match way {
            // SAFETY: both sides have as many bytes and are borrowed during the call.
            Self::Synchronous => unsafe { upload_by_driver(device.home, memory.address, source) },
            // SAFETY: as above.
            Self::Staged => unsafe { device.staged(Way::Up, host) },
            _ => device.queue(on, "cuMemcpyHtoDAsync", |stream| {
                // SAFETY: as above; the call waits for the copy.
                pageable_on_purpose(|| unsafe {
                    sys::cuMemcpyHtoDAsync_v2(memory.address, host.cast(), device.bytes, stream)
                })
            }),
        })
        .unwrap_or_else(|| {
            let mut unified = UnifiedBuffer::<T>::zeroed(on, source.len())?;
            self.clocked(&device, || {
                unified.as_mut_slice()?.copy_from_slice(source);
                device.beside(on, unified.as_device_ptr().address(), Way::Up)?;
                device.home.synchronize().map(|()| 0)
            })
        })
    }

    /// Moves `source` to the host.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn download<T: Pod>(
        self,
        on: &impl AsStream,
        source: &impl DeviceRead<T>,
        target: &mut [T],
    ) -> GpuResult<TransferReport> {
        let memory = source.raw();
        check_len("moving data to the host", memory.len, target.len())?;
        let device = Device::of::<T>(on, &memory)?;
        let (host, len) = (target.as_mut_ptr(), target.len());
        self.timed(on, &device, |way| match way {
            // SAFETY: both sides have as many bytes and are borrowed during the call.
            Self::Synchronous => unsafe {
                download_by_driver(device.home, memory.address, host, len)
            },
            // SAFETY: as above.
            Self::Staged => unsafe { device.staged(Way::Down, host.cast()) },
            _ => device.queue(on, "cuMemcpyDtoHAsync", |stream| {
                // SAFETY: as above; the call waits for the copy.
                pageable_on_purpose(|| unsafe {
                    sys::cuMemcpyDtoHAsync_v2(host.cast(), memory.address, device.bytes, stream)
                })
            }),
        })
        .unwrap_or_else(|| {
            let unified = UnifiedBuffer::<T>::zeroed(on, len)?;
            self.clocked(&device, || {
                device.beside(on, unified.as_device_ptr().address(), Way::Down)?;
                target.copy_from_slice(unified.as_slice()?);
                Ok(0)
            })
        })
    }

    /// Moves the data by a copy of host memory, unless the way is another one.
    fn timed(
        self,
        on: &impl AsStream,
        device: &Device<'_>,
        copy: impl FnOnce(Self) -> GpuResult<()>,
    ) -> Option<GpuResult<TransferReport>> {
        let stream = on.as_stream().inner();
        let work = || {
            copy(self)?;
            if !matches!(self, Self::Asynchronous | Self::Polled { .. }) {
                return Ok(0);
            }
            let end = stream.record_untimed_event().inspect_err(|_| {
                stream.try_synchronize();
            })?;
            let Self::Polled { interval } = self else {
                return wait_surely(stream, &end)
                    .map(|()| 0)
                    .map_err(|unfinished| unfinished.error);
            };
            let mut polls = 0;
            while !end.is_complete().inspect_err(|_| {
                stream.try_synchronize();
            })? {
                polls += 1;
                match interval {
                    Duration::ZERO => hint::spin_loop(),
                    _ => thread::sleep(interval),
                }
            }
            Ok(polls)
        };
        (self != Self::Unified).then(|| self.clocked(device, work))
    }

    /// Runs `work`, which returns its polls, when all work before is done.
    fn clocked(
        self,
        device: &Device<'_>,
        work: impl FnOnce() -> GpuResult<u64>,
    ) -> GpuResult<TransferReport> {
        if device.bytes == 0 {
            return Ok(TransferReport { bytes: 0, time: Duration::ZERO, polls: 0 });
        }
        device.home.synchronize()?;
        let start = Instant::now();
        let polls = work()?;
        Ok(TransferReport { bytes: device.bytes, time: start.elapsed(), polls })
    }
}

impl<'a> Device<'a> {
    fn of<T>(on: &impl AsStream, memory: &'a RawSlice<'a>) -> GpuResult<Self> {
        let home = memory.home.and_then(home_of);
        let home = home.ok_or(GpuError::ForeignStream { kernel: "a transfer" })?;
        let stream = on.as_stream().inner();
        home.check_device(stream.context(), "the device's side of the transfer")?;
        Ok(Self { memory, home, bytes: memory.len * size_of::<T>() })
    }

    /// # Safety
    /// The host has as many bytes there, and both sides are the caller's during the call.
    unsafe fn staged(&self, way: Way, host: *mut u8) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        if unsafe { pageable::copy(self.home, way, host, self.memory.address, self.bytes)? } {
            return Ok(());
        }
        let what = "a ring of page-locked memory: none is left";
        Err(GpuError::Unsupported { what })
    }

    /// Queues a copy on the stream of the call, in the order of the memory.
    fn queue(
        &self,
        on: &impl AsStream,
        operation: &'static str,
        copy: impl FnOnce(sys::CUstream) -> sys::CUresult,
    ) -> GpuResult<()> {
        let stream = on.as_stream().inner();
        let copy = || stream.context().call(operation, || copy(stream.handle()));
        stream.ordered(&[self.home], copy).inspect_err(|_| {
            stream.try_synchronize();
        })
    }

    /// Copies between the memory and `other`, whose home is the stream of the call.
    fn beside(&self, on: &impl AsStream, other: u64, way: Way) -> GpuResult<()> {
        let (to, from) = match way {
            Way::Up => (self.memory.address, other),
            Way::Down => (other, self.memory.address),
        };
        self.queue(on, "cuMemcpyDtoDAsync", |stream| {
            // SAFETY: both have as many bytes and are the caller's, who waits for the copy.
            unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, self.bytes, stream) }
        })
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "asynchronous",
            Self::Staged => "staged",
            Self::Unified => "unified",
            Self::Polled { interval: Duration::ZERO } => "polled",
            Self::Polled { interval } => return f.pad(&format!("polled every {interval:?}")),
        })
    }
}
