//! What the lanes of a warp do together: shuffles, votes, matches, reductions.
//!
//! The mask of an operation stands in slot 5. Lanes wait until all that it names, and that have not
//! exited, are at the same instruction with the same mask.

use crate::fault::{LoadError, TrapKind};
use crate::isa::{Modifiers, Type};
use crate::machine::{Cx, Fault, Flow, Frame, Handler, LANES, Op, Row32, SINK, Step, lanes};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

const MASK: usize = 5;

/// Runs `together` for each set of lanes with the same mask, or waits.
#[inline(always)]
fn gather(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    together: impl Fn(&mut Frame, &Op, u32),
) -> Step {
    gather_step(cx, frame, op, mask, |_, frame, op, mask| {
        together(frame, op, mask);
        Ok(())
    })
}

/// The same for what touches memory, and may fail.
#[inline(always)]
pub(super) fn gather_step(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    together: impl Fn(&mut Cx<'_>, &mut Frame, &Op, u32) -> Result<(), Box<Fault>>,
) -> Step {
    let members = *frame.row32(op.slots[MASK]);
    if let Some(lane) = lanes(mask).find(|lane| members[*lane] >> lane & 1 == 0) {
        return Err(Fault::new(
            lane,
            TrapKind::InvalidMask { lane: lane as u32, mask: members[lane] },
        ));
    }
    let mut rest = mask;
    while rest != 0 {
        let own = members[rest.trailing_zeros() as usize];
        let same: u32 =
            lanes(rest).filter(|lane| members[*lane] == own).map(|lane| 1 << lane).sum();
        if own & cx.warp.alive & !same != 0 {
            return Ok(Flow::AwaitLanes);
        }
        rest &= !same;
    }
    let mut rest = mask;
    while rest != 0 {
        let own = members[rest.trailing_zeros() as usize];
        let same = rest & own;
        if frame.shadow.is_some()
            && let Some(effect) = cx.launch.program.effect(cx.pc)
        {
            frame.gather_taint(effect, op.slots[MASK], same);
        }
        together(cx, frame, op, same)?;
        rest &= !same;
    }
    Ok(Flow::Next)
}

/// A mask operand, which stands last.
fn mask_slot(emitter: &mut Emitter<'_>, operand: &Operand) -> Result<u32, LoadError> {
    emitter.source(operand, Type::U32, false)
}

// ---- shuffles

const UP: u64 = 0;
const DOWN: u64 = 1;
const BUTTERFLY: u64 = 2;
const INDEX: u64 = 3;

/// The lane that a lane reads from, and whether it lies in the segment.
#[inline(always)]
fn source_lane(how: u64, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (from, inside) = match how {
        UP => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max as i32),
        DOWN => (lane + b, lane + b <= max),
        BUTTERFLY => (lane ^ b, lane ^ b <= max),
        _ => (min | (b & !segment), min | (b & !segment) <= max),
    };
    if inside { (from & 31, true) } else { (lane, false) }
}

fn shuffle<const HOW: u64>(cx: &Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) {
    let [d, p, a, b, c, _] = op.slots;
    if cx.launch.checks.init {
        let (b, c) = (*frame.row32(b), *frame.row32(c));
        let from = |lane: usize| source_lane(HOW, lane as u32, b[lane], c[lane]).0 as usize;
        if frame.shadow.is_some() || lanes(mask).any(|lane| mask >> from(lane) & 1 == 0) {
            frame.shuffle_taint(op, from, mask, cx.pc);
        }
    }
    let (a, b, c) = (*frame.row32(a), frame.row32(b), frame.row32(c));
    let mut holds = 0;
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        let (from, inside) = source_lane(HOW, lane as u32, b[lane], c[lane]);
        out[lane] = a[from as usize];
        holds |= u32::from(inside) << lane;
    }
    frame.write::<u32>(d, &out, mask);
    frame.set_predicate(p, holds, mask);
}

