//! Arithmetic of `.f32` and `.f64`.

use super::mode::Mode;
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Lane, Op, Row32, Step, lanes};
use crate::numeric::float::{self, Property};
use crate::numeric::{Rounding, approx};

/// An f32 whose subnormals are zeros, for `.ftz`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Flushed(pub f32);

impl Lane for Flushed {
    type Bits = u32;
    #[inline(always)]
    fn row(frame: &Frame, slot: u32) -> &Row32 {
        frame.row32(slot)
    }
    #[inline(always)]
    fn row_mut(frame: &mut Frame, slot: u32) -> &mut [u32; LANES] {
        &mut frame.rows32[slot as usize]
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        Self(float::ftz(f32::from_bits(bits)))
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        float::ftz(self.0).to_bits()
    }
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident: $narrow:ident, $wide:ident, |$a:ident $(, $b:ident $(, $c:ident)?)?| $exact:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            let mode = Mode::of(modifiers);
            let run = match (modifiers.ty(0)?, mode.is_plain()) {
                (Type::F32, true) => lanes!(f32 = |$a: f32 $(, $b: f32 $(, $c: f32)?)?| {
                    float::$narrow($a $(, $b $(, $c)?)?, Rounding::NearestEven)
                }),
                (Type::F32, false) => lanes!(op; f32 = |$a: f32 $(, $b: f32 $(, $c: f32)?)?| {
                    let mode = Mode(op.imm);
                    let $a = mode.operand($a);
                    $(let $b = mode.operand($b); $(let $c = mode.operand($c);)?)?
                    let rounded = float::$narrow($a $(, $b $(, $c)?)?, mode.rounding());
                    $(let $b = f64::from($b); $(let $c = f64::from($c);)?)?
                    let $a = f64::from($a);
                    mode.rounded(rounded, || $exact)
                }),
                (Type::F64, true) => lanes!(f64 = |$a: f64 $(, $b: f64 $(, $c: f64)?)?| {
                    float::$wide($a $(, $b $(, $c)?)?, Rounding::NearestEven)
                }),
                (Type::F64, false) => lanes!(op; f64 = |$a: f64 $(, $b: f64 $(, $c: f64)?)?| {
                    float::$wide($a $(, $b $(, $c)?)?, Mode(op.imm).rounding())
                }),
                _ => return None,
            };
            Some(Pick::with(run, mode.0))
        }
    )*};
}

// The last expression is the exact result, of f64; it counts only where it is near the smallest
// normal f32, and there it is exact or as good.
arithmetic! {
    /// `add`
    add: add_f32, add_f64, |a, b| a + b;
    /// `sub`
    sub: sub_f32, sub_f64, |a, b| a - b;
    /// `mul`
    mul: mul_f32, mul_f64, |a, b| a * b;
    /// `fma`, `mad`
    fma: fma_f32, fma_f64, |a, b, c| a * b + c;
    /// `div.rn` and its like
    div: div_f32, div_f64, |a, b| a / b;
    /// `rcp.rn` and its like
    rcp: rcp_f32, rcp_f64, |a| 1. / a;
    /// `sqrt.rn` and its like
    sqrt: sqrt_f32, sqrt_f64, |a| a.sqrt();
}

/// One of the four forms of a minimum or maximum.
macro_rules! order {
    ($($(#[$doc:meta])* $name:ident: $f32:ident, $nan32:ident, $f64:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            let mode = Mode::of(modifiers);
            let run = match (modifiers.ty(0)?, mode.is_plain()) {
                (Type::F32, true) => lanes!(f32 = |a: f32, b: f32| float::$f32(a, b)),
                (Type::F32, false) => lanes!(op; f32 = |a: f32, b: f32| {
                    let mode = Mode(op.imm);
                    let (a, b) = (mode.operand(a), mode.operand(b));
                    mode.result(match (mode.xor_sign(), mode.nan()) {
                        (false, false) => float::$f32(a, b),
                        (false, true) => float::$nan32(a, b),
                        (true, false) => float::xorsign_abs_f32(a, b, float::$f32),
                        (true, true) => float::xorsign_abs_f32(a, b, float::$nan32),
                    })
                }),
                (Type::F64, true) => lanes!(f64 = |a: f64, b: f64| float::$f64(a, b)),
                _ => return None,
            };
            Some(Pick::with(run, mode.0))
        }
    )*};
}

order! {
    /// `min`
    min: min_f32, min_nan_f32, min_f64;
    /// `max`
    max: max_f32, max_nan_f32, max_f64;
}

