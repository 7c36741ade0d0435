//! What a copy is, wherever it comes from: a box of bytes between two places.
//!
//! A host pointer that the device knows (pinned, managed) counts as its memory; a copy from or to
//! any other host memory is over, or has read its source, when the call returns.

use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{Kind, find};
use super::current::{Context, current};
use super::faults::gone;
use super::gpu::{Gpu, memory};
use super::operation::Operation;
use super::pinned::PinnedSource;
use super::queue::Work;
use super::{capture, invalid, order, pageable, stream};
use crate::abi::{CUdeviceptr, CUstream, HostPtr};
use crate::detail::Answer;
use crate::structs::Copy3D;

/// A copy from pageable memory takes a private copy of the source up to this size, as NVIDIA's
/// driver does; a larger one blocks.
const STAGED_BYTES: usize = 64 * 1024;

/// The API's numbers of memory types.
pub(super) const HOST: i32 = 1;
pub(super) const DEVICE: i32 = 2;
pub(super) const ARRAY: i32 = 3;
pub(super) const UNIFIED: i32 = 4;

/// One end of a copy.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Device(u64),
    /// Host memory that the device does not know.
    Pageable(HostPtr),
}

impl Place {
    pub(super) fn device(address: CUdeviceptr) -> Self {
        Self::Device(address)
    }

    pub(super) fn host(pointer: HostPtr) -> Self {
        let known = memory().is_ok_and(|memory| memory.find(pointer.address()).is_some());
        if known { Self::Device(pointer.address()) } else { Self::Pageable(pointer) }
    }

    /// By the address alone, for copies that do not say.
    pub(super) fn unified(address: CUdeviceptr) -> Self {
        Self::host(HostPtr(std::ptr::with_exposed_provenance_mut(address as usize)))
    }

    fn check(self, bytes: usize) -> Answer {
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

    /// Whether the program asked that copies of this memory always wait.
    fn is_synchronous(self) -> bool {
        matches!(self, Self::Device(at) if find(at).is_some_and(|block| block.sync_memops == Some(true)))
    }
}

/// One end of a copy with the steps from row to row and from layer to layer.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) place: Place,
    pub(super) pitch: usize,
    pub(super) layer: usize,
}

impl End {
    fn at(&self, row: usize, layer: usize) -> Place {
        self.place.offset(layer * self.layer + row * self.pitch)
    }
}

/// Rows of bytes in layers, a plain copy being one row.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub(super) dst: End,
    pub(super) src: End,
    pub(super) bytes: usize,
    pub(super) rows: usize,
    pub(super) layers: usize,
    /// As a graph's node describes it, where it was made from such a description.
    pub(super) described: Option<Copy3D>,
}

impl Copy {
    pub(super) fn row(dst: Place, src: Place, bytes: usize) -> Self {
        let end = |place| End { place, pitch: bytes, layer: bytes };
        Self { dst: end(dst), src: end(src), bytes, rows: 1, layers: 1, described: None }
    }

    /// Whether a GPU's driver may return to the host before the copy is done, though the call is not an
    /// asynchronous one: between places on devices, and from pageable memory, once the source is read. It
    /// is done when this one returns, but a program must not build on it.
    fn lets_host_run_on(&self) -> bool {
        let on_device = |place| match place {
            Place::Device(at) => {
                find(at).is_some_and(|block| !block.kind.is_host() && block.kind != Kind::Managed)
            }
            Place::Pageable(_) => false,
        };
        on_device(self.dst.place) && (on_device(self.src.place) || self.src.place.is_pageable())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 || self.rows == 0 || self.layers == 0
    }

    pub(super) fn check(&self) -> Answer {
        if self.is_empty() {
            return Ok(());
        }
        self.dst.place.check(self.span(&self.dst)?)?;
        self.src.place.check(self.span(&self.src)?)
    }

    /// Bytes from the first to the last, gaps included.
    fn span(&self, end: &End) -> Answer<usize> {
        let rows = (self.rows - 1).checked_mul(end.pitch);
        let layers = (self.layers - 1).checked_mul(end.layer);
        rows.zip(layers)
            .and_then(|(rows, layers)| rows.checked_add(layers)?.checked_add(self.bytes))
            .ok_or_else(|| invalid("the copy is larger than the address space"))
    }

