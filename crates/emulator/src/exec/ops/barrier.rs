//! Barriers of a block.

use crate::fault::{BarrierFault, LoadError, TrapKind};
use crate::isa::{Modifiers, Type};
use crate::machine::{ALWAYS, Arrival, Cx, Fault, Flow, Frame, Handler, Op, SINK, Step, lanes};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

/// Immediate of a reduction that counts the threads whose predicate holds.
pub const REDUCE_COUNT: u64 = 1;
/// Of one that tells whether it holds in all.
pub const REDUCE_ALL: u64 = 2;
/// Of one that tells whether it holds in any.
pub const REDUCE_ANY: u64 = 3;

/// Slots: 0 result, 1 barrier, 2 threads or [`SINK`], 3 predicate.
fn arrive<const WAITS: bool, const ALIGNED: bool>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let uneven = |barrier, threads| {
        let why = BarrierFault::Uneven;
        TrapKind::InvalidBarrier { barrier, threads, why }
    };
    let barrier = uniform(frame, op.slots[1], mask, |barrier| uneven(barrier, 0))?;
    let threads = match op.slots[2] {
        SINK => None,
        slot => Some(uniform(frame, slot, mask, |threads| uneven(barrier, threads))?),
    };
    let votes = frame.predicate(op.slots[3]);
    cx.arrival = Arrival { barrier, threads, waits: WAITS, aligned: ALIGNED, votes };
    Ok(Flow::Barrier)
}

/// The value that all lanes of the mask have.
fn uniform(
    frame: &Frame,
    slot: u32,
    mask: u32,
    error: impl Fn(u32) -> TrapKind,
) -> Result<u32, Box<Fault>> {
    let row = frame.row32(slot);
    let value = row[mask.trailing_zeros() as usize];
    match lanes(mask).find(|lane| row[*lane] != value) {
        None => Ok(value),
        Some(lane) => Err(Fault::new(lane, error(row[lane]))),
    }
}

/// `bar.sync`, `barrier.sync`, `bar.arrive`, `bar.red` and their like.
pub fn bar(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let aligned = instruction.opcode == "bar" || modifiers.has("aligned");
    let (imm, result, rest) = reduction(emitter, modifiers, &instruction.operands)?;
    let (predicate, rest) = match (imm, rest) {
        (0, rest) => (ALWAYS, rest),
        (_, [rest @ .., predicate]) => (emitter.predicate_source(predicate)?, rest),
        _ => return Err(emitter.invalid("a predicate is missing")),
    };
    let (barrier, threads) = match rest {
        [barrier] => (emitter.source(barrier, Type::U32, false)?, SINK),
        [barrier, threads] => {
            (emitter.source(barrier, Type::U32, false)?, emitter.source(threads, Type::U32, false)?)
        }
        _ => return Err(emitter.invalid("a barrier takes its number and perhaps a thread count")),
    };
    let arrives = modifiers.has("arrive");
    if arrives && threads == SINK {
        return Err(emitter.invalid("an arrival needs a thread count"));
    }
    let run: Handler = match (arrives, aligned) {
        (false, true) => arrive::<true, true>,
        (false, false) => arrive::<true, false>,
        (true, true) => arrive::<false, true>,
        (true, false) => arrive::<false, false>,
    };
    emitter.push(run, &[result, barrier, threads, predicate], imm);
    Ok(())
}

/// The kind of a reduction, where its result goes, and the operands after it.
fn reduction<'a>(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    operands: &'a [Operand],
) -> Result<(u64, u32, &'a [Operand]), LoadError> {
    let (imm, ty) = match modifiers.one_of(&["popc", "and", "or"]) {
        None => return Ok((0, SINK, operands)),
        Some("popc") => (REDUCE_COUNT, Type::U32),
        Some("and") => (REDUCE_ALL, Type::Pred),
        Some(_) => (REDUCE_ANY, Type::Pred),
    };
    let [result, rest @ ..] = operands else { return Err(emitter.invalid("a result is missing")) };
    Ok((imm, emitter.destination(result, ty, false)?, rest))
}
