//! Bulk copies, and single stores and updates that signal an mbarrier.

use super::copy::flat;
use crate::exec::ranges::{Range, check_align, copy_fault};
use crate::fault::{Access, CopyFault, LoadError};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::copies::{Bulk, Chunk, Reduction, Source, reduction};
use crate::machine::{
    Completion, Cx, Fault, Flow, Frame, Handler, Op, SINK, Step, TouchRange, lanes,
};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};
use crate::tensor_map::ElementType;

/// Alignment of bulk copies, in bytes.
const ALIGN: u64 = 16;

impl Cx<'_> {
    /// Observers see what a bulk copy touches; then it is under way.
    pub fn ask_bulk(&mut self, lane: usize, bulk: Bulk) -> Result<(), Box<Fault>> {
        if self.watch.is_some() {
            let completion = bulk.completion;
            let stores = if bulk.reduction.is_some() { Access::Atomic } else { Access::Store };
            for chunk in &bulk.chunks {
                let bytes = chunk.bytes.into();
                let range = |at, access| TouchRange { lane, at, bytes, access, completion };
                if let Source::Memory(from) = chunk.from {
                    self.touch_range(&range(from, Access::Load))?;
                }
                self.touch_range(&range(chunk.to, stores))?;
            }
        }
        self.cluster.bulk.push_back(bulk);
        Ok(())
    }

    /// The address in this process of an mbarrier of some block of the cluster, and the block.
    pub fn mbarrier_at(&mut self, lane: usize, address: u64) -> Result<(u32, u64), Box<Fault>> {
        check_align(lane, address, 8)?;
        self.shared_range(Range { lane, address, bytes: 8, access: Access::Atomic })
    }
}

/// The blocks that a copy goes to, for its lane's mask: the one that the address names, or all in
/// the mask.
fn targets(cx: &Cx<'_>, frame: &Frame, slot: u32, lane: usize) -> Option<Vec<u32>> {
    let blocks = cx.cluster.peers.len() as u32;
    (slot != SINK).then(|| {
        let mask = frame.row32(slot)[lane];
        (0..blocks.min(16)).filter(|rank| mask >> rank & 1 != 0).collect()
    })
}

/// The same address in the shared memory of a block of the cluster.
pub fn in_block(address: u64, rank: u32) -> u64 {
    use crate::machine::cluster::RANK_SHIFT;
    (address & ((1 << RANK_SHIFT) - 1)) | u64::from(rank + 1) << RANK_SHIFT
}

/// For each block that a copy goes to: address of the target and of the mbarrier, in the space.
pub fn routes(
    cx: &Cx<'_>,
    frame: &Frame,
    lane: usize,
    (to, mbarrier): (u64, u64),
    mask_slot: u32,
) -> Vec<(u64, u64)> {
    match targets(cx, frame, mask_slot, lane) {
        None => vec![(to, mbarrier)],
        Some(ranks) => {
            ranks.into_iter().map(|rank| (in_block(to, rank), in_block(mbarrier, rank))).collect()
        }
    }
}

fn check_bulk(lane: usize, to: u64, from: u64, bytes: u64) -> Result<(), Box<Fault>> {
    check_align(lane, to, ALIGN)?;
    check_align(lane, from, ALIGN)?;
    match bytes.is_multiple_of(ALIGN) {
        true => Ok(()),
        false => Err(copy_fault(lane, CopyFault::Size { bytes })),
    }
}

/// To shared memory, with an mbarrier. Slots: 0 target, 1 source, 2 bytes, 3 mbarrier, 4 mask of
/// blocks or [`SINK`], 5 index of the reduction plus one or 0; the immediate says that the source
/// is device memory.
fn into_shared(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    for lane in lanes(mask) {
        let value = |slot: usize| frame.row64(op.slots[slot])[lane];
        let (to, from, mbarrier) = (value(0), value(1), value(3));
        let bytes = u64::from(frame.row32(op.slots[2])[lane]);
        check_bulk(lane, to, from, bytes)?;
        let source = Range { lane, address: from, bytes, access: Access::Load };
        let from = match op.imm {
            0 => cx.own_shared_range(source)?,
            _ => cx.global_range(source)?,
        };
        for (to, mbarrier) in routes(cx, frame, lane, (to, mbarrier), op.slots[4]) {
            let (target, to) =
                cx.shared_range(Range { lane, address: to, bytes, access: Access::Store })?;
            let (_, at) = cx.mbarrier_at(lane, mbarrier)?;
            let bytes = bytes as u32;
            cx.ask_bulk(
                lane,
                Bulk {
                    chunks: vec![Chunk { to, from: Source::Memory(from), bytes }],
                    reduction: chosen(op.slots[5]),
                    rounds_to_tf32: false,
                    completion: Completion::Mbarrier(at, bytes),
                    rank: cx.cluster.rank,
                    target: Some(target),
                    staged: None,
                },
            )?;
        }
    }
    Ok(Flow::Next)
}

