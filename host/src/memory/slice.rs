//! Parts of device memory, borrowed.

use std::any::type_name;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{
    DevicePtr, DeviceRead, DeviceWrite, DeviceWriteGrid, DeviceWritePitched, DeviceWriteVolume,
    Home, RawSlice,
};

use super::buffer::DeviceBuffer;
use super::rows::check_rows;
use super::shapes::lengths;
use super::transfer::{check_len, clear, copy, copy_peer, download, download_vec, upload};
use crate::error::{GpuError, GpuResult};
use crate::stream::StreamInner;

/// Device memory that is borrowed to be read. A `Copy` of the borrow, not of the memory.
#[derive(Debug)]
pub struct DeviceSlice<'a, T: Pod> {
    home: &'a Arc<StreamInner>,
    address: u64,
    len: usize,
    values: PhantomData<&'a [T]>,
}

impl<'a, T: Pod> From<&DeviceSlice<'a, T>> for DeviceSlice<'a, T> {
    fn from(slice: &DeviceSlice<'a, T>) -> Self {
        *slice
    }
}

impl<'a, T: Pod> From<&'a DeviceSliceMut<'_, T>> for DeviceSlice<'a, T> {
    fn from(slice: &'a DeviceSliceMut<'_, T>) -> Self {
        slice.as_slice()
    }
}

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<T: Pod> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for DeviceSlice<'_, T> {}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// # Safety
    /// `len` values of `T` live at `address` and have `home` as their home, for `'a`, in which no
    /// code writes them.
    pub(crate) unsafe fn new(home: &'a Arc<StreamInner>, address: u64, len: usize) -> Self {
        Self { home, address, len, values: PhantomData }
    }

    /// The stream that orders the uses of the memory.
    pub(crate) fn home(&self) -> &'a Arc<StreamInner> {
        self.home
    }

    lengths!();

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DeviceSlice<'a, T> {
        let (address, len) = part::<T>(self.address, self.len, range);
        Self { address, len, ..*self }
    }

    /// These bytes as another type.
    ///
    /// # Errors
    /// [`GpuError::InvalidCast`] if the bytes are not a whole number of aligned `U`.
    pub fn cast<U: Pod>(&self) -> GpuResult<DeviceSlice<'a, U>> {
        let len = cast_len::<T, U>(self.address, self.len)?;
        // SAFETY: the same bytes; every bit pattern is a value of `U`.
        Ok(unsafe { DeviceSlice::new(self.home, self.address, len) })
    }

    /// Copies the elements to the host.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `destination` has another length; the fault of a kernel.
    pub fn copy_to_host(&self, destination: &mut [T]) -> GpuResult<()> {
        check_len("copying to the host", self.len, destination.len())?;
        // SAFETY: the borrow keeps writers away, and the lengths are equal.
        unsafe { download(self.home, self.address, destination.as_mut_ptr(), self.len) }
    }

    /// The elements, copied to the host.
    ///
    /// # Errors
    /// The fault of a kernel.
    pub fn to_vec(&self) -> GpuResult<Vec<T>> {
        // SAFETY: the borrow keeps writers away.
        unsafe { download_vec(self.home, self.address, self.len) }
    }

    /// What a launch takes, for as long as the memory is borrowed and not only this view of it.
    #[inline]
    pub(crate) fn raw_slice(&self) -> RawSlice<'a> {
        RawSlice { address: self.address, len: self.len, home: Some(Home::from(self.home)) }
    }
}

// SAFETY: the constructor's promise, for as long as the borrow; longer for a kernel, since its uses
// are ordered with later ones through the home.
unsafe impl<T: Pod> DeviceRead<T> for DeviceSlice<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        self.raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Device memory that is borrowed to be read and written.
#[derive(Debug)]
pub struct DeviceSliceMut<'a, T: Pod> {
    home: &'a Arc<StreamInner>,
    address: u64,
    len: usize,
    values: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

impl<'a, T: Pod> DeviceSliceMut<'a, T> {
    /// # Safety
    /// `len` values of `T` live at `address` and have `home` as their home, for `'a`, in which no
    /// other code reaches them.
    pub(crate) unsafe fn new(home: &'a Arc<StreamInner>, address: u64, len: usize) -> Self {
        Self { home, address, len, values: PhantomData }
    }

