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

impl Rule {
    /// The rule of an instruction.
    pub fn of(opcode: &str, modifiers: &Modifiers<'_>) -> Self {
        let integer = modifiers.ty(0).is_some_and(|ty| !ty.is_float() && !is_pair(ty));
        match opcode {
            "mov" | "cvta" => Self::Copies,
            "not" => Self::Not,
            "and" => Self::And,
            "or" => Self::Or,
            "xor" => Self::Xor,
            "lop3" => Self::Lop3,
            "shl" => Self::Left,
            "shr" => right(modifiers),
            "shf" => Self::Funnel { left: modifiers.has("l"), wrap: modifiers.has("wrap") },
            "bfe" => Self::Extract { signed: modifiers.ty(0).is_some_and(Type::is_signed) },
            "bfi" => Self::Insert,
            "prmt" if modifiers.0.len() == 1 => Self::Permute,
            "selp" => Self::Select,
            "cvt" => convert(modifiers),
            "setp" if integer && is_equality(modifiers) => Self::Equal,
            "add" | "sub" if integer && !modifiers.has("sat") && !modifiers.has("cc") => {
                Self::Upward
            }
            "mul" | "mad" if integer && modifiers.has("lo") && !modifiers.has("cc") => Self::Upward,
            _ => Self::of_others(opcode, modifiers),
        }
    }

    fn of_others(opcode: &str, modifiers: &Modifiers<'_>) -> Self {
        match opcode {
            "ld" | "ldu" => Self::Load,
            "st" => Self::Store,
            "atom" | "red" => Self::Atomic { exchanges: modifiers.has("exch") },
            "shfl" => Self::Shuffles,
            "vote" | "match" | "redux" | "elect" => Self::Gathers,
            "mma" | "movmatrix" => Self::Warp,
            "bar" if modifiers.has("warp") => Self::Gathers,
            "bra" | "ret" | "exit" | "trap" | "brkpt" | "bar" | "barrier" | "brx" => Self::Steers,
            "call" => Self::Calls,
            _ if modifiers.ty(0).is_some_and(is_pair) && modifiers.ty(1).is_none() => Self::Halves,
            _ => Self::Mixes,
        }
    }
}

fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::U16x2 | Type::S16x2)
}

fn right(modifiers: &Modifiers<'_>) -> Rule {
    let ty = modifiers.ty(0).unwrap_or(Type::B32);
    Rule::Right { signed: ty.is_signed(), bits: ty.bits() }
}

fn convert(modifiers: &Modifiers<'_>) -> Rule {
    match (modifiers.ty(0), modifiers.ty(1)) {
        (Some(to), Some(from)) if modifiers.0.len() == 2 && !to.is_float() && !from.is_float() => {
            Rule::Convert {
                from: from.bits(),
                signed: from.is_signed(),
                to: to.bits(),
                to_signed: to.is_signed(),
            }
        }
        _ => Rule::Mixes,
    }
}

fn is_equality(modifiers: &Modifiers<'_>) -> bool {
    modifiers.one_of(&["eq", "ne"]).is_some() && modifiers.one_of(&["and", "or", "xor"]).is_none()
}
