//! Logic, shifts, bit fields and counts.

use crate::isa::{Modifiers, Pick};
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Op, Step};
use crate::numeric::bits::{self, Word};
use crate::numeric::permute::{self, Mode};

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

/// `cnot`: 1 for zero, else 0.
pub fn cnot(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_bits!(modifiers.ty(0)?, |a| (a == 0).into()).into())
}

/// The handler for a word and a 32-bit amount.
macro_rules! by_word {
    ($bits:expr, |$a:ident, $b:ident| $value:expr) => {
        match $bits {
            16 => lanes!(u16 = |$a: u16, $b: u32| $value),
            32 => lanes!(u32 = |$a: u32, $b: u32| $value),
            64 => lanes!(u64 = |$a: u64, $b: u32| $value),
            _ => return None,
        }
    };
}

/// `shl`
pub fn shl(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_word!(modifiers.ty(0)?.bits(), |a, b| Word::shl(a, b)).into())
}

/// `shr`
pub fn shr(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let ty = modifiers.ty(0)?;
    Some(Pick::from(match ty.is_signed() {
        false => by_word!(ty.bits(), |a, b| Word::shr(a, b)),
        true => by_word!(ty.bits(), |a, b| a.shr_signed(b)),
    }))
}

/// `shf`
pub fn shf(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.has("l"), modifiers.has("wrap")) {
        (true, true) => lanes!(u32 = |a: u32, b: u32, c: u32| bits::shf_left(a, b, c, true)),
        (true, false) => lanes!(u32 = |a: u32, b: u32, c: u32| bits::shf_left(a, b, c, false)),
        (false, true) => lanes!(u32 = |a: u32, b: u32, c: u32| bits::shf_right(a, b, c, true)),
        (false, false) => lanes!(u32 = |a: u32, b: u32, c: u32| bits::shf_right(a, b, c, false)),
    }))
}

/// `bfe`
pub fn bfe(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let ty = modifiers.ty(0)?;
    Some(Pick::from(match (ty.bits(), ty.is_signed()) {
        (32, false) => lanes!(u32 = |a: u32, b: u32, c: u32| a.bfe(b, c)),
        (32, true) => lanes!(u32 = |a: u32, b: u32, c: u32| a.bfe_signed(b, c)),
        (64, false) => lanes!(u64 = |a: u64, b: u32, c: u32| a.bfe(b, c)),
        (64, true) => lanes!(u64 = |a: u64, b: u32, c: u32| a.bfe_signed(b, c)),
        _ => return None,
    }))
}

/// `bfi`: operands are the field, the word, the position and the length.
pub fn bfi(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run32(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let length = *frame.row32(op.slots[4]);
        let field = *frame.row32(op.slots[1]);
        let (word, position) = (frame.row32(op.slots[2]), frame.row32(op.slots[3]));
        let out =
            std::array::from_fn(|lane| word[lane].bfi(field[lane], position[lane], length[lane]));
        frame.write::<u32>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    fn run64(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let length = *frame.row32(op.slots[4]);
        let field = *frame.row64(op.slots[1]);
        let (word, position) = (frame.row64(op.slots[2]), frame.row32(op.slots[3]));
        let out =
            std::array::from_fn(|lane| word[lane].bfi(field[lane], position[lane], length[lane]));
        frame.write::<u64>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        32 => run32 as Handler,
        64 => run64 as Handler,
        _ => return None,
    }))
}

