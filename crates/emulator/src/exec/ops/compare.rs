//! Comparisons and what depends on them.

use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Lane, Op, Step};
use crate::numeric::compare::Compare;
use crate::numeric::half::{self, Half};

const COMPARES: [Compare; 14] = [
    Compare::Eq,
    Compare::Ne,
    Compare::Lt,
    Compare::Le,
    Compare::Gt,
    Compare::Ge,
    Compare::Equ,
    Compare::Neu,
    Compare::Ltu,
    Compare::Leu,
    Compare::Gtu,
    Compare::Geu,
    Compare::Num,
    Compare::Nan,
];

/// The first operator among the modifiers.
fn operator(modifiers: &Modifiers<'_>) -> Option<Compare> {
    modifiers.words().find_map(Compare::parse)
}

/// Whether a type has the operator that the modifiers name: bits are equal or not, signed numbers have
/// the six relations, unsigned ones their own names for four of them, floats the unordered ones.
fn has_operator(modifiers: &Modifiers<'_>, ty: Type) -> bool {
    let unsigned = modifiers.one_of(&["lo", "ls", "hi", "hs"]).is_some();
    let equality = modifiers.one_of(&["eq", "ne"]).is_some();
    let signed = equality || modifiers.one_of(&["lt", "le", "gt", "ge"]).is_some();
    match ty {
        Type::B16 | Type::B32 | Type::B64 => equality,
        _ if ty.is_float() => !unsigned,
        _ if ty.is_signed() => signed,
        _ => signed || unsigned,
    }
}

/// How `setp` and `set` combine a comparison with a predicate.
fn combination(modifiers: &Modifiers<'_>) -> u64 {
    match modifiers.one_of(&["and", "or", "xor"]) {
        Some("and") => 1,
        Some("or") => 2,
        Some(_) => 3,
        None => 0,
    }
}

fn combine(how: u64, holds: u32, frame: &Frame, slot: u32) -> u32 {
    match how {
        0 => holds,
        1 => holds & frame.predicate(slot),
        2 => holds | frame.predicate(slot),
        _ => holds ^ frame.predicate(slot),
    }
}

/// Handlers of one kind by operator, for a type of lane.
macro_rules! by_operator {
    ($run:ident, $ty:ty, $compare:expr) => {{
        const ALL: [Handler; 14] = [
            $run::<$ty, 0>,
            $run::<$ty, 1>,
            $run::<$ty, 2>,
            $run::<$ty, 3>,
            $run::<$ty, 4>,
            $run::<$ty, 5>,
            $run::<$ty, 6>,
            $run::<$ty, 7>,
            $run::<$ty, 8>,
            $run::<$ty, 9>,
            $run::<$ty, 10>,
            $run::<$ty, 11>,
            $run::<$ty, 12>,
            $run::<$ty, 13>,
        ];
        ALL[COMPARES.iter().position(|own| *own == $compare)?]
    }};
}

macro_rules! by_compared_type {
    ($run:ident, $ty:expr, $ftz:expr, $compare:expr) => {
        match $ty {
            Type::F32 if $ftz => by_operator!($run, super::float::Flushed, $compare),
            Type::F16 if $ftz => by_operator!($run, super::half::FlushedHalf, $compare),
            _ if $ftz => return None,
            Type::U16 | Type::B16 => by_operator!($run, u16, $compare),
            Type::S16 => by_operator!($run, i16, $compare),
            Type::U32 | Type::B32 => by_operator!($run, u32, $compare),
            Type::S32 => by_operator!($run, i32, $compare),
            Type::U64 | Type::B64 => by_operator!($run, u64, $compare),
            Type::S64 => by_operator!($run, i64, $compare),
            Type::F32 => by_operator!($run, f32, $compare),
            Type::F64 => by_operator!($run, f64, $compare),
            Type::F16 => by_operator!($run, super::half::Single, $compare),
            Type::Bf16 => by_operator!($run, super::half::Brain, $compare),
            _ => return None,
        }
    };
}

fn setp_lanes<T: Lane + PartialOrd, const C: usize>(
    _: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let holds = frame.test2::<T>(op, mask, |a, b| COMPARES[C].holds(a, b));
    let p = combine(op.imm, holds, frame, op.slots[4]);
    let q = combine(op.imm, !holds, frame, op.slots[4]);
    frame.set_predicate(op.slots[0], p, mask);
    frame.set_predicate(op.slots[1], q, mask);
    Ok(Flow::Next)
}

/// `setp`
pub fn setp(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let compare = operator(modifiers)
        .filter(|_| modifiers.ty(0).is_some_and(|ty| has_operator(modifiers, ty)))?;
    let run: Handler =
        by_compared_type!(setp_lanes, modifiers.ty(0)?, modifiers.has("ftz"), compare);
    Some(Pick::with(run, combination(modifiers)))
}

/// `selp`
pub fn selp(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<T: Lane>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let chosen = frame.predicate(op.slots[3]);
        let (a, b) = (T::row(frame, op.slots[1]), T::row(frame, op.slots[2]));
        let out =
            std::array::from_fn(|lane| if chosen >> lane & 1 != 0 { a[lane] } else { b[lane] });
        frame.write::<T>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        64 => run::<u64> as Handler,
        _ => run::<u32>,
    }))
}

/// `set`: a comparison as a number, all ones or zeros, or 1.0 or 0.0.
pub fn set(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let (to, from, ftz) = (modifiers.ty(0)?, modifiers.ty(1)?, modifiers.has("ftz"));
    let halves = [Type::F16, Type::Bf16];
    let mixed = halves.contains(&from) && to.is_float() && to != from;
    if !has_operator(modifiers, from) || mixed {
        return None;
    }
    let compare = operator(modifiers)?;
    let run: Handler = by_compared_type!(set_lanes, from, ftz, compare);
    Some(Pick::with(run, combination(modifiers) | one(to) << 32))
}

