//! Mbarriers.

use crate::exec::address::{Shared, SharedCluster, SharedGeneric, Window, resolve};
use crate::fault::{Access, LoadError, MbarrierFault, TrapKind};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::mbarrier::Mbarrier;
use crate::machine::{Cx, Fault, Flow, Frame, Handler, LANES, Op, Row64, Step, Touch, lanes};
use crate::memory::access;
use crate::program::{Address, Emitter};
use crate::ptx::ast::{Instruction, Operand};

/// Slot of the address.
const BASE: usize = 5;
/// Slot that holds the flags below.
const HOW: usize = 3;
/// The arrivals also leave later phases.
const DROP: u32 = 1;
/// The arrivals must not end the phase.
const NO_COMPLETE: u32 = 2;
/// There are no arrivals.
const ONLY_BYTES: u32 = 4;
/// The bytes have come, rather than being expected.
const COMPLETES: u32 = 8;

/// Addresses of the mbarriers, in this process.
fn locate<W: Window>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    access: Access,
) -> Result<Row64, Box<Fault>> {
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, 8, access)?;
    if cx.watch.is_some() {
        cx.touch(frame, &Touch { op, mask, at: &at, bytes: 8, elements: 1, access })?;
    }
    Ok(at)
}

fn fault(cx: &Cx<'_>, lane: usize, at: u64, fault: MbarrierFault) -> Box<Fault> {
    let owner = cx.cluster.owner(at, cx.block.shared_bytes);
    Fault::new(lane, TrapKind::Mbarrier { offset: owner.map_or(at, |(_, offset)| offset), fault })
}

/// Writes fresh words. Slot 1: the count; with [`ONLY_BYTES`] there is none, and no mbarrier is left.
fn set<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let at = locate::<W>(cx, frame, op, mask, Access::Store)?;
    let counts = *frame.row32(op.slots[1]);
    for lane in lanes(mask) {
        if cx.cluster.waited.contains(&at[lane]) {
            return Err(fault(cx, lane, at[lane], MbarrierFault::Waited));
        }
        let word = match op.slots[HOW] {
            ONLY_BYTES => 0,
            _ => {
                Mbarrier::new(counts[lane]).map_err(|own| fault(cx, lane, at[lane], own))?.encode()
            }
        };
        // SAFETY: `locate` checked the address.
        unsafe { access::store_u64(at[lane], word) };
    }
    cx.cluster.changes += 1;
    Ok(Flow::Next)
}

/// Slots: 0 the state before, 1 arrivals, 2 bytes, 3 how, 5 address.
fn change<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let at = locate::<W>(cx, frame, op, mask, Access::Atomic)?;
    let (counts, bytes) = (*frame.row32(op.slots[1]), *frame.row32(op.slots[2]));
    let how = op.slots[HOW];
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        let (count, bytes) = (counts[lane], bytes[lane]);
        let step = |own: &mut Mbarrier| apply(own, how, count, bytes);
        out[lane] = cx.update_mbarrier(lane, at[lane], step)?;
    }
    frame.write::<u64>(op.slots[0], &out, mask);
    Ok(Flow::Next)
}

fn apply(own: &mut Mbarrier, how: u32, count: u32, bytes: u32) -> Result<bool, MbarrierFault> {
    if how & COMPLETES != 0 {
        return own.complete(bytes);
    }
    own.expect(bytes)?;
    if how & ONLY_BYTES != 0 {
        return Ok(false);
    }
    if how & DROP != 0 {
        own.drop_expected(count)?;
    }
    match own.arrive(count)? {
        true if how & NO_COMPLETE != 0 => Err(MbarrierFault::Completes),
        over => Ok(over),
    }
}

/// Whether phases are over. Slots: 0 predicate, 1 parity or state, 5 address.
///
/// Lanes of which none finds its phase over wait for it, as a GPU may have them do; in the end they are
/// told that it is not.
fn wait<W: Window, const PARITY: bool>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, 8, Access::Load)?;
    let (mut over, mut parities) = (0, 0);
    for lane in lanes(mask) {
        let parity = match PARITY {
            true => frame.row32(op.slots[1])[lane] & 1 != 0,
            false => parity_of(frame.row64(op.slots[1])[lane])
                .ok_or_else(|| fault(cx, lane, at[lane], MbarrierFault::NotInitialised))?,
        };
        cx.settle_mbarrier(lane, at[lane])?;
        // SAFETY: `resolve` checked the address.
        let state = Mbarrier::decode(unsafe { access::load_u64(at[lane]) })
            .ok_or_else(|| fault(cx, lane, at[lane], MbarrierFault::NotInitialised))?;
        over |= u32::from(state.parity != parity) << lane;
        parities |= u32::from(parity) << lane;
    }
    if over == 0 && cx.warp.awaited.expired & mask == 0 {
        (cx.warp.awaited.at, cx.warp.awaited.parity) = (at, parities);
        return Ok(Flow::AwaitPhase);
    }
    if over != 0 && cx.watch.is_some() {
        let access = Access::Load;
        cx.touch(frame, &Touch { op, mask: over, at: &at, bytes: 8, elements: 1, access })?;
    }
    frame.set_predicate(op.slots[0], over, mask);
    Ok(Flow::Next)
}

