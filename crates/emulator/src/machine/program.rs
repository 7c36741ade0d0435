//! The program of one kernel: its operations, and what is known of each.

use super::effect::Effect;
use super::matrix_plan::Plan;
use super::op::Op;
use super::slots::{Row32, Row64};
use crate::fault::SourceLocation;
use crate::isa::{Class, Type};
use std::collections::HashMap;

/// A span of parameter memory, in rows of four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First row.
    pub row: u32,
    /// Rows.
    pub rows: u32,
}

impl Span {
    /// The span that those of a vector's elements, one after the other, make up.
    pub fn around(spans: &[Self]) -> Self {
        let row = spans.first().map_or(0, |first| first.row);
        Self { row, rows: spans.last().map_or(0, |last| last.row + last.rows - row) }
    }
}

/// A register that is a parameter of a function, or that one returns.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Its type.
    pub ty: Type,
    /// Its slot.
    pub slot: u32,
    /// Where its value lies during a call.
    pub span: Span,
}

/// A decoded function.
#[derive(Clone, Debug, Default)]
pub struct FunctionInfo {
    /// Name.
    pub name: String,
    /// Index of its first operation.
    pub entry: u32,
    /// Rows of 32-bit registers.
    pub rows32: u32,
    /// Rows of 64-bit registers.
    pub rows64: u32,
    /// Predicates.
    pub predicates: u32,
    /// Bytes of local memory in a frame, red zones among them.
    pub local_bytes: u64,
    /// The same without red zones.
    pub declared_local_bytes: u64,
    /// The variables that lie there.
    pub locals: Vec<LocalVariable>,
    /// Rows of parameter memory: returned values, parameters, then those of calls.
    pub param_rows: u32,
    /// Where its returned values lie.
    pub returns: Vec<Span>,
    /// Where its parameters lie.
    pub params: Vec<Span>,
    /// Functions that it calls by name, by their indices.
    pub calls: Vec<u32>,
    /// Whether it calls addresses or has `alloca`, so that the text does not say how much stack it needs.
    pub open_stack: bool,
}

/// Where a call finds its arguments and puts what returns, in the caller's parameter memory.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    /// Returned values.
    pub returns: Vec<Span>,
    /// Arguments.
    pub args: Vec<Span>,
}

/// An opcode with its modifiers, and what the counters have to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// As the text has it: `ld.global.v2.f32`. Empty for operations that decoding added.
    pub text: String,
    /// Which class the counters add it to.
    pub class: Class,
    /// Floating-point operations that it does on each element.
    pub flops: u8,
}

impl Spelling {
    /// A spelling of which nothing is known yet.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), class: Class::Other, flops: 0 }
    }
}

/// Everything that a kernel executes.
#[derive(Default)]
pub struct Program {
    /// The kernel's name.
    pub name: String,
    /// Operations of all functions.
    pub ops: Vec<Op>,
    /// PTX line of each.
    pub lines: Vec<u32>,
    /// Index into `locations` of each, plus one; 0 for none.
    pub places: Vec<u32>,
    /// Index into `effects` of each, plus one; 0 for an operation that decoding added.
    pub effect_of: Vec<u32>,
    /// Index into `spellings` of each.
    pub spelled: Vec<u32>,
    /// Opcodes with their modifiers, as the text has them; the first is empty.
    pub spellings: Vec<Spelling>,
    /// What instructions do to registers.
    pub effects: Vec<Effect>,
    /// Registers of operations that have more of them than slots.
    pub lists: Vec<Box<[u32]>>,
    /// Shapes and types of matrix instructions.
    pub plans: Vec<Plan>,
    /// Source lines.
    pub locations: Vec<SourceLocation>,
    /// Constant rows of 32 bits.
    pub constants32: Vec<Row32>,
    /// Constant rows of 64 bits.
    pub constants64: Vec<Row64>,
    /// Functions; the kernel is the first.
    pub functions: Vec<FunctionInfo>,
    /// Call sites.
    pub calls: Vec<CallSite>,
    /// Lists of `brx.idx`.
    pub tables: Vec<Vec<u32>>,
    /// Function that an address names.
    pub code: HashMap<u64, u32>,
    /// What its threads need of the stack.
    pub stack: Stack,
    /// Bytes of static shared memory, red zones among them.
    pub shared_bytes: u32,
    /// The same without red zones, as a GPU would have it.
    pub declared_shared_bytes: u32,
    /// Variables of constant memory that the module has.
    pub constant_variables: Vec<Constant>,
    /// The variables that lie in it, in ascending order.
    pub shared_variables: Vec<SharedVariable>,
}

/// A variable of constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in the PTX.
    pub name: String,
    /// First byte in device memory.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A variable of a function's local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalVariable {
    /// Its name in the PTX.
    pub name: String,
    /// First byte in the frame.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A variable of static shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    /// Its name in the PTX.
    pub name: String,
    /// First byte in the block's shared memory.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Program {
    /// True for an address of one of the module's constants.
    pub fn is_const(&self, address: u64) -> bool {
        self.constant_variables.iter().any(|own| address.wrapping_sub(own.address) < own.bytes)
    }

    /// The source line of an operation.
    pub fn location(&self, pc: u32) -> Option<&SourceLocation> {
        let place = *self.places.get(pc as usize)?;
        self.locations.get((place as usize).checked_sub(1)?)
    }

    /// What an instruction does to registers; `None` for an operation that decoding added.
    pub fn effect(&self, pc: u32) -> Option<&Effect> {
        let effect = *self.effect_of.get(pc as usize)?;
        self.effects.get((effect as usize).checked_sub(1)?)
    }

    /// Opcode and modifiers of an operation's instruction, as the text has them: `ld.global.v2.f32`.
    pub fn spelling(&self, pc: u32) -> &str {
        let index = self.spelled.get(pc as usize).map_or(0, |index| *index as usize);
        self.spellings.get(index).map_or("", |own| own.text.as_str())
    }

    /// What the table says of an operation's instruction.
    pub fn spelled(&self, pc: u32) -> &Spelling {
        &self.spellings[self.spelled[pc as usize] as usize]
    }

    /// The variable of static shared memory that a byte of it belongs to.
    pub fn shared_variable(&self, offset: u64) -> Option<&SharedVariable> {
        let holds = |own: &&SharedVariable| {
            (u64::from(own.offset)..u64::from(own.offset) + u64::from(own.bytes)).contains(&offset)
        };
        self.shared_variables.iter().find(holds)
    }

    /// The PTX line of an operation.
    pub fn line(&self, pc: u32) -> u32 {
        self.lines.get(pc as usize).copied().unwrap_or(0)
    }
}

/// The stack of a kernel's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Bytes along the longest chain of calls in which no function occurs twice.
    pub bytes: u64,
    /// Whether nothing needs more: no function calls itself or an address, and none has `alloca`.
    pub is_known: bool,
}