    /// The stream that orders the uses of the memory.
    pub(crate) fn home(&self) -> &'a Arc<StreamInner> {
        self.home
    }

    /// This memory with another home.
    ///
    /// # Safety
    /// `home` comes after all earlier uses of the memory, and all later ones come after `home`.
    pub(crate) unsafe fn at_home_of<'b>(self, home: &'b Arc<StreamInner>) -> DeviceSliceMut<'b, T>
    where
        'a: 'b,
    {
        DeviceSliceMut { home, address: self.address, len: self.len, values: PhantomData }
    }

    lengths!();

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&mut self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// This memory, to be read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: `self` is borrowed for as long as the result, so nobody writes.
        unsafe { DeviceSlice::new(self.home, self.address, self.len) }
    }

    /// A part of it, to be written.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DeviceSliceMut<'_, T> {
        // SAFETY: the same memory, and `self` is borrowed for as long as the result.
        let all = unsafe { DeviceSliceMut::new(self.home, self.address, self.len) };
        all.narrowed(range)
    }

    /// A part of it, in its place.
    pub(crate) fn narrowed(self, range: impl RangeBounds<usize>) -> Self {
        let (address, len) = part::<T>(self.address, self.len, range);
        Self { address, len, ..self }
    }

    /// Two parts: the elements before `middle`, and the others.
    ///
    /// # Panics
    /// If `middle` is greater than the length.
    #[must_use]
    pub fn split_at_mut(self, middle: usize) -> (Self, Self) {
        let (_, rest) = part::<T>(self.address, self.len, middle..);
        let behind = self.address + (middle * size_of::<T>()) as u64;
        // SAFETY: the parts do not overlap, and `self` is gone.
        unsafe { (Self::new(self.home, self.address, middle), Self::new(self.home, behind, rest)) }
    }

    /// These bytes as another type.
    ///
    /// # Errors
    /// [`GpuError::InvalidCast`] if the bytes are not a whole number of aligned `U`.
    pub fn cast_mut<U: Pod>(&mut self) -> GpuResult<DeviceSliceMut<'_, U>> {
        let len = cast_len::<T, U>(self.address, self.len)?;
        // SAFETY: the same bytes, `self` is borrowed for as long as the result, and every bit pattern is a value of either type.
        Ok(unsafe { DeviceSliceMut::new(self.home, self.address, len) })
    }

    /// These bytes as another type, for as long as the borrow.
    ///
    /// # Errors
    /// [`GpuError::InvalidCast`] if the bytes are not a whole number of aligned `U`.
    pub fn into_cast<U: Pod>(self) -> GpuResult<DeviceSliceMut<'a, U>> {
        let len = cast_len::<T, U>(self.address, self.len)?;
        // SAFETY: the same bytes, `self` is gone, and every bit pattern is a value of either type.
        Ok(unsafe { DeviceSliceMut::new(self.home, self.address, len) })
    }

    /// Copies `source` to the device.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another length; the fault of a kernel.
    pub fn copy_from_host(&mut self, source: &[T]) -> GpuResult<()> {
        check_len("copying from the host", self.len, source.len())?;
        // SAFETY: the borrow is exclusive, and the lengths are equal.
        unsafe { upload(self.home, self.address, source) }
    }

    /// Copies `source`, a reference to a buffer or slice, on the device. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another length, [`GpuError::WrongDevice`] if it
    /// is on another device.
    pub fn copy_from_device<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> GpuResult<()> {
        let source = source.into();
        check_len("copying on the device", self.len, source.len)?;
        let bytes = self.len * size_of::<T>();
        // SAFETY: the borrows keep others away, and the lengths are equal.
        unsafe { copy(self.home, self.address, source.home, source.address, bytes) }
    }

    /// Copies `source`, which may be on another device, in the order of both. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another length.
    pub fn copy_from_peer<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> GpuResult<()> {
        let source = source.into();
        check_len("copying between devices", self.len, source.len)?;
        let bytes = self.len * size_of::<T>();
        // SAFETY: the borrows keep others away, and the lengths are equal.
        unsafe { copy_peer(self.home, self.address, source.home, source.address, bytes) }
    }

    /// Fills the memory with zeros. Does not wait.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn clear(&mut self) -> GpuResult<()> {
        // SAFETY: the borrow is exclusive, and zero is a value of every `Pod` type.
        unsafe { clear(self.home, self.address, self.len * size_of::<T>()) }
    }

    /// Copies the elements to the host.
    ///
    /// # Errors
    /// As [`DeviceSlice::copy_to_host`].
    pub fn copy_to_host(&self, destination: &mut [T]) -> GpuResult<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// The elements, copied to the host.
    ///
    /// # Errors
    /// The fault of a kernel.
    pub fn to_vec(&self) -> GpuResult<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// The memory as `height` rows of `width` elements.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if that is not its length.
    pub fn into_grid(self, width: usize, height: usize) -> GpuResult<GridMut<'a, T>> {
        let expected = width.saturating_mul(height);
        check_len("viewing memory as a grid", expected, self.len)?;
        Ok(GridMut { values: self, width, height })
    }

    /// The memory as `height` rows of `width` elements, each `pitch` elements after the previous
    /// one. What lies between and after the rows is not reached.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the rows overlap, or the last one ends past the memory.
    pub fn into_pitched(
        self,
        width: usize,
        height: usize,
        pitch: usize,
    ) -> GpuResult<PitchedMut<'a, T>> {
        check_rows("viewing memory as pitched rows", self.len, width, height, pitch)?;
        Ok(PitchedMut { values: self, width, height, pitch })
    }

    /// The memory as `depth` planes of `height` rows of `width` elements.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if that is not its length.
    pub fn into_volume(
        self,
        width: usize,
        height: usize,
        depth: usize,
    ) -> GpuResult<VolumeMut<'a, T>> {
        let expected = width.saturating_mul(height).saturating_mul(depth);
        check_len("viewing memory as a volume", expected, self.len)?;
        Ok(VolumeMut { values: self, width, height, depth })
    }
}