/// The parity of the phase that a state was taken in.
fn parity_of(state: u64) -> Option<bool> {
    Mbarrier::decode(state).map(|own| own.parity)
}

/// `mbarrier.pending_count`
pub fn pending_count(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        frame.map1::<u32, u64>(op, mask, |state| {
            Mbarrier::decode(state).map_or(0, |own| own.pending)
        });
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

// ---- decoding

/// The handler for the space that an instruction names.
macro_rules! by_space {
    ($modifiers:expr, $f:ident $(, $arg:expr)?) => {
        match $modifiers.one_of(&["shared", "shared::cta", "shared::cluster"]) {
            Some("shared::cluster") => $f::<SharedCluster $(, $arg)?> as Handler,
            Some(_) => $f::<Shared $(, $arg)?>,
            None => $f::<SharedGeneric $(, $arg)?>,
        }
    };
}

fn place(emitter: &mut Emitter<'_>, operand: &Operand) -> Result<(u32, u64), LoadError> {
    match emitter.address(operand)? {
        Address::Row(base, offset) => Ok((base, offset as u64)),
        _ => Err(emitter.invalid("an mbarrier lies in shared memory")),
    }
}

/// `mbarrier.init`, `mbarrier.inval`
pub fn init(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let (address, count, how) = match instruction.operands.as_slice() {
        [address, count] if modifiers.has("init") => {
            (address, emitter.source(count, Type::U32, false)?, 0)
        }
        [address] if modifiers.has("inval") => {
            (address, emitter.constant(Type::U32, 0), ONLY_BYTES)
        }
        _ => return Err(emitter.invalid("these are not the operands of this instruction")),
    };
    let (base, offset) = place(emitter, address)?;
    emitter.push(by_space!(modifiers, set), &[0, count, 0, how, 0, base], offset);
    Ok(())
}

/// `mbarrier.expect_tx`, `mbarrier.complete_tx`
pub fn count_bytes(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [address, bytes] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("an address and a number of bytes are needed"));
    };
    let bytes = emitter.source(bytes, Type::U32, false)?;
    let how = if modifiers.has("complete_tx") { COMPLETES } else { ONLY_BYTES };
    let (base, offset) = place(emitter, address)?;
    let (state, none) = (emitter.sink(Type::B64), emitter.constant(Type::U32, 0));
    emitter.push(by_space!(modifiers, change), &[state, none, bytes, how, 0, base], offset);
    Ok(())
}

/// `mbarrier.arrive`, `mbarrier.arrive_drop`
pub fn arrive(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [state, address, rest @ ..] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("a state and an address are needed"));
    };
    let remote = modifiers.has("shared::cluster");
    if remote && !matches!(state, Operand::Name(name) if name == "_") {
        return Err(emitter.invalid("an arrival in another block returns no state; write `_`"));
    }
    let (one, none) = (emitter.constant(Type::U32, 1), emitter.constant(Type::U32, 0));
    let (count, bytes) = match (rest, modifiers.has("expect_tx")) {
        ([], false) => (one, none),
        ([count], false) => (emitter.source(count, Type::U32, false)?, none),
        ([bytes], true) => (one, emitter.source(bytes, Type::U32, false)?),
        _ => return Err(emitter.invalid("these are not the operands of an arrival")),
    };
    let how = if modifiers.has("arrive_drop") { DROP } else { 0 }
        | if modifiers.has("noComplete") { NO_COMPLETE } else { 0 };
    let (base, offset) = place(emitter, address)?;
    let state = emitter.destination(state, Type::B64, false)?;
    emitter.push(by_space!(modifiers, change), &[state, count, bytes, how, 0, base], offset);
    Ok(())
}

/// `mbarrier.test_wait`, `mbarrier.try_wait`. The time that the latter may wait is the emulator's choice.
pub fn test(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let (predicate, address, phase) = match instruction.operands.as_slice() {
        [predicate, address, phase] => (predicate, address, phase),
        [predicate, address, phase, hint] if modifiers.has("try_wait") => {
            emitter.source(hint, Type::U32, false)?;
            (predicate, address, phase)
        }
        _ => return Err(emitter.invalid("a predicate, an address and a phase are needed")),
    };
    let parity = modifiers.has("parity");
    let phase = emitter.source(phase, if parity { Type::U32 } else { Type::B64 }, false)?;
    let (base, offset) = place(emitter, address)?;
    let predicate = emitter.destination(predicate, Type::Pred, false)?;
    let run = match parity {
        true => by_space!(modifiers, wait, true),
        false => by_space!(modifiers, wait, false),
    };
    emitter.push(run, &[predicate, phase, 0, 0, 0, base], offset);
    Ok(())
}
