//! Copies that the host does not wait for, most of them as futures. Each owns what it uses until it is done, so it may be
//! dropped at any time.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use bytemuck::Pod;
use cuda_std::launch::Access;

use super::buffer::DeviceBuffer;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::staging::Staging;
use super::transfer::check_len;
use crate::capture;
use crate::completion::Completion;
use crate::error::{GpuError, GpuResult};
use crate::stream::{AsStream, HomeUse, Stream, StreamInner};

impl<T: Pod + Send + Sync> DeviceBuffer<T> {
    /// The elements, on their way to the host: a future. What is queued for the buffer later does not
    /// change them.
    ///
    /// They go through page-locked memory of the copy's own.
    pub fn to_vec_async(&self) -> ToVec<T> {
        ToVec { state: start_download(self).map_err(Some) }
    }

    /// A copy of `values`, allocated, written and freed in the order of the stream: neither this nor the drop waits. See
    /// [`zeroed_async`](Self::zeroed_async).
    ///
    /// The values go through page-locked memory of the copy's own, which this call fills.
    ///
    /// # Errors
    /// As [`zeroed_async`](Self::zeroed_async).
    pub fn from_slice_async(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized_async(on, values.len())? };
        if buffer.size_bytes() > 0 {
            // What is enqueued later comes after the copy, which nothing has to await.
            drop(start_upload(&mut buffer, values)?);
        }
        Ok(buffer)
    }

    /// Copies `values` to the device and gives them back: a future. What is queued for the buffer later
    /// comes after it, also if the future is dropped.
    ///
    /// They go through page-locked memory of the copy's own, which this call fills.
    pub fn copy_from_vec(&mut self, values: Vec<T>) -> CopyFromVec<T> {
        let state = start_upload(self, &values).map_err(Some);
        CopyFromVec { state, values }
    }
}

type Download<T> = (Arc<Staging<T>>, Completion);

fn start_download<T: Pod + Send + Sync>(source: &DeviceBuffer<T>) -> GpuResult<Download<T>> {
    let home = source.as_slice().home();
    let staging = enqueue_download(home, &source.as_slice())?;
    Ok((staging.clone(), keep_until_done(home, staging)))
}

fn start_upload<T: Pod + Send + Sync>(
    target: &mut DeviceBuffer<T>,
    values: &[T],
) -> GpuResult<Completion> {
    let home = target.as_slice().home().clone();
    let staging = enqueue_upload(&home, values, &mut target.as_mut_slice())?;
    Ok(keep_until_done(&home, staging))
}

/// Copies `source` to memory of its own, on a stream. The memory lives until the copy is done.
pub(crate) fn download_on<T: Pod + Send + Sync>(
    on: &Stream,
    source: &DeviceSlice<'_, T>,
) -> GpuResult<Arc<Staging<T>>> {
    let staging = enqueue_download(on.inner(), source)?;
    drop(keep_until_done(on.inner(), staging.clone()));
    Ok(staging)
}

/// Copies `values` to `target` through memory of its own, on a stream.
pub(crate) fn upload_on<T: Pod + Send + Sync>(
    on: &Stream,
    values: &[T],
    target: &mut DeviceSliceMut<'_, T>,
) -> GpuResult<()> {
    let staging = enqueue_upload(on.inner(), values, target)?;
    drop(keep_until_done(on.inner(), staging));
    Ok(())
}

/// The copy uses the memory until the stream has done it.
fn enqueue_download<T: Pod + Send + Sync>(
    stream: &Arc<StreamInner>,
    source: &DeviceSlice<'_, T>,
) -> GpuResult<Arc<Staging<T>>> {
    capture::check("a copy to the host")?;
    source.home().check_device(stream.context(), "the source of the copy")?;
    let staging = Arc::new(Staging::new(stream.context(), source.len())?);
    let (address, bytes) = (source.as_device_ptr().address(), source.len() * size_of::<T>());
    let uses = [HomeUse::new(source.home(), address, bytes, Access::Read)];
    let enqueued = stream.ordered_uses(&uses, |handle| {
        // SAFETY: the source is in the stream's order until the copy is done, and whoever asked for it keeps `staging`.
        unsafe { staging.download(handle, address) }
    });
    kept_if_unfinished(stream, enqueued, staging)
}

