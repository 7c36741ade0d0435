//! Tensors in device memory as the copy engine of Hopper GPUs sees them.
//!
//! A kernel that takes `&TensorMap<A, S>` reads tiles of a tensor, and is given a [`TensorView`]; one
//! that takes `&TensorMapMut<A, S>` writes tiles, and is given a [`TensorViewMut`]. Both borrow the
//! tensor's memory and are made from it and its shape; the tile is in the type.
//!
//! ```no_run
//! use cuda_std::copy::Swizzle128;
//! use ferrowarp::{DeviceBuffer, Gpu, TensorView};
//!
//! let gpu = Gpu::new()?;
//! let matrix = DeviceBuffer::from_slice(&gpu, &vec![1.0f32; 1000 * 640])?;
//! // Tiles of 64 rows of 32 values, of a matrix of 1000 rows of 640.
//! let view = TensorView::<[[f32; 32]; 64], Swizzle128>::new(matrix.as_slice(), [1000, 640])?;
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_driver::sys;
use cuda_std::copy::{Extents, Swizzle, TensorElement, TensorMap, TensorMapMut, Tile, Unswizzled};
use cuda_std::launch::{DeviceRead, DeviceReadOne, RawSlice};

use crate::error::{GpuContext, GpuError, GpuResult};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::StreamInner;

/// What the driver asks of addresses and strides.
const UNIT_BYTES: usize = 16;
/// Strides in bytes are below this.
const STRIDE_LIMIT_BYTES: usize = 1 << 40;
/// What `in units of the cache` a copy brings to the L2 cache: 128 bytes.
const PROMOTE_128_BYTES: u32 = 2;
/// The operation that errors name.
const OPERATION: &str = "describing a tensor";

/// The shape of a tensor of `RANK` dimensions and where its elements are, outermost dimension first.
/// An array of extents is a row-major tensor without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorLayout<const RANK: usize> {
    extents: [usize; RANK],
    /// In elements; the last is 1.
    strides: [usize; RANK],
    nan: bool,
}

impl<const RANK: usize> From<[usize; RANK]> for TensorLayout<RANK> {
    fn from(extents: [usize; RANK]) -> Self {
        let mut strides = [1usize; RANK];
        for dim in (1..RANK).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(extents[dim]);
        }
        Self { extents, strides, nan: false }
    }
}

impl<const RANK: usize> TensorLayout<RANK> {
    /// A row-major tensor of these extents, without gaps.
    pub fn row_major(extents: [usize; RANK]) -> Self {
        extents.into()
    }

    /// The same extents with other strides, in elements; the last one is 1.
    #[must_use]
    pub fn with_strides(self, strides: [usize; RANK]) -> Self {
        Self { strides, ..self }
    }

    /// What lies outside of the tensor is read as NaN in place of zero. Only for floats.
    #[must_use]
    pub fn filled_with_nan(self) -> Self {
        Self { nan: true, ..self }
    }

    /// The elements from the first to the last one, or `None` if that overflows.
    fn span(&self) -> Option<usize> {
        let mut last = 0usize;
        for (extent, stride) in self.extents.iter().zip(self.strides) {
            last = last.checked_add(extent.checked_sub(1)?.checked_mul(stride)?)?;
        }
        last.checked_add(1)
    }

    /// The layout with rows as long as the units of 16 bytes that a store writes.
    fn in_whole_units<T: TensorElement>(mut self) -> Self {
        let innermost = &mut self.extents[RANK - 1];
        let per_unit = UNIT_BYTES / size_of::<T>();
        *innermost = innermost.div_ceil(per_unit).saturating_mul(per_unit);
        self
    }

