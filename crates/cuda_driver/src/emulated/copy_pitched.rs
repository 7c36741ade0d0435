//! Two-dimensional copies, and the parameters of three-dimensional ones.
#![allow(non_snake_case)]

use super::memory_copy::{
    ARRAY, CopyAddress, CopyEnd, DEVICE, HOST, MemoryCopy, UNIFIED, copy_blocking, copy_on_stream,
};
use super::{array, invalid_value, not_supported};
use crate::abi::{CUarray, CUdeviceptr, CUstream, Copy2D, HostPtr, In};
use crate::detail::DriverResult;
use crate::structs::Copy3D;

pub(crate) fn cuMemcpy2D_v2(copy: In<Copy2D>) -> DriverResult {
    copy_blocking(plan_copy(&as_3d(&copy.get()?))?)
}

pub(crate) fn cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: CUstream) -> DriverResult {
    copy_on_stream(plan_copy(&as_3d(&copy.get()?))?, stream)
}

/// A two-dimensional copy as a three-dimensional one with one layer.
fn as_3d(copy: &Copy2D) -> Copy3D {
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

/// The source or the destination of a copy, as in the API's parameters.
struct CopySide {
    memory_type: i32,
    host: HostPtr,
    device: CUdeviceptr,
    array: CUarray,
    x_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    pitch: usize,
    height: usize,
}

/// The copy with these parameters, checked as far as possible without accessing memory.
pub(super) fn plan_copy(copy: &Copy3D) -> DriverResult<MemoryCopy> {
    let src = CopySide {
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
    let dst = CopySide {
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
    Ok(MemoryCopy { dst, src, bytes, rows, layers, described: Some(*copy) })
}

impl CopySide {
    fn end(&self, size: [usize; 3]) -> DriverResult<CopyEnd> {
        if self.lod != 0 {
            return Err(not_supported("the emulator's arrays have no mipmap levels"));
        }
        let linear = |address: CopyAddress| self.linear(address, size);
        match self.memory_type {
            HOST => linear(CopyAddress::host(self.host)),
            DEVICE => linear(CopyAddress::device(self.device)),
            UNIFIED => linear(CopyAddress::unified(self.device)),
            ARRAY => array::end(self.array, [self.x_bytes, self.y, self.z], size),
            odd => Err(invalid_value(format!("{odd} is not a memory type; there are 1 to 4"))),
        }
    }

    fn linear(
        &self,
        address: CopyAddress,
        [bytes, rows, layers]: [usize; 3],
    ) -> DriverResult<CopyEnd> {
        let pitch = pitch(self.pitch, self.x_bytes, bytes, rows * layers)?;
        let height = match self.height {
            0 => self.y.saturating_add(rows),
            height if layers > 1 && height < self.y.saturating_add(rows) => {
                return Err(invalid_value(format!(
                    "a layer of {height} rows is smaller than the copy"
                )));
            }
            height => height,
        };
        let layer = pitch.checked_mul(height).ok_or_else(outside)?;
        let layers = self.z.checked_mul(layer).ok_or_else(outside)?;
        let rows = self.y.checked_mul(pitch).ok_or_else(outside)?;
        let start = layers.checked_add(rows).and_then(|start| start.checked_add(self.x_bytes));
        Ok(CopyEnd { address: address.offset(start.ok_or_else(outside)?), pitch, layer })
    }
}

/// Bytes from one row to the next. A pitch of 0 stands for rows without gaps.
fn pitch(given: usize, x_bytes: usize, bytes: usize, rows: usize) -> DriverResult<usize> {
    let needed = x_bytes.saturating_add(bytes);
    match given {
        0 => Ok(needed),
        _ if given < needed && rows > 1 => {
            Err(invalid_value(format!("a pitch of {given} bytes is less than a row of {needed}")))
        }
        _ => Ok(given),
    }
}

fn outside() -> crate::detail::DriverError {
    invalid_value("the copy begins outside of the address space")
}
