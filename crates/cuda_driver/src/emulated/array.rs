//! CUDA arrays: memory with a width, a height and a depth, which is accessed by copies.
//!
//! A GPU stores arrays in a layout for its texture units. The emulator stores them row by row
//! without gaps, and has no textures and surfaces.

use super::memory_copy::{CopyAddress, CopyEnd};
use super::registry::{Handle, Registry};
use super::{invalid_value, not_supported};
use crate::abi::CUarray;
use crate::detail::DriverResult;
use crate::structs::Array3DDescriptor;

/// An array.
pub(super) struct Array {
    pub(super) context: Handle,
    pub(super) descriptor: Array3DDescriptor,
    pub(super) base: u64,
}

pub(super) static ARRAYS: Registry<Array> = Registry::new("array");

/// Removes a context's arrays. Their memory is freed with the context's other memory.
pub(super) fn forget(context: Handle) -> DriverResult {
    ARRAYS.remove_where(|array| array.context == context);
    Ok(())
}

/// The size of an element in bytes.
pub(super) fn element_bytes(format: u32, channels: u32) -> DriverResult<usize> {
    let bytes = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        0xb0 | 0xc0..=0xcb | 0x91..=0x9f => {
            return Err(not_supported(format!(
                "the emulator's arrays do not have format {format:#x}"
            )));
        }
        _ => return Err(invalid_value(format!("{format:#x} is not an array format"))),
    };
    match channels {
        1 | 2 | 4 => Ok(bytes * channels as usize),
        _ => Err(invalid_value(format!("{channels} channels; an array may have 1, 2 or 4"))),
    }
}

/// Rows and layers, at least one of each; 0 in a descriptor stands for a missing dimension.
pub(super) fn extent(descriptor: &Array3DDescriptor) -> [usize; 2] {
    [descriptor.height.max(1), descriptor.depth.max(1)]
}

impl Array {
    fn row_bytes(&self) -> usize {
        let Array3DDescriptor { width, format, channels, .. } = self.descriptor;
        element_bytes(format, channels).map_or(0, |bytes| bytes * width)
    }

    /// The region of a copy in the array, checked against the array's extent.
    pub(super) fn end(&self, start: [usize; 3], size: [usize; 3]) -> DriverResult<CopyEnd> {
        let [rows, layers] = extent(&self.descriptor);
        let limits = [self.row_bytes(), rows, layers];
        for ((start, size), limit) in start.into_iter().zip(size).zip(limits) {
            if start.checked_add(size).is_none_or(|end| end > limit) {
                return Err(invalid_value(format!(
                    "a copy of {size} from offset {start} exceeds the array's {limit}"
                )));
            }
        }
        let (pitch, layer) = (limits[0], limits[0] * limits[1]);
        let offset = start[2] * layer + start[1] * pitch + start[0];
        Ok(CopyEnd { address: CopyAddress::device(self.base).offset(offset), pitch, layer })
    }
}

/// The region of a copy in the array of a handle.
pub(super) fn end(array: CUarray, start: [usize; 3], size: [usize; 3]) -> DriverResult<CopyEnd> {
    ARRAYS.get(array)?.end(start, size)
}
