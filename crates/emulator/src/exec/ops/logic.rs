//! Logic and shifts.

use crate::exec::frame::Frame;
use crate::exec::{Cx, Flow, Handler, Step};
use crate::isa::{Modifiers, Pick};
use crate::program::Op;

macro_rules! logic {
    ($($(#[$doc:meta])* $name:ident, $pred:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            Some(by_bits!(modifiers.ty(0)?, |$a, $b| $value).into())
        }

        $(#[$doc])*
        /// On predicates.
        pub fn $pred(_: &Modifiers<'_>) -> Option<Pick> {
            fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
                let ($a, $b) = (frame.predicate(op.slots[1]), frame.predicate(op.slots[2]));
                frame.set_predicate(op.slots[0], $value, mask);
                Ok(Flow::Next)
            }
            Some((run as Handler).into())
        }
    )*};
}

logic! {
    /// `and`
    and, and_pred: |a, b| a & b;
    /// `or`
    or, or_pred: |a, b| a | b;
    /// `xor`
    xor, xor_pred: |a, b| a ^ b;
}

/// `not`
pub fn not(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_bits!(modifiers.ty(0)?, |a| !a).into())
}

/// `not.pred`
pub fn not_pred(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let a = frame.predicate(op.slots[1]);
        frame.set_predicate(op.slots[0], !a, mask);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `shl`: counts past the width give 0.
pub fn shl(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        16 => lanes!(u16 = |a: u16, b: u32| a.checked_shl(b).unwrap_or(0)),
        32 => lanes!(u32 = |a: u32, b: u32| a.checked_shl(b).unwrap_or(0)),
        64 => lanes!(u64 = |a: u64, b: u32| a.checked_shl(b).unwrap_or(0)),
        _ => return None,
    }))
}

/// `shr`: counts past the width give 0, or the sign.
pub fn shr(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let ty = modifiers.ty(0)?;
    Some(Pick::from(match (ty.bits(), ty.is_signed()) {
        (16, false) => lanes!(u16 = |a: u16, b: u32| a.checked_shr(b).unwrap_or(0)),
        (32, false) => lanes!(u32 = |a: u32, b: u32| a.checked_shr(b).unwrap_or(0)),
        (64, false) => lanes!(u64 = |a: u64, b: u32| a.checked_shr(b).unwrap_or(0)),
        (16, true) => lanes!(i16 = |a: i16, b: u32| a >> b.min(15)),
        (32, true) => lanes!(i32 = |a: i32, b: u32| a >> b.min(31)),
        (64, true) => lanes!(i64 = |a: i64, b: u32| a >> b.min(63)),
        _ => return None,
    }))
}
