//! Moves between registers, vectors and addresses.

use crate::fault::LoadError;
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::cluster::RANK_SHIFT;
use crate::machine::{
    Cx, Flow, Frame, Handler, LANES, LOCAL_BASE, Op, PARAM_BASE, Piece, Register, SHARED_BASE,
    Step, WINDOW, lanes,
};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};
use std::sync::Arc;

// ---- helpers that decoding adds

/// The low half of a 64-bit register.
pub fn low_half(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    frame.map1::<u32, u64>(op, mask, |a| a as u32);
    Ok(Flow::Next)
}

/// A register of at most 32 bits to one of 64, with zeros; or, of 16 or 8 bits, the rest cleared.
pub fn zero_extend(bits: u32) -> Handler {
    match bits {
        32 => lanes!(u64 = |a: u32| u64::from(a)),
        16 => lanes!(u32 = |a: u16| u32::from(a)),
        _ => lanes!(u32 = |a: u8| u32::from(a)),
    }
}

/// A 32-bit address plus the immediate, as an address of 64 bits. The sum wraps as the address does: a
/// compiler writes `[%r1+8]` where `%r1` is eight bytes before the window of shared memory.
pub fn narrow_address(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let offset = op.imm as u32;
    frame.map1::<u64, u32>(op, mask, |address| u64::from(address.wrapping_add(offset)));
    Ok(Flow::Next)
}

/// A value of `from` bits to a register of `to`, by its sign.
pub fn sign_extend(from: u32, to: u32) -> Handler {
    match (from, to) {
        (8, 16) => lanes!(i16 = |a: i8| i16::from(a)),
        (8, 32) => lanes!(i32 = |a: i8| i32::from(a)),
        (8, _) => lanes!(i64 = |a: i8| i64::from(a)),
        (16, 32) => lanes!(i32 = |a: i16| i32::from(a)),
        (16, _) => lanes!(i64 = |a: i16| i64::from(a)),
        _ => lanes!(i64 = |a: i32| i64::from(a)),
    }
}

/// The address of a byte of the frame's local memory.
pub fn local_address(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let address = frame.local_base + op.imm;
    frame.write::<u64>(op.slots[0], &[address; LANES], mask);
    Ok(Flow::Next)
}

// ---- mov

/// `mov` between registers.
pub fn mov(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(copy(modifiers.ty(0)?).into())
}

/// A copy of a register of that type, which has 64 bits at most.
pub fn copy(ty: Type) -> Handler {
    match ty.bits() {
        64 => lanes!(u64 = |a: u64| a),
        _ => lanes!(u32 = |a: u32| a),
    }
}

/// `mov.pred`
pub fn mov_pred(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let value = frame.predicate(op.slots[1]);
        frame.set_predicate(op.slots[0], value, mask);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `mov.b16`, `.b32`, `.b64` with a vector on one side, or without.
pub fn mov_bits(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    match instruction.operands.as_slice() {
        [to, from] if ty == Type::B128 => super::wide::mov(emitter, to, from),
        [Operand::Vector(parts), whole] => unpack(emitter, ty, parts, whole),
        [whole, Operand::Vector(parts)] => pack(emitter, ty, whole, parts),
        [to, from] => {
            let from = emitter.source(from, ty, false)?;
            let to = emitter.destination(to, ty, false)?;
            emitter.push(copy(ty), &[to, from], 0);
            Ok(())
        }
        _ => Err(emitter.invalid("`mov` takes two operands")),
    }
}

/// `mov.v2`, `mov.v4`
pub fn mov_vector(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let count = if modifiers.has("v2") { 2 } else { 4 };
    let [Operand::Vector(to), Operand::Vector(from)] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`mov` of a vector takes two of them"));
    };
    if ty.bits() * count > 128 || [to, from].iter().any(|own| own.len() != count as usize) {
        return Err(emitter
            .invalid(format!("two vectors of {count} elements, of 128 bits at most, are needed")));
    }
    // All are read before the first is written, since the two may share registers.
    let mut held = Vec::new();
    for from in from {
        let known = emitter.effect().reads.len();
        let source = emitter.source(from, ty, false)?;
        let register = emitter.effect().reads.get(known).copied();
        let own = emitter.register(ty);
        emitter.push_before(copy(ty), &[own, source], 0);
        held.push((own, register));
    }
    for (to, (own, from)) in to.iter().zip(held) {
        let known = emitter.effect().writes.len();
        let to = emitter.destination(to, ty, false)?;
        emitter.push(copy(ty), &[to, own], 0);
        if let Some(to) = emitter.effect().writes.get(known).copied() {
            let (from, to) = (from.map(|from| (from, 0)), (to, 0));
            emitter.note_piece(Piece { from, to, bits: ty.bits(), signed: false });
        }
    }
    Ok(())
}

