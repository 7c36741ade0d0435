//! Copies of rows at equal distances: parts of images and matrices.

use std::ptr;

use bytemuck::Pod;
use cuda_driver::pageable_on_purpose;
use cuda_driver::sys::{self, memory_type};

use super::buffer::DeviceBuffer;
use super::pending::{PendingCopy, PinnedSource, PinnedTarget, start};
use super::slice::{DeviceSlice, PitchedMut};
use super::transfer::{check_len, wait};
use crate::error::{GpuError, GpuResult};
use crate::stream::{AsStream, StreamInner};

/// Device memory as rows at equal distances, borrowed to be read.
#[derive(Debug)]
pub struct Pitched<'a, T: Pod> {
    values: DeviceSlice<'a, T>,
    width: usize,
    height: usize,
    pitch: usize,
}

/// Rows of bytes, wherever they are.
#[derive(Clone, Copy)]
struct Rows {
    side: i32,
    start: u64,
    pitch_bytes: usize,
}

/// How many rows of how many bytes.
#[derive(Clone, Copy)]
struct Extent {
    width_bytes: usize,
    height: usize,
}

impl Rows {
    fn device<T>(start: u64, pitch: usize) -> Self {
        Self::of::<T>(memory_type::DEVICE, start, pitch)
    }

    fn host<T>(start: *const T, pitch: usize) -> Self {
        Self::of::<T>(memory_type::HOST, start.expose_provenance() as u64, pitch)
    }

    /// A pitch without end is one that the driver refuses, where there are rows.
    fn of<T>(side: i32, start: u64, pitch: usize) -> Self {
        Self { side, start, pitch_bytes: pitch.saturating_mul(size_of::<T>()) }
    }
}

impl Extent {
    fn of<T>(width: usize, height: usize) -> Self {
        Self { width_bytes: width.saturating_mul(size_of::<T>()), height }
    }

    fn bytes(self) -> usize {
        self.width_bytes * self.height
    }
}

/// Queues the copy of rows.
///
/// # Safety
/// All rows lie in memory that lives until the copy is over; what is written is nobody else's.
unsafe fn queue(
    stream: &StreamInner,
    to: Rows,
    from: Rows,
    extent: Extent,
    handle: sys::CUstream,
) -> GpuResult<()> {
    let copy = sys::Copy2D {
        src_x_bytes: 0,
        src_y: 0,
        src_memory_type: from.side,
        src_host: ptr::with_exposed_provenance(from.start as usize),
        src_device: from.start,
        src_array: ptr::null_mut(),
        src_pitch: from.pitch_bytes,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_memory_type: to.side,
        dst_host: ptr::with_exposed_provenance_mut(to.start as usize),
        dst_device: to.start,
        dst_array: ptr::null_mut(),
        dst_pitch: to.pitch_bytes,
        width_bytes: extent.width_bytes,
        height: extent.height,
    };
    stream.context().call("cuMemcpy2DAsync", || {
        // SAFETY: the caller's promise; the driver reads the description during the call.
        unsafe { sys::cuMemcpy2DAsync_v2(&copy, handle) }
    })
}

/// Copies rows between host and device in the order of the device's memory, and waits.
///
/// # Safety
/// As for [`queue`].
unsafe fn copy_now(home: &StreamInner, to: Rows, from: Rows, extent: Extent) -> GpuResult<()> {
    if extent.bytes() == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; the memory is waited for below.
    let queued = pageable_on_purpose(|| unsafe { queue(home, to, from, extent, home.handle()) });
    wait(home).and(queued)
}

/// An error unless `height` rows of `width` elements at distances of `pitch` are inside `len`.
pub(super) fn check_rows(
    operation: &'static str,
    len: usize,
    width: usize,
    height: usize,
    pitch: usize,
) -> GpuResult<()> {
    if pitch < width {
        return Err(GpuError::SizeMismatch { operation, expected: width, found: pitch });
    }
    let end = height.saturating_sub(1).saturating_mul(pitch).saturating_add(width);
    let expected = if height == 0 || width == 0 { 0 } else { end };
    if expected > len {
        return Err(GpuError::SizeMismatch { operation, expected, found: len });
    }
    Ok(())
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// The memory as `height` rows of `width` elements, each `pitch` elements after the previous
    /// one.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the rows overlap, or the last one ends past the memory.
    pub fn into_pitched(
        self,
        width: usize,
        height: usize,
        pitch: usize,
    ) -> GpuResult<Pitched<'a, T>> {
        check_rows("viewing memory as pitched rows", self.len(), width, height, pitch)?;
        Ok(Pitched { values: self, width, height, pitch })
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// The array as `height` rows of `width` elements, each `pitch` elements after the previous
    /// one, to be copied.
    ///
    /// # Errors
    /// As [`DeviceSlice::into_pitched`].
    pub fn pitched(&self, width: usize, height: usize, pitch: usize) -> GpuResult<Pitched<'_, T>> {
        self.as_slice().into_pitched(width, height, pitch)
    }
}

