//! Memory copies: every copy of the API is one of a box of bytes from one address to another.
//!
//! A host pointer to memory that the device can access (pinned, managed) counts as device memory. A
//! copy from or to other host memory has finished, or at least has read its source, when the call
//! returns.

use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{MemoryKind, find};
use super::current::{Context, current};
use super::faults::freed_meanwhile;
use super::gpu::{Gpu, memory};
use super::operation::{NodeType, Operation};
use super::pinned::PinnedSource;
use super::queue::Task;
use super::{capture, happens_before, invalid_value, pageable, stream};
use crate::abi::{CUdeviceptr, CUstream, HostPtr};
pub(super) use crate::constants::memory_type::{ARRAY, DEVICE, HOST, UNIFIED};
use crate::detail::DriverResult;
use crate::structs::Copy3D;

/// A copy of up to this many bytes from pageable memory is staged, as in NVIDIA's driver; a larger
/// one blocks.
const STAGED_BYTES: usize = 64 * 1024;

/// The source or destination address of a copy.
#[derive(Clone, Copy)]
pub(super) enum CopyAddress {
    Device(u64),
    /// Host memory that the device cannot access.
    Pageable(HostPtr),
}

impl CopyAddress {
    pub(super) fn device(address: CUdeviceptr) -> Self {
        Self::Device(address)
    }

    pub(super) fn host(pointer: HostPtr) -> Self {
        let is_device_memory =
            memory().is_ok_and(|memory| memory.find(pointer.address()).is_some());
        if is_device_memory { Self::Device(pointer.address()) } else { Self::Pageable(pointer) }
    }

    /// The memory at an address of unified addressing, for copies without memory types.
    pub(super) fn unified(address: CUdeviceptr) -> Self {
        Self::host(HostPtr(std::ptr::with_exposed_provenance_mut(address as usize)))
    }

    fn check(self, bytes: usize) -> DriverResult {
        match self {
            Self::Device(address) => Ok(memory()?.check(address, bytes as u64)?),
            Self::Pageable(pointer) if bytes > 0 => pointer.check(),
            Self::Pageable(_) => Ok(()),
        }
    }

    pub(super) fn offset(self, bytes: usize) -> Self {
        match self {
            Self::Device(address) => Self::Device(address.wrapping_add(bytes as u64)),
            Self::Pageable(pointer) => Self::Pageable(pointer.offset(bytes)),
        }
    }

    fn is_pageable(self) -> bool {
        matches!(self, Self::Pageable(_))
    }

    /// Whether the program has made all copies of this memory synchronous.
    fn is_synchronous(self) -> bool {
        matches!(self, Self::Device(at) if find(at).is_some_and(|allocation| allocation.sync_memops == Some(true)))
    }
}

/// The source or destination of a copy, with the strides from row to row and from layer to layer in
/// bytes.
#[derive(Clone, Copy)]
pub(super) struct CopyEnd {
    pub(super) address: CopyAddress,
    pub(super) pitch: usize,
    pub(super) layer: usize,
}

impl CopyEnd {
    fn at(&self, row: usize, layer: usize) -> CopyAddress {
        self.address.offset(layer * self.layer + row * self.pitch)
    }
}

/// A copy of rows of bytes in layers. A one-dimensional copy has one row.
#[derive(Clone, Copy)]
pub(super) struct MemoryCopy {
    pub(super) dst: CopyEnd,
    pub(super) src: CopyEnd,
    pub(super) bytes: usize,
    pub(super) rows: usize,
    pub(super) layers: usize,
    /// The parameters of the API that the copy was made from, if it was.
    pub(super) described: Option<Copy3D>,
}

impl MemoryCopy {
    pub(super) fn row(dst: CopyAddress, src: CopyAddress, bytes: usize) -> Self {
        let end = |address| CopyEnd { address, pitch: bytes, layer: bytes };
        Self { dst: end(dst), src: end(src), bytes, rows: 1, layers: 1, described: None }
    }

    /// Whether NVIDIA's driver may return from the synchronous call before the copy has finished:
    /// between device memory, and from pageable memory once the source is read. The emulator always
    /// finishes the copy first, but a program must not rely on that.
    fn lets_host_run_on(&self) -> bool {
        let on_device = |address| match address {
            CopyAddress::Device(at) => find(at).is_some_and(|allocation| {
                !allocation.kind.is_host() && allocation.kind != MemoryKind::Managed
            }),
            CopyAddress::Pageable(_) => false,
        };
        on_device(self.dst.address)
            && (on_device(self.src.address) || self.src.address.is_pageable())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 || self.rows == 0 || self.layers == 0
    }

    pub(super) fn check(&self) -> DriverResult {
        if self.is_empty() {
            return Ok(());
        }
        self.dst.address.check(self.span(&self.dst)?)?;
        self.src.address.check(self.span(&self.src)?)
    }

    /// Bytes from the first to the last, including gaps.
    fn span(&self, end: &CopyEnd) -> DriverResult<usize> {
        let rows = (self.rows - 1).checked_mul(end.pitch);
        let layers = (self.layers - 1).checked_mul(end.layer);
        rows.zip(layers)
            .and_then(|(rows, layers)| rows.checked_add(layers)?.checked_add(self.bytes))
            .ok_or_else(|| invalid_value("the copy is larger than the address space"))
    }