/// The type of the parts of a vector that fills `ty`.
fn part(emitter: &Emitter<'_>, ty: Type, parts: &[Operand]) -> Result<Type, LoadError> {
    match ty.bits() / (parts.len().max(1) as u32) {
        8 if parts.len() > 1 => Ok(Type::B8),
        16 if parts.len() > 1 => Ok(Type::B16),
        32 if parts.len() > 1 => Ok(Type::B32),
        _ => Err(emitter.invalid("a vector of this length does not fill the type")),
    }
}

fn unpack(
    emitter: &mut Emitter<'_>,
    ty: Type,
    parts: &[Operand],
    whole: &Operand,
) -> Result<(), LoadError> {
    let own = part(emitter, ty, parts)?;
    let known = emitter.effect().reads.len();
    let from = emitter.source(whole, ty, false)?;
    let whole = emitter.effect().reads.get(known).copied();
    let run = match (ty.bits(), own) {
        (64, Type::B32) => lanes!(op; u32 = |a: u64| (a >> op.imm) as u32),
        (64, Type::B16) => lanes!(op; u16 = |a: u64| (a >> op.imm) as u16),
        (64, _) => lanes!(op; u8 = |a: u64| (a >> op.imm) as u8),
        (_, Type::B16) => lanes!(op; u16 = |a: u32| (a >> op.imm) as u16),
        _ => lanes!(op; u8 = |a: u32| (a >> op.imm) as u8),
    };
    // The whole is read into a fresh register, since a part may be written over it.
    let held = emitter.register(ty);
    emitter.push_before(copy(ty), &[held, from], 0);
    for (index, to) in parts.iter().enumerate() {
        if !matches!(to, Operand::Name(name) if name == "_") {
            let to = emitter.destination(to, own, true)?;
            let at = own.bits() * index as u32;
            emitter.push(run, &[to, held], u64::from(at));
            if let Some(register) = emitter.effect().writes.last().copied() {
                let from = whole.map(|whole| (whole, at));
                let (to, bits) = ((register, 0), own.bits());
                emitter.note_piece(Piece { from, to, bits, signed: false });
            }
        }
    }
    Ok(())
}

fn pack(
    emitter: &mut Emitter<'_>,
    ty: Type,
    whole: &Operand,
    parts: &[Operand],
) -> Result<(), LoadError> {
    let own = part(emitter, ty, parts)?;
    let mut sources = Vec::new();
    let mut registers = Vec::new();
    for from in parts {
        let known = emitter.effect().reads.len();
        sources.push(emitter.source(from, own, true)?);
        registers.push(emitter.effect().reads.get(known).copied());
    }
    let to = emitter.destination(whole, ty, false)?;
    note_packed(emitter, own.bits(), &registers);
    let held = emitter.register(ty);
    let zero = emitter.constant(ty, 0);
    emitter.push_before(copy(ty), &[held, zero], 0);
    let run = match (ty.bits(), own) {
        (64, Type::B32) => lanes!(op; u64 = |a: u32, b: u64| b | u64::from(a) << op.imm),
        (64, Type::B16) => lanes!(op; u64 = |a: u16, b: u64| b | u64::from(a) << op.imm),
        (64, _) => lanes!(op; u64 = |a: u8, b: u64| b | u64::from(a) << op.imm),
        (_, Type::B16) => lanes!(op; u32 = |a: u16, b: u32| b | u32::from(a) << op.imm),
        _ => lanes!(op; u32 = |a: u8, b: u32| b | u32::from(a) << op.imm),
    };
    for (index, from) in sources.iter().enumerate() {
        let last = index + 1 == sources.len();
        let target = if last { to } else { held };
        emitter.push(run, &[target, *from, held], u64::from(own.bits()) * index as u64);
    }
    Ok(())
}

