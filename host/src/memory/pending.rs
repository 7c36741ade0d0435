//! Copies that do not wait: they own the host's memory until they are over.
//!
//! A guard that borrows would not do: safe code may forget it, and then end the borrow while the
//! copy runs. What a copy owns and is forgotten with it is never freed, so nothing dangles.
//! [`HostScope`](super::HostScope) is the way to copy memory that is only borrowed.

use std::future::{Future, IntoFuture};
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use bytemuck::Pod;
use cuda_driver::sys;

use super::buffer::DeviceBuffer;
use super::slice::{DeviceSlice, DeviceSliceMut, bounds};
use super::transfer::check_len;
use crate::completion::Completion;
use crate::error::{GpuError, GpuResult};
use crate::event::Event;
use crate::stream::{AsStream, Stream, StreamInner};

/// Page-locked memory that a copy to the device can own.
///
/// # Safety
/// [`source`](Self::source) is one fixed range of memory, wherever `self` is moved. It holds
/// initialised values, and no code writes them until `self` is dropped or asked for them.
pub unsafe trait PinnedSource<T>: 'static {
    /// The values.
    fn source(&self) -> *const [T];
}

/// Page-locked memory that a copy from the device can own.
///
/// # Safety
/// As for [`PinnedSource`]; also no code reads the values.
pub unsafe trait PinnedTarget<T>: PinnedSource<T> {
    /// The values, to be written.
    fn target(&mut self) -> *mut [T];
}

/// A part of page-locked memory, which a copy takes with the whole: see [`PinnedRange::of`].
#[derive(Clone, Debug)]
pub struct PinnedRange<H> {
    whole: H,
    start: Bound<usize>,
    end: Bound<usize>,
}

impl<H> PinnedRange<H> {
    /// The part `range` of `whole`. Whether it is inside is looked at when it is used.
    ///
    /// ```no_run
    /// use ferrowarp::{DeviceBuffer, Gpu, PinnedBuffer, PinnedRange};
    ///
    /// let gpu = Gpu::new()?;
    /// let mut device = DeviceBuffer::from_slice(&gpu, &[0u8; 4])?;
    /// let pinned = PinnedBuffer::from_slice(&gpu, &[1u8, 2, 3])?;
    /// let pending = device.slice_mut(..2).copy_from_pinned_async(&gpu, PinnedRange::of(pinned, 1..))?;
    /// let pinned = pending.wait()?.into_whole();
    /// assert_eq!(device.to_vec()?, [2, 3, 0, 0]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    #[must_use]
    pub fn of(whole: H, range: impl RangeBounds<usize>) -> Self {
        Self { whole, start: range.start_bound().cloned(), end: range.end_bound().cloned() }
    }

    /// All of the memory again.
    #[must_use]
    pub fn into_whole(self) -> H {
        self.whole
    }
}

// SAFETY: a part of the whole, which it owns.
unsafe impl<T: Pod, H: PinnedSource<T>> PinnedSource<T> for PinnedRange<H> {
    fn source(&self) -> *const [T] {
        let whole = self.whole.source();
        let (first, len) = bounds(whole.len(), (self.start, self.end));
        std::ptr::slice_from_raw_parts(whole.cast::<T>().wrapping_add(first), len)
    }
}

// SAFETY: as above.
unsafe impl<T: Pod, H: PinnedTarget<T>> PinnedTarget<T> for PinnedRange<H> {
    fn target(&mut self) -> *mut [T] {
        let whole = self.whole.target();
        let (first, len) = bounds(whole.len(), (self.start, self.end));
        std::ptr::slice_from_raw_parts_mut(whole.cast::<T>().wrapping_add(first), len)
    }
}

/// A copy that is under way, and owns its memory on the host.
///
/// Dropping it waits. Forgetting it leaks the memory, which is safe.
#[derive(Debug)]
#[must_use = "the copy has the host's memory: `wait` gives it back"]
pub struct PendingCopy<H> {
    host: Option<H>,
    stream: Arc<StreamInner>,
    /// `None` where nothing had to be copied.
    end: Option<Event>,
}

impl<H> PendingCopy<H> {
    /// Waits until the copy is done. Returns the memory.
    ///
    /// # Errors
    /// The fault of any kernel before the copy; the memory is then freed.
    pub fn wait(mut self) -> GpuResult<H> {
        self.finish()?;
        Ok(self.host.take().expect("a copy that is waited for has its memory"))
    }

    /// Whether the copy is done, so that [`wait`](Self::wait) does not block.
    ///
    /// # Errors
    /// The fault of any kernel before the copy.
    pub fn is_done(&self) -> GpuResult<bool> {
        self.end.as_ref().map_or(Ok(true), Event::is_complete)
    }

    /// The event after the copy, for other streams to wait for; `None` where there was nothing to
    /// copy.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        self.end.as_ref()
    }

    /// Waits. Memory that the copy may still use, because the wait was impossible, leaks.
    fn finish(&mut self) -> GpuResult<()> {
        let Some(end) = &self.end else { return Ok(()) };
        wait_surely(&self.stream, end).map_err(|unfinished| {
            if !unfinished.is_over {
                std::mem::forget(self.host.take());
            }
            unfinished.error
        })
    }
}

impl<H> IntoFuture for PendingCopy<H> {
    type Output = GpuResult<H>;
    type IntoFuture = CopyDone<H>;

    fn into_future(self) -> CopyDone<H> {
        let end = self.end.as_ref().map(Event::completed);
        CopyDone { copy: Some(self), end }
    }
}