/// `abs`
pub fn abs(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.ty(0)?, modifiers.has("ftz")) {
        (Type::F32, false) => lanes!(f32 = |a: f32| float::abs_f32(a)),
        (Type::F32, true) => lanes!(f32 = |a: f32| float::abs_f32(float::ftz(a))),
        (Type::F64, false) => lanes!(f64 = |a: f64| float::abs_f64(a)),
        _ => return None,
    }))
}

/// `neg`
pub fn neg(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.ty(0)?, modifiers.has("ftz")) {
        (Type::F32, false) => lanes!(f32 = |a: f32| float::neg_f32(a)),
        (Type::F32, true) => lanes!(f32 = |a: f32| float::neg_f32(float::ftz(a))),
        (Type::F64, false) => lanes!(f64 = |a: f64| float::neg_f64(a)),
        _ => return None,
    }))
}

/// `copysign`
pub fn copysign(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::F32 => lanes!(f32 = |a: f32, b: f32| float::copysign_f32(a, b)),
        Type::F64 => lanes!(f64 = |a: f64, b: f64| float::copysign_f64(a, b)),
        _ => return None,
    }))
}

const PROPERTIES: [(&str, Property); 6] = [
    ("finite", Property::Finite),
    ("infinite", Property::Infinite),
    ("number", Property::Number),
    ("notanumber", Property::NotANumber),
    ("normal", Property::Normal),
    ("subnormal", Property::Subnormal),
];

/// `testp`
pub fn testp(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn narrow(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let (row, property) = (frame.row32(op.slots[1]), PROPERTIES[op.imm as usize].1);
        let holds = |lane: &usize| float::testp_f32(f32::from_bits(row[*lane]), property);
        let value = lanes(mask).filter(holds).map(|lane| 1 << lane).sum();
        frame.set_predicate(op.slots[0], value, mask);
        Ok(Flow::Next)
    }
    fn wide(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let (row, property) = (frame.row64(op.slots[1]), PROPERTIES[op.imm as usize].1);
        let holds = |lane: &usize| float::testp_f64(f64::from_bits(row[*lane]), property);
        let value = lanes(mask).filter(holds).map(|lane| 1 << lane).sum();
        frame.set_predicate(op.slots[0], value, mask);
        Ok(Flow::Next)
    }
    let property = PROPERTIES.iter().position(|(word, _)| modifiers.has(word))?;
    let run = if modifiers.ty(0)? == Type::F32 { narrow as Handler } else { wide };
    Some(Pick::with(run, property as u64))
}

macro_rules! approximate {
    ($($(#[$doc:meta])* $name:ident: $f:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            Some(Pick::from(match modifiers.has("ftz") {
                false => lanes!(f32 = |a: f32| approx::$f(a, false)),
                true => lanes!(f32 = |a: f32| approx::$f(a, true)),
            }))
        }
    )*};
}

approximate! {
    /// `ex2.approx`
    ex2: ex2;
    /// `lg2.approx`
    lg2: lg2;
    /// `sin.approx`
    sin: sin;
    /// `cos.approx`
    cos: cos;
    /// `rcp.approx`
    rcp_approx: rcp;
    /// `sqrt.approx`
    sqrt_approx: sqrt;
    /// `rsqrt.approx`
    rsqrt: rsqrt;
}

/// `tanh.approx`
pub fn tanh(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(f32 = |a: f32| approx::tanh(a)).into())
}

/// `div.approx`, `div.full`
pub fn div_approx(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.has("full"), modifiers.has("ftz")) {
        (false, false) => lanes!(f32 = |a: f32, b: f32| approx::div(a, b, false)),
        (false, true) => lanes!(f32 = |a: f32, b: f32| approx::div(a, b, true)),
        (true, false) => lanes!(f32 = |a: f32, b: f32| approx::div_full(a, b, false)),
        (true, true) => lanes!(f32 = |a: f32, b: f32| approx::div_full(a, b, true)),
    }))
}

/// `rcp.approx.ftz.f64`
pub fn rcp_approx_f64(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(f64 = |a: f64| approx::rcp_f64(a)).into())
}

/// `rsqrt.approx.ftz.f64`
pub fn rsqrt_approx_ftz_f64(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(f64 = |a: f64| approx::rsqrt_ftz_f64(a)).into())
}

/// `rsqrt.approx.f64`
pub fn rsqrt_approx_f64(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(f64 = |a: f64| approx::rsqrt_f64(a)).into())
}
