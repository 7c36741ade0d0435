//! Copies. A host pointer that the device knows (pinned, managed) counts as its memory; a copy
//! from or to any other host memory is over, or has read its source, when the call returns.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::allocations::memory;
use super::context::wait;
use super::current::{Context, current};
use super::queue::{Line, Work};
use super::{invalid, stream};
use crate::abi::{CUdeviceptr, CUstream, Copy2D, HostPtr, In};
use crate::codes::{CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

/// A copy from pageable memory takes a private copy of the source up to this size, as NVIDIA's
/// driver does; a larger one blocks.
const STAGED_BYTES: usize = 64 * 1024;

/// One end of a copy.
#[derive(Clone, Copy)]
enum Place {
    Device(u64),
    /// Host memory that the device does not know.
    Pageable(HostPtr),
}

impl Place {
    fn device(address: CUdeviceptr) -> Self {
        Self::Device(address)
    }

    fn host(pointer: HostPtr) -> Self {
        let known = memory().is_ok_and(|memory| memory.find(pointer.address()).is_some());
        if known { Self::Device(pointer.address()) } else { Self::Pageable(pointer) }
    }

    /// By the address alone, for copies that do not say.
    fn unified(address: CUdeviceptr) -> Self {
        Self::host(HostPtr(std::ptr::with_exposed_provenance_mut(address as usize)))
    }

    fn check(self, bytes: usize) -> Answer {
        match self {
            Self::Device(address) => Ok(memory()?.check(address, bytes as u64)?),
            Self::Pageable(pointer) if bytes > 0 => pointer.check(),
            Self::Pageable(_) => Ok(()),
        }
    }

    fn offset(self, bytes: usize) -> Self {
        match self {
            Self::Device(address) => Self::Device(address + bytes as u64),
            Self::Pageable(pointer) => Self::Pageable(pointer.offset(bytes)),
        }
    }

    fn is_pageable(self) -> bool {
        matches!(self, Self::Pageable(_))
    }
}

/// A rectangle of bytes, a plain copy being one row.
#[derive(Clone, Copy)]
struct Copy {
    dst: Place,
    src: Place,
    dst_pitch: usize,
    src_pitch: usize,
    bytes: usize,
    rows: usize,
}

impl Copy {
    fn row(dst: Place, src: Place, bytes: usize) -> Self {
        Self { dst, src, dst_pitch: bytes, src_pitch: bytes, bytes, rows: 1 }
    }

    fn is_empty(&self) -> bool {
        self.bytes == 0 || self.rows == 0
    }

    fn check(&self) -> Answer {
        self.dst.check(self.span(self.dst_pitch)?)?;
        self.src.check(self.span(self.src_pitch)?)
    }

    /// Bytes from the first to the last, gaps between rows included.
    fn span(&self, pitch: usize) -> Answer<usize> {
        let gaps = (self.rows - 1).checked_mul(pitch);
        gaps.and_then(|gaps| gaps.checked_add(self.bytes))
            .ok_or_else(|| invalid("the rectangle is larger than the address space"))
    }

    fn run(&self) -> Answer {
        for row in 0..self.rows {
            let dst = self.dst.offset(row * self.dst_pitch);
            copy_bytes(dst, self.src.offset(row * self.src_pitch), self.bytes)?;
        }
        Ok(())
    }
}

fn copy_bytes(dst: Place, src: Place, bytes: usize) -> Answer {
    match (dst, src) {
        (Place::Device(dst), Place::Device(src)) => memory()?.copy(dst, src, bytes as u64)?,
        (Place::Device(dst), Place::Pageable(src)) => {
            // SAFETY: the caller of the copy vouches for the bytes, and waits for this.
            memory()?.write(dst, unsafe { src.bytes(bytes) })?;
        }
        (Place::Pageable(dst), Place::Device(src)) => {
            // SAFETY: the caller of the copy vouches for the bytes, and waits for this.
            memory()?.read(src, unsafe { dst.bytes_mut(bytes) })?;
        }
        (Place::Pageable(dst), Place::Pageable(src)) => {
            // SAFETY: the caller of the copy vouches for both, and waits for this; `copy` allows
            // them to overlap.
            unsafe { std::ptr::copy(src.0.cast::<u8>(), dst.0.cast::<u8>(), bytes) }
        }
    }
    Ok(())
}

/// Memory that was live when the copy was handed in, and is not when the stream comes to it.
pub(super) fn gone(failure: Failure) -> Failure {
    Failure::new(CUDA_ERROR_ILLEGAL_ADDRESS, failure.text)
}

fn work(copy: Copy) -> Work {
    Work::new(move || copy.run().map_err(gone))
}

/// Copies in the null stream's order, and waits.
fn now(copy: Copy) -> Answer {
    let context = current()?;
    let null = context.queue.null().clone();
    if copy.is_empty() {
        return Ok(());
    }
    copy.check()?;
    finish(&context, &null, copy)
}

fn finish(context: &Arc<Context>, line: &Line, copy: Copy) -> Answer {
    wait(context, &[context.queue.submit(context, line, work(copy))?])
}

/// Copies in a stream's order.
fn later(copy: Copy, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
    if copy.is_empty() {
        return Ok(());
    }
    copy.check()?;
    match (copy.dst, copy.src) {
        (Place::Device(dst), Place::Pageable(src))
            if copy.rows == 1 && copy.bytes <= STAGED_BYTES =>
        {
            // SAFETY: the caller vouches for the bytes during the call, in which they are copied.
            let staged = unsafe { src.bytes(copy.bytes) }.to_vec();
            let write = move || Ok(memory()?.write(dst, &staged)?);
            let work = Work::new(move || write().map_err(gone));
            context.queue.submit(&context, stream.line(), work).map(drop)
        }
        (dst, src) if dst.is_pageable() || src.is_pageable() => {
            finish(&context, stream.line(), copy)
        }
        _ => context.queue.submit(&context, stream.line(), work(copy)).map(drop),
    }
}

pub(crate) fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Answer {
    now(Copy::row(Place::unified(dst), Place::unified(src), bytes))
}

pub(crate) fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(Place::unified(dst), Place::unified(src), bytes), stream)
}