    /// Checks all that the driver would refuse with no more than "invalid value".
    fn check<T: TensorElement>(&self, raw: &RawSlice<'_>) -> GpuResult<()> {
        if self.strides[RANK - 1] != 1 {
            return Err(wrong(
                "the last stride is 1: the innermost elements lie side by side".into(),
            ));
        }
        if let Some(extent) = self.extents.iter().find(|e| **e == 0 || **e > 1 << 32) {
            return Err(wrong(format!("an extent of {extent}; it may be 1 to 2^32")));
        }
        for stride in &self.strides[..RANK - 1] {
            let bytes = stride.saturating_mul(size_of::<T>());
            if !bytes.is_multiple_of(UNIT_BYTES) || bytes == 0 || bytes >= STRIDE_LIMIT_BYTES {
                return Err(wrong(format!(
                    "a stride of {bytes} bytes; it must be a multiple of 16 below 2^40"
                )));
            }
        }
        if !raw.address.is_multiple_of(UNIT_BYTES as u64) {
            return Err(wrong(format!("its address {:#x} is no multiple of 16", raw.address)));
        }
        let expected = self.span().unwrap_or(usize::MAX);
        if expected > raw.len {
            return Err(GpuError::SizeMismatch { operation: OPERATION, expected, found: raw.len });
        }
        Ok(())
    }
}

fn wrong(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: OPERATION, reason }
}

/// A tensor of which a kernel reads tiles: its `&TensorMap<A, S>`.
pub struct TensorView<'a, A: Extents, S: Swizzle = Unswizzled> {
    map: DeviceBuffer<u64>,
    tensor: PhantomData<(DeviceSlice<'a, A::Element>, S)>,
}

/// A tensor of which a kernel writes tiles: its `&TensorMapMut<A, S>`.
pub struct TensorViewMut<'a, A: Extents, S: Swizzle = Unswizzled> {
    map: DeviceBuffer<u64>,
    tensor: PhantomData<(DeviceSliceMut<'a, A::Element>, S)>,
}

impl<'a, A: Extents, S: Swizzle> TensorView<'a, A, S> {
    /// The tensor of that shape in `memory`, to be read.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch) if `memory` is too short;
    /// [`InvalidArgument`](GpuError::InvalidArgument) if a stride is not a multiple of 16 bytes, or
    /// anything else that the copy engine cannot do; an error of the driver.
    pub fn new<const RANK: usize>(
        memory: DeviceSlice<'a, A::Element>,
        layout: impl Into<TensorLayout<RANK>>,
    ) -> GpuResult<Self> {
        let map = encode::<A, S, RANK>(memory.home(), &memory.raw(), layout.into())?;
        Ok(Self { map, tensor: PhantomData })
    }
}

impl<'a, A: Extents, S: Swizzle> TensorViewMut<'a, A, S> {
    /// The tensor of that shape in `memory`, to be written. The copy engine writes whole units of 16 bytes: rows that end
    /// inside of one have the rest of it written too, so `memory` reaches to the end of the last row's last unit.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn new<const RANK: usize>(
        memory: DeviceSliceMut<'a, A::Element>,
        layout: impl Into<TensorLayout<RANK>>,
    ) -> GpuResult<Self> {
        let layout = layout.into();
        layout.in_whole_units::<A::Element>().check::<A::Element>(&memory.raw())?;
        let map = encode::<A, S, RANK>(memory.home(), &memory.raw(), layout)?;
        Ok(Self { map, tensor: PhantomData })
    }
}

/// Lets the driver describe the tensor, and copies the description to the device. Its home is that of
/// the tensor, so a launch that is in order with the one is in order with the other.
fn encode<A: Extents, S: Swizzle, const RANK: usize>(
    home: &Arc<StreamInner>,
    raw: &RawSlice<'_>,
    layout: TensorLayout<RANK>,
) -> GpuResult<DeviceBuffer<u64>> {
    const {
        assert!(RANK == A::RANK, "one extent for each dimension of the tile");
        assert!(Tile::<A, S>::BYTES > 0);
    }
    layout.check::<A::Element>(raw)?;
    let mut map = sys::CUtensorMap { words: [0; 16] };
    let extents = innermost_first(layout.extents, |extent| extent as u64);
    let bytes = |stride| (stride * size_of::<A::Element>()) as u64;
    let strides = innermost_first(layout.strides, bytes);
    let steps = [1u32; 5];
    let encoded = home.context().call("cuTensorMapEncodeTiled", || {
        // SAFETY: the map is writable, the lists have an element for each dimension, and the
        // address is only stored.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                A::Element::TYPE as u32,
                RANK as u32,
                raw.address as *mut _,
                extents.as_ptr(),
                strides[1..].as_ptr(),
                A::EXTENTS.as_ptr(),
                steps.as_ptr(),
                0,
                S::MODE,
                PROMOTE_128_BYTES,
                u32::from(layout.nan),
            )
        }
    });
    encoded.with_gpu_context(|| OPERATION)?;
    DeviceBuffer::at_home(home, &map.words)
}