fn shfl_lanes<const HOW: u64>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    gather_step(cx, frame, op, mask, |cx, frame, op, mask| {
        shuffle::<HOW>(cx, frame, op, mask);
        Ok(())
    })
}

/// `shfl.sync`
pub fn shfl(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, a, b, c, members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`shfl.sync` takes five operands"));
    };
    let a = emitter.source(a, Type::B32, false)?;
    let b = emitter.source(b, Type::U32, false)?;
    let c = emitter.source(c, Type::U32, false)?;
    let members = mask_slot(emitter, members)?;
    let [d, p] = emitter.destination_pair(to, Type::B32)?;
    let run: Handler = match modifiers.one_of(&["up", "down", "bfly", "idx"]) {
        Some("up") => shfl_lanes::<UP>,
        Some("down") => shfl_lanes::<DOWN>,
        Some("bfly") => shfl_lanes::<BUTTERFLY>,
        _ => shfl_lanes::<INDEX>,
    };
    emitter.push(run, &[d, p, a, b, c, members], 0);
    Ok(())
}

// ---- votes

fn vote_all(frame: &mut Frame, op: &Op, mask: u32) {
    let held = frame.predicate(op.slots[1]) & mask;
    frame.set_predicate(op.slots[0], u32::from(held == mask).wrapping_neg(), mask);
}

fn vote_any(frame: &mut Frame, op: &Op, mask: u32) {
    let held = frame.predicate(op.slots[1]) & mask;
    frame.set_predicate(op.slots[0], u32::from(held != 0).wrapping_neg(), mask);
}

fn vote_uniform(frame: &mut Frame, op: &Op, mask: u32) {
    let held = frame.predicate(op.slots[1]) & mask;
    frame.set_predicate(op.slots[0], u32::from(held == 0 || held == mask).wrapping_neg(), mask);
}

fn vote_ballot(frame: &mut Frame, op: &Op, mask: u32) {
    let held = frame.predicate(op.slots[1]) & mask;
    frame.write::<u32>(op.slots[0], &[held; LANES], mask);
}

/// The handler that gathers for a function.
macro_rules! gathered {
    ($together:path) => {{
        fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            gather(cx, frame, op, mask, $together)
        }
        run as Handler
    }};
}

/// `vote.sync`
pub fn vote(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, predicate, members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`vote.sync` takes three operands"));
    };
    let predicate = emitter.predicate_source(predicate)?;
    let members = mask_slot(emitter, members)?;
    let (run, ty) = match modifiers.one_of(&["all", "any", "uni"]) {
        Some("all") => (gathered!(vote_all), Type::Pred),
        Some("any") => (gathered!(vote_any), Type::Pred),
        Some(_) => (gathered!(vote_uniform), Type::Pred),
        None => (gathered!(vote_ballot), Type::B32),
    };
    let to = emitter.destination(to, ty, false)?;
    emitter.push(run, &[to, predicate, SINK, SINK, SINK, members], 0);
    Ok(())
}

// ---- matches

/// For each lane of the mask, the lanes of the mask with the same value.
fn matching<T: PartialEq + Copy>(row: &[T; LANES], mask: u32) -> Row32 {
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        out[lane] =
            lanes(mask).filter(|other| row[*other] == row[lane]).map(|other| 1 << other).sum();
    }
    out
}

fn match_row(frame: &Frame, op: &Op, mask: u32) -> Row32 {
    match op.imm {
        64 => matching(frame.row64(op.slots[2]), mask),
        _ => matching(frame.row32(op.slots[2]), mask),
    }
}

fn match_any(frame: &mut Frame, op: &Op, mask: u32) {
    let out = match_row(frame, op, mask);
    frame.write::<u32>(op.slots[0], &out, mask);
}

