//! Filling memory with a value.
#![allow(non_snake_case)]

use std::sync::Arc;

use ::emulator::race::Area;

use super::allocations::{Kind, find};
use super::current::current;
use super::faults::gone;
use super::gpu::{Gpu, memory};
use super::operation::Operation;
use super::{capture, invalid, order, stream};
use crate::abi::{CUdeviceptr, CUstream};
use crate::detail::Answer;
use crate::structs::MemsetNodeParams;

/// A value of 8, 16 or 32 bits.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bits8(u8),
    Bits16(u16),
    Bits32(u32),
}

impl Value {
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
pub(super) struct Fill {
    dst: u64,
    value: Value,
    count: usize,
    pitch: usize,
    rows: usize,
}

impl Fill {
    fn row(dst: u64, value: Value, count: usize) -> Self {
        Self { dst, value, count, pitch: 0, rows: 1 }
    }

    fn is_empty(&self) -> bool {
        self.count == 0 || self.rows == 0
    }

    fn check(&self) -> Answer {
        let too_large = || invalid("the memory to fill is larger than the address space");
        let row = self.count.checked_mul(self.value.bytes()).ok_or_else(too_large)?;
        if self.rows > 1 && self.pitch < row {
            return Err(invalid(format!("pitch {} is less than a row of {row}", self.pitch)));
        }
        if !self.dst.is_multiple_of(self.value.bytes() as u64) {
            return Err(invalid(format!("{:#x} is misaligned for the value", self.dst)));
        }
        if self.rows > 1 && !self.pitch.is_multiple_of(self.value.bytes()) {
            return Err(invalid(format!("pitch {} is misaligned for the value", self.pitch)));
        }
        let gaps = self.pitch.checked_mul(self.rows - 1).ok_or_else(too_large)?;
        let span = gaps.checked_add(row).ok_or_else(too_large)?;
        Ok(memory()?.check(self.dst, span as u64)?)
    }

    fn fill(&self) -> Answer {
        if self.is_empty() {
            return Ok(());
        }
        let memory = memory()?;
        order::begin(self.words(), vec![(self.area(), true)])?;
        for row in 0..self.rows {
            let (dst, count) = (self.dst + (row * self.pitch) as u64, self.count as u64);
            match self.value {
                Value::Bits8(value) => memory.fill8(dst, value, count),
                Value::Bits16(value) => memory.fill16(dst, value, count),
                Value::Bits32(value) => memory.fill32(dst, value, count),
            }
            .map_err(|error| gone(error.into()))?;
        }
        Ok(())
    }

    /// In words, for reports.
    fn words(&self) -> String {
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

    /// As a graph's node describes it.
    pub(super) fn describe(&self) -> MemsetNodeParams {
        let (value, element_bytes) = match self.value {
            Value::Bits8(value) => (value.into(), 1),
            Value::Bits16(value) => (value.into(), 2),
            Value::Bits32(value) => (value, 4),
        };
        let (width, height) = (self.count, self.rows);
        MemsetNodeParams { dst: self.dst, pitch: self.pitch, value, element_bytes, width, height }
    }

    /// What a graph's node describes, checked.
    pub(super) fn from_node(params: &MemsetNodeParams) -> Answer<Self> {
        let value = match params.element_bytes {
            1 => Value::Bits8(params.value as u8),
            2 => Value::Bits16(params.value as u16),
            4 => Value::Bits32(params.value),
            odd => {
                return Err(invalid(format!("an element of {odd} bytes; it may have 1, 2 or 4")));
            }
        };
        let MemsetNodeParams { dst, pitch, width: count, height: rows, .. } = *params;
        let fill = Self { dst, value, count, pitch, rows };
        if fill.is_empty() {
            return Err(invalid("a node that fills nothing"));
        }
        fill.check()?;
        Ok(fill)
    }
}

impl Operation for Fill {
    fn node_type(&self) -> i32 {
        2
    }

    fn name(&self) -> String {
        "memset".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        self.fill()
    }
}

/// The host waits here only where it would for a GPU: for memory that it can reach itself. Elsewhere a
/// program must not build on it.
fn now(fill: Fill) -> Answer {
    let context = current()?;
    capture::check_null_stream(&context)?;
    if fill.is_empty() {
        return Ok(());
    }
    fill.check()?;
    let point = Arc::new(fill).submit(&context, context.queue.null())?;
    if find(fill.dst).is_some_and(|block| block.kind.is_host() || block.kind == Kind::Managed) {
        return context.wait(&[point]);
    }
    context.wait_unseen(&point)
}

fn later(fill: Fill, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
    if fill.is_empty() {
        return Ok(());
    }
    fill.check()?;
    stream::enqueue(&context, &stream, Arc::new(fill))
}

pub(crate) fn cuMemsetD8_v2(dst: CUdeviceptr, value: u8, count: usize) -> Answer {
    now(Fill::row(dst, Value::Bits8(value), count))
}

pub(crate) fn cuMemsetD16_v2(dst: CUdeviceptr, value: u16, count: usize) -> Answer {
    now(Fill::row(dst, Value::Bits16(value), count))
}

pub(crate) fn cuMemsetD32_v2(dst: CUdeviceptr, value: u32, count: usize) -> Answer {
    now(Fill::row(dst, Value::Bits32(value), count))
}

pub(crate) fn cuMemsetD8Async(
    dst: CUdeviceptr,
    value: u8,
    count: usize,
    stream: CUstream,
) -> Answer {
    later(Fill::row(dst, Value::Bits8(value), count), stream)
}

pub(crate) fn cuMemsetD16Async(
    dst: CUdeviceptr,
    value: u16,
    count: usize,
    stream: CUstream,
) -> Answer {
    later(Fill::row(dst, Value::Bits16(value), count), stream)
}

pub(crate) fn cuMemsetD32Async(
    dst: CUdeviceptr,
    value: u32,
    count: usize,
    stream: CUstream,
) -> Answer {
    later(Fill::row(dst, Value::Bits32(value), count), stream)
}

pub(crate) fn cuMemsetD2D8_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
) -> Answer {
    now(Fill { dst, value: Value::Bits8(value), count: width, pitch, rows: height })
}

pub(crate) fn cuMemsetD2D16_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
) -> Answer {
    now(Fill { dst, value: Value::Bits16(value), count: width, pitch, rows: height })
}

pub(crate) fn cuMemsetD2D32_v2(
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
) -> Answer {
    now(Fill { dst, value: Value::Bits32(value), count: width, pitch, rows: height })
}

pub(crate) fn cuMemsetD2D8Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    let value = Value::Bits8(value);
    later(Fill { dst, value, count: width, pitch, rows: height }, stream)
}

pub(crate) fn cuMemsetD2D16Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    let value = Value::Bits16(value);
    later(Fill { dst, value, count: width, pitch, rows: height }, stream)
}

pub(crate) fn cuMemsetD2D32Async(
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    let value = Value::Bits32(value);
    later(Fill { dst, value, count: width, pitch, rows: height }, stream)
}
