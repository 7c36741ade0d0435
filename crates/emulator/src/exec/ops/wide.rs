//! Registers of 128 bits: each is two rows of 64, the lower half first.

use crate::exec::address::{Generic, Global, Shared, SharedCluster, Window, resolve};
use crate::fault::{Access, LoadError};
use crate::isa::Type;
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Op, Row64, Step, Touch, lanes};
use crate::memory::atomic;
use crate::program::Emitter;
use crate::ptx::ast::Operand;

/// Slot of the address.
const BASE: usize = 5;
/// Bytes of a register.
const BYTES: u32 = 16;

fn value(frame: &Frame, slot: u32) -> [u128; LANES] {
    let (low, high) = (frame.row64(slot), frame.row64(slot + 1));
    std::array::from_fn(|lane| u128::from(low[lane]) | u128::from(high[lane]) << 64)
}

fn write(frame: &mut Frame, slot: u32, values: &[u128; LANES], mask: u32) {
    frame.write::<u64>(slot, &values.map(|value| value as u64), mask);
    frame.write::<u64>(slot + 1, &values.map(|value| (value >> 64) as u64), mask);
}

fn places<W: Window>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    access: Access,
) -> Result<Row64, Box<crate::machine::Fault>> {
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, BYTES, access)?;
    if cx.watch.is_some() {
        cx.touch(frame, &Touch { op, mask, at: &at, bytes: 8, elements: 2, access })?;
    }
    Ok(at)
}

/// Slots: 0 the register, 5 the address.
fn load<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let at = places::<W>(cx, frame, op, mask, Access::Load)?;
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        // SAFETY: `resolve` checked that the bytes are aligned and live.
        out[lane] = unsafe { atomic::load_u128(at[lane]) };
    }
    write(frame, op.slots[0], &out, mask);
    Ok(Flow::Next)
}

/// Slots: 0 the register, 5 the address.
fn store<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let at = places::<W>(cx, frame, op, mask, Access::Store)?;
    let values = value(frame, op.slots[0]);
    for lane in lanes(mask) {
        // SAFETY: as above.
        unsafe { atomic::exch_u128(at[lane], values[lane]) };
    }
    Ok(Flow::Next)
}

/// Slots: 0 what was there, 1 the operand, or what is expected and 2 the operand; 5 the address.
fn update<W: Window, const CAS: bool>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let at = places::<W>(cx, frame, op, mask, Access::Atomic)?;
    let b = value(frame, op.slots[1]);
    let c = if CAS { value(frame, op.slots[2]) } else { b };
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        // SAFETY: as above; all accesses of 128 bits that may race take the same lock.
        out[lane] = unsafe {
            match CAS {
                true => atomic::cas_u128(at[lane], b[lane], c[lane]),
                false => atomic::exch_u128(at[lane], b[lane]),
            }
        };
    }
    write(frame, op.slots[0], &out, mask);
    cx.polled = true;
    Ok(Flow::Next)
}

macro_rules! by_space {
    ($space:expr, $run:ident $(, $more:literal)?) => {
        Some(match $space {
            "" => $run::<Generic $(, $more)?> as Handler,
            "global" => $run::<Global $(, $more)?>,
            "shared" | "shared::cta" => $run::<Shared $(, $more)?>,
            "shared::cluster" => $run::<SharedCluster $(, $more)?>,
            _ => return None,
        })
    };
}

/// A load in one step.
pub fn strong_load(space: &str) -> Option<Handler> {
    by_space!(space, load)
}

/// A store in one step.
pub fn strong_store(space: &str) -> Option<Handler> {
    by_space!(space, store)
}

/// `atom.exch.b128`, `atom.cas.b128`
pub fn atom(operation: &str, space: &str) -> Option<Handler> {
    match operation {
        "exch" => by_space!(space, update, false),
        "cas" => by_space!(space, update, true),
        _ => None,
    }
}

// ---- mov

fn copy(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let values = value(frame, op.slots[1]);
    write(frame, op.slots[0], &values, mask);
    Ok(Flow::Next)
}

/// Slots: 0 the whole, 1 the halves.
fn join(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let (low, high) = (*frame.row64(op.slots[1]), *frame.row64(op.slots[2]));
    frame.write::<u64>(op.slots[0], &low, mask);
    frame.write::<u64>(op.slots[0] + 1, &high, mask);
    Ok(Flow::Next)
}

/// Slots: 0 and 1 the halves, 2 the whole.
fn part(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let (low, high) = (*frame.row64(op.slots[2]), *frame.row64(op.slots[2] + 1));
    frame.write::<u64>(op.slots[0], &low, mask);
    frame.write::<u64>(op.slots[1], &high, mask);
    Ok(Flow::Next)
}

/// `mov.b128`: two halves to a whole, a whole to two halves, or a copy.
pub fn mov(emitter: &mut Emitter<'_>, to: &Operand, from: &Operand) -> Result<(), LoadError> {
    match (to, from) {
        (Operand::Vector(halves), whole) => {
            let [low, high] = halves.as_slice() else { return Err(not_two(emitter)) };
            let whole = emitter.source(whole, Type::B128, false)?;
            let low = emitter.destination(low, Type::B64, false)?;
            let high = emitter.destination(high, Type::B64, false)?;
            emitter.push(part, &[low, high, whole], 0);
        }
        (whole, Operand::Vector(halves)) => {
            let [low, high] = halves.as_slice() else { return Err(not_two(emitter)) };
            let low = emitter.source(low, Type::B64, false)?;
            let high = emitter.source(high, Type::B64, false)?;
            let whole = emitter.destination(whole, Type::B128, false)?;
            emitter.push(join, &[whole, low, high], 0);
        }
        (to, from) => {
            let from = emitter.source(from, Type::B128, false)?;
            let to = emitter.destination(to, Type::B128, false)?;
            emitter.push(copy, &[to, from], 0);
        }
    }
    Ok(())
}

fn not_two(emitter: &Emitter<'_>) -> LoadError {
    emitter.invalid("128 bits are two halves of 64")
}
