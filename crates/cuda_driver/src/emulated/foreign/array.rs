//! Arrays: creating and querying them, and copies within one row. Two- and three-dimensional copies
//! are in `copy_pitched.rs`.
#![allow(non_snake_case)]

use std::sync::Arc;

use crate::abi::{CUarray, CUdeviceptr, CUstream, HostPtr, In, Out};
use crate::codes::CUDA_ERROR_INVALID_HANDLE;
use crate::detail::{DriverError, DriverResult};
use crate::emulated::allocations::{MemoryKind, allocate, remove};
use crate::emulated::array::{ARRAYS, Array, element_bytes, extent};
use crate::emulated::current::current;
use crate::emulated::memory_copy::{CopyAddress, MemoryCopy, copy_blocking, copy_on_stream};
use crate::emulated::{capture, invalid_value, not_supported};
use crate::structs::{Array3DDescriptor, ArrayDescriptor};

/// A layered array, which is no different to copies.
const LAYERED: u32 = 1;

/// Surfaces can be bound to it: accepted, though there are none.
const SURFACE: u32 = 2;

/// A cubemap: each six layers are the faces of a cube.
const CUBEMAP: u32 = 4;

/// Texture gathers can be performed on it.
const GATHER: u32 = 8;

pub(crate) fn cuArrayCreate_v2(
    array: Out<CUarray>,
    descriptor: In<ArrayDescriptor>,
) -> DriverResult {
    let ArrayDescriptor { width, height, format, channels } = descriptor.get()?;
    create(array, Array3DDescriptor { width, height, depth: 0, format, channels, flags: 0 })
}

pub(crate) fn cuArray3DCreate_v2(
    array: Out<CUarray>,
    descriptor: In<Array3DDescriptor>,
) -> DriverResult {
    create(array, descriptor.get()?)
}

fn create(array: Out<CUarray>, descriptor: Array3DDescriptor) -> DriverResult {
    let context = current()?;
    capture::check_unsafe()?;
    array.check()?;
    check(&descriptor)?;
    let [rows, layers] = extent(&descriptor);
    let element = element_bytes(descriptor.format, descriptor.channels)?;
    let bytes = [element, descriptor.width, rows, layers]
        .into_iter()
        .try_fold(1_usize, usize::checked_mul)
        .ok_or_else(|| invalid_value("the array is larger than the address space"))?;
    let base = allocate(MemoryKind::Array, bytes, 0, &context)?;
    array.set(ARRAYS.add(Array { context: context.handle, descriptor, base }).as_ptr())
}

fn check(descriptor: &Array3DDescriptor) -> DriverResult {
    let Array3DDescriptor { width, height, depth, flags, .. } = *descriptor;
    let odd = flags & !(LAYERED | SURFACE | CUBEMAP | GATHER);
    if odd != 0 {
        return Err(match odd & !0x1ff {
            0 => not_supported(format!("the emulator's arrays do not have the flags {odd:#x}")),
            _ => invalid_value(format!("{odd:#x} are not array flags")),
        });
    }
    if width == 0 {
        return Err(invalid_value("an array of width 0"));
    }
    if depth > 0 && height == 0 && flags & LAYERED == 0 {
        return Err(invalid_value("an array with a depth needs a height"));
    }
    if flags & CUBEMAP != 0 && (width != height || depth == 0 || !depth.is_multiple_of(6)) {
        return Err(invalid_value("a cubemap has square faces, and layers in multiples of six"));
    }
    Ok(())
}

pub(crate) fn cuArrayGetDescriptor_v2(
    descriptor: Out<ArrayDescriptor>,
    array: CUarray,
) -> DriverResult {
    current()?;
    let Array3DDescriptor { width, height, format, channels, .. } = ARRAYS.get(array)?.descriptor;
    descriptor.set(ArrayDescriptor { width, height, format, channels })
}

pub(crate) fn cuArray3DGetDescriptor_v2(
    descriptor: Out<Array3DDescriptor>,
    array: CUarray,
) -> DriverResult {
    current()?;
    descriptor.set(ARRAYS.get(array)?.descriptor)
}

pub(crate) fn cuArrayDestroy(array: CUarray) -> DriverResult {
    let context = current()?;
    capture::check_unsafe()?;
    let gone = ARRAYS.remove(array)?;
    context.streams.wait_all();
    remove(gone.base, &[MemoryKind::Array])?.release()?;
    context.check()
}

/// The address of `bytes` bytes from `offset` on in the first row of an array.
fn row(array: CUarray, offset: usize, bytes: usize) -> DriverResult<CopyAddress> {
    let array: Arc<Array> = ARRAYS.get(array)?;
    if array.descriptor.depth > 0 {
        let text = "a copy by offset needs an array of one or two dimensions";
        return Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    Ok(array.end([offset, 0, 0], [bytes, 1, 1])?.address)
}

pub(crate) fn cuMemcpyAtoH_v2(
    dst: HostPtr,
    src: CUarray,
    offset: usize,
    bytes: usize,
) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::host(dst), row(src, offset, bytes)?, bytes))
}

pub(crate) fn cuMemcpyHtoA_v2(
    dst: CUarray,
    offset: usize,
    src: HostPtr,
    bytes: usize,
) -> DriverResult {
    copy_blocking(MemoryCopy::row(row(dst, offset, bytes)?, CopyAddress::host(src), bytes))
}

pub(crate) fn cuMemcpyAtoHAsync_v2(
    dst: HostPtr,
    src: CUarray,
    offset: usize,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(MemoryCopy::row(CopyAddress::host(dst), row(src, offset, bytes)?, bytes), stream)
}

pub(crate) fn cuMemcpyHtoAAsync_v2(
    dst: CUarray,
    offset: usize,
    src: HostPtr,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(MemoryCopy::row(row(dst, offset, bytes)?, CopyAddress::host(src), bytes), stream)
}

pub(crate) fn cuMemcpyAtoD_v2(
    dst: CUdeviceptr,
    src: CUarray,
    offset: usize,
    bytes: usize,
) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::device(dst), row(src, offset, bytes)?, bytes))
}

pub(crate) fn cuMemcpyDtoA_v2(
    dst: CUarray,
    offset: usize,
    src: CUdeviceptr,
    bytes: usize,
) -> DriverResult {
    copy_blocking(MemoryCopy::row(row(dst, offset, bytes)?, CopyAddress::device(src), bytes))
}

pub(crate) fn cuMemcpyAtoA_v2(
    dst: CUarray,
    dst_offset: usize,
    src: CUarray,
    src_offset: usize,
    bytes: usize,
) -> DriverResult {
    copy_blocking(MemoryCopy::row(
        row(dst, dst_offset, bytes)?,
        row(src, src_offset, bytes)?,
        bytes,
    ))
}
