//! Waits and writes of a stream: single words in memory, by which streams, kernels and the host
//! tell each other how far they are.
#![allow(non_snake_case)]

use std::sync::Arc;
use std::time::Duration;

use super::faults::gone;
use super::gpu::{Gpu, memory};
use super::operation::Operation;
use super::{check_flags, invalid, order, stream};
use crate::abi::{CUdeviceptr, CUstream, In};
use crate::detail::Answer;
use crate::structs::StreamMemOp;

const WAIT32: i32 = 1;
const WRITE32: i32 = 2;
const FLUSH: i32 = 3;
const WAIT64: i32 = 4;
const WRITE64: i32 = 5;
const FENCE: i32 = 6;

/// How a wait compares: at least, equal, any bit, not all bits.
const COMPARISONS: u32 = 3;
/// Make writes of other devices visible afterwards: they are.
const FLUSH_AFTER: u32 = 1 << 30;
/// What a batch may hold at once.
const MOST: u32 = 255;
/// How long a waiting stream sleeps between two looks.
const PAUSE: Duration = Duration::from_micros(20);

/// Waits and writes, one after the other.
pub(super) struct MemOps(pub(super) Vec<StreamMemOp>);

impl MemOps {
    pub(super) fn new(ops: Vec<StreamMemOp>) -> Answer<Self> {
        ops.iter().try_for_each(check)?;
        Ok(Self(ops))
    }

    /// The program's list, checked.
    pub(super) fn read(count: u32, ops: In<StreamMemOp>, flags: u32) -> Answer<Self> {
        check_flags(flags, 0)?;
        if count == 0 || count > MOST {
            return Err(invalid(format!("{count} operations; there may be 1 to {MOST}")));
        }
        ops.get()?;
        Self::new((0..count as usize).map(|at| ops.at(at)).collect())
    }
}

impl Operation for MemOps {
    fn node_type(&self) -> i32 {
        12
    }

    fn name(&self) -> String {
        "memory operations".to_owned()
    }

    fn run(&self, gpu: &Gpu) -> Answer {
        self.0.iter().try_for_each(|op| run(op, gpu).map_err(gone))
    }
}

fn check(op: &StreamMemOp) -> Answer {
    let bytes = match op.operation {
        WAIT32 | WRITE32 => 4,
        WAIT64 | WRITE64 => 8,
        FENCE | FLUSH => return check_flags(op.barrier_flags, 1),
        odd => return Err(invalid(format!("{odd} is no operation; there are 1 to 6"))),
    };
    match op.operation {
        WAIT32 | WAIT64 => check_flags(op.flags, COMPARISONS | FLUSH_AFTER)?,
        _ => check_flags(op.flags, 0)?,
    }
    if !op.address.is_multiple_of(bytes) {
        return Err(invalid(format!("{:#x} is misaligned for {bytes} bytes", op.address)));
    }
    Ok(memory()?.check(op.address, bytes)?)
}

fn run(op: &StreamMemOp, gpu: &Gpu) -> Answer {
    if matches!(op.operation, WRITE32 | WRITE64) {
        order::tell_all();
    }
    match op.operation {
        WRITE32 => memory()?.write(op.address, &(op.value as u32).to_le_bytes())?,
        WRITE64 => memory()?.write(op.address, &op.value.to_le_bytes())?,
        WAIT32 | WAIT64 => {
            while gpu.fault().is_none() && !holds(op)? {
                std::thread::sleep(PAUSE);
            }
            order::learn_all();
        }
        // All memory is in order already.
        _ => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
    }
    Ok(())
}

/// Whether what a wait waits for is there.
fn holds(op: &StreamMemOp) -> Answer<bool> {
    let mut bytes = [0; 8];
    let width = if op.operation == WAIT32 { 4 } else { 8 };
    memory()?.read(op.address, &mut bytes[..width])?;
    let (found, value) = match width {
        4 => (u64::from(u64::from_le_bytes(bytes) as u32), u64::from(op.value as u32)),
        _ => (u64::from_le_bytes(bytes), op.value),
    };
    Ok(match op.flags & COMPARISONS {
        // Cyclic, so that a counter may wrap.
        0 if width == 4 => (found as u32).wrapping_sub(value as u32) as i32 >= 0,
        0 => found.wrapping_sub(value) as i64 >= 0,
        1 => found == value,
        2 => found & value != 0,
        _ => match width {
            4 => !(found as u32 | value as u32) != 0,
            _ => !(found | value) != 0,
        },
    })
}

fn one(stream: CUstream, operation: i32, address: u64, value: u64, flags: u32) -> Answer {
    let (context, stream) = stream::named(stream)?;
    let op = StreamMemOp { operation, barrier_flags: 0, address, value, flags, pad: [0; 5] };
    stream::enqueue(&context, &stream, Arc::new(MemOps::new(vec![op])?))
}

pub(crate) fn cuStreamWaitValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    one(stream, WAIT32, address, value.into(), flags)
}

pub(crate) fn cuStreamWaitValue64_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    one(stream, WAIT64, address, value, flags)
}

pub(crate) fn cuStreamWriteValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> Answer {
    one(stream, WRITE32, address, value.into(), flags)
}

pub(crate) fn cuStreamWriteValue64_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> Answer {
    one(stream, WRITE64, address, value, flags)
}

pub(crate) fn cuStreamBatchMemOp_v2(
    stream: CUstream,
    count: u32,
    ops: In<StreamMemOp>,
    flags: u32,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    stream::enqueue(&context, &stream, Arc::new(MemOps::read(count, ops, flags)?))
}