/// To device memory, in a group. Slots: 0 target, 1 source, 2 bytes, 5 index of the reduction plus
/// one or 0.
fn into_global(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    for lane in lanes(mask) {
        let (to, from) = (frame.row64(op.slots[0])[lane], frame.row64(op.slots[1])[lane]);
        let bytes = u64::from(frame.row32(op.slots[2])[lane]);
        check_bulk(lane, to, from, bytes)?;
        let from =
            cx.own_shared_range(Range { lane, address: from, bytes, access: Access::Load })?;
        let to = cx.global_range(Range { lane, address: to, bytes, access: Access::Store })?;
        let bulk = Bulk {
            chunks: vec![Chunk { to, from: Source::Memory(from), bytes: bytes as u32 }],
            reduction: chosen(op.slots[5]),
            rounds_to_tf32: false,
            completion: cx.bulk_group(lane),
            rank: cx.cluster.rank,
            target: None,
            staged: None,
        };
        cx.ask_bulk(lane, bulk)?;
    }
    Ok(Flow::Next)
}

const OPERATIONS: [&str; 8] = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
const TYPES: u32 = 13;

/// The number that names a reduction.
pub fn reduction_number(operation: &str, element: ElementType) -> Option<u32> {
    reduction(operation, element)?;
    let index = OPERATIONS.iter().position(|own| *own == operation)? as u32;
    Some(1 + index * TYPES + element.code())
}

fn chosen(number: u32) -> Option<Reduction> {
    let number = number.checked_sub(1)?;
    let element = ElementType::from_code(number % TYPES)?;
    reduction(OPERATIONS[(number / TYPES) as usize], element)
}

/// The operation that the modifiers name.
pub fn operation(modifiers: &Modifiers<'_>) -> Option<&'static str> {
    modifiers.one_of(&OPERATIONS)
}

/// The element type that a type of PTX is to a reduction.
fn element(ty: Type) -> Option<ElementType> {
    Some(match ty {
        Type::U32 | Type::B32 => ElementType::U32,
        Type::S32 => ElementType::S32,
        Type::U64 | Type::B64 => ElementType::U64,
        Type::S64 => ElementType::S64,
        Type::F16 => ElementType::F16,
        Type::Bf16 => ElementType::Bf16,
        Type::F32 => ElementType::F32,
        Type::F64 => ElementType::F64,
        _ => return None,
    })
}

/// `cp.async.bulk.commit_group`
pub fn commit(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        cx.commit_bulk(mask);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `cp.async.bulk.wait_group`: the immediate operand is the number of groups that may be left.
pub fn wait_group(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<const READ: bool>(cx: &mut Cx<'_>, _: &mut Frame, op: &Op, mask: u32) -> Step {
        lanes(mask).try_for_each(|lane| cx.wait_bulk(lane, op.imm as u32, READ))?;
        Ok(Flow::Next)
    }
    let run = if modifiers.has("read") { run::<true> as Handler } else { run::<false> };
    Some(run.into())
}

/// Takes a cache policy off the end of the operands.
pub fn without_policy<'a>(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    operands: &'a [Operand],
) -> Result<&'a [Operand], LoadError> {
    match (modifiers.has("L2::cache_hint"), operands) {
        (false, operands) => Ok(operands),
        (true, [operands @ .., policy]) => {
            emitter.source(policy, Type::B64, false)?;
            Ok(operands)
        }
        (true, []) => Err(emitter.invalid("a cache policy is missing")),
    }
}

/// `cp.async.bulk`, `cp.reduce.async.bulk`
pub fn cp_bulk(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let operands = without_policy(emitter, modifiers, &instruction.operands)?;
    let reduction = match operation(modifiers) {
        None => 0,
        Some(operation) => modifiers
            .ty(0)
            .and_then(element)
            .and_then(|element| reduction_number(operation, element))
            .ok_or_else(|| crate::isa::unknown(instruction))?,
    };
    match operands {
        [to, from, size] if modifiers.has("bulk_group") => {
            let (to, from) = (flat(emitter, to)?, flat(emitter, from)?);
            let size = emitter.source(size, Type::U32, false)?;
            emitter.push(into_global, &[to, from, size, 0, 0, reduction], 0);
            Ok(())
        }
        [to, from, size, mbarrier, rest @ ..] => {
            let (to, from) = (flat(emitter, to)?, flat(emitter, from)?);
            let size = emitter.source(size, Type::U32, false)?;
            let mbarrier = flat(emitter, mbarrier)?;
            let mask = block_mask(emitter, modifiers, rest)?;
            let global = u64::from(modifiers.has("global"));
            emitter.push(into_shared, &[to, from, size, mbarrier, mask, reduction], global);
            Ok(())
        }
        _ => Err(emitter.invalid("these are not the operands of a bulk copy")),
    }
}