/// Notes that the registers make up the one that is written.
fn note_packed(emitter: &mut Emitter<'_>, bits: u32, parts: &[Option<Register>]) {
    let Some(to) = emitter.effect().writes.last().copied() else { return };
    for (at, part) in (0..).step_by(bits as usize).zip(parts) {
        let from = part.map(|part| (part, 0));
        emitter.note_piece(Piece { from, to: (to, at), bits, signed: false });
    }
}

// ---- addresses

/// First address of a window, and the name of its space.
fn window(modifiers: &Modifiers<'_>) -> Option<u64> {
    let spaces = [
        "global",
        "const",
        "shared",
        "shared::cta",
        "shared::cluster",
        "local",
        "param",
        "param::entry",
    ];
    Some(match modifiers.one_of(&spaces)? {
        "global" | "const" => 0,
        "shared" | "shared::cta" | "shared::cluster" => SHARED_BASE,
        "local" => LOCAL_BASE,
        _ => PARAM_BASE,
    })
}

/// `cvta`: an address of a space to a generic one. That of local memory is each lane's own.
pub fn cvta(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn local(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let row = frame.row64(op.slots[1]);
        let out = std::array::from_fn(|lane| row[lane].wrapping_add(cx.local_window(lane)));
        frame.write::<u64>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    if modifiers.has("local") {
        return Some((local as Handler).into());
    }
    let run = lanes!(op; u64 = |a: u64| a.wrapping_add(op.imm));
    Some(Pick::with(run, window(modifiers)?))
}

/// `cvta.to`: a generic address to one of a space. A compiler may move it before the test that the
/// address lies there, so one that does not is only found when it is used.
pub fn cvta_to(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn local(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let row = frame.row64(op.slots[1]);
        let out = std::array::from_fn(|lane| row[lane].wrapping_sub(cx.local_window(lane)));
        frame.write::<u64>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    if modifiers.has("local") {
        return Some((local as Handler).into());
    }
    let run = lanes!(op; u64 = |a: u64| a.wrapping_sub(op.imm));
    Some(Pick::with(run, window(modifiers)?))
}

/// `isspacep`: whether a generic address lies in a space. Constants are not global memory; a kernel's
/// parameters are.
pub fn isspacep(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<const BYTES: u64>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let inside = |address: u64| address.wrapping_sub(op.imm) < BYTES;
        tell(frame, op, mask, inside)
    }
    let run = match modifiers.one_of(&["shared", "shared::cta", "const", "global"]) {
        Some("const") => is_const as Handler,
        Some("global") => is_global,
        Some(_) => run::<{ 1 << RANK_SHIFT }>,
        None => run::<WINDOW>,
    };
    Some(Pick::with(run, window(modifiers)?))
}

fn is_const(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let program = Arc::clone(&frame.program);
    tell(frame, op, mask, |address| program.is_const(address))
}

fn is_global(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let program = Arc::clone(&frame.program);
    tell(frame, op, mask, |address| {
        let param = address.wrapping_sub(PARAM_BASE) < WINDOW;
        param || (address < SHARED_BASE && !program.is_const(address))
    })
}

/// Sets a predicate in the lanes whose address passes a test.
fn tell(frame: &mut Frame, op: &Op, mask: u32, test: impl Fn(u64) -> bool) -> Step {
    let row = frame.row64(op.slots[1]);
    let value = lanes(mask).filter(|lane| test(row[*lane])).map(|lane| 1 << lane).sum();
    frame.set_predicate(op.slots[0], value, mask);
    Ok(Flow::Next)
}
