//! Write-combined memory: page-locked, past the caches, for the host to write alone.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;

use super::pending::PinnedSource;
use super::pinned::HostAllocation;
use super::shapes::lengths;
use super::slice::bounds;
use crate::error::GpuResult;
use crate::memory::PinnedOptions;
use crate::stream::AsStream;

/// An array of `T` that the host writes and the device reads.
///
/// Its pages bypass the processor's caches: writing in order is as fast as memory, reading a byte back
/// takes longer than a cache miss. So there is no way to read it: the host sees it as a
/// [`WriteSlice`].
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu, WriteCombined};
///
/// let gpu = Gpu::new()?;
/// let mut device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
/// let mut frame = WriteCombined::zeroed(&gpu, 4)?;
/// for i in 0..4 {
///     frame.write(..).set(i, i as u32);
/// }
/// let frame = device.copy_from_pinned_async(&gpu, frame)?.wait()?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct WriteCombined<T: Pod> {
    memory: HostAllocation<T>,
}

impl<T: Pod> WriteCombined<T> {
    pub(super) fn new(memory: HostAllocation<T>) -> Self {
        Self { memory }
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        PinnedOptions::new().write_combined(on, len)
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of it, to be written.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn write(&mut self, range: impl RangeBounds<usize>) -> WriteSlice<'_, T> {
        let all =
            WriteSlice { start: self.memory.as_ptr(), len: self.memory.len(), values: PhantomData };
        all.narrowed(range)
    }
}

impl<T: Pod> fmt::Debug for WriteCombined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteCombined({:p}, {} elements)", self.memory.as_ptr(), self.len())
    }
}

// SAFETY: the memory stays where it is until the buffer is dropped, holds `len` values, and only its
// owner reaches it.
unsafe impl<T: Pod> PinnedSource<T> for WriteCombined<T> {
    fn source(&self) -> *const [T] {
        std::ptr::slice_from_raw_parts(self.memory.as_ptr(), self.memory.len())
    }
}

/// Memory that is borrowed to be written and cannot be read.
pub struct WriteSlice<'a, T: Pod> {
    start: *mut T,
    len: usize,
    values: PhantomData<&'a mut [T]>,
}

// SAFETY: as a mutable slice, of which it can do less.
unsafe impl<T: Pod + Send> Send for WriteSlice<'_, T> {}
// SAFETY: a shared one can only be asked for its length.
unsafe impl<T: Pod + Sync> Sync for WriteSlice<'_, T> {}

impl<T: Pod> WriteSlice<'_, T> {
    lengths!();

    /// Writes one element. In order is fast: the processor gathers 64 bytes before it writes them.
    ///
    /// # Panics
    /// If `index` is not inside.
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.len, "{index} is not inside {} elements", self.len);
        // SAFETY: the element is inside, and the borrow is exclusive.
        unsafe { self.start.add(index).write(value) };
    }

    /// Writes all elements.
    ///
    /// # Panics
    /// If `values` has another length.
    pub fn copy_from_slice(&mut self, values: &[T]) {
        assert_eq!(values.len(), self.len, "the lengths differ");
        // SAFETY: the lengths are equal, and the borrow is exclusive.
        unsafe { self.start.copy_from_nonoverlapping(values.as_ptr(), self.len) };
    }

    /// Writes `value` into all elements.
    pub fn fill(&mut self, value: T) {
        (0..self.len).for_each(|index| self.set(index, value));
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> WriteSlice<'_, T> {
        let all = WriteSlice { start: self.start, len: self.len, values: PhantomData };
        all.narrowed(range)
    }

    /// Two parts, for instance for two threads: the elements before `middle`, and the others.
    ///
    /// # Panics
    /// If `middle` is greater than the length.
    #[must_use]
    pub fn split_at_mut(self, middle: usize) -> (Self, Self) {
        let (_, rest) = bounds(self.len, middle..);
        // SAFETY: the second part begins inside, or right behind the end.
        let behind = unsafe { self.start.add(middle) };
        (Self { len: middle, ..self }, Self { start: behind, len: rest, values: PhantomData })
    }

    fn narrowed(self, range: impl RangeBounds<usize>) -> Self {
        let (first, len) = bounds(self.len, range);
        // SAFETY: the part begins inside, or right behind the end.
        let start = unsafe { self.start.add(first) };
        Self { start, len, ..self }
    }
}

impl<T: Pod> fmt::Debug for WriteSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteSlice({:p}, {} elements)", self.start, self.len)
    }
}