/// The values of each dimension in the driver's order.
fn innermost_first<const RANK: usize>(of: [usize; RANK], f: impl Fn(usize) -> u64) -> [u64; 6] {
    let mut list = [0; 6];
    list.iter_mut().zip(of.iter().rev()).for_each(|(to, from)| *to = f(*from));
    list
}

impl<A: Extents, S: Swizzle> fmt::Debug for TensorView<'_, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({:#x})", self.map.as_device_ptr().address())
    }
}

impl<A: Extents, S: Swizzle> fmt::Debug for TensorViewMut<'_, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorViewMut({:#x})", self.map.as_device_ptr().address())
    }
}

// SAFETY: the buffer holds the 128 bytes of one map, aligned to 256; nothing writes it. The tensor is
// borrowed for as long as the view, and has the same home, so that its later uses come after the
// kernels that were given the map.
unsafe impl<A: Extents, S: Swizzle> DeviceReadOne<TensorMap<A, S>> for TensorView<'_, A, S> {
    fn raw_one(&self) -> RawSlice<'_> {
        RawSlice { len: 1, ..self.map.raw() }
    }
}

// SAFETY: as above; the tensor is borrowed exclusively.
unsafe impl<A: Extents, S: Swizzle> DeviceReadOne<TensorMapMut<A, S>> for TensorViewMut<'_, A, S> {
    fn raw_one(&self) -> RawSlice<'_> {
        RawSlice { len: 1, ..self.map.raw() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(len: usize) -> RawSlice<'static> {
        RawSlice { address: 256, len, home: None }
    }

    #[test]
    fn a_layout_is_row_major_and_fits_its_memory() {
        let layout = TensorLayout::row_major([3, 5, 8]);
        assert_eq!((layout.strides, layout.span()), ([40, 8, 1], Some(120)));
        assert!(layout.check::<f32>(&raw(120)).is_ok());
        let error = layout.check::<f32>(&raw(119)).unwrap_err().to_string();
        assert_eq!(error, "describing a tensor: 120 elements are needed, 119 were given");
        let apart = layout.with_strides([100, 16, 1]);
        assert_eq!(apart.span(), Some(200 + 64 + 7 + 1));
    }

    #[test]
    fn what_the_copy_engine_cannot_do_is_told() {
        let text = |layout: TensorLayout<2>, address| {
            let raw = RawSlice { address, ..raw(1 << 20) };
            layout.check::<u8>(&raw).unwrap_err().to_string()
        };
        assert!(text([4, 20].into(), 256).contains("a stride of 20 bytes"));
        assert!(text([0, 16].into(), 256).contains("an extent of 0"));
        assert!(text([4, 16].into(), 264).contains("0x108 is no multiple of 16"));
        let backwards = TensorLayout::row_major([4, 16]).with_strides([16, 2]);
        assert!(text(backwards, 256).contains("the last stride is 1"));
        let endless = TensorLayout::row_major([usize::MAX, 1 << 30]);
        assert!(endless.check::<u8>(&raw(5)).is_err());
    }

    #[test]
    fn the_drivers_order_is_innermost_first() {
        assert_eq!(innermost_first([7, 8, 9], |n| n as u64), [9, 8, 7, 0, 0, 0]);
    }
}