/// As [`enqueue_download`].
fn enqueue_upload<T: Pod + Send + Sync>(
    stream: &Arc<StreamInner>,
    values: &[T],
    target: &mut DeviceSliceMut<'_, T>,
) -> GpuResult<Arc<Staging<T>>> {
    capture::check("a copy from the host")?;
    check_len("copying from the host", target.len(), values.len())?;
    target.home().check_device(stream.context(), "the target of the copy")?;
    let mut staging = Staging::new(stream.context(), values.len())?;
    // SAFETY: no copy knows the memory yet.
    unsafe { staging.as_mut_slice() }.copy_from_slice(values);
    let (address, bytes) = (target.as_device_ptr().address(), size_of_val(values));
    let uses = [HomeUse::new(target.home(), address, bytes, Access::Write)];
    let enqueued = stream.ordered_uses(&uses, |handle| {
        // SAFETY: the borrow is exclusive, the target is in the stream's order until the copy is done, and whoever asked
        // for it keeps `staging`.
        unsafe { staging.upload(handle, address) }
    });
    kept_if_unfinished(stream, enqueued, Arc::new(staging))
}

/// `staging`, if the copy was enqueued. If it may have been in spite of an error, the memory leaks.
fn kept_if_unfinished<T>(
    stream: &StreamInner,
    enqueued: GpuResult<()>,
    staging: Arc<Staging<T>>,
) -> GpuResult<Arc<Staging<T>>> {
    match enqueued {
        Ok(()) => Ok(staging),
        Err(error) => {
            if !stream.drain() {
                std::mem::forget(staging);
            }
            Err(error)
        }
    }
}

/// The end of the copies that use `staging`, which lives until then. If nothing can ring, this waits.
fn keep_until_done(home: &Arc<StreamInner>, staging: Arc<dyn Any + Send + Sync>) -> Completion {
    let completion = home.completed(Some(Box::new(staging.clone())));
    if completion.has_failed() {
        home.try_synchronize();
    }
    completion
}

/// What [`DeviceBuffer::to_vec_async`] returns.
#[must_use = "the elements come to who awaits them"]
pub struct ToVec<T: Pod> {
    state: Result<Download<T>, Option<GpuError>>,
}

impl<T: Pod> Future for ToVec<T> {
    type Output = GpuResult<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            Err(error) => Poll::Ready(Err(taken(error))),
            Ok((staging, completion)) => {
                let done = ready!(Pin::new(completion).poll(task));
                // SAFETY: the copy that writes it is done.
                Poll::Ready(done.map(|()| unsafe { staging.as_slice() }.to_vec()))
            }
        }
    }
}

/// What [`DeviceBuffer::copy_from_vec`] returns.
#[must_use = "the vector comes back to who awaits it"]
pub struct CopyFromVec<T: Pod> {
    state: Result<Completion, Option<GpuError>>,
    values: Vec<T>,
}

impl<T: Pod + Unpin> Future for CopyFromVec<T> {
    type Output = GpuResult<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let done = match &mut self.state {
            Err(error) => Err(taken(error)),
            Ok(completion) => ready!(Pin::new(completion).poll(task)),
        };
        Poll::Ready(done.map(|()| std::mem::take(&mut self.values)))
    }
}

fn taken(error: &mut Option<GpuError>) -> GpuError {
    error.take().unwrap_or_else(|| GpuError::InvalidArgument {
        operation: "awaiting a copy",
        reason: "its error was taken before".to_owned(),
    })
}

impl<T: Pod> fmt::Debug for ToVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToVec")
    }
}

impl<T: Pod> fmt::Debug for CopyFromVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyFromVec({} elements)", self.values.len())
    }
}
