//! One-dimensional copies, also between devices.
#![allow(non_snake_case)]

use super::current::from_handle;
use super::memory_copy::{CopyAddress, MemoryCopy, copy_blocking, copy_on_stream};
use crate::abi::{CUcontext, CUdeviceptr, CUstream, HostPtr};
use crate::detail::DriverResult;

pub(crate) fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::unified(dst), CopyAddress::unified(src), bytes))
}

pub(crate) fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(
        MemoryCopy::row(CopyAddress::unified(dst), CopyAddress::unified(src), bytes),
        stream,
    )
}

pub(crate) fn cuMemcpyHtoD_v2(dst: CUdeviceptr, src: HostPtr, bytes: usize) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::device(dst), CopyAddress::host(src), bytes))
}

pub(crate) fn cuMemcpyHtoDAsync_v2(
    dst: CUdeviceptr,
    src: HostPtr,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(MemoryCopy::row(CopyAddress::device(dst), CopyAddress::host(src), bytes), stream)
}

pub(crate) fn cuMemcpyDtoH_v2(dst: HostPtr, src: CUdeviceptr, bytes: usize) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::host(dst), CopyAddress::device(src), bytes))
}

pub(crate) fn cuMemcpyDtoHAsync_v2(
    dst: HostPtr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(MemoryCopy::row(CopyAddress::host(dst), CopyAddress::device(src), bytes), stream)
}

pub(crate) fn cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> DriverResult {
    copy_blocking(MemoryCopy::row(CopyAddress::device(dst), CopyAddress::device(src), bytes))
}

pub(crate) fn cuMemcpyDtoDAsync_v2(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    copy_on_stream(
        MemoryCopy::row(CopyAddress::device(dst), CopyAddress::device(src), bytes),
        stream,
    )
}

/// Waits for all tasks of both contexts, then copies. Peer access is not required.
pub(crate) fn cuMemcpyPeer(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    bytes: usize,
) -> DriverResult {
    wait_for(&[dst_context, src_context])?;
    copy_blocking(MemoryCopy::row(CopyAddress::device(dst), CopyAddress::device(src), bytes))
}

pub(crate) fn cuMemcpyPeerAsync(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> DriverResult {
    from_handle(dst_context)?.check()?;
    from_handle(src_context)?.check()?;
    copy_on_stream(
        MemoryCopy::row(CopyAddress::device(dst), CopyAddress::device(src), bytes),
        stream,
    )
}

/// Waits for all tasks of contexts.
pub(super) fn wait_for(contexts: &[CUcontext]) -> DriverResult {
    for context in contexts {
        let context = from_handle(*context)?;
        context.streams.wait_all();
        context.check()?;
    }
    Ok(())
}
