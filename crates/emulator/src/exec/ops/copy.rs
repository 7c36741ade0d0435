//! Asynchronous copies of single threads: `cp.async`.

use crate::exec::address::{Global, Shared, SharedGeneric, Window, resolve};
use crate::exec::ranges::copy_fault;
use crate::fault::{Access, CopyFault, LoadError};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::copies::Request;
use crate::machine::{
    Completion, Cx, Flow, Frame, Handler, Op, SINK, Step, Touch, TouchRange, lanes,
};
use crate::program::{Address, Emitter};
use crate::ptx::ast::{Instruction, Operand};

/// Slots: 0 target, 1 source, 2 bytes of the source or [`SINK`], 3 predicate under which the source
/// is ignored or [`SINK`]; the immediate is the number of bytes.
fn ask(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let bytes = op.imm as u32;
    let to = resolve::<Shared>(cx, frame, (op.slots[0], 0), mask, bytes, Access::Store)?;
    let ignored = if op.slots[3] == SINK { 0 } else { frame.predicate(op.slots[3]) };
    let mut given = [bytes; 32];
    if op.slots[2] != SINK {
        given = *frame.row32(op.slots[2]);
    }
    lanes(ignored).for_each(|lane| given[lane] = 0);
    if let Some(lane) = lanes(mask).find(|lane| given[*lane] > bytes) {
        return Err(copy_fault(lane, CopyFault::Given { given: given[lane], bytes }));
    }
    // A source of no bytes is not looked at, and of one that is shorter than the target as much as is given.
    let mut reads: u32 = lanes(mask).filter(|lane| given[*lane] > 0).map(|lane| 1 << lane).sum();
    let mut from = [0; 32];
    let source = (op.slots[1], 0);
    while reads != 0 {
        let first = reads.trailing_zeros() as usize;
        let like_first: u32 =
            lanes(reads).filter(|lane| given[*lane] == given[first]).map(|lane| 1 << lane).sum();
        let addresses = frame.row64(op.slots[1]);
        let is_aligned = lanes(like_first).all(|lane| addresses[lane].is_multiple_of(bytes.into()));
        // The whole of a source is aligned, however much of it is given.
        let read = if is_aligned { given[first] } else { bytes };
        let resolved = resolve::<Global>(cx, frame, source, like_first, read, Access::Load)?;
        lanes(like_first).for_each(|lane| from[lane] = resolved[lane]);
        reads &= !like_first;
    }
    if cx.watch.is_some() {
        for lane in lanes(mask) {
            let completion = Completion::Thread;
            let range = |at, bytes: u32, access| {
                let bytes = bytes.into();
                TouchRange { lane, at, bytes, access, completion }
            };
            if given[lane] > 0 {
                cx.touch_range(&range(from[lane], given[lane], Access::Load))?;
            }
            cx.touch_range(&range(to[lane], bytes, Access::Store))?;
        }
    }
    cx.own_copies().ask(Request { mask, to, from, given, bytes });
    Ok(Flow::Next)
}

/// The row of an operand in brackets, with its offset added.
pub fn flat(emitter: &mut Emitter<'_>, operand: &Operand) -> Result<u32, LoadError> {
    match emitter.address(operand)? {
        Address::Row(slot, 0) => Ok(slot),
        Address::Row(slot, offset) => {
            let sum = emitter.register(Type::B64);
            let run = lanes!(op; u64 = |a: u64| a.wrapping_add(op.imm));
            emitter.push_before(run, &[sum, slot], offset as u64);
            Ok(sum)
        }
        Address::KernelParam(at, _) => {
            Ok(emitter.constant(Type::B64, crate::machine::PARAM_BASE + u64::from(at)))
        }
        Address::FrameParam(..) => Err(emitter.invalid("a parameter cannot be copied from")),
    }
}

/// `cp.async.ca`, `cp.async.cg`
pub fn cp_async(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from, size, rest @ ..] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`cp.async` takes a target, a source and a size"));
    };
    let bytes = emitter.immediate(size)?;
    let fits = if modifiers.has("cg") { bytes == 16 } else { [4, 8, 16].contains(&bytes) };
    if !fits {
        return Err(emitter.invalid(format!("`cp.async` cannot copy {bytes} bytes")));
    }
    let rest = match (modifiers.has("L2::cache_hint"), rest) {
        (false, rest) => rest,
        (true, [rest @ .., policy]) => {
            emitter.source(policy, Type::B64, false)?;
            rest
        }
        (true, []) => return Err(emitter.invalid("a cache policy is missing")),
    };
    let (mut given, mut ignored) = (SINK, SINK);
    match rest {
        [] => {}
        [only] if is_predicate(emitter, only) => ignored = emitter.predicate_source(only)?,
        [only] => given = emitter.source(only, Type::U32, false)?,
        _ => return Err(emitter.invalid("`cp.async` has too many operands")),
    }
    let (to, from) = (flat(emitter, to)?, flat(emitter, from)?);
    emitter.push(ask, &[to, from, given, ignored], bytes);
    Ok(())
}

fn is_predicate(emitter: &mut Emitter<'_>, operand: &Operand) -> bool {
    match operand {
        Operand::Not(_) => true,
        Operand::Name(name) => emitter.predicate(name, false).is_ok(),
        _ => false,
    }
}

/// `cp.async.commit_group`
pub fn commit(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        cx.own_copies().commit(mask);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `cp.async.wait_group`: the immediate is the number of groups that may be left.
pub fn wait_group(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, op: &Op, mask: u32) -> Step {
        cx.wait_copies(mask, Some(op.imm as u32))?;
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `cp.async.wait_all`
pub fn wait_all(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        cx.wait_copies(mask, None)?;
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// Slot 5: the mbarrier. The immediate says that the arrival is one of those that it was made for.
fn arrive<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let at = resolve::<W>(cx, frame, (op.slots[5], 0), mask, 8, Access::Atomic)?;
    if cx.watch.is_some() {
        let access = Access::Atomic;
        cx.touch(frame, &Touch { op, mask, at: &at, bytes: 8, elements: 1, access })?;
    }
    for lane in lanes(mask) {
        cx.update_mbarrier(lane, at[lane], |own| {
            if op.imm == 0 {
                own.announce()?;
            }
            Ok(false)
        })?;
    }
    cx.own_copies().ask_arrival(mask, &at);
    Ok(Flow::Next)
}

/// `cp.async.mbarrier.arrive`
pub fn arrive_after(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [address] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("the address of an mbarrier is needed"));
    };
    let at = flat(emitter, address)?;
    let run = match modifiers.one_of(&["shared", "shared::cta"]) {
        Some(_) => arrive::<Shared> as Handler,
        None => arrive::<SharedGeneric>,
    };
    emitter.push(run, &[0, 0, 0, 0, 0, at], modifiers.has("noinc").into());
    Ok(())
}
