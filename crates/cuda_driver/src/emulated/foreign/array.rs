//! Arrays: making them, asking about them, and copies of one row. Copies of boxes are in `boxes.rs`.
#![allow(non_snake_case)]

use std::sync::Arc;

use crate::abi::{CUdeviceptr, CUobject, CUstream, HostPtr, In, Out};
use crate::codes::CUDA_ERROR_INVALID_HANDLE;
use crate::detail::{Answer, Failure};
use crate::emulated::allocations::{Kind, allocate, take};
use crate::emulated::array::{ARRAYS, Array, element_bytes, extent};
use crate::emulated::current::current;
use crate::emulated::transfer::{Copy, Place, later, now};
use crate::emulated::{capture, invalid, lacking};
use crate::structs::{Array3DDescriptor, ArrayDescriptor};

/// The layers are separate pictures: a layout, which copies need not know.
const LAYERED: u32 = 1;

/// Surfaces may be made of it: allowed, though there are none.
const SURFACE: u32 = 2;

/// Its six layers are the sides of a cube.
const CUBEMAP: u32 = 4;

/// Gathers may be made of it.
const GATHER: u32 = 8;

pub(crate) fn cuArrayCreate_v2(array: Out<CUobject>, descriptor: In<ArrayDescriptor>) -> Answer {
    let ArrayDescriptor { width, height, format, channels } = descriptor.get()?;
    create(array, Array3DDescriptor { width, height, depth: 0, format, channels, flags: 0 })
}

pub(crate) fn cuArray3DCreate_v2(
    array: Out<CUobject>,
    descriptor: In<Array3DDescriptor>,
) -> Answer {
    create(array, descriptor.get()?)
}

fn create(array: Out<CUobject>, descriptor: Array3DDescriptor) -> Answer {
    let context = current()?;
    capture::check_unsafe()?;
    array.check()?;
    check(&descriptor)?;
    let [rows, layers] = extent(&descriptor);
    let element = element_bytes(descriptor.format, descriptor.channels)?;
    let bytes = [element, descriptor.width, rows, layers]
        .into_iter()
        .try_fold(1_usize, usize::checked_mul)
        .ok_or_else(|| invalid("the array is larger than the address space"))?;
    let base = allocate(Kind::Array, bytes, 0, &context)?;
    array.set(ARRAYS.add(Array { context: context.handle, descriptor, base }).as_ptr())
}

fn check(descriptor: &Array3DDescriptor) -> Answer {
    let Array3DDescriptor { width, height, depth, flags, .. } = *descriptor;
    let odd = flags & !(LAYERED | SURFACE | CUBEMAP | GATHER);
    if odd != 0 {
        return Err(match odd & !0x1ff {
            0 => lacking(format!("the emulator's arrays do not have the flags {odd:#x}")),
            _ => invalid(format!("{odd:#x} are no flags of an array")),
        });
    }
    if width == 0 {
        return Err(invalid("an array without width"));
    }
    if depth > 0 && height == 0 && flags & LAYERED == 0 {
        return Err(invalid("an array with depth and without height"));
    }
    if flags & CUBEMAP != 0 && (width != height || depth == 0 || !depth.is_multiple_of(6)) {
        return Err(invalid("a cube has six square sides"));
    }
    Ok(())
}

pub(crate) fn cuArrayGetDescriptor_v2(descriptor: Out<ArrayDescriptor>, array: CUobject) -> Answer {
    current()?;
    let Array3DDescriptor { width, height, format, channels, .. } = ARRAYS.get(array)?.descriptor;
    descriptor.set(ArrayDescriptor { width, height, format, channels })
}

pub(crate) fn cuArray3DGetDescriptor_v2(
    descriptor: Out<Array3DDescriptor>,
    array: CUobject,
) -> Answer {
    current()?;
    descriptor.set(ARRAYS.get(array)?.descriptor)
}

pub(crate) fn cuArrayDestroy(array: CUobject) -> Answer {
    let context = current()?;
    capture::check_unsafe()?;
    let gone = ARRAYS.remove(array)?;
    context.queue.wait_all();
    take(gone.base, &[Kind::Array])?.release()?;
    context.check()
}

/// `bytes` from `offset` on in the first row of a one-dimensional array.
fn row(array: CUobject, offset: usize, bytes: usize) -> Answer<Place> {
    let array: Arc<Array> = ARRAYS.get(array)?;
    if array.descriptor.depth > 0 {
        let text = "a copy by offset is for an array of one dimension or two";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    Ok(array.end([offset, 0, 0], [bytes, 1, 1])?.place)
}

pub(crate) fn cuMemcpyAtoH_v2(dst: HostPtr, src: CUobject, offset: usize, bytes: usize) -> Answer {
    now(Copy::row(Place::host(dst), row(src, offset, bytes)?, bytes))
}

pub(crate) fn cuMemcpyHtoA_v2(dst: CUobject, offset: usize, src: HostPtr, bytes: usize) -> Answer {
    now(Copy::row(row(dst, offset, bytes)?, Place::host(src), bytes))
}

pub(crate) fn cuMemcpyAtoHAsync_v2(
    dst: HostPtr,
    src: CUobject,
    offset: usize,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(Place::host(dst), row(src, offset, bytes)?, bytes), stream)
}

pub(crate) fn cuMemcpyHtoAAsync_v2(
    dst: CUobject,
    offset: usize,
    src: HostPtr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(row(dst, offset, bytes)?, Place::host(src), bytes), stream)
}

pub(crate) fn cuMemcpyAtoD_v2(
    dst: CUdeviceptr,
    src: CUobject,
    offset: usize,
    bytes: usize,
) -> Answer {
    now(Copy::row(Place::device(dst), row(src, offset, bytes)?, bytes))
}

pub(crate) fn cuMemcpyDtoA_v2(
    dst: CUobject,
    offset: usize,
    src: CUdeviceptr,
    bytes: usize,
) -> Answer {
    now(Copy::row(row(dst, offset, bytes)?, Place::device(src), bytes))
}

pub(crate) fn cuMemcpyAtoA_v2(
    dst: CUobject,
    dst_offset: usize,
    src: CUobject,
    src_offset: usize,
    bytes: usize,
) -> Answer {
    now(Copy::row(row(dst, dst_offset, bytes)?, row(src, src_offset, bytes)?, bytes))
}
