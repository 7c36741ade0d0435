//! Branches, calls, returns and ends.

use crate::exec::frame::{Frame, lanes};
use crate::exec::{Cx, Fault, Flow, Handler, Step};
use crate::fault::{LoadError, TrapKind};
use crate::isa::{Modifiers, Pick, Type};
use crate::program::{CallSite, Emitter, LANES, Op, Span};
use crate::ptx::ast::{Instruction, Operand};

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

// ---- calls

/// `call`: direct, or through an address with a prototype.
pub fn call(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let mut operands = instruction.operands.as_slice();
    let mut site = CallSite::default();
    if let [Operand::List(returns), rest @ ..] = operands {
        site.returns = spans(emitter, returns)?;
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
    site.args = spans(emitter, args)?;
    let number = emitter.program.calls.len() as u64;
    emitter.program.calls.push(site);
    match prototype {
        None => direct(emitter, callee, number),
        Some(prototype)
            if emitter.is_prototype(prototype) || emitter.branch_list(prototype).is_some() =>
        {
            let target = emitter.source(&Operand::Name(callee.clone()), Type::U64, false)?;
            emitter.push(call_indirect, &[target], number);
            Ok(())
        }
        Some(prototype) => Err(emitter.unresolved(prototype)),
    }
}

fn direct(emitter: &mut Emitter<'_>, callee: &str, site: u64) -> Result<(), LoadError> {
    let function = emitter.function(callee)?;
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

/// Where the arguments of a call lie.
fn spans(emitter: &mut Emitter<'_>, operands: &[Operand]) -> Result<Vec<Span>, LoadError> {
    operands.iter().map(|operand| emitter.param_span(operand)).collect()
}

/// `ret`, also as a handler that decoding puts behind a body.
pub fn ret(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    Ok(Flow::Return)
}

/// `ret`
pub fn select_ret(_: &Modifiers<'_>) -> Option<Pick> {
    Some((ret as Handler).into())
}

/// `exit`
pub fn exit(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
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
