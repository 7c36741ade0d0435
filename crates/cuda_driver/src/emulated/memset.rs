//! Memset: filling memory with a value.
#![allow(non_snake_case)]

use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{MemoryKind, find};
use super::current::current;
use super::faults::freed_meanwhile;
use super::gpu::{Gpu, memory};
use super::operation::{NodeType, Operation};
use super::{capture, happens_before, invalid_value, stream};
use crate::abi::{CUdeviceptr, CUstream};
use crate::detail::DriverResult;
use crate::structs::MemsetNodeParams;

/// A value of 8, 16 or 32 bits.
#[derive(Clone, Copy)]
pub(super) enum MemsetValue {
    Bits8(u8),
    Bits16(u16),
    Bits32(u32),
}

impl MemsetValue {
    fn bytes(self) -> usize {
        match self {
            Self::Bits8(_) => 1,
            Self::Bits16(_) => 2,
            Self::Bits32(_) => 4,
        }
    }
}

/// `rows` rows of `count` values, `pitch` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Memset {
    dst: u64,
    value: MemsetValue,
    count: usize,
    pitch: usize,
    rows: usize,
}

impl Memset {
    fn row(dst: u64, value: MemsetValue, count: usize) -> Self {
        Self { dst, value, count, pitch: 0, rows: 1 }
    }

    fn is_empty(&self) -> bool {
        self.count == 0 || self.rows == 0
    }

    fn check(&self) -> DriverResult {
        let too_large = || invalid_value("the memory to fill is larger than the address space");
        let row = self.count.checked_mul(self.value.bytes()).ok_or_else(too_large)?;
        if self.rows > 1 && self.pitch < row {
            return Err(invalid_value(format!("pitch {} is less than a row of {row}", self.pitch)));
        }
        if !self.dst.is_multiple_of(self.value.bytes() as u64) {
            return Err(invalid_value(format!("{:#x} is misaligned for the value", self.dst)));
        }
        if self.rows > 1 && !self.pitch.is_multiple_of(self.value.bytes()) {
            return Err(invalid_value(format!("pitch {} is misaligned for the value", self.pitch)));
        }
        let gaps = self.pitch.checked_mul(self.rows - 1).ok_or_else(too_large)?;
        let span = gaps.checked_add(row).ok_or_else(too_large)?;
        Ok(memory()?.check(self.dst, span as u64)?)
    }

    fn memset(&self) -> DriverResult {
        if self.is_empty() {
            return Ok(());
        }
        let memory = memory()?;
        happens_before::begin_access(self.description(), vec![(self.area(), true)])?;
        for row in 0..self.rows {
            let (dst, count) = (self.dst + (row * self.pitch) as u64, self.count as u64);
            match self.value {
                MemsetValue::Bits8(value) => memory.fill8(dst, value, count),
                MemsetValue::Bits16(value) => memory.fill16(dst, value, count),
                MemsetValue::Bits32(value) => memory.fill32(dst, value, count),
            }
            .map_err(|error| freed_meanwhile(error.into()))?;
        }
        Ok(())
    }

    /// A description for reports.
    fn description(&self) -> String {
        let bytes = self.count * self.value.bytes() * self.rows;
        format!("memset of {bytes} bytes at {:#x}", self.dst)
    }

    fn area(&self) -> Area {
        Area {
            bytes: (self.count * self.value.bytes()) as u64,
            rows: self.rows as u64,
            pitch: self.pitch as u64,
            ..Area::row(self.dst, 0)
        }
    }

    /// The parameters of a node with this operation.
    pub(super) fn describe(&self) -> MemsetNodeParams {
        let (value, element_bytes) = match self.value {
            MemsetValue::Bits8(value) => (value.into(), 1),
            MemsetValue::Bits16(value) => (value.into(), 2),
            MemsetValue::Bits32(value) => (value, 4),
        };
        let (width, height) = (self.count, self.rows);
        MemsetNodeParams { dst: self.dst, pitch: self.pitch, value, element_bytes, width, height }
    }