/// `bfind`
pub fn bfind(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let ty = modifiers.ty(0)?;
    Some(Pick::from(match (ty.bits(), ty.is_signed(), modifiers.has("shiftamt")) {
        (32, false, false) => lanes!(u32 = |a: u32| a.bfind()),
        (32, true, false) => lanes!(u32 = |a: u32| a.bfind_signed()),
        (64, false, false) => lanes!(u32 = |a: u64| a.bfind()),
        (64, true, false) => lanes!(u32 = |a: u64| a.bfind_signed()),
        (32, false, true) => lanes!(u32 = |a: u32| bits::shift_amount::<u32>(a.bfind())),
        (32, true, true) => lanes!(u32 = |a: u32| bits::shift_amount::<u32>(a.bfind_signed())),
        (64, false, true) => lanes!(u32 = |a: u64| bits::shift_amount::<u64>(a.bfind())),
        (64, true, true) => lanes!(u32 = |a: u64| bits::shift_amount::<u64>(a.bfind_signed())),
        _ => return None,
    }))
}

/// `popc`
pub fn popc(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        32 => lanes!(u32 = |a: u32| a.count_ones()),
        64 => lanes!(u32 = |a: u64| a.count_ones()),
        _ => return None,
    }))
}

/// `clz`
pub fn clz(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        32 => lanes!(u32 = |a: u32| a.leading_zeros()),
        64 => lanes!(u32 = |a: u64| a.leading_zeros()),
        _ => return None,
    }))
}

/// `brev`
pub fn brev(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)?.bits() {
        32 => lanes!(u32 = |a: u32| a.reverse_bits()),
        64 => lanes!(u64 = |a: u64| a.reverse_bits()),
        _ => return None,
    }))
}

/// `fns`
pub fn fns(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(u32 = |a: u32, b: u32, c: i32| bits::fns(a, b, c)).into())
}

/// `lop3`
pub fn lop3(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(op; u32 = |a: u32, b: u32, c: u32| bits::lop3(a, b, c, op.imm as u8)).into())
}

/// `lop3.and`, `lop3.or`. Slots: 0 and 1 the results, 2 to 4 the words, 5 a predicate.
pub fn lop3_pred(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run<const OR: bool>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let [d, p, a, b, c, q] = op.slots;
        let [a, b, c] = [a, b, c].map(|slot| frame.row32(slot));
        let out: [u32; LANES] =
            std::array::from_fn(|lane| bits::lop3(a[lane], b[lane], c[lane], op.imm as u8));
        let any: u32 = (0..LANES).filter(|lane| out[*lane] != 0).map(|lane| 1 << lane).sum();
        let other = frame.predicate(q);
        frame.set_predicate(p, if OR { any | other } else { any & other }, mask);
        frame.write::<u32>(d, &out, mask);
        Ok(Flow::Next)
    }
    Some(Pick::from(if modifiers.has("or") { run::<true> as Handler } else { run::<false> }))
}

/// `prmt`
pub fn prmt(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let mode = match modifiers.words().find_map(Mode::parse) {
        None => lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::Default)),
        Some(Mode::Forward) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::Forward))
        }
        Some(Mode::Backward) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::Backward))
        }
        Some(Mode::Replicate8) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::Replicate8))
        }
        Some(Mode::ClampLeft) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::ClampLeft))
        }
        Some(Mode::ClampRight) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::ClampRight))
        }
        Some(_) => lanes!(u32 = |a: u32, b: u32, c: u32| permute::prmt(a, b, c, Mode::Replicate16)),
    };
    Some(mode.into())
}

/// `szext`
pub fn szext(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.ty(0)?.is_signed(), modifiers.has("wrap")) {
        (false, false) => lanes!(u32 = |a: u32, b: u32| bits::szext_u32(a, b, false)),
        (false, true) => lanes!(u32 = |a: u32, b: u32| bits::szext_u32(a, b, true)),
        (true, false) => lanes!(u32 = |a: u32, b: u32| bits::szext_s32(a, b, false)),
        (true, true) => lanes!(u32 = |a: u32, b: u32| bits::szext_s32(a, b, true)),
    }))
}

/// `bmsk`
pub fn bmsk(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.has("wrap") {
        false => lanes!(u32 = |a: u32, b: u32| bits::bmsk(a, b, false)),
        true => lanes!(u32 = |a: u32, b: u32| bits::bmsk(a, b, true)),
    }))
}
