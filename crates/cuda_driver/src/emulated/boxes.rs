//! Copies of rectangles and boxes, between host, device and arrays.
#![allow(non_snake_case)]

use super::transfer::{ARRAY, Copy, DEVICE, End, HOST, Place, UNIFIED, later, now};
use super::{array, invalid, lacking};
use crate::abi::{CUdeviceptr, CUobject, CUstream, Copy2D, HostPtr, In};
use crate::detail::Answer;
use crate::structs::Copy3D;

pub(crate) fn cuMemcpy2D_v2(copy: In<Copy2D>) -> Answer {
    now(plan(&flat(&copy.get()?))?)
}

pub(crate) fn cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: CUstream) -> Answer {
    later(plan(&flat(&copy.get()?))?, stream)
}

/// A rectangle is a box of one layer.
fn flat(copy: &Copy2D) -> Copy3D {
    let null = std::ptr::null_mut();
    Copy3D {
        src_x_bytes: copy.src_x_bytes,
        src_y: copy.src_y,
        src_z: 0,
        src_lod: 0,
        src_memory_type: copy.src_memory_type,
        src_host: copy.src_host,
        src_device: copy.src_device,
        src_array: copy.src_array,
        src_context: null,
        src_pitch: copy.src_pitch,
        src_height: 0,
        dst_x_bytes: copy.dst_x_bytes,
        dst_y: copy.dst_y,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: copy.dst_memory_type,
        dst_host: copy.dst_host,
        dst_device: copy.dst_device,
        dst_array: copy.dst_array,
        dst_context: null,
        dst_pitch: copy.dst_pitch,
        dst_height: 0,
        width_bytes: copy.width_bytes,
        height: copy.height,
        depth: 1,
    }
}

/// One end of a box, as the API describes it.
struct Side {
    memory_type: i32,
    host: HostPtr,
    device: CUdeviceptr,
    array: CUobject,
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    pitch: usize,
    height: usize,
}

/// What a description asks for, checked as far as it can be without touching memory.
pub(super) fn plan(copy: &Copy3D) -> Answer<Copy> {
    let src = Side {
        memory_type: copy.src_memory_type,
        host: HostPtr(copy.src_host.cast_mut()),
        device: copy.src_device,
        array: copy.src_array,
        x_bytes: copy.src_x_bytes,
        y: copy.src_y,
        z: copy.src_z,
        lod: copy.src_lod,
        pitch: copy.src_pitch,
        height: copy.src_height,
    };
    let dst = Side {
        memory_type: copy.dst_memory_type,
        host: HostPtr(copy.dst_host),
        device: copy.dst_device,
        array: copy.dst_array,
        x_bytes: copy.dst_x_bytes,
        y: copy.dst_y,
        z: copy.dst_z,
        lod: copy.dst_lod,
        pitch: copy.dst_pitch,
        height: copy.dst_height,
    };
    let (bytes, rows, layers) = (copy.width_bytes, copy.height, copy.depth);
    let size = [bytes, rows, layers];
    let (dst, src) = (dst.end(size)?, src.end(size)?);
    Ok(Copy { dst, src, bytes, rows, layers, described: Some(*copy) })
}

impl Side {
    fn end(&self, size: [usize; 3]) -> Answer<End> {
        if self.lod != 0 {
            return Err(lacking("the emulator's arrays have no levels of detail"));
        }
        let linear = |place: Place| self.linear(place, size);
        match self.memory_type {
            HOST => linear(Place::host(self.host)),
            DEVICE => linear(Place::device(self.device)),
            UNIFIED => linear(Place::unified(self.device)),
            ARRAY => array::end(self.array, [self.x_bytes, self.y, self.z], size),
            odd => Err(invalid(format!("{odd} is no memory type; there are 1 to 4"))),
        }
    }

    fn linear(&self, place: Place, [bytes, rows, layers]: [usize; 3]) -> Answer<End> {
        let pitch = pitch(self.pitch, self.x_bytes, bytes, rows * layers)?;
        let height = match self.height {
            0 => self.y.saturating_add(rows),
            height if layers > 1 && height < self.y.saturating_add(rows) => {
                return Err(invalid(format!("a layer of {height} rows is less than the copy's")));
            }
            height => height,
        };
        let layer = pitch.checked_mul(height).ok_or_else(outside)?;
        let layers = self.z.checked_mul(layer).ok_or_else(outside)?;
        let rows = self.y.checked_mul(pitch).ok_or_else(outside)?;
        let start = layers.checked_add(rows).and_then(|start| start.checked_add(self.x_bytes));
        Ok(End { place: place.offset(start.ok_or_else(outside)?), pitch, layer })
    }
}

/// Bytes from one row to the next; 0 stands for rows without gaps.
fn pitch(given: usize, x_bytes: usize, bytes: usize, rows: usize) -> Answer<usize> {
    let needed = x_bytes.saturating_add(bytes);
    match given {
        0 => Ok(needed),
        _ if given < needed && rows > 1 => {
            Err(invalid(format!("a pitch of {given} bytes is less than a row of {needed}")))
        }
        _ => Ok(given),
    }
}

fn outside() -> crate::detail::Failure {
    invalid("the copy begins outside the address space")
}