pub(crate) fn cuMemcpyHtoD_v2(dst: CUdeviceptr, src: HostPtr, bytes: usize) -> Answer {
    now(Copy::row(Place::device(dst), Place::host(src), bytes))
}

pub(crate) fn cuMemcpyHtoDAsync_v2(
    dst: CUdeviceptr,
    src: HostPtr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(Place::device(dst), Place::host(src), bytes), stream)
}

pub(crate) fn cuMemcpyDtoH_v2(dst: HostPtr, src: CUdeviceptr, bytes: usize) -> Answer {
    now(Copy::row(Place::host(dst), Place::device(src), bytes))
}

pub(crate) fn cuMemcpyDtoHAsync_v2(
    dst: HostPtr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(Place::host(dst), Place::device(src), bytes), stream)
}

pub(crate) fn cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Answer {
    now(Copy::row(Place::device(dst), Place::device(src), bytes))
}

pub(crate) fn cuMemcpyDtoDAsync_v2(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(Copy::row(Place::device(dst), Place::device(src), bytes), stream)
}

pub(crate) fn cuMemcpy2D_v2(copy: In<Copy2D>) -> Answer {
    now(rectangle(&copy.get()?)?)
}

pub(crate) fn cuMemcpy2DUnaligned_v2(copy: In<Copy2D>) -> Answer {
    cuMemcpy2D_v2(copy)
}

pub(crate) fn cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: CUstream) -> Answer {
    later(rectangle(&copy.get()?)?, stream)
}

fn rectangle(copy: &Copy2D) -> Answer<Copy> {
    let (bytes, rows) = (copy.width_bytes, copy.height);
    let src_pitch = pitch(copy.src_pitch, copy.src_x_bytes, bytes, rows)?;
    let dst_pitch = pitch(copy.dst_pitch, copy.dst_x_bytes, bytes, rows)?;
    let src_host = HostPtr(copy.src_host.cast_mut());
    let src = side(copy.src_memory_type, src_host, copy.src_device)?;
    let dst = side(copy.dst_memory_type, HostPtr(copy.dst_host), copy.dst_device)?;
    Ok(Copy {
        src: src.offset(start(copy.src_x_bytes, copy.src_y, src_pitch)?),
        dst: dst.offset(start(copy.dst_x_bytes, copy.dst_y, dst_pitch)?),
        dst_pitch,
        src_pitch,
        bytes,
        rows,
    })
}

/// The API's memory types: 1 host, 2 device, 3 array, 4 by the address.
fn side(memory_type: i32, host: HostPtr, device: CUdeviceptr) -> Answer<Place> {
    match memory_type {
        1 => Ok(Place::host(host)),
        2 => Ok(Place::device(device)),
        4 => Ok(Place::unified(device)),
        3 => Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, "the emulator does not have arrays")),
        _ => Err(invalid(format!("{memory_type} is no memory type; there are 1 to 4"))),
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

fn start(x_bytes: usize, y: usize, pitch: usize) -> Answer<usize> {
    let start = y.checked_mul(pitch).and_then(|rows| rows.checked_add(x_bytes));
    start.ok_or_else(|| invalid("the rectangle begins outside the address space"))
}
