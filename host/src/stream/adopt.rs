//! Memory that another stream than its home orders for a while.

use bytemuck::Pod;

use super::{Stream, StreamInner};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;

impl Stream {
    /// Makes this stream the home of `memory` while `work` runs.
    ///
    /// A launch on another stream than a buffer's home costs two marks and two waits. Here they are
    /// queued once, before and behind `work`; the launches of `work` on this stream need none.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
    /// # use kernels_gpu::elementwise::saxpy;
    /// # fn example(gpu: &Gpu, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> GpuResult<()> {
    /// let stream = gpu.create_stream()?; // where x and y are not at home
    /// stream.adopt(x.as_mut_slice(), |x| {
    ///     stream.adopt(y.as_mut_slice(), |mut y| {
    ///         let all = LaunchConfig::for_num_elems(x.len());
    ///         (0..100).try_for_each(|_| saxpy::launch(&stream, all, 0.5, &x, &mut y))
    ///     })
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongDevice`](crate::GpuError::WrongDevice) for memory of another device; the error of
    /// `work`; a driver's refusal.
    pub fn adopt<T: Pod, R>(
        &self,
        memory: DeviceSliceMut<'_, T>,
        work: impl FnOnce(DeviceSliceMut<'_, T>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let (stream, home) = (&**self.inner(), &**memory.home());
        home.check_device(stream.context(), "the memory")?;
        if home.handle == stream.handle {
            return work(memory);
        }
        stream.wait_for_stream(home)?;
        let back = Back { stream, home };
        // SAFETY: this stream waits for all earlier uses, and `back` lets all later ones wait for it.
        let value = work(unsafe { memory.at_home_of(self.inner()) })?;
        back.give()?;
        Ok(value)
    }
}

/// Lets the home wait for the stream, however `work` ends.
struct Back<'a> {
    stream: &'a StreamInner,
    home: &'a StreamInner,
}

impl Back<'_> {
    fn give(self) -> GpuResult<()> {
        let result = self.stream.give_back(&[self.home]);
        std::mem::forget(self);
        result
    }
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // `work` has failed or panicked, and that is what is told.
        let _ = self.stream.give_back(&[self.home]);
    }
}