    /// In words, for reports.
    fn words(&self) -> String {
        let place = |place| match place {
            Place::Device(address) => format!("{address:#x}"),
            Place::Pageable(_) => "the host's memory".to_owned(),
        };
        let (from, to) = (place(self.src.place), place(self.dst.place));
        let bytes = match (self.rows, self.layers) {
            (1, 1) => format!("{} bytes", self.bytes),
            (rows, 1) => format!("{rows} rows of {} bytes", self.bytes),
            (rows, layers) => format!("{layers} layers of {rows} rows of {} bytes", self.bytes),
        };
        format!("copy of {bytes} from {from} to {to}")
    }

    /// The bytes of one end that kernels and other copies may touch too.
    pub(super) fn area(&self, end: &End) -> Option<Area> {
        let Place::Device(start) = end.place else { return None };
        Some(Area {
            start,
            bytes: self.bytes as u64,
            rows: self.rows as u64,
            pitch: end.pitch as u64,
            layers: self.layers as u64,
            layer: end.layer as u64,
        })
    }

    /// Tells the race check that the copy begins.
    fn begin(&self) -> Answer {
        if !order::is_kept() {
            return Ok(());
        }
        let written = self.area(&self.dst).map(|area| (area, true));
        let read = self.area(&self.src).map(|area| (area, false));
        order::begin(self.words(), written.into_iter().chain(read).collect())
    }

    fn copy(&self) -> Answer {
        if self.is_empty() {
            return Ok(());
        }
        self.begin()?;
        for layer in 0..self.layers {
            for row in 0..self.rows {
                copy_bytes(self.dst.at(row, layer), self.src.at(row, layer), self.bytes)
                    .map_err(gone)?;
            }
        }
        Ok(())
    }
}

impl Operation for Copy {
    fn node_type(&self) -> i32 {
        1
    }

    fn name(&self) -> String {
        self.words()
    }

    fn run(&self, _: &Gpu) -> Answer {
        self.copy()
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

/// Copies in the null stream's order, and waits.
pub(super) fn now(copy: Copy) -> Answer {
    let context = current()?;
    capture::check_null_stream(&context)?;
    if copy.is_empty() {
        return Ok(());
    }
    copy.check()?;
    let point = Arc::new(copy).submit(&context, context.queue.null())?;
    if copy.lets_host_run_on() {
        return context.wait_unseen(&point);
    }
    context.wait(&[point])
}

/// Copies in a stream's order.
pub(super) fn later(copy: Copy, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
    copy.check()?;
    if stream.is_capturing() {
        return stream::enqueue(&context, &stream, Arc::new(copy));
    }
    capture::check_implicit(&context, &stream)?;
    if copy.is_empty() {
        return Ok(());
    }
    let waits = copy.dst.place.is_pageable() || copy.src.place.is_pageable();
    if waits {
        pageable::warn(|| copy.words());
    }
    if waits || copy.dst.place.is_synchronous() || copy.src.place.is_synchronous() {
        return staged(copy, &context, &stream);
    }
    match PinnedSource::of(copy.area(&copy.src), || copy.words()) {
        Some(source) => {
            let work = Work::new(move || source.watch().and_then(|()| copy.copy()));
            context.submit(stream.line(), work).map(drop)
        }
        None => stream::enqueue(&context, &stream, Arc::new(copy)),
    }
}

/// A copy whose source may change, or whose target is used, once the call has returned.
fn staged(copy: Copy, context: &Arc<Context>, stream: &stream::Stream) -> Answer {
    match (copy.dst.place, copy.src.place) {
        (Place::Device(dst), Place::Pageable(src))
            if copy.rows * copy.layers == 1 && copy.bytes <= STAGED_BYTES =>
        {
            // SAFETY: the caller vouches for the bytes during the call, in which they are copied.
            let staged = unsafe { src.bytes(copy.bytes) }.to_vec();
            let write = move || Ok(memory()?.write(dst, &staged)?);
            let work = Work::new(move || copy.begin().and_then(|()| write().map_err(gone)));
            context.submit(stream.line(), work).map(drop)
        }
        _ => {
            let point = Arc::new(copy).submit(context, stream.line())?;
            match copy.lets_host_run_on() && copy.src.place.is_pageable() {
                true => context.wait_unseen(&point),
                false => context.wait(&[point]),
            }
        }
    }
}
