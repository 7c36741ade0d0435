//! A GPU: a device's context, a stream and the kernels to launch there.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_driver::Backend;
use cuda_driver::sys;

use crate::context::Context;
use crate::deferred_frees;
use crate::device::{DeviceInfo, backend};
use crate::device_sync;
use crate::error::{GpuError, GpuResult};
use crate::memory::DeferredFrees;
use crate::module::{Image, KernelModule, LoadedImage};
use crate::stream::{AsStream, Stream};

/// A device with kernels and a stream. A clone shares all three, and any thread may use it; buffers
/// and streams keep what they need of it alive.
///
/// Each call makes the device's context the current one of the calling thread and leaves it
/// current, as the CUDA runtime does.
#[derive(Clone)]
pub struct Gpu {
    stream: Stream,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("ordinal", &self.info().ordinal)
            .field("name", &self.name())
            .field("stream", &self.stream)
            .finish()
    }
}

impl Gpu {
    /// The first device, with the kernels of this crate.
    ///
    /// # Errors
    /// `FERROWARP_DEVICE=cuda` is set and there is no device, or the device does not respond.
    pub fn new() -> GpuResult<Self> {
        Self::on(0)
    }

    /// The device with this ordinal, with the kernels of this crate.
    ///
    /// # Errors
    /// As [`new`](Self::new), or there is no such device.
    pub fn on(ordinal: u32) -> GpuResult<Self> {
        Self::on_with_images(ordinal, crate::shipped::IMAGES)
    }