fn match_all(frame: &mut Frame, op: &Op, mask: u32) {
    let out = match_row(frame, op, mask);
    let all = out[mask.trailing_zeros() as usize] == mask;
    frame.write::<u32>(op.slots[0], &[if all { mask } else { 0 }; LANES], mask);
    frame.set_predicate(op.slots[1], u32::from(all).wrapping_neg(), mask);
}

/// `match.sync`
pub fn matches(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, value, members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`match.sync` takes three operands"));
    };
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let value = emitter.source(value, ty, false)?;
    let members = mask_slot(emitter, members)?;
    let [d, p] = emitter.destination_pair(to, Type::B32)?;
    let run = if modifiers.has("all") { gathered!(match_all) } else { gathered!(match_any) };
    emitter.push(run, &[d, p, value, SINK, SINK, members], u64::from(ty.bits()));
    Ok(())
}

// ---- reductions

/// The handler that folds the values of the lanes.
macro_rules! folded {
    ($ty:ty, |$a:ident, $b:ident| $value:expr) => {{
        fn together(frame: &mut Frame, op: &Op, mask: u32) {
            let row = frame.row32(op.slots[1]);
            let fold = |$a: u32, $b: u32| {
                let ($a, $b) = ($a as $ty, $b as $ty);
                $value as u32
            };
            let value = lanes(mask).map(|lane| row[lane]).reduce(fold).unwrap_or(0);
            frame.write::<u32>(op.slots[0], &[value; LANES], mask);
        }
        gathered!(together)
    }};
}

/// `redux.sync`
pub fn redux(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, value, members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`redux.sync` takes three operands"));
    };
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let value = emitter.source(value, ty, false)?;
    let members = mask_slot(emitter, members)?;
    let to = emitter.destination(to, ty, false)?;
    let run = match (modifiers.one_of(&["add", "min", "max", "and", "or", "xor"]), ty.is_signed()) {
        (Some("add"), _) => folded!(u32, |a, b| a.wrapping_add(b)),
        (Some("min"), false) => folded!(u32, |a, b| a.min(b)),
        (Some("min"), true) => folded!(i32, |a, b| a.min(b)),
        (Some("max"), false) => folded!(u32, |a, b| a.max(b)),
        (Some("max"), true) => folded!(i32, |a, b| a.max(b)),
        (Some("and"), _) => folded!(u32, |a, b| a & b),
        (Some("or"), _) => folded!(u32, |a, b| a | b),
        _ => folded!(u32, |a, b| a ^ b),
    };
    emitter.push(run, &[to, value, SINK, SINK, SINK, members], 0);
    Ok(())
}

// ---- the rest

fn meet(_: &mut Frame, _: &Op, _: u32) {}

/// `bar.warp.sync`
pub fn warp_sync(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`bar.warp.sync` takes a mask"));
    };
    let members = mask_slot(emitter, members)?;
    emitter.push(gathered!(meet), &[SINK, SINK, SINK, SINK, SINK, members], 0);
    Ok(())
}

fn elected(frame: &mut Frame, op: &Op, mask: u32) {
    let leader = mask.trailing_zeros();
    frame.write::<u32>(op.slots[0], &[leader; LANES], mask);
    frame.set_predicate(op.slots[1], 1 << leader, mask);
}

/// `elect.sync`: the lowest lane is elected.
pub fn elect(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, members] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`elect.sync` takes two operands"));
    };
    let members = mask_slot(emitter, members)?;
    let [d, p] = emitter.destination_pair(to, Type::B32)?;
    emitter.push(gathered!(elected), &[d, p, SINK, SINK, SINK, members], 0);
    Ok(())
}

/// `activemask`: the lanes that execute it together.
pub fn activemask(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        // Which lanes run together is the scheduler's choice.
        cx.unsteady = true;
        frame.write::<u32>(op.slots[0], &[mask; LANES], mask);
        Ok(Flow::Next)
    }
    let [to] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`activemask` takes one operand"));
    };
    let to = emitter.destination(to, Type::B32, false)?;
    emitter.push(run, &[to], 0);
    Ok(())
}