    /// Reads and checks the parameters of a node.
    pub(super) fn from_node(params: &MemsetNodeParams) -> DriverResult<Self> {
        let value = match params.element_bytes {
            1 => MemsetValue::Bits8(params.value as u8),
            2 => MemsetValue::Bits16(params.value as u16),
            4 => MemsetValue::Bits32(params.value),
            odd => {
                return Err(invalid_value(format!(
                    "an element of {odd} bytes; it may have 1, 2 or 4"
                )));
            }
        };
        let MemsetNodeParams { dst, pitch, width: count, height: rows, .. } = *params;
        let memset = Self { dst, value, count, pitch, rows };
        if memset.is_empty() {
            return Err(invalid_value("a memset node must not be empty"));
        }
        memset.check()?;
        Ok(memset)
    }
}

impl Operation for Memset {
    fn node_type(&self) -> NodeType {
        NodeType::Memset
    }

    fn name(&self) -> String {
        "memset".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        self.memset()
    }
}

/// Executes a memset and waits for it. A GPU makes the host wait only for memory that the host can
/// access; for other memory the program must not rely on the wait.
fn memset_blocking(memset: Memset) -> DriverResult {
    let context = current()?;
    capture::check_null_stream(&context)?;
    if memset.is_empty() {
        return Ok(());
    }
    memset.check()?;
    let point = Arc::new(memset).enqueue(&context, context.streams.null())?;
    if find(memset.dst).is_some_and(|allocation| {
        allocation.kind.is_host() || allocation.kind == MemoryKind::Managed
    }) {
        return context.wait(&[point]);
    }
    context.wait_without_ordering(&point)
}

fn memset_on_stream(memset: Memset, stream: CUstream) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    if memset.is_empty() {
        return Ok(());
    }
    memset.check()?;
    stream::enqueue(&context, &stream, Arc::new(memset))
}

pub(crate) fn cuMemsetD8_v2(dst: CUdeviceptr, value: u8, count: usize) -> DriverResult {
    memset_blocking(Memset::row(dst, MemsetValue::Bits8(value), count))
}

pub(crate) fn cuMemsetD16_v2(dst: CUdeviceptr, value: u16, count: usize) -> DriverResult {
    memset_blocking(Memset::row(dst, MemsetValue::Bits16(value), count))
}

pub(crate) fn cuMemsetD32_v2(dst: CUdeviceptr, value: u32, count: usize) -> DriverResult {
    memset_blocking(Memset::row(dst, MemsetValue::Bits32(value), count))
}

pub(crate) fn cuMemsetD8Async(
    dst: CUdeviceptr,
    value: u8,
    count: usize,
    stream: CUstream,
) -> DriverResult {
    memset_on_stream(Memset::row(dst, MemsetValue::Bits8(value), count), stream)
}

pub(crate) fn cuMemsetD16Async(
    dst: CUdeviceptr,
    value: u16,
    count: usize,
    stream: CUstream,
) -> DriverResult {
    memset_on_stream(Memset::row(dst, MemsetValue::Bits16(value), count), stream)
}

pub(crate) fn cuMemsetD32Async(
    dst: CUdeviceptr,
    value: u32,
    count: usize,
    stream: CUstream,
) -> DriverResult {
    memset_on_stream(Memset::row(dst, MemsetValue::Bits32(value), count), stream)
}

pub(crate) fn cuMemsetD2D8_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
) -> DriverResult {
    memset_blocking(Memset {
        dst,
        value: MemsetValue::Bits8(value),
        count: width,
        pitch,
        rows: height,
    })
}

pub(crate) fn cuMemsetD2D16_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
) -> DriverResult {
    memset_blocking(Memset {
        dst,
        value: MemsetValue::Bits16(value),
        count: width,
        pitch,
        rows: height,
    })
}

pub(crate) fn cuMemsetD2D32_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
) -> DriverResult {
    memset_blocking(Memset {
        dst,
        value: MemsetValue::Bits32(value),
        count: width,
        pitch,
        rows: height,
    })
}

pub(crate) fn cuMemsetD2D8Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: CUstream,
) -> DriverResult {
    let value = MemsetValue::Bits8(value);
    memset_on_stream(Memset { dst, value, count: width, pitch, rows: height }, stream)
}

pub(crate) fn cuMemsetD2D16Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
    stream: CUstream,
) -> DriverResult {
    let value = MemsetValue::Bits16(value);
    memset_on_stream(Memset { dst, value, count: width, pitch, rows: height }, stream)
}

pub(crate) fn cuMemsetD2D32Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
    stream: CUstream,
) -> DriverResult {
    let value = MemsetValue::Bits32(value);
    memset_on_stream(Memset { dst, value, count: width, pitch, rows: height }, stream)
}
