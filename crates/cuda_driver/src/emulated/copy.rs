//! Copies of one row of bytes, and between devices.
#![allow(non_snake_case)]

use super::current::named;
use super::transfer::{Copy, Place, later, now};
use crate::abi::{CUcontext, CUdeviceptr, CUstream, HostPtr};
use crate::detail::Answer;

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

/// Waits for what both contexts have to do, then copies; peer access is not needed for it.
pub(crate) fn cuMemcpyPeer(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    bytes: usize,
) -> Answer {
    wait_for(&[dst_context, src_context])?;
    now(Copy::row(Place::device(dst), Place::device(src), bytes))
}

pub(crate) fn cuMemcpyPeerAsync(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    named(dst_context)?.check()?;
    named(src_context)?.check()?;
    later(Copy::row(Place::device(dst), Place::device(src), bytes), stream)
}

/// Waits for all work of contexts.
pub(super) fn wait_for(contexts: &[CUcontext]) -> Answer {
    for context in contexts {
        let context = named(*context)?;
        context.queue.wait_all();
        context.check()?;
    }
    Ok(())
}
