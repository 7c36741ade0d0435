//! `mma.sync` and `mma.sp.sync`.

use super::fragment::{Tile, a_place, b_place, c_place};
use super::multiply::multiply;
use super::{bits, destinations, listed, plan_of, quad, registers, sources, warp_wide, whole_warp};
use crate::fault::LoadError;
use crate::isa::{Modifiers, Type};
use crate::machine::matrix_plan::{Plan, Unit, per_register};
use crate::machine::{Cx, Frame, Handler, LANES, Op, SINK, Step, lanes};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

/// `mma.sync`
pub fn mma(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let plan = Plan::of(modifiers, Unit::Warp)
        .ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let [d, a, b, c] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`mma.sync` takes four operands"));
    };
    if plan.k == 4 && plan.a == Type::F16 {
        return quad::emit(emitter, plan, [d, a, b, c]);
    }
    let list = operands(emitter, &plan, [d, a, b, c])?;
    push(emitter, plan, list, [SINK; 4], run);
    Ok(())
}

/// `mma.sp.sync`
pub fn sparse(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let plan = Plan::of(modifiers, Unit::Warp)
        .ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let [d, a, b, c, metadata, selector] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`mma.sp` takes six operands"));
    };
    let plan = Plan { sparse: Some(self::selector(emitter, &plan, selector)?), ..plan };
    let mut list = operands(emitter, &plan, [d, a, b, c])?;
    list.push(emitter.source(metadata, Type::B32, false)?);
    push(emitter, plan, list, [SINK; 4], run);
    Ok(())
}

/// Which lanes of a group hold metadata.
pub fn selector(emitter: &Emitter<'_>, plan: &Plan, operand: &Operand) -> Result<u8, LoadError> {
    let selector = emitter.immediate(operand)?;
    match selector < 4 / metadata_lanes(plan) as u64 {
        true => Ok(selector as u8),
        false => Err(emitter.invalid(format!("there is no sparsity selector {selector} here"))),
    }
}

/// The registers of D, A, B and C, one list.
pub fn operands(
    emitter: &mut Emitter<'_>,
    plan: &Plan,
    [d, a, b, c]: [&Operand; 4],
) -> Result<Vec<u32>, LoadError> {
    let word = plan.word_type();
    let read = [
        sources(emitter, a, word, plan.a_registers())?,
        sources(emitter, b, word, plan.b_registers())?,
        sources(emitter, c, word, plan.c_registers())?,
    ];
    let mut list = destinations(emitter, d, word, plan.d_registers())?;
    list.extend(read.concat());
    Ok(list)
}

/// Appends the operation of a plan. Its list stands in the first slot, its mask in the last.
pub fn push(
    emitter: &mut Emitter<'_>,
    plan: Plan,
    list: Vec<u32>,
    [first, second, third, fourth]: [u32; 4],
    run: Handler,
) {
    let list = listed(emitter, list);
    let mask = whole_warp(emitter);
    emitter.program.plans.push(plan);
    let index = emitter.program.plans.len() as u64 - 1;
    emitter.push(run, &[list, first, second, third, fourth, mask], index);
}

fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |_, frame, op, mask| {
        execute(frame, op, mask);
        Ok(())
    })
}

/// Reads the fragments, multiplies, and writes D.
fn execute(frame: &mut Frame, op: &Op, mask: u32) {
    let (plan, list) = (plan_of(frame, op), registers(frame, op));
    let (d, rest) = list.split_at(plan.d_registers());
    let (a, rest) = rest.split_at(plan.a_registers());
    let (b, rest) = rest.split_at(plan.b_registers());
    let (c, metadata) = rest.split_at(plan.c_registers());
    let a = read_a(frame, a, (plan.m, plan.stored_words()), plan.a);
    let b = read_b(frame, b, (plan.n, plan.words()), plan.b);
    let c = read_c(frame, c, (plan.m, plan.n), plan.c);
    let places = metadata.first().map(|slot| stored_places(&plan, frame.row32(*slot)));
    let product = multiply(&plan, [&a, &b, &c], places.as_ref());
    write_d(frame, d, &product, plan.d, mask);
}

/// A register's bits, as 64.
pub fn word(frame: &Frame, slot: u32, lane: usize, ty: Type) -> u64 {
    match ty {
        Type::F64 => bits::<u64>(frame, slot, lane),
        _ => bits::<u32>(frame, slot, lane).into(),
    }
}

