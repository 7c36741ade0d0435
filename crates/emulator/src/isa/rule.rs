//! How the bits that an instruction writes depend on those that it reads.

use super::{Modifiers, Type};

/// How what an instruction writes comes from what it reads. Operands are counted as in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Each result by all operands.
    #[default]
    Mixes,
    /// Each bit of the result by the bits of the operands at its place and below.
    Upward,
    /// Each half of the result by the same halves of the operands.
    Halves,
    /// The operand as it is.
    Copies,
    /// Bit by bit `not`.
    Not,
    /// Bit by bit `and`.
    And,
    /// Bit by bit `or`.
    Or,
    /// Bit by bit `xor`.
    Xor,
    /// Bit by bit any function of three.
    Lop3,
    /// Shift to the left.
    Left,
    /// Shift to the right, with the sign or zeros.
    Right {
        /// Whether the sign fills.
        signed: bool,
        /// Bits of the operand.
        bits: u32,
    },
    /// Shift of two words as one.
    Funnel {
        /// To the left.
        left: bool,
        /// Whether the count wraps.
        wrap: bool,
    },
    /// A field of bits.
    Extract {
        /// Whether the field's sign fills.
        signed: bool,
    },
    /// A field of bits replaced.
    Insert,
    /// Four bytes out of eight, by number.
    Permute,
    /// One of two operands, by a predicate.
    Select,
    /// An integer of another width.
    Convert {
        /// Bits of the operand.
        from: u32,
        /// Whether its sign fills.
        signed: bool,
        /// Bits of the result.
        to: u32,
        /// Whether the result's sign fills its register.
        to_signed: bool,
    },
    /// Whether two integers are equal: known as soon as two known bits differ.
    Equal,
    /// The copies in [`crate::machine::Effect::pieces`].
    Pieces,
    /// A load, element by element.
    Load,
    /// A store, element by element.
    Store,
    /// A read-modify-write of memory; it uses its operands.
    Atomic {
        /// Whether it returns what was there and leaves an operand, as it is.
        exchanges: bool,
    },
    /// A shuffle of the lanes' values.
    Shuffles,
    /// Results by the operands of all lanes that the mask names.
    Gathers,
    /// Results by the operands of all lanes of the warp.
    Warp,
    /// A call, which copies [`crate::machine::Effect::pieces`] to parameter memory.
    Calls,
    /// Its operands decide where threads go on.
    Steers,
}

/// Of arithmetic on a half or on a pair of them.
pub fn by_halves(modifiers: &Modifiers<'_>) -> Rule {
    match modifiers.ty(0) {
        Some(Type::F16x2 | Type::Bf16x2) => Rule::Halves,
        _ => Rule::Mixes,
    }
}

/// Of `shr`.
pub fn shift_right(modifiers: &Modifiers<'_>) -> Rule {
    let ty = modifiers.ty(0).unwrap_or(Type::B32);
    Rule::Right { signed: ty.is_signed(), bits: ty.bits() }
}

/// Of `shf`.
pub fn funnel_shift(modifiers: &Modifiers<'_>) -> Rule {
    Rule::Funnel { left: modifiers.has("l"), wrap: modifiers.has("wrap") }
}

/// Of `bfe`.
pub fn extract(modifiers: &Modifiers<'_>) -> Rule {
    Rule::Extract { signed: modifiers.ty(0).is_some_and(Type::is_signed) }
}

/// Of `prmt`, which has a mode or takes its bytes by number.
pub fn permute(modifiers: &Modifiers<'_>) -> Rule {
    if modifiers.0.len() == 1 { Rule::Permute } else { Rule::Mixes }
}

/// Of `setp` with a single comparison.
pub fn compare(modifiers: &Modifiers<'_>) -> Rule {
    let of_integers = modifiers.ty(0).is_some_and(|ty| !ty.is_float());
    match modifiers.one_of(&["eq", "ne"]) {
        Some(_) if of_integers => Rule::Equal,
        _ => Rule::Mixes,
    }
}

/// Of a conversion between integers.
pub fn convert(modifiers: &Modifiers<'_>) -> Rule {
    match (modifiers.ty(0), modifiers.ty(1)) {
        (Some(to), Some(from)) if !modifiers.has("sat") => Rule::Convert {
            from: from.bits(),
            signed: from.is_signed(),
            to: to.bits(),
            to_signed: to.is_signed(),
        },
        _ => Rule::Mixes,
    }
}

/// Of a read-modify-write.
pub fn atomic(modifiers: &Modifiers<'_>) -> Rule {
    Rule::Atomic { exchanges: modifiers.has("exch") }
}
