//! A temporary home for memory on another stream.

use bytemuck::Pod;

use super::{Stream, StreamInner};
use crate::error::GpuResult;
use crate::memory::{DeviceSlice, DeviceSliceMut};

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
        self.between_uses(memory.home(), || {
            // SAFETY: this stream waits for all earlier uses, and all later ones wait for it.
            work(unsafe { memory.at_home_of(self.inner()) })
        })
    }

    /// As [`rehome`](Self::rehome), of memory that is only read: what `work` enqueues here reads it beside what other streams read of it
    /// meanwhile, `memory`'s own home among them, and neither waits for the other.
    ///
    /// ```
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// let gpu = Gpu::new()?;
    /// let words = DeviceBuffer::from_slice(&gpu, &[7u32; 8])?;
    /// let stream = gpu.create_stream()?;
    /// let mut copy = DeviceBuffer::zeroed(&stream, 8)?;
    /// stream.rehome_reads(words.as_slice(), |words| copy.copy_from_device(words))?;
    /// assert_eq!(copy.to_vec()?, [7; 8]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`rehome`](Self::rehome).
    pub fn rehome_reads<T: Pod, R>(
        &self,
        memory: DeviceSlice<'_, T>,
        work: impl FnOnce(DeviceSlice<'_, T>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let (address, len) = (memory.as_device_ptr().address(), memory.len());
        self.between_uses(memory.home(), || {
            // SAFETY: this stream waits for all earlier writes, the borrow excludes later ones until `work` has returned, and those then
            // wait for this stream.
            work(unsafe { DeviceSlice::new(self.inner(), address, len) })
        })
    }

    /// Runs `work`. What it enqueues on this stream comes after all that is on `home` now, and before all that is enqueued there once `work` has returned.
    fn between_uses<R>(
        &self,
        home: &StreamInner,
        work: impl FnOnce() -> GpuResult<R>,
    ) -> GpuResult<R> {
        let stream = &**self.inner();
        home.check_device(stream.context(), "the memory")?;
        if home.handle == stream.handle {
            return work();
        }
        stream.wait_stream(home)?;
        let back = Back { stream, home };
        let value = work()?;
        back.give()?;
        Ok(value)
    }

    /// As [`rehome`](Self::rehome), of several slices of memory, each to a stream of its own: what `work` enqueues on one of
    /// the streams with its slice does not wait for what it enqueues on another one. `work` gets the slices in the order of `parts`.
    ///
    /// ```
    /// use ferrowarp::{DeviceBuffer, Gpu, Stream};
    ///
    /// let gpu = Gpu::new()?;
    /// let mut words = DeviceBuffer::from_slice(&gpu, &[1u32; 8])?;
    /// let streams = [gpu.create_stream()?, gpu.create_stream()?];
    /// let (low, high) = words.as_mut_slice().split_at_mut(5);
    /// Stream::rehome_parts([(&streams[0], low), (&streams[1], high)], |mut parts| {
    ///     parts.iter_mut().try_for_each(|part| part.clear()) // side by side
    /// })?;
    /// assert_eq!(words.to_vec()?, [0; 8]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`rehome`](Self::rehome).
    pub fn rehome_parts<'a, T: Pod, R>(
        parts: impl IntoIterator<Item = (&'a Stream, DeviceSliceMut<'a, T>)>,
        work: impl FnOnce(Vec<DeviceSliceMut<'_, T>>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let (mut backs, mut lent) = (Vec::<Back<'_>>::new(), Vec::new());
        for (stream, memory) in parts {
            let (inner, home) = (&**stream.inner(), &**memory.home());
            home.check_device(inner.context(), "the memory")?;
            let is_lent = |back: &Back<'_>| back.is_of(inner, home);
            if home.handle != inner.handle && !backs.iter().any(is_lent) {
                inner.wait_stream(home)?;
                backs.push(Back { stream: inner, home });
            }
            // SAFETY: the stream waits for all earlier uses, since `work` has enqueued none yet, and `backs` lets all later
            // ones wait for it.
            lent.push(unsafe { memory.at_home_of(stream.inner()) });
        }
        let value = work(lent)?;
        let given: Vec<_> = backs.into_iter().map(Back::give).collect();
        given.into_iter().collect::<GpuResult<()>>()?;
        Ok(value)
    }
}

/// Makes the home wait for the stream, however `work` ends.
struct Back<'a> {
    stream: &'a StreamInner,
    home: &'a StreamInner,
}

impl Back<'_> {
    fn is_of(&self, stream: &StreamInner, home: &StreamInner) -> bool {
        self.stream.handle == stream.handle && self.home.handle == home.handle
    }

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