/// A's words.
pub fn read_a(frame: &Frame, slots: &[u32], shape: (usize, usize), ty: Type) -> Tile<u64> {
    let mut tile = Tile::filled(shape.0, shape.1, 0);
    for (register, slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let (row, col) = a_place(lane, register, shape);
            tile.set(row, col, word(frame, *slot, lane, ty));
        }
    }
    tile
}

/// B's words, by columns.
pub fn read_b(
    frame: &Frame,
    slots: &[u32],
    (columns, words): (usize, usize),
    ty: Type,
) -> Tile<u64> {
    let mut tile = Tile::filled(columns, words, 0);
    for (register, slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let (column, at) = b_place(lane, register, words);
            tile.set(column, at, word(frame, *slot, lane, ty));
        }
    }
    tile
}

/// C's elements.
pub fn read_c(frame: &Frame, slots: &[u32], (m, n): (usize, usize), ty: Type) -> Tile<u64> {
    let mut tile = Tile::filled(m, n, 0);
    let held = per_register(ty);
    for (register, slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let own = word(frame, *slot, lane, ty);
            for part in 0..held {
                let (row, col) = c_place(lane, register * held + part, m);
                let bits = if held == 2 { own >> (16 * part) & 0xffff } else { own };
                tile.set(row, col, bits);
            }
        }
    }
    tile
}

/// Writes D's elements.
pub fn write_d(frame: &mut Frame, slots: &[u32], tile: &Tile<u64>, ty: Type, mask: u32) {
    let m = tile.data.len() / tile.cols;
    let held = per_register(ty);
    for (register, slot) in slots.iter().enumerate() {
        let mut row = [0; LANES];
        for lane in lanes(mask) {
            for part in 0..held {
                let (at, col) = c_place(lane, register * held + part, m);
                row[lane] |= tile.get(at, col) << (16 * part);
            }
        }
        match ty {
            Type::F64 => frame.write::<u64>(*slot, &row, mask),
            _ => frame.write::<u32>(*slot, &row.map(|own| own as u32), mask),
        }
    }
}

// ---- sparse A

/// Neighbours in `k` that metadata treats as one: of every four such, two are stored.
///
/// Of `.tf32` one element of every two is stored, which metadata says like two halves of each.
fn neighbours(ty: Type) -> usize {
    if ty.bits() == 4 { 2 } else { 1 }
}

/// Lanes of a group that hold metadata: one for each 32 bits of two rows.
fn metadata_lanes(plan: &Plan) -> usize {
    let quarters = match plan.a {
        Type::Tf32 => plan.k / 2,
        ty => plan.k / (4 * neighbours(ty)),
    };
    quarters / 4
}

/// The four bits that say which two of four are stored, of a row.
fn code(plan: &Plan, metadata: &[u32; LANES], row: usize, quarter: usize) -> usize {
    let holders = metadata_lanes(plan);
    let (upper, first) = (row / 8, 4 * (row % 8) + holders * usize::from(plan.sparse.unwrap_or(0)));
    let (lane, shift) = match plan.a.bits() {
        16 | 32 => (quarter / 4, 16 * upper + 4 * (quarter % 4)),
        _ => (upper + 2 * (quarter / 8), 4 * (quarter % 8)),
    };
    (metadata[first + lane] >> shift & 15) as usize
}

/// For each row, the places in `k` of the elements that are stored.
pub fn stored_places(plan: &Plan, metadata: &[u32; LANES]) -> Tile<usize> {
    let own = |(row, quarter)| {
        let code = code(plan, metadata, row, quarter);
        let two = [code & 3, code >> 2];
        match plan.a {
            Type::Tf32 => vec![2 * quarter + two[0] / 2],
            ty => {
                let many = neighbours(ty);
                let first = |place: &usize| many * (4 * quarter + place);
                two.iter().flat_map(|place| first(place)..first(place) + many).collect()
            }
        }
    };
    let quarters = 4 * metadata_lanes(plan);
    let all = (0..plan.m).flat_map(|row| (0..quarters).map(move |quarter| (row, quarter)));
    let cols = if plan.a == Type::Tf32 { quarters } else { 2 * neighbours(plan.a) * quarters };
    Tile { cols, data: all.flat_map(own).collect() }
}