/// What `set` writes where its comparison holds.
fn one(ty: Type) -> u64 {
    match ty {
        Type::F32 => 0x3f80_0000,
        Type::F16 => 0x3c00,
        Type::F16x2 => 0x3c00_3c00,
        Type::Bf16 => 0x3f80,
        Type::Bf16x2 => 0x3f80_3f80,
        Type::U16 | Type::S16 => 0xffff,
        _ => 0xffff_ffff,
    }
}

/// Slots: 0 result, 1 and 2 compared, 3 predicate.
fn set_lanes<T: Lane + PartialOrd, const C: usize>(
    _: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let [d, a, b, p, ..] = op.slots;
    let shifted = Op { slots: [d, d, a, b, p, 0], ..*op };
    let holds = frame.test2::<T>(&shifted, mask, |a, b| COMPARES[C].holds(a, b));
    let holds = combine(op.imm & 3, holds, frame, p);
    let one = (op.imm >> 32) as u32;
    let out = std::array::from_fn(|lane| if holds >> lane & 1 != 0 { one } else { 0 });
    frame.write::<u32>(d, &out, mask);
    Ok(Flow::Next)
}

// ---- pairs of halves

const PAIR_FLUSH: u64 = 1 << 8;
const PAIR_BRAIN: u64 = 1 << 9;

/// The immediate of a comparison of pairs.
fn pair_imm(modifiers: &Modifiers<'_>, from: Type) -> Option<u64> {
    let legal = has_operator(modifiers, from) && !(modifiers.has("ftz") && from == Type::Bf16x2);
    let compare = operator(modifiers).filter(|_| legal)?;
    let index = COMPARES.iter().position(|own| *own == compare)? as u64;
    let flush = if modifiers.has("ftz") { PAIR_FLUSH } else { 0 };
    let brain = if from == Type::Bf16x2 { PAIR_BRAIN } else { 0 };
    Some(combination(modifiers) | index << 4 | flush | brain)
}

/// The lanes in which a comparison holds for the lower halves, and for the upper.
fn compare_pairs(frame: &Frame, imm: u64, a: u32, b: u32) -> [u32; 2] {
    let compare = COMPARES[(imm >> 4 & 15) as usize % COMPARES.len()];
    let value = |bits: u32| {
        let bits = bits as u16;
        match (imm & PAIR_BRAIN != 0, imm & PAIR_FLUSH != 0) {
            (true, _) => half::Bf16::widen(bits),
            (false, true) => half::F16::widen(half::ftz_f16(bits)),
            (false, false) => half::F16::widen(bits),
        }
    };
    let (a, b) = (frame.row32(a), frame.row32(b));
    [0, 16].map(|shift| {
        let holds =
            |lane: &usize| compare.holds(value(a[*lane] >> shift), value(b[*lane] >> shift));
        (0..LANES).filter(holds).map(|lane| 1 << lane).sum()
    })
}

/// `setp` of pairs: the first predicate is that of the lower halves.
pub fn setp_pair(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let [p, q, a, b, c, _] = op.slots;
        let holds = compare_pairs(frame, op.imm, a, b);
        let [low, high] = holds.map(|holds| combine(op.imm & 3, holds, frame, c));
        frame.set_predicate(p, low, mask);
        frame.set_predicate(q, high, mask);
        Ok(Flow::Next)
    }
    Some(Pick::with(run, pair_imm(modifiers, modifiers.ty(0)?)?))
}

/// `set` of pairs.
pub fn set_pair(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let [d, a, b, c, ..] = op.slots;
        let holds = compare_pairs(frame, op.imm, a, b);
        let [low, high] = holds.map(|holds| combine(op.imm & 3, holds, frame, c));
        let one = (op.imm >> 32) as u32;
        let half =
            |holds: u32, lane: usize, bits: u32| if holds >> lane & 1 != 0 { bits } else { 0 };
        let out = std::array::from_fn(|lane| {
            half(low, lane, one & 0xffff) | half(high, lane, one & 0xffff_0000)
        });
        frame.write::<u32>(d, &out, mask);
        Ok(Flow::Next)
    }
    let (to, from) = (modifiers.ty(0)?, modifiers.ty(1)?);
    if to.is_float() && to != from {
        return None;
    }
    Some(Pick::with(run, pair_imm(modifiers, from)? | one(to) << 32))
}

/// `slct`: one of two values, by the sign of a third.
pub fn slct(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let (wide, ftz) = (modifiers.ty(0)?.bits() == 64, modifiers.has("ftz"));
    Some(Pick::from(match (wide, modifiers.ty(1)?, ftz) {
        (false, Type::S32, false) => {
            lanes!(u32 = |a: u32, b: u32, c: i32| if c >= 0 { a } else { b })
        }
        (true, Type::S32, false) => {
            lanes!(u64 = |a: u64, b: u64, c: i32| if c >= 0 { a } else { b })
        }
        (false, Type::F32, false) => {
            lanes!(u32 = |a: u32, b: u32, c: f32| if c >= 0. { a } else { b })
        }
        (true, Type::F32, false) => {
            lanes!(u64 = |a: u64, b: u64, c: f32| if c >= 0. { a } else { b })
        }
        (false, Type::F32, true) => {
            lanes!(
                u32 = |a: u32, b: u32, c: f32| if crate::numeric::float::ftz(c) >= 0. {
                    a
                } else {
                    b
                }
            )
        }
        (true, Type::F32, true) => {
            lanes!(
                u64 = |a: u64, b: u64, c: f32| if crate::numeric::float::ftz(c) >= 0. {
                    a
                } else {
                    b
                }
            )
        }
        _ => return None,
    }))
}