    /// A description for reports.
    fn description(&self) -> String {
        let name = |address| match address {
            CopyAddress::Device(address) => format!("{address:#x}"),
            CopyAddress::Pageable(_) => "the host's memory".to_owned(),
        };
        let (from, to) = (name(self.src.address), name(self.dst.address));
        let bytes = match (self.rows, self.layers) {
            (1, 1) => format!("{} bytes", self.bytes),
            (rows, 1) => format!("{rows} rows of {} bytes", self.bytes),
            (rows, layers) => format!("{layers} layers of {rows} rows of {} bytes", self.bytes),
        };
        format!("copy of {bytes} from {from} to {to}")
    }

    /// The bytes of one end that kernels and other copies can access, too.
    pub(super) fn area(&self, end: &CopyEnd) -> Option<Area> {
        let CopyAddress::Device(start) = end.address else { return None };
        Some(Area {
            start,
            bytes: self.bytes as u64,
            rows: self.rows as u64,
            pitch: end.pitch as u64,
            layers: self.layers as u64,
            layer: end.layer as u64,
        })
    }

    /// Reports the beginning of the copy to the race check.
    fn begin(&self) -> DriverResult {
        if !happens_before::is_tracked() {
            return Ok(());
        }
        let written = self.area(&self.dst).map(|area| (area, true));
        let read = self.area(&self.src).map(|area| (area, false));
        happens_before::begin_access(self.description(), written.into_iter().chain(read).collect())
    }

    fn copy(&self) -> DriverResult {
        if self.is_empty() {
            return Ok(());
        }
        self.begin()?;
        for layer in 0..self.layers {
            for row in 0..self.rows {
                copy_bytes(self.dst.at(row, layer), self.src.at(row, layer), self.bytes)
                    .map_err(freed_meanwhile)?;
            }
        }
        Ok(())
    }
}

impl Operation for MemoryCopy {
    fn node_type(&self) -> NodeType {
        NodeType::Memcpy
    }

    fn name(&self) -> String {
        self.description()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        self.copy()
    }
}

fn copy_bytes(dst: CopyAddress, src: CopyAddress, bytes: usize) -> DriverResult {
    match (dst, src) {
        (CopyAddress::Device(dst), CopyAddress::Device(src)) => {
            memory()?.copy(dst, src, bytes as u64)?
        }
        (CopyAddress::Device(dst), CopyAddress::Pageable(src)) => {
            // SAFETY: the caller of the copy guarantees that the bytes are valid, and waits for
            // this.
            memory()?.write(dst, unsafe { src.bytes(bytes) })?;
        }
        (CopyAddress::Pageable(dst), CopyAddress::Device(src)) => {
            // SAFETY: the caller of the copy guarantees that the bytes are valid, and waits for
            // this.
            memory()?.read(src, unsafe { dst.bytes_mut(bytes) })?;
        }
        (CopyAddress::Pageable(dst), CopyAddress::Pageable(src)) => {
            // SAFETY: the caller of the copy guarantees that both ranges are valid, and waits for
            // this; `copy` allows them to overlap.
            unsafe { std::ptr::copy(src.0.cast::<u8>(), dst.0.cast::<u8>(), bytes) }
        }
    }
    Ok(())
}

/// Enqueues a copy on the null stream, and waits for it.
pub(super) fn copy_blocking(copy: MemoryCopy) -> DriverResult {
    let context = current()?;
    capture::check_null_stream(&context)?;
    if copy.is_empty() {
        return Ok(());
    }
    copy.check()?;
    let point = Arc::new(copy).enqueue(&context, context.streams.null())?;
    if copy.lets_host_run_on() {
        return context.wait_without_ordering(&point);
    }
    context.wait(&[point])
}

/// Enqueues a copy on a stream.
pub(super) fn copy_on_stream(copy: MemoryCopy, stream: CUstream) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    copy.check()?;
    if stream.is_capturing() {
        return stream::enqueue(&context, &stream, Arc::new(copy));
    }
    capture::check_implicit(&context, &stream)?;
    if copy.is_empty() {
        return Ok(());
    }
    let waits = copy.dst.address.is_pageable() || copy.src.address.is_pageable();
    if waits {
        pageable::warn(|| copy.description());
    }
    if waits || copy.dst.address.is_synchronous() || copy.src.address.is_synchronous() {
        return copy_pageable(copy, &context, &stream);
    }
    match PinnedSource::of(copy.area(&copy.src), || copy.description()) {
        Some(source) => {
            let task = Task::new(move || source.watch().and_then(|()| copy.copy()));
            context.enqueue(stream.queue(), task).map(drop)
        }
        None => stream::enqueue(&context, &stream, Arc::new(copy)),
    }
}

/// A copy from or to pageable memory, which the program may change or use as soon as the call
/// returns.
fn copy_pageable(
    copy: MemoryCopy,
    context: &Arc<Context>,
    stream: &stream::Stream,
) -> DriverResult {
    match (copy.dst.address, copy.src.address) {
        (CopyAddress::Device(dst), CopyAddress::Pageable(src))
            if copy.rows * copy.layers == 1 && copy.bytes <= STAGED_BYTES =>
        {
            // SAFETY: the caller guarantees that the bytes are valid during the call, in which they
            // are copied.
            let staged = unsafe { src.bytes(copy.bytes) }.to_vec();
            let write = move || Ok(memory()?.write(dst, &staged)?);
            let task =
                Task::new(move || copy.begin().and_then(|()| write().map_err(freed_meanwhile)));
            context.enqueue(stream.queue(), task).map(drop)
        }
        _ => {
            let point = Arc::new(copy).enqueue(context, stream.queue())?;
            match copy.lets_host_run_on() && copy.src.address.is_pageable() {
                true => context.wait_without_ordering(&point),
                false => context.wait(&[point]),
            }
        }
    }
}
