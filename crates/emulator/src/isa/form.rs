//! One row of the table of instructions.

use super::{Modifiers, pattern};
use crate::fault::LoadError;
use crate::machine::Handler;
use crate::program::Emitter;
use crate::ptx::ast::Instruction;

/// One form of an instruction.
#[derive(Clone, Copy)]
pub struct Form {
    /// First word: `add`.
    pub opcode: &'static str,
    /// The modifiers it takes: slots parted by spaces, alternatives by `|`, `?` after a slot that
    /// may be absent, `@name` for a named set.
    pub modifiers: &'static str,
    /// Its operands: `=` marks a destination; `t` and `u` stand for the first and second type among
    /// the modifiers, `w` for twice the width of `t`; `p|q` is a pair; `~` allows a wider register;
    /// `?` an operand that may be absent. Empty where the form decides by itself.
    pub operands: &'static str,
    /// The family it belongs to.
    pub family: &'static str,
    /// What it does.
    pub doc: &'static str,
    pub(crate) lowering: Lowering,
}

impl Form {
    /// Every sequence of modifiers that the form's pattern admits. Not all of them are instructions:
    /// loading one that is none is an error.
    pub fn spellings(&self) -> Vec<Vec<&'static str>> {
        pattern::spellings(self.modifiers)
    }
}

/// How a form becomes operations.
#[derive(Clone, Copy)]
pub(crate) enum Lowering {
    /// One operation, whose handler the modifiers select.
    Pick(fn(&Modifiers<'_>) -> Option<Pick>),
    /// Written by a function.
    Emit(fn(&mut Emitter<'_>, &Modifiers<'_>, &Instruction) -> Result<(), LoadError>),
}

/// A handler, and the immediate it is to be given.
#[derive(Clone, Copy)]
pub struct Pick {
    /// Handler.
    pub run: Handler,
    /// Immediate.
    pub imm: u64,
}

impl From<Handler> for Pick {
    fn from(run: Handler) -> Self {
        Self { run, imm: 0 }
    }
}

impl Pick {
    /// A handler with an immediate.
    pub fn with(run: Handler, imm: u64) -> Self {
        Self { run, imm }
    }
}
