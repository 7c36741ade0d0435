//! One row of the table of instructions.

use super::{Class, Modifiers, Order, Rule, pattern};
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
    /// Its operands, in the language of [`operands`](super::operands).
    pub operands: &'static str,
    /// The family it belongs to.
    pub family: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// How it behaves towards memory, registers and the counters.
    pub properties: Properties,
    pub(crate) lowering: Lowering,
}

/// What the checks and the counters have to know of an instruction.
#[derive(Clone, Copy)]
pub struct Properties {
    /// Which class the counters add it to.
    pub class: fn(&Modifiers<'_>) -> Class,
    /// How the bits that it writes depend on those that it reads.
    pub rule: fn(&Modifiers<'_>) -> Rule,
    /// Its memory semantics and scope.
    pub order: fn(&Modifiers<'_>) -> Order,
    /// Whether it loads data that no thread of the launch may write.
    pub read_only: bool,
    /// Floating-point operations that it does on each element.
    pub flops: u8,
}

impl Form {
    /// Every sequence of modifiers that the form's pattern admits. Not all of them are instructions:
    /// loading one that is none is an error.
    pub fn spellings(&self) -> Vec<Vec<&'static str>> {
        pattern::spellings(self.modifiers)
    }

    /// Whether the modifiers select one handler whose operands are resolved by their description here.
    /// A form that is not so is written by a function, which resolves them itself.
    pub fn is_picked(&self) -> bool {
        matches!(self.lowering, Lowering::Pick(_))
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
