//! `mma.m8n8k4` of `.f16`: four multiplications, each by a quad of lanes and the quad 16 lanes on.

use super::mma::{operands, push};
use super::{plan_of, registers, warp_wide};
use crate::fault::LoadError;
use crate::isa::Type;
use crate::machine::matrix_plan::Plan;
use crate::machine::{Cx, Frame, LANES, Op, Row32, SINK, Step, lanes};
use crate::numeric::Rounding;
use crate::numeric::half::{self, F16, Half};
use crate::numeric::matrix::{Kind, volta};
use crate::program::Emitter;
use crate::ptx::ast::Operand;

/// Appends the operation.
pub fn emit(
    emitter: &mut Emitter<'_>,
    plan: Plan,
    operand: [&Operand; 4],
) -> Result<(), LoadError> {
    // Each lane holds four elements of A and of B, and eight of C and D: as of m16n16k16.
    let counts = Plan { m: 16, n: 16, k: 8, ..plan };
    let list = operands(emitter, &counts, operand)?;
    push(emitter, plan, list, [SINK; 4], run);
    Ok(())
}

fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |_, frame, op, mask| {
        execute(frame, op, mask);
        Ok(())
    })
}

/// The lanes of the quad pair `pair` that hold row or column `index` of eight.
fn holder(pair: usize, index: usize) -> usize {
    4 * pair + index % 4 + 16 * (index / 4)
}

/// The lane and the place in its fragment of an element, by its index among eight and its index in k.
/// A fragment holds neighbours in `k`, or (`across`) neighbours among the eight.
fn place(pair: usize, index: usize, k: usize, across: bool) -> (usize, usize) {
    match across {
        false => (holder(pair, index), k),
        true => (holder(pair, k + 4 * (index / 4)), index % 4),
    }
}

/// The row and column that an element of a lane's C or D has.
fn c_place(lane: usize, index: usize, ty: Type) -> (usize, usize) {
    let upper = lane / 16 * 4;
    match ty {
        Type::F16 => (lane % 4 + upper, index),
        _ => ((lane & 1) + (index & 2) + upper, (index & 4) + (lane & 2) + (index & 1)),
    }
}

fn execute(frame: &mut Frame, op: &Op, mask: u32) {
    let (plan, list) = (plan_of(frame, op), registers(frame, op));
    let count = |ty| if ty == Type::F16 { 4 } else { 8 };
    let (d, rest) = list.split_at(count(plan.d));
    let rows: Vec<Row32> = rest.iter().map(|slot| *frame.row32(*slot)).collect();
    let (ab, c) = rows.split_at(4);
    let mut out = vec![[0; LANES]; d.len()];
    for lane in lanes(mask) {
        for index in 0..8 {
            let (row, column) = c_place(lane, index, plan.d);
            let pair = lane % 16 / 4;
            let a = four(&ab[..2], |k| place(pair, row, k, plan.a_by_columns));
            let b = four(&ab[2..], |k| place(pair, column, k, plan.b_by_rows));
            let c = accumulator(c, pair, row, column, plan.c);
            put(&mut out, lane, index, plan.d, volta(a, b, c, kind(plan.d)));
        }
    }
    for (slot, row) in d.iter().zip(out) {
        frame.write::<u32>(*slot, &row, mask);
    }
}

fn kind(ty: Type) -> Kind {
    if ty == Type::F16 { Kind::F16 } else { Kind::F32 }
}

fn half_of(rows: &[Row32], lane: usize, index: usize) -> f32 {
    F16::widen((rows[index / 2][lane] >> (16 * (index % 2))) as u16)
}

fn four(rows: &[Row32], place: impl Fn(usize) -> (usize, usize)) -> [f32; 4] {
    std::array::from_fn(|k| {
        let (lane, index) = place(k);
        half_of(rows, lane, index)
    })
}

/// An element of C, whichever lane has it: with different types of C and D it may be another lane.
fn accumulator(rows: &[Row32], pair: usize, row: usize, column: usize, ty: Type) -> f32 {
    let held = |lane: &usize| lane % 16 / 4 == pair;
    let mut places = (0..LANES).filter(held).flat_map(|lane| (0..8).map(move |i| (lane, i)));
    let found = places.find(|(lane, index)| c_place(*lane, *index, ty) == (row, column));
    let (lane, index) = found.unwrap_or_default();
    match ty {
        Type::F16 => half_of(rows, lane, index),
        _ => f32::from_bits(rows[index][lane]),
    }
}

fn put(out: &mut [Row32], lane: usize, index: usize, ty: Type, value: f32) {
    match ty {
        Type::F16 => {
            let bits = u32::from(half::narrow::<F16>(value, Rounding::NearestEven));
            out[index / 2][lane] |= bits << (16 * (index % 2));
        }
        _ => out[index][lane] = value.to_bits(),
    }
}