    /// The first device, with your own kernels: `Gpu::with_images(include_kernels!())`.
    ///
    /// The driver compiles the best image at the first launch.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_images(images: &[Image]) -> GpuResult<Self> {
        Self::on_with_images(0, images)
    }

    /// The device with this ordinal, with your own kernels.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_with_images(ordinal: u32, images: &[Image]) -> GpuResult<Self> {
        let context = Context::primary(ordinal)?;
        let module = KernelModule::new(&context, images);
        Ok(Self { stream: Stream::new(&context, &module)? })
    }

    /// Loads other kernels for this device and stream. Work on both `Gpu`s is in one order, and
    /// buffers belong to both.
    ///
    /// A `Gpu` has the kernels of its own images and no others. With yours, this is the way to
    /// [`ops`](crate::ops), which take the kernels that ship with this crate:
    ///
    /// ```
    /// use ferrowarp::ops::{self, sort::SortOptions};
    /// use ferrowarp::{DeviceBuffer, Gpu, shipped};
    /// # fn sorted(yours: &[ferrowarp::module::Image]) -> ferrowarp::GpuResult<Vec<f32>> {
    /// let gpu = Gpu::with_images(yours)?;
    /// let ready_made = gpu.load_module(shipped::IMAGES);
    ///
    /// let x = DeviceBuffer::from_slice(&gpu, &[3.0f32, 1.0, 2.0])?;
    /// // … launches of yours on `gpu` …
    /// ops::sort::sort(&ready_made, &x, SortOptions::ASCENDING)?.to_vec()
    /// # }
    /// # assert_eq!(sorted(&[])?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// The driver compiles the kernels of each returned `Gpu` at their first launch, so keep the
    /// `Gpu` rather than call this again: the kernels are not shared between calls.
    #[must_use]
    pub fn load_module(&self, images: &[Image]) -> Self {
        Self::of_stream(self.stream.with_module(KernelModule::new(self.context(), images)))
    }

    /// A device whose work runs on `stream`.
    pub(crate) fn of_stream(stream: Stream) -> Self {
        Self { stream }
    }

    /// The stream that work of this `Gpu` is enqueued on.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Creates another stream of this device.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn create_stream(&self) -> GpuResult<Stream> {
        Stream::new(self.context(), self.stream.module())
    }

    /// Creates another stream of this device. Where blocks wait to be scheduled, those of streams
    /// with lower numbers are scheduled first.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for a priority outside
    /// [`stream_priorities`](Self::stream_priorities); a driver's refusal.
    pub fn create_stream_with_priority(&self, priority: i32) -> GpuResult<Stream> {
        let range = self.stream_priorities()?;
        if !range.contains(&priority) {
            let (first, last) = range.into_inner();
            let reason = format!("the priority is {priority}, and may be {first} to {last}");
            return Err(GpuError::InvalidArgument { operation: "creating a stream", reason });
        }
        Stream::with_priority(self.context(), self.stream.module(), priority)
    }

    /// The priorities that a stream can have: from the greatest, which is the lowest number, to the
    /// least, which ordinary streams have.
    ///
    /// # Errors
    /// The fault of an earlier kernel.
    pub fn stream_priorities(&self) -> GpuResult<RangeInclusive<i32>> {
        let (mut least, mut greatest) = (0, 0);
        self.context().call("cuCtxGetStreamPriorityRange", || {
            // SAFETY: both are writable.
            unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) }
        })?;
        Ok(greatest..=least)
    }

    /// Loads all kernels now, on as many threads as there are cores, up to 16, and returns which
    /// image was chosen. Otherwise the driver compiles a kernel, and those that share a part of the
    /// PTX with it, when it is first launched.
    ///
    /// The code is brought to the device, too, so that no first launch waits for kernels that run (with CUDA 12.4 or newer).
    /// That may wait for all work on the device.
    ///
    /// # Errors
    /// [`LoadWouldBlock`](crate::GpuError::LoadWouldBlock) while a persistent kernel runs;
    /// [`NoKernels`](crate::GpuError::NoKernels), [`UnsupportedArch`](crate::GpuError::UnsupportedArch),
    /// or what the driver's compiler says of the first part of the text that it refuses.
    pub fn load_kernels(&self) -> GpuResult<LoadedImage> {
        self.stream.module().load_all()
    }

    /// The device's properties.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.context().info()
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// The device's compute capability.
    #[must_use]
    pub fn compute_capability(&self) -> (u32, u32) {
        self.info().compute_capability
    }

    /// Whether this is a real GPU or the emulator.
    #[must_use]
    pub fn backend(&self) -> Backend {
        backend().expect("the driver has started, or there would be no Gpu")
    }

    /// (free, total) bytes of the device's memory.
    ///
    /// # Errors
    /// The fault of an earlier kernel.
    pub fn memory_info(&self) -> GpuResult<(usize, usize)> {
        self.context().memory_info()
    }

    /// The frees that persistent kernels of the device have deferred. A free of the driver waits
    /// for the whole device, so it is deferred until no
    /// [`PersistentKernel`](crate::PersistentKernel) runs.
    #[must_use]
    pub fn deferred_frees(&self) -> DeferredFrees {
        deferred_frees::count(self.context())
    }

    /// Raises the stack limit of each thread to at least `bytes`, for kernels with recursion or
    /// calls through pointers. For other kernels the driver knows the stack size, and loading a
    /// module raises the limit for 16 levels of recursion: this is for more.
    ///
    /// The driver reserves the memory for every thread that the device can run at the same time: 16
    /// KiB each are 4 GiB on an H200.
    ///
    /// # Errors
    /// More than the device has, or the fault of a kernel before.
    pub fn raise_stack_limit(&self, bytes: usize) -> GpuResult<()> {
        self.context().raise_stack_limit(bytes)
    }

    /// Waits until all work on the device is done, on every stream.
    ///
    /// # Errors
    /// The fault of a kernel; [`PersistentKernels`](crate::GpuError::PersistentKernels) where the wait
    /// would not end.
    pub fn synchronize(&self) -> GpuResult<()> {
        device_sync::synchronize(self.context())
    }

    /// Runs `work` and returns how long the work that it enqueued on this `Gpu` took, in
    /// milliseconds: see [`Stream::time`].
    ///
    /// # Errors
    /// The error of `work`, or the fault of a kernel.
    pub fn time<R>(&self, work: impl FnOnce() -> GpuResult<R>) -> GpuResult<(R, f64)> {
        self.stream.time(work)
    }

    /// The names of the kernels that were launched from this `Gpu`'s module, in no order.
    #[must_use]
    pub fn launched_kernels(&self) -> Vec<&'static str> {
        self.stream.module().launchers().iter().map(|kernel| kernel.name).collect()
    }

    /// Whether a kernel's fault has ended the context, as far as a call has reported one. Every later call fails;
    /// the process needs a new one to go on with the device.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.context().lost().is_some()
    }

    fn context(&self) -> &Arc<Context> {
        self.stream.inner().context()
    }
}

impl AsStream for Gpu {
    fn as_stream(&self) -> &Stream {
        &self.stream
    }
}
