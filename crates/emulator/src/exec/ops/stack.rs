//! Memory on a thread's stack: `alloca`, `stacksave`, `stackrestore`.

use crate::fault::{LoadError, TrapKind};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Fault, Flow, Frame, LANES, MAX_LOCAL_BYTES, Op, Step, lanes};
use crate::program::Emitter;
use crate::ptx::ast::Instruction;

/// The alignment where an `alloca` says none.
const ALIGN: u64 = 8;

/// `alloca`: a pointer to the requested number of bytes of local memory.
pub fn alloca(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let (to, bytes, align) = match instruction.operands.as_slice() {
        [to, bytes] => (to, bytes, ALIGN),
        [to, bytes, align] => (to, bytes, emitter.immediate(align)?),
        _ => return Err(emitter.invalid("a register, a size and an alignment are needed")),
    };
    if !align.is_power_of_two() || align > MAX_LOCAL_BYTES {
        return Err(emitter.invalid(format!("an alignment of {align}")));
    }
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let bytes = emitter.source(bytes, ty, false)?;
    let to = emitter.destination(to, ty, false)?;
    emitter.info().open_stack = true;
    let run = if ty == Type::U64 { run_alloca::<true> } else { run_alloca::<false> };
    emitter.push(run, &[to, bytes], align);
    Ok(())
}

fn run_alloca<const WIDE: bool>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let sizes = read::<WIDE>(frame, op.slots[1]);
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        out[lane] = frame.stack()[lane].next_multiple_of(op.imm);
        let end = out[lane].saturating_add(sizes[lane]);
        let (bytes, limit) = (frame.stack_bytes_at(end), cx.launch.stack_bytes);
        if bytes > limit {
            return Err(Fault::new(lane, TrapKind::StackOverflow { bytes, limit }));
        }
        frame.stack()[lane] = end;
        frame.local_end = frame.local_end.max(end);
    }
    cx.warp.reserve_local(frame.local_end);
    write::<WIDE>(frame, op.slots[0], &out, mask);
    Ok(Flow::Next)
}

/// `stacksave`: the top of the stack.
pub fn save(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<const WIDE: bool>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let tops = *frame.stack();
        write::<WIDE>(frame, op.slots[0], &tops, mask);
        Ok(Flow::Next)
    }
    Some(Pick::from(if modifiers.has("u64") { run::<true> } else { run::<false> }))
}

/// `stackrestore`: frees what was put there since.
pub fn restore(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<const WIDE: bool>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let tops = read::<WIDE>(frame, op.slots[0]);
        let stack = frame.stack();
        lanes(mask).for_each(|lane| stack[lane] = stack[lane].min(tops[lane]));
        Ok(Flow::Next)
    }
    Some(Pick::from(if modifiers.has("u64") { run::<true> } else { run::<false> }))
}

fn read<const WIDE: bool>(frame: &Frame, slot: u32) -> [u64; LANES] {
    if WIDE { *frame.row64(slot) } else { frame.row32(slot).map(u64::from) }
}

fn write<const WIDE: bool>(frame: &mut Frame, slot: u32, values: &[u64; LANES], mask: u32) {
    match WIDE {
        true => frame.write::<u64>(slot, values, mask),
        false => frame.write::<u32>(slot, &values.map(|value| value as u32), mask),
    }
}