/// The end of a [`PendingCopy`], awaited: it gives the memory back. Dropping it waits, as dropping the
/// copy does.
#[derive(Debug)]
#[must_use = "the copy has the host's memory, which comes to who awaits it"]
pub struct CopyDone<H> {
    copy: Option<PendingCopy<H>>,
    end: Option<Completion>,
}

// The memory is only moved.
impl<H> Unpin for CopyDone<H> {}

impl<H> Future for CopyDone<H> {
    type Output = GpuResult<H>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let end = match &mut self.end {
            Some(end) => ready!(Pin::new(end).poll(task)),
            None => Ok(()),
        };
        // Sees whether the copy is over: only then may the memory be freed.
        let host = self.copy.take().expect("a copy is polled until it is ready").wait();
        Poll::Ready(end.and(host))
    }
}

impl<H> Drop for PendingCopy<H> {
    fn drop(&mut self) {
        if self.host.is_some() {
            // The stream's next wait reports the error too.
            let _ = self.finish();
        }
    }
}

/// A wait that failed.
pub(super) struct Unfinished {
    pub(super) error: GpuError,
    /// Whether what was waited for is over all the same.
    pub(super) is_over: bool,
}

/// Waits for `end`, or for the whole stream if that fails.
pub(super) fn wait_surely(stream: &StreamInner, end: &Event) -> Result<(), Unfinished> {
    end.synchronize().map_err(|error| {
        let is_over = matches!(error.root(), GpuError::KernelPanic(_)) || stream.drain();
        Unfinished { error, is_over }
    })
}

/// Enqueues `copy` after all uses of the memory whose home is `home`, and records an event after
/// it.
pub(super) fn start<H>(
    stream: &Stream,
    home: &StreamInner,
    host: H,
    bytes: usize,
    copy: impl FnOnce(sys::CUstream) -> GpuResult<()>,
) -> GpuResult<PendingCopy<H>> {
    let stream = stream.inner();
    home.check_device(stream.context(), "the device's side of the copy")?;
    let mut pending = PendingCopy { host: Some(host), stream: stream.clone(), end: None };
    if bytes == 0 {
        return Ok(pending);
    }
    let queued = stream.ordered(&[home], || copy(stream.handle()));
    match queued.and_then(|()| stream.record_untimed_event()) {
        Ok(end) => pending.end = Some(end),
        Err(error) => {
            // Without an event the copy may still be running.
            if !stream.drain() {
                std::mem::forget(pending.host.take());
            }
            return Err(error);
        }
    }
    Ok(pending)
}

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Copies page-locked memory to the device, on a stream of your choice. Does not wait: the copy
    /// owns `source` until it is over.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another length, [`GpuError::WrongDevice`] if the
    /// stream is another device's; a driver's refusal. `source` is then freed.
    pub fn copy_from_pinned_async<H: PinnedSource<T>>(
        &mut self,
        on: &impl AsStream,
        source: H,
    ) -> GpuResult<PendingCopy<H>> {
        let values = source.source();
        check_len("copying from page-locked memory", self.len(), values.len())?;
        let (bytes, target) = (self.len() * size_of::<T>(), self.as_device_ptr().address());
        let (stream, from) = (on.as_stream(), values.cast_mut().cast());
        start(stream, self.home(), source, bytes, |handle| {
            stream.inner().context().call("cuMemcpyHtoDAsync", || {
                // SAFETY: the borrow is exclusive and later uses are ordered behind the copy; the
                // copy owns the source, which has as many bytes.
                unsafe { sys::cuMemcpyHtoDAsync_v2(target, from, bytes, handle) }
            })
        })
    }

    /// Copies the elements into page-locked memory: see [`DeviceSlice::copy_to_pinned_async`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_to_pinned_async<H: PinnedTarget<T>>(
        &self,
        on: &impl AsStream,
        target: H,
    ) -> GpuResult<PendingCopy<H>> {
        self.as_slice().copy_to_pinned_async(on, target)
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// Copies the elements into page-locked memory, on a stream of your choice. Does not wait: the
    /// copy owns `target` until it is over.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `target` has another length, [`GpuError::WrongDevice`] if the
    /// stream is another device's; a driver's refusal. `target` is then freed.
    pub fn copy_to_pinned_async<H: PinnedTarget<T>>(
        &self,
        on: &impl AsStream,
        mut target: H,
    ) -> GpuResult<PendingCopy<H>> {
        let values = target.target();
        check_len("copying to page-locked memory", self.len(), values.len())?;
        let (bytes, source) = (self.len() * size_of::<T>(), self.as_device_ptr().address());
        let (stream, to) = (on.as_stream(), values.cast());
        start(stream, self.home(), target, bytes, |handle| {
            stream.inner().context().call("cuMemcpyDtoHAsync", || {
                // SAFETY: the borrow keeps writers away, and later ones are ordered behind the copy;
                // the copy owns the target, which has as many bytes.
                unsafe { sys::cuMemcpyDtoHAsync_v2(to, source, bytes, handle) }
            })
        })
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// Copies page-locked memory to the device: see [`DeviceSliceMut::copy_from_pinned_async`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_from_pinned_async<H: PinnedSource<T>>(
        &mut self,
        on: &impl AsStream,
        source: H,
    ) -> GpuResult<PendingCopy<H>> {
        self.as_mut_slice().copy_from_pinned_async(on, source)
    }

    /// Copies the elements into page-locked memory: see [`DeviceSlice::copy_to_pinned_async`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_to_pinned_async<H: PinnedTarget<T>>(
        &self,
        on: &impl AsStream,
        target: H,
    ) -> GpuResult<PendingCopy<H>> {
        self.as_slice().copy_to_pinned_async(on, target)
    }
}
