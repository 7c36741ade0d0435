//! A temporary home for memory on another stream.

use bytemuck::Pod;

use super::{Stream, StreamInner};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;

impl Stream {
    /// Makes this stream the home of `memory` while `work` runs.
    ///
    /// A launch on another stream than a buffer's home records two events and enqueues two waits.
    /// Here that is done once, before and after `work`; the launches of `work` on this stream need
    /// none.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
    /// # use kernels_gpu::elementwise::saxpy;
    /// # fn example(gpu: &Gpu, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> GpuResult<()> {
    /// let stream = gpu.create_stream()?; // where x and y are not at home
    /// stream.rehome(x.as_mut_slice(), |x| {
    ///     stream.rehome(y.as_mut_slice(), |mut y| {
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
    pub fn rehome<T: Pod, R>(
        &self,
        memory: DeviceSliceMut<'_, T>,
        work: impl FnOnce(DeviceSliceMut<'_, T>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let (stream, home) = (&**self.inner(), &**memory.home());
        home.check_device(stream.context(), "the memory")?;
        if home.handle == stream.handle {
            return work(memory);
        }
        stream.wait_stream(home)?;
        let back = Back { stream, home };
        // SAFETY: this stream waits for all earlier uses, and `back` lets all later ones wait for it.
        let value = work(unsafe { memory.at_home_of(self.inner()) })?;
        back.give()?;
        Ok(value)
    }
}

/// Makes the home wait for the stream, however `work` ends.
struct Back<'a> {
    stream: &'a StreamInner,
    home: &'a StreamInner,
}

impl Back<'_> {
    fn give(self) -> GpuResult<()> {
        let result = self.stream.make_homes_wait(&[self.home]);
        std::mem::forget(self);
        result
    }
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // `work` has failed or panicked, and that is the error to report.
        let _ = self.stream.make_homes_wait(&[self.home]);
    }
}