impl<T: Pod> Pitched<'_, T> {
    /// Copies the rows to rows of `destination`, each `pitch` elements after the previous one. What
    /// lies between these is not changed.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the rows are not inside `destination`, or overlap there; the fault
    /// of a kernel before.
    pub fn copy_to_host(&self, destination: &mut [T], pitch: usize) -> GpuResult<()> {
        let operation = "copying rows to the host";
        check_rows(operation, destination.len(), self.width, self.height, pitch)?;
        let to = Rows::host(destination.as_mut_ptr().cast_const(), pitch);
        // SAFETY: both sides hold the rows; the borrows last until the copy has been waited for.
        unsafe { copy_now(self.values.home(), to, self.rows(), self.extent()) }
    }

    /// Copies the rows into page-locked memory. Does not wait: see
    /// [`DeviceSlice::copy_to_pinned_async`].
    ///
    /// # Errors
    /// As there, and as [`copy_to_host`](Self::copy_to_host).
    pub fn copy_to_pinned_async<H: PinnedTarget<T>>(
        &self,
        on: &impl AsStream,
        mut target: H,
        pitch: usize,
    ) -> GpuResult<PendingCopy<H>> {
        let (stream, values) = (on.as_stream(), target.target());
        let operation = "copying rows to page-locked memory";
        check_rows(operation, values.len(), self.width, self.height, pitch)?;
        let (to, from) = (Rows::host(values.cast::<T>().cast_const(), pitch), self.rows());
        let extent = self.extent();
        start(stream, self.values.home(), target, extent.bytes(), |handle| {
            // SAFETY: both sides hold the rows, and the copy owns the host's.
            unsafe { queue(stream.inner(), to, from, extent, handle) }
        })
    }

    fn rows(&self) -> Rows {
        Rows::device::<T>(self.values.as_device_ptr().address(), self.pitch)
    }

    fn extent(&self) -> Extent {
        Extent::of::<T>(self.width, self.height)
    }
}

impl<T: Pod> PitchedMut<'_, T> {
    /// Copies rows of `source`, each `pitch` elements after the previous one.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the rows are not inside `source`, or overlap there; the fault of a
    /// kernel before.
    pub fn copy_from_host(&mut self, source: &[T], pitch: usize) -> GpuResult<()> {
        let operation = "copying rows from the host";
        check_rows(operation, source.len(), self.width, self.height, pitch)?;
        let (to, from) = (self.rows(), Rows::host(source.as_ptr(), pitch));
        // SAFETY: both sides hold the rows; the borrows last until the copy has been waited for.
        unsafe { copy_now(self.values.home(), to, from, self.extent()) }
    }

    /// Copies rows of page-locked memory. Does not wait: see
    /// [`DeviceSliceMut::copy_from_pinned_async`](super::DeviceSliceMut::copy_from_pinned_async).
    ///
    /// # Errors
    /// As there, and as [`copy_from_host`](Self::copy_from_host).
    pub fn copy_from_pinned_async<H: PinnedSource<T>>(
        &mut self,
        on: &impl AsStream,
        source: H,
        pitch: usize,
    ) -> GpuResult<PendingCopy<H>> {
        let (stream, values) = (on.as_stream(), source.source());
        let operation = "copying rows from page-locked memory";
        check_rows(operation, values.len(), self.width, self.height, pitch)?;
        let (to, from) = (self.rows(), Rows::host(values.cast::<T>(), pitch));
        let extent = self.extent();
        start(stream, self.values.home(), source, extent.bytes(), |handle| {
            // SAFETY: both sides hold the rows, and the copy owns the host's.
            unsafe { queue(stream.inner(), to, from, extent, handle) }
        })
    }

    /// Copies rows on the device. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another width or height, [`GpuError::WrongDevice`] if
    /// it is on another device.
    pub fn copy_from_device(&mut self, source: &Pitched<'_, T>) -> GpuResult<()> {
        let operation = "copying rows on the device";
        for (expected, found) in [(self.width, source.width), (self.height, source.height)] {
            check_len(operation, expected, found)?;
        }
        let (home, extent) = (self.values.home(), self.extent());
        source.values.home().check_device(home.context(), "the source of the copy")?;
        if extent.bytes() == 0 {
            return Ok(());
        }
        home.ordered(&[source.values.home()], || {
            // SAFETY: both sides hold the rows, the borrows keep others away, and later uses are
            // ordered behind the copy.
            unsafe { queue(home, self.rows(), source.rows(), extent, home.handle()) }
        })
    }

    fn rows(&self) -> Rows {
        Rows::device::<T>(self.values.as_slice().as_device_ptr().address(), self.pitch)
    }

    fn extent(&self) -> Extent {
        Extent::of::<T>(self.width, self.height)
    }
}
