//! Branches, calls, returns and ends.

use super::param;
use crate::fault::{LoadError, TrapKind};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{
    BitCopy, CallSite, Cx, Fault, Flow, Frame, Handler, LANES, Op, PassedRegister, Register, Span,
    Step, lanes,
};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand, Variable};
use std::sync::atomic::Ordering;

/// `bra`
pub fn bra(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, op: &Op, _: u32) -> Step {
        Ok(Flow::Jump(op.imm as u32))
    }
    let [Operand::Name(label)] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`bra` takes a label"));
    };
    let op = emitter.here() as usize;
    emitter.push(run, &[], 0);
    emitter.target(op, None, label);
    Ok(())
}

/// `brx.idx`
pub fn brx(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [index, Operand::Name(list)] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`brx.idx` takes an index and a list of labels"));
    };
    let index = emitter.source(index, Type::U32, false)?;
    let targets = emitter.branch_list(list).ok_or_else(|| emitter.unresolved(list))?;
    let table = emitter.program.tables.len();
    emitter.program.tables.push(vec![0; targets.len()]);
    let op = emitter.here() as usize;
    emitter.push(scatter, &[index], table as u64);
    for (entry, label) in targets.iter().enumerate() {
        emitter.target(op, Some(entry), label);
    }
    Ok(())
}

fn scatter(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let table = &frame.program.tables[op.imm as usize];
    let row = frame.row32(op.slots[0]);
    for lane in lanes(mask) {
        let index = row[lane];
        match table.get(index as usize) {
            Some(target) => cx.targets[lane] = *target,
            None => {
                let targets = table.len() as u32;
                return Err(Fault::new(lane, TrapKind::InvalidBranch { index, targets }));
            }
        }
    }
    Ok(Flow::Scatter)
}

/// `call`: direct, or through an address with a prototype.
pub fn call(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let mark = emitter.param_mark();
    let mut operands = instruction.operands.as_slice();
    let mut returns = &[][..];
    if let [Operand::List(own), rest @ ..] = operands {
        returns = own.as_slice();
        operands = rest;
    }
    let [Operand::Name(callee), rest @ ..] = operands else {
        return Err(emitter.invalid("`call` takes a function"));
    };
    let (args, prototype) = match rest {
        [] => (&[][..], None),
        [Operand::List(args)] => (args.as_slice(), None),
        [Operand::List(args), Operand::Name(prototype)] => (args.as_slice(), Some(prototype)),
        [Operand::Name(prototype)] => (&[][..], Some(prototype)),
        _ => return Err(emitter.invalid("these are not the operands of a `call`")),
    };
    let function = emitter.linked.functions.get(callee.as_str()).copied();
    let formals = function.map_or(&[][..], |function| function.params.as_slice());
    let args =
        args.iter().enumerate().map(|(index, arg)| argument(emitter, arg, formals.get(index)));
    let args = args.collect::<Result<_, _>>()?;
    let returns = returns.iter().map(|operand| returned(emitter, operand));
    let site = CallSite { returns: returns.collect::<Result<_, _>>()?, args };
    emitter.reset_params(mark);
    let defined = function.is_some();
    if prototype.is_none()
        && !defined
        && super::system::call(emitter, callee, &site.returns, &site.args)?
    {
        return Ok(());
    }
    let number = emitter.program.calls.len() as u64;
    emitter.program.calls.push(site);
    match prototype {
        None => direct(emitter, callee, number),
        Some(prototype)
            if emitter.is_prototype(prototype) || emitter.branch_list(prototype).is_some() =>
        {
            let target = emitter.source(&Operand::Name(callee.clone()), Type::U64, false)?;
            emitter.note_address(Register::Wide(target));
            emitter.info().open_stack = true;
            emitter.push(call_indirect, &[target], number);
            Ok(())
        }
        Some(prototype) => Err(emitter.unresolved(prototype)),
    }
}

fn direct(emitter: &mut Emitter<'_>, callee: &str, site: u64) -> Result<(), LoadError> {
    let function = emitter.function(callee)?;
    emitter.info().calls.push(function);
    emitter.push(call_direct, &[function], site);
    Ok(())
}

fn call_direct(cx: &mut Cx<'_>, _: &mut Frame, op: &Op, _: u32) -> Step {
    cx.targets = [op.slots[0]; LANES];
    Ok(Flow::Call(op.imm as u32))
}

fn call_indirect(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let row = frame.row64(op.slots[0]);
    for lane in lanes(mask) {
        let address = row[lane];
        match frame.program.code.get(&address) {
            Some(function) => cx.targets[lane] = *function,
            None => return Err(Fault::new(lane, TrapKind::InvalidCall { address })),
        }
    }
    Ok(Flow::Call(op.imm as u32))
}