// SAFETY: the constructor's promise, for as long as the borrow; longer for a kernel, since its uses
// are ordered with later ones through the home.
unsafe impl<T: Pod> DeviceRead<T> for DeviceSliceMut<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for DeviceSliceMut<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Device memory as rows of equal width, row after row, borrowed to be written.
#[derive(Debug)]
pub struct GridMut<'a, T: Pod> {
    values: DeviceSliceMut<'a, T>,
    width: usize,
    height: usize,
}

impl<T: Pod> GridMut<'_, T> {
    /// Elements in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }
}

// SAFETY: `into_grid` checked that the length is width times height; the rest as for the slice.
unsafe impl<T: Pod> DeviceWriteGrid<T> for GridMut<'_, T> {
    fn raw_grid(&mut self) -> (RawSlice<'_>, usize, usize) {
        (self.values.raw_mut(), self.width, self.height)
    }
}

// SAFETY: as above; the pitch is the width.
unsafe impl<T: Pod> DeviceWritePitched<T> for GridMut<'_, T> {
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        (self.values.raw_mut(), self.width, self.height, self.width)
    }
}

/// Device memory as rows at equal distances, borrowed to be written.
#[derive(Debug)]
pub struct PitchedMut<'a, T: Pod> {
    pub(super) values: DeviceSliceMut<'a, T>,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pitch: usize,
}

// SAFETY: `into_pitched` checked that the rows do not overlap and end inside; the rest as for the slice.
unsafe impl<T: Pod> DeviceWritePitched<T> for PitchedMut<'_, T> {
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        (self.values.raw_mut(), self.width, self.height, self.pitch)
    }
}

/// Device memory as planes of rows, borrowed to be written.
#[derive(Debug)]
pub struct VolumeMut<'a, T: Pod> {
    values: DeviceSliceMut<'a, T>,
    width: usize,
    height: usize,
    depth: usize,
}

// SAFETY: `into_volume` checked that the length is the product; the rest as for the slice.
unsafe impl<T: Pod> DeviceWriteVolume<T> for VolumeMut<'_, T> {
    fn raw_volume(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        (self.values.raw_mut(), self.width, self.height, self.depth)
    }
}

/// Address and length of the part `range`.
pub(super) fn part<T>(address: u64, len: usize, range: impl RangeBounds<usize>) -> (u64, usize) {
    let (start, len) = bounds(len, range);
    (address + (start * size_of::<T>()) as u64, len)
}

/// Where the part `range` of `len` elements begins, and its length.
pub(super) fn bounds(len: usize, range: impl RangeBounds<usize>) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "{start}..{end} is not inside {len} elements");
    (start, end - start)
}

/// How many `U` the bytes of `len` values of `T` at `address` are.
pub(super) fn cast_len<T, U>(address: u64, len: usize) -> GpuResult<usize> {
    let bytes = len * size_of::<T>();
    let whole = bytes.checked_rem(size_of::<U>()).map_or(bytes == 0, |rest| rest == 0);
    if whole && address.is_multiple_of(align_of::<U>() as u64) {
        return Ok(bytes.checked_div(size_of::<U>()).unwrap_or(0));
    }
    Err(GpuError::InvalidCast { address, bytes, target: type_name::<U>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_where_ranges_say() {
        assert_eq!(part::<u32>(256, 10, ..), (256, 10));
        assert_eq!(part::<u32>(256, 10, 3..5), (268, 2));
        assert_eq!(part::<u32>(256, 10, ..=9), (256, 10));
        assert_eq!(part::<u32>(256, 10, 10..), (296, 0));
    }

    #[test]
    #[should_panic(expected = "3..11 is not inside 10 elements")]
    fn a_part_that_is_not_inside_panics() {
        part::<u32>(256, 10, 3..=10);
    }

    #[test]
    fn casts_need_whole_and_aligned_values() {
        assert_eq!(cast_len::<u8, u32>(256, 8).unwrap(), 2);
        assert!(cast_len::<u8, u32>(256, 9).is_err());
        assert!(cast_len::<u8, u32>(257, 8).is_err());
        assert_eq!(cast_len::<u32, ()>(256, 0).unwrap(), 0);
        assert!(cast_len::<u32, ()>(256, 1).is_err());
    }
}