/// The mask of blocks behind the other operands, where the copy is a multicast.
pub fn block_mask(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    rest: &[Operand],
) -> Result<u32, LoadError> {
    match (modifiers.has("multicast::cluster"), rest) {
        (false, []) => Ok(SINK),
        (true, [mask]) => emitter.source(mask, Type::U16, false),
        _ => {
            Err(emitter.invalid("a mask of blocks goes with `.multicast::cluster`, and only there"))
        }
    }
}

/// `cp.async.bulk.prefetch`: slots 0 source, 1 bytes. The range is checked, and nothing moves.
pub fn prefetch(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        for lane in lanes(mask) {
            let address = frame.row64(op.slots[0])[lane];
            let bytes = u64::from(frame.row32(op.slots[1])[lane]);
            check_bulk(lane, 0, address, bytes)?;
            cx.global_range(Range { lane, address, bytes, access: Access::Load })?;
        }
        Ok(Flow::Next)
    }
    let operands = without_policy(emitter, modifiers, &instruction.operands)?;
    let [from, size] = operands else {
        return Err(emitter.invalid("a source and a size are needed"));
    };
    let from = flat(emitter, from)?;
    let size = emitter.source(size, Type::U32, false)?;
    emitter.push(run, &[from, size], 0);
    Ok(())
}

/// Slots: 0 target, 1 index of the list of values, 2 bytes of each, 3 mbarrier, 5 the reduction or
/// 0.
fn store(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let program = std::sync::Arc::clone(&frame.program);
    let (values, bytes) = (&program.lists[op.slots[1] as usize], op.slots[2]);
    let total = bytes * values.len() as u32;
    for lane in lanes(mask) {
        let (address, mbarrier) = (frame.row64(op.slots[0])[lane], frame.row64(op.slots[3])[lane]);
        check_align(lane, address, total.into())?;
        let range = Range { lane, address, bytes: total.into(), access: Access::Store };
        let (target, to) = cx.shared_range(range)?;
        let (_, at) = cx.mbarrier_at(lane, mbarrier)?;
        let chunks = values.iter().zip(0..).map(|(slot, index)| Chunk {
            to: to + u64::from(bytes * index),
            from: Source::Fill(match bytes {
                8 => frame.row64(*slot)[lane],
                _ => frame.row32(*slot)[lane].into(),
            }),
            bytes,
        });
        let bulk = Bulk {
            chunks: chunks.collect(),
            reduction: chosen(op.slots[5]),
            rounds_to_tf32: false,
            completion: Completion::Mbarrier(at, total),
            rank: cx.cluster.rank,
            target: Some(target),
            staged: None,
        };
        cx.ask_bulk(lane, bulk)?;
    }
    Ok(Flow::Next)
}

/// `st.async`, `red.async`
pub fn store_async(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, value, mbarrier] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("an address, a value and an mbarrier are needed"));
    };
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let reduction = match operation(modifiers) {
        None => 0,
        Some(operation) => element(ty)
            .and_then(|element| reduction_number(operation, element))
            .ok_or_else(|| crate::isa::unknown(instruction))?,
    };
    let parts = match value {
        Operand::Vector(parts) => parts.as_slice(),
        single => std::slice::from_ref(single),
    };
    let want = match modifiers.one_of(&["v2", "v4"]) {
        Some("v2") => 2,
        Some(_) => 4,
        None => 1,
    };
    if parts.len() != want {
        return Err(emitter.invalid(format!("{want} registers are needed")));
    }
    let (to, mbarrier) = (flat(emitter, to)?, flat(emitter, mbarrier)?);
    let slots: Vec<u32> =
        parts.iter().map(|part| emitter.source(part, ty, false)).collect::<Result<_, _>>()?;
    let list = emitter.list(slots) as u32;
    emitter.push(store, &[to, list, ty.bytes(), mbarrier, 0, reduction], 0);
    Ok(())
}

/// `setmaxnreg`: the number of registers is checked and has no other effect.
pub fn setmaxnreg(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
        Ok(Flow::Next)
    }
    let [count] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`setmaxnreg` takes a number of registers"));
    };
    let count = emitter.immediate(count)?;
    if !count.is_multiple_of(8) || !(24..=256).contains(&count) {
        return Err(
            emitter.invalid(format!("{count} registers; a multiple of 8 from 24 to 256 is needed"))
        );
    }
    emitter.push(run, &[], 0);
    Ok(())
}
