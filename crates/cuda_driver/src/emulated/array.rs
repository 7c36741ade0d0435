//! Arrays: memory with a width, a height and a depth, reached by copies.
//!
//! A GPU lays them out for its texture units. Here they are rows without gaps, and textures and
//! surfaces over them do not exist.

use super::registry::{Handle, Registry};
use super::transfer::{End, Place};
use super::{invalid, lacking};
use crate::abi::CUobject;
use crate::detail::Answer;
use crate::structs::Array3DDescriptor;

/// An array.
pub(super) struct Array {
    pub(super) context: Handle,
    pub(super) descriptor: Array3DDescriptor,
    pub(super) base: u64,
}

pub(super) static ARRAYS: Registry<Array> = Registry::new("array");

/// Forgets a context's arrays; their memory goes with the context's.
pub(super) fn forget(context: Handle) -> Answer {
    ARRAYS.remove_where(|array| array.context == context);
    Ok(())
}

/// Bytes of an element of a format with its channels.
pub(super) fn element_bytes(format: u32, channels: u32) -> Answer<usize> {
    let bytes = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        0xb0 | 0xc0..=0xcb | 0x91..=0x9f => {
            return Err(lacking(format!("the emulator's arrays do not have format {format:#x}")));
        }
        _ => return Err(invalid(format!("{format:#x} is no format of an array"))),
    };
    match channels {
        1 | 2 | 4 => Ok(bytes * channels as usize),
        _ => Err(invalid(format!("{channels} channels; an array may have 1, 2 or 4"))),
    }
}

/// Rows and layers, where 0 stands for a dimension that is not there.
pub(super) fn extent(descriptor: &Array3DDescriptor) -> [usize; 2] {
    [descriptor.height.max(1), descriptor.depth.max(1)]
}

impl Array {
    fn row_bytes(&self) -> usize {
        let Array3DDescriptor { width, format, channels, .. } = self.descriptor;
        element_bytes(format, channels).map_or(0, |bytes| bytes * width)
    }

    /// The place of a copy in it, checked against its size.
    pub(super) fn end(&self, start: [usize; 3], size: [usize; 3]) -> Answer<End> {
        let [rows, layers] = extent(&self.descriptor);
        let limits = [self.row_bytes(), rows, layers];
        for ((start, size), limit) in start.into_iter().zip(size).zip(limits) {
            if start.checked_add(size).is_none_or(|end| end > limit) {
                return Err(invalid(format!(
                    "a copy of {size} from {start} on in an array that has {limit}"
                )));
            }
        }
        let (pitch, layer) = (limits[0], limits[0] * limits[1]);
        let offset = start[2] * layer + start[1] * pitch + start[0];
        Ok(End { place: Place::device(self.base).offset(offset), pitch, layer })
    }
}

/// The place of a copy in an array.
pub(super) fn end(array: CUobject, start: [usize; 3], size: [usize; 3]) -> Answer<End> {
    ARRAYS.get(array)?.end(start, size)
}
