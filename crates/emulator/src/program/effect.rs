//! Which registers an instruction reads and writes.

use super::NEGATED;
use crate::isa::Type;

/// A register of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// A row of 32 bits.
    Narrow(u32),
    /// A row of 64 bits.
    Wide(u32),
    /// A predicate.
    Predicate(u32),
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
}