/// Where an argument of a call lies. One in a register, or a number, is stored for it.
fn argument(
    emitter: &mut Emitter<'_>,
    operand: &Operand,
    formal: Option<&Variable>,
) -> Result<Span, LoadError> {
    if let Operand::Vector(parts) = operand {
        let spans = parts.iter().map(|part| argument(emitter, part, formal));
        return Ok(Span::around(&spans.collect::<Result<Vec<_>, _>>()?));
    }
    let own = emitter.register_type(operand);
    if own.is_none() && !matches!(operand, Operand::Number(_)) {
        return emitter.param_span(operand);
    }
    let ty = match (formal, own) {
        (Some(formal), _) => crate::program::element(formal)?,
        (None, Some(own)) => own,
        (None, None) => {
            return Err(emitter.invalid("a number cannot be passed to what is not known"));
        }
    };
    let span = emitter.place_param(ty.bytes().into(), ty.bytes())?;
    let slot = emitter.source(operand, ty, false)?;
    for (slot, at, bytes) in pieces(ty, slot, span) {
        emitter.push_before(param::store_frame(bytes), &[slot], at);
        note_argument(emitter, own.map(|ty| Register::of(ty, slot)), at, bytes);
    }
    Ok(span)
}

/// Notes that an argument is copied to parameter memory.
fn note_argument(emitter: &mut Emitter<'_>, register: Option<Register>, at: u64, bytes: u32) {
    for done in (0..8 * bytes).step_by(32) {
        let to = (Register::Param((at as u32 + done / 8) / 4), at as u32 % 4 * 8);
        let (from, bits) = (register.map(|own| (own, done)), (8 * bytes - done).min(32));
        emitter.note_bit_copy(BitCopy { from, to, bits, signed: false });
    }
}

/// Where a call puts what it returns. A register is loaded from there.
fn returned(emitter: &mut Emitter<'_>, operand: &Operand) -> Result<Span, LoadError> {
    if let Operand::Vector(parts) = operand {
        let spans = parts.iter().map(|part| returned(emitter, part));
        return Ok(Span::around(&spans.collect::<Result<Vec<_>, _>>()?));
    }
    let Some(ty) = emitter.register_type(operand) else { return emitter.param_span(operand) };
    let span = emitter.place_param(ty.bytes().into(), ty.bytes())?;
    let slot = emitter.destination(operand, ty, false)?;
    for (slot, at, bytes) in pieces(ty, slot, span) {
        emitter.push_after(param::load_frame(bytes), &[slot], at);
    }
    Ok(span)
}

/// `ret`, also as a handler that decoding puts behind a body.
pub fn ret(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    Ok(Flow::Return)
}

/// `ret`: what is returned in registers goes to parameter memory first.
pub fn lower_ret(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    _: &Instruction,
) -> Result<(), LoadError> {
    give_back(emitter);
    emitter.push(ret, &[], 0);
    Ok(())
}

/// Stores the registers that a function returns.
pub fn give_back(emitter: &mut Emitter<'_>) {
    for PassedRegister { ty, slot, span } in emitter.returned.clone() {
        for (slot, at, bytes) in pieces(ty, slot, span) {
            emitter.push_before(param::store_frame(bytes), &[slot], at);
        }
    }
}

/// Loads a register from parameter memory.
pub fn take_over(emitter: &mut Emitter<'_>, PassedRegister { ty, slot, span }: PassedRegister) {
    for (slot, at, bytes) in pieces(ty, slot, span) {
        emitter.push_before(param::load_frame(bytes), &[slot], at);
    }
}

/// The slots of a register, with their places in parameter memory and sizes in bytes.
fn pieces(ty: Type, slot: u32, span: Span) -> impl Iterator<Item = (u32, u64, u32)> {
    let bytes = ty.bytes() / ty.rows();
    (0..ty.rows()).map(move |row| (slot + row, u64::from(4 * span.row + 8 * row), bytes))
}

/// The function in which the device library ends a thread that has panicked. The kernel reports the
/// panic itself, so what other threads then miss is not reported beside it: a barrier after the
/// thread's last one, a value that it did not write, a wait for it.
const PANIC_EXIT: &str = "ferrowarp_panic_exit";

/// `exit`
pub fn exit(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, frame: &mut Frame, _: &Op, mask: u32) -> Step {
        if frame.depth > 0 && frame.program.functions[frame.function as usize].name == PANIC_EXIT {
            cx.launch.panicked.store(true, Ordering::Release);
        }
        // After a panic others leave too, who would have waited for what the thread does no more.
        if cx.launch.has_panicked() {
            cx.warp.met &= !mask;
        }
        Ok(Flow::Exit)
    }
    Some((run as Handler).into())
}

/// `trap`
pub fn trap(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        Err(Fault::new(mask.trailing_zeros() as usize, TrapKind::Trap))
    }
    Some((run as Handler).into())
}

/// `brkpt`
pub fn brkpt(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        Err(Fault::new(mask.trailing_zeros() as usize, TrapKind::Breakpoint))
    }
    Some((run as Handler).into())
}

/// `nanosleep`: others have their turn.
pub fn nanosleep(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
        Ok(Flow::Yield)
    }
    Some((run as Handler).into())
}

/// `prefetch`, `pmevent`, `griddepcontrol` and the like: nothing that an emulator could show.
pub fn nothing(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}
