//! `ldmatrix`, `stmatrix`, `movmatrix`: tiles of eight by eight 16-bit elements.

use super::{destinations, listed, parts, registers, sources, warp_wide, whole_warp};
use crate::exec::address::{Generic, Shared, Window, resolve};
use crate::fault::{Access, LoadError};
use crate::isa::{Modifiers, Type};
use crate::machine::{
    Cx, Fault, Frame, Handler, LANES, Op, Row32, Row64, SINK, Step, Touch, lanes,
};
use crate::memory::access;
use crate::program::{Address, Emitter};
use crate::ptx::ast::{Instruction, Operand};

/// Bytes of a row.
const ROW_BYTES: u32 = 16;
/// Slot of the address.
const BASE: usize = 4;

/// A tile: bits of its rows, columns.
type Square = [[u16; 8]; 8];

/// `ldmatrix`
pub fn ldmatrix(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`ldmatrix` takes registers and an address"));
    };
    let list = destinations(emitter, to, Type::B32, count(modifiers))?;
    let run: Handler = match (is_shared(modifiers), modifiers.has("trans")) {
        (true, false) => load::<Shared, false>,
        (true, true) => load::<Shared, true>,
        (false, false) => load::<Generic, false>,
        (false, true) => load::<Generic, true>,
    };
    push(emitter, list, from, run)
}

/// `stmatrix`
pub fn stmatrix(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`stmatrix` takes an address and registers"));
    };
    let list = sources(emitter, from, Type::B32, count(modifiers))?;
    let run: Handler = match (is_shared(modifiers), modifiers.has("trans")) {
        (true, false) => store::<Shared, false>,
        (true, true) => store::<Shared, true>,
        (false, false) => store::<Generic, false>,
        (false, true) => store::<Generic, true>,
    };
    push(emitter, list, to, run)
}

/// `movmatrix`
pub fn movmatrix(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`movmatrix` takes two registers"));
    };
    let from = emitter.source(&parts(from)[0], Type::B32, false)?;
    let to = emitter.destination(&parts(to)[0], Type::B32, false)?;
    let mask = whole_warp(emitter);
    emitter.push(transpose, &[to, from, SINK, SINK, SINK, mask], 0);
    Ok(())
}

fn count(modifiers: &Modifiers<'_>) -> usize {
    match modifiers.one_of(&["x1", "x2"]) {
        Some("x1") => 1,
        Some(_) => 2,
        None => 4,
    }
}

fn is_shared(modifiers: &Modifiers<'_>) -> bool {
    modifiers.one_of(&["shared", "shared::cta"]).is_some()
}

fn push(
    emitter: &mut Emitter<'_>,
    list: Vec<u32>,
    address: &Operand,
    run: Handler,
) -> Result<(), LoadError> {
    let Address::Row(base, offset) = emitter.address(address)? else {
        return Err(emitter.invalid("the address has to lie in shared memory"));
    };
    let list = listed(emitter, list);
    let mask = whole_warp(emitter);
    emitter.push(run, &[list, SINK, SINK, SINK, base, mask], offset as u64);
    Ok(())
}

/// The addresses of the rows, of which each of the first lanes names one.
fn rows<W: Window>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    tiles: usize,
    access: Access,
) -> Result<Row64, Box<Fault>> {
    let named = u32::MAX >> (32 - 8 * tiles);
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), named, ROW_BYTES, access)?;
    if cx.watch.is_some() {
        let touch = Touch { op, mask: named, at: &at, bytes: 4, elements: 4, access };
        cx.touch(frame, &touch)?;
    }
    Ok(at)
}

fn load<W: Window, const TRANSPOSED: bool>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    warp_wide(cx, frame, op, mask, |cx, frame, op, mask| {
        let list = registers(frame, op);
        let at = rows::<W>(cx, frame, op, list.len(), Access::Load)?;
        for (tile, slot) in list.iter().enumerate() {
            let square: Square = std::array::from_fn(|row| {
                std::array::from_fn(|column| {
                    let address = at[8 * tile + row] + 2 * column as u64;
                    // SAFETY: `resolve` checked 16 aligned bytes for the lane that named the row.
                    unsafe { access::load_u16(address) }
                })
            });
            let square = if TRANSPOSED { flipped(&square) } else { square };
            frame.write::<u32>(*slot, &spread(&square), mask);
        }
        Ok(())
    })
}

fn store<W: Window, const TRANSPOSED: bool>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    warp_wide(cx, frame, op, mask, |cx, frame, op, _| {
        let list = registers(frame, op);
        let at = rows::<W>(cx, frame, op, list.len(), Access::Store)?;
        for (tile, slot) in list.iter().enumerate() {
            let square = collected(frame.row32(*slot));
            let square = if TRANSPOSED { flipped(&square) } else { square };
            for (row, values) in square.iter().enumerate() {
                for (column, value) in values.iter().enumerate() {
                    let address = at[8 * tile + row] + 2 * column as u64;
                    // SAFETY: `resolve` checked 16 aligned bytes for the lane that named the row.
                    unsafe { access::store_u16(address, *value) };
                }
            }
        }
        Ok(())
    })
}

fn transpose(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |_, frame, op, mask| {
        let square = collected(frame.row32(op.slots[1]));
        frame.write::<u32>(op.slots[0], &spread(&flipped(&square)), mask);
        Ok(())
    })
}

/// The register that holds a tile: of row `lane / 4` the elements `lane % 4 · 2` and the next.
fn spread(square: &Square) -> Row32 {
    std::array::from_fn(|lane| {
        let own = &square[lane / 4][lane % 4 * 2..];
        u32::from(own[0]) | u32::from(own[1]) << 16
    })
}

/// The tile that a register holds.
fn collected(row: &Row32) -> Square {
    let mut square = [[0; 8]; 8];
    for lane in lanes(u32::MAX).take(LANES) {
        square[lane / 4][lane % 4 * 2] = row[lane] as u16;
        square[lane / 4][lane % 4 * 2 + 1] = (row[lane] >> 16) as u16;
    }
    square
}

fn flipped(square: &Square) -> Square {
    std::array::from_fn(|row| std::array::from_fn(|column| square[column][row]))
}
