//! Which registers an instruction reads and writes, and how values move between them.

use super::slots::NEGATED;
use crate::isa::{Rule, Type};

/// A register of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// A row of 32 bits.
    Narrow(u32),
    /// A row of 64 bits.
    Wide(u32),
    /// A predicate.
    Predicate(u32),
    /// A row of the frame's parameter memory; only in [`Effect::pieces`].
    Param(u32),
}

impl Register {
    /// The register at a slot of the bank that holds values of a type.
    pub fn of(ty: Type, slot: u32) -> Self {
        match ty {
            Type::Pred => Self::Predicate(slot & !NEGATED),
            _ if ty.bits() >= 64 => Self::Wide(slot),
            _ => Self::Narrow(slot),
        }
    }

    /// Number of its bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Predicate(_) => 1,
            Self::Wide(_) => 64,
            _ => 32,
        }
    }
}

/// Bits that an instruction copies as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they come from: a register and the number of its lowest bit; `None` for constants.
    pub from: Option<(Register, u32)>,
    /// Where they go.
    pub to: (Register, u32),
    /// How many.
    pub bits: u32,
    /// Whether the highest fills the register above.
    pub signed: bool,
}

/// A register that one element of a load or store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The register; `None` for a constant, or a value that is thrown away.
    pub register: Option<Register>,
    /// Whether a load extends it by its sign.
    pub signed: bool,
}

/// What one instruction of the text does to registers. Operations that decoding puts around it are
/// part of it; constants and special registers are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Registers whose value it takes, its guard among them.
    pub reads: Vec<Register>,
    /// Those of them that make up an address.
    pub addresses: Vec<Register>,
    /// Registers that it writes.
    pub writes: Vec<Register>,
    /// How what it writes comes from what it reads.
    pub rule: Rule,
    /// For [`Rule::Pieces`].
    pub pieces: Vec<Piece>,
    /// The elements of a load or store, in the order of memory.
    pub parts: Vec<Part>,
}
