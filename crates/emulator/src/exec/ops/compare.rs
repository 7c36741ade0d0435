//! Comparisons and what depends on them.

use crate::exec::frame::{Frame, Lane};
use crate::exec::{Cx, Flow, Handler, Step};
use crate::isa::{Modifiers, Pick, Type};
use crate::numeric::compare::Compare;
use crate::program::Op;

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
    let compare = operator(modifiers)?;
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
    fn int<T: Lane + PartialOrd, const C: usize>(
        _: &mut Cx<'_>,
        frame: &mut Frame,
        op: &Op,
        mask: u32,
    ) -> Step {
        set_lanes::<T, C>(frame, op, mask, u32::MAX)
    }
    fn float<T: Lane + PartialOrd, const C: usize>(
        _: &mut Cx<'_>,
        frame: &mut Frame,
        op: &Op,
        mask: u32,
    ) -> Step {
        set_lanes::<T, C>(frame, op, mask, 1f32.to_bits())
    }
    let compare = operator(modifiers)?;
    let (to, from, ftz) = (modifiers.ty(0)?, modifiers.ty(1)?, modifiers.has("ftz"));
    let run: Handler = match to {
        Type::F32 => by_compared_type!(float, from, ftz, compare),
        _ => by_compared_type!(int, from, ftz, compare),
    };
    Some(Pick::with(run, combination(modifiers)))
}

/// Slots: 0 result, 1 and 2 compared, 3 predicate.
fn set_lanes<T: Lane + PartialOrd, const C: usize>(
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    one: u32,
) -> Step {
    let [d, a, b, p, ..] = op.slots;
    let shifted = Op { slots: [d, d, a, b, p, 0], ..*op };
    let holds = frame.test2::<T>(&shifted, mask, |a, b| COMPARES[C].holds(a, b));
    let holds = combine(op.imm, holds, frame, p);
    let out = std::array::from_fn(|lane| if holds >> lane & 1 != 0 { one } else { 0 });
    frame.write::<u32>(d, &out, mask);
    Ok(Flow::Next)
}

/// `slct`: one of two values, by the sign of a third.
pub fn slct(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let (wide, ftz) = (modifiers.ty(0)?.bits() == 64, modifiers.has("ftz"));
    Some(Pick::from(match (wide, modifiers.ty(1)?, ftz) {
        (false, Type::S32, _) => lanes!(u32 = |a: u32, b: u32, c: i32| if c >= 0 { a } else { b }),
        (true, Type::S32, _) => lanes!(u64 = |a: u64, b: u64, c: i32| if c >= 0 { a } else { b }),
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
