//! Stream memory operations: waits for and writes of single words in memory, by which streams,
//! kernels and the host synchronize.
#![allow(non_snake_case)]

use std::sync::Arc;
use std::time::Duration;

use super::faults::freed_meanwhile;
use super::gpu::{Gpu, memory};
use super::operation::{NodeType, Operation};
use super::{check_flags, happens_before, invalid_value, stream};
use crate::abi::{CUdeviceptr, CUstream, In};
use crate::constants::stream_mem_op::{
    BARRIER as FENCE, FLUSH_REMOTE_WRITES as FLUSH, WAIT_VALUE_32 as WAIT32,
    WAIT_VALUE_64 as WAIT64, WRITE_VALUE_32 as WRITE32, WRITE_VALUE_64 as WRITE64,
};
use crate::detail::DriverResult;
use crate::structs::StreamMemOp;

/// The comparison of a wait: at least (cyclic), equal, AND, NOR.
const COMPARISONS: u32 = 3;
/// Make remote writes visible after the wait. They always are.
const FLUSH_AFTER: u32 = 1 << 30;
/// The largest number of operations in a batch.
const MAX_BATCH: u32 = 255;
/// How long a waiting stream sleeps between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// A batch of operations, executed in order.
pub(super) struct MemOps(pub(super) Vec<StreamMemOp>);

impl MemOps {
    pub(super) fn new(ops: Vec<StreamMemOp>) -> DriverResult<Self> {
        ops.iter().try_for_each(check)?;
        Ok(Self(ops))
    }

    /// Reads and checks a list of operations.
    pub(super) fn read(count: u32, ops: In<StreamMemOp>, flags: u32) -> DriverResult<Self> {
        check_flags(flags, 0)?;
        if count == 0 || count > MAX_BATCH {
            return Err(invalid_value(format!(
                "{count} operations; there may be 1 to {MAX_BATCH}"
            )));
        }
        ops.get()?;
        Self::new((0..count as usize).map(|at| ops.at(at)).collect())
    }
}

impl Operation for MemOps {
    fn node_type(&self) -> NodeType {
        NodeType::BatchMemOp
    }

    fn name(&self) -> String {
        "memory operations".to_owned()
    }

    fn run(&self, gpu: &Gpu) -> DriverResult {
        self.0.iter().try_for_each(|op| run(op, gpu).map_err(freed_meanwhile))
    }
}

fn check(op: &StreamMemOp) -> DriverResult {
    let bytes = match op.operation {
        WAIT32 | WRITE32 => 4,
        WAIT64 | WRITE64 => 8,
        FENCE | FLUSH => return check_flags(op.barrier_flags, 1),
        odd => {
            return Err(invalid_value(format!(
                "{odd} is not a stream memory operation; there are 1 to 6"
            )));
        }
    };
    match op.operation {
        WAIT32 | WAIT64 => check_flags(op.flags, COMPARISONS | FLUSH_AFTER)?,
        _ => check_flags(op.flags, 0)?,
    }
    if !op.address.is_multiple_of(bytes) {
        return Err(invalid_value(format!("{:#x} is misaligned for {bytes} bytes", op.address)));
    }
    Ok(memory()?.check(op.address, bytes)?)
}

fn run(op: &StreamMemOp, gpu: &Gpu) -> DriverResult {
    if matches!(op.operation, WRITE32 | WRITE64) {
        happens_before::release_to_all();
    }
    match op.operation {
        WRITE32 => memory()?.write(op.address, &(op.value as u32).to_le_bytes())?,
        WRITE64 => memory()?.write(op.address, &op.value.to_le_bytes())?,
        WAIT32 | WAIT64 => {
            while gpu.fault().is_none() && !holds(op)? {
                std::thread::sleep(POLL_INTERVAL);
            }
            happens_before::acquire_from_all();
        }
        // Emulated memory is coherent already.
        _ => std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst),
    }
    Ok(())
}

/// Whether the condition of a wait holds.
fn holds(op: &StreamMemOp) -> DriverResult<bool> {
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

fn one(stream: CUstream, operation: i32, address: u64, value: u64, flags: u32) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    let op = StreamMemOp { operation, barrier_flags: 0, address, value, flags, pad: [0; 5] };
    stream::enqueue(&context, &stream, Arc::new(MemOps::new(vec![op])?))
}

pub(crate) fn cuStreamWaitValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> DriverResult {
    one(stream, WAIT32, address, value.into(), flags)
}

pub(crate) fn cuStreamWaitValue64_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> DriverResult {
    one(stream, WAIT64, address, value, flags)
}

pub(crate) fn cuStreamWriteValue32_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    flags: u32,
) -> DriverResult {
    one(stream, WRITE32, address, value.into(), flags)
}

pub(crate) fn cuStreamWriteValue64_v2(
    stream: CUstream,
    address: CUdeviceptr,
    value: u64,
    flags: u32,
) -> DriverResult {
    one(stream, WRITE64, address, value, flags)
}

pub(crate) fn cuStreamBatchMemOp_v2(
    stream: CUstream,
    count: u32,
    ops: In<StreamMemOp>,
    flags: u32,
) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    stream::enqueue(&context, &stream, Arc::new(MemOps::read(count, ops, flags)?))
}
