//! Writes the operations of functions.

use super::super::layout::Linked;
use super::super::lines::Lines;
use super::super::scope::Scope;
use crate::fault::LoadError;
use crate::isa::{Form, Modifiers, Order, Properties};
use crate::machine::{
    ALWAYS, Effect, FunctionInfo, Handler, LANES, Op, PassedRegister, Program, Spelling, Stack,
};
use crate::ptx::ast::{self, Word};
use std::collections::HashMap;

/// Which parameter memory a function's `.param` space is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamHome {
    /// That of the launch.
    Kernel,
    /// That of the frame.
    Frame,
}

/// A branch whose target is not known yet.
pub(super) struct Fixup {
    pub(super) op: usize,
    /// Position in a table, for `brx.idx`.
    pub(super) entry: Option<usize>,
    pub(super) label: Word,
    pub(super) scope: usize,
    pub(super) line: u32,
}

/// Builds the program of one kernel.
pub struct Emitter<'m> {
    /// What has been built.
    pub program: Program,
    /// The module around it.
    pub linked: &'m Linked<'m>,
    /// PTX line of the instruction at hand.
    pub line: u32,
    /// Whether the function at hand is the kernel.
    pub home: ParamHome,
    pub(super) lines: Lines,
    pub(super) guard: u32,
    pub(super) weight: u8,
    pub(super) form: u16,
    pub(super) order: Order,
    pub(super) spelling: u32,
    pub(super) spellings: HashMap<String, u32>,
    /// Room for the words of an instruction.
    spelled: String,
    pub(super) effect: Effect,
    pub(super) after: Vec<Op>,
    pub(super) info: FunctionInfo,
    /// Whether the function at hand declares vectors of registers.
    pub has_vectors: bool,
    /// Registers that the function at hand returns.
    pub returned: Vec<PassedRegister>,
    pub(super) scopes: Vec<Scope>,
    pub(super) parents: Vec<usize>,
    pub(super) labels: HashMap<(usize, Word), u32>,
    pub(super) fixups: Vec<Fixup>,
    pub(super) param_row: u32,
    pub(super) sinks: [Option<u32>; 2],
    pub(super) carry: Option<u32>,
    pub(super) constants32: HashMap<u32, u32>,
    pub(super) constants64: HashMap<u64, u32>,
    pub(super) functions: HashMap<String, u32>,
    pub(super) shared: HashMap<String, u32>,
    pub(super) shared_end: u64,
    /// Where shared memory would end without red zones.
    pub(super) shared_plain_end: u64,
    pub(super) dynamic_align: u32,
    pub(super) dynamic32: Vec<(u32, i64)>,
    pub(super) dynamic64: Vec<(u32, i64)>,
    /// Functions referred to, in the order of their indices.
    pub wanted: Vec<String>,
}

impl<'m> Emitter<'m> {
    /// An empty program.
    pub fn new(linked: &'m Linked<'m>) -> Self {
        Self {
            program: Program { spellings: vec![Spelling::new("")], ..Program::default() },
            linked,
            line: 0,
            home: ParamHome::Frame,
            lines: Lines::default(),
            guard: ALWAYS,
            weight: 1,
            form: 0,
            order: Order::WEAK,
            spelling: 0,
            spellings: HashMap::new(),
            spelled: String::new(),
            effect: Effect::default(),
            after: Vec::new(),
            info: FunctionInfo::default(),
            has_vectors: false,
            returned: Vec::new(),
            scopes: Vec::new(),
            parents: Vec::new(),
            labels: HashMap::new(),
            fixups: Vec::new(),
            param_row: 0,
            sinks: [None; 2],
            carry: None,
            constants32: HashMap::new(),
            constants64: HashMap::new(),
            functions: HashMap::new(),
            shared: HashMap::new(),
            shared_end: 0,
            shared_plain_end: 0,
            dynamic_align: 16,
            dynamic32: Vec::new(),
            dynamic64: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// An error about the instruction at hand.
    pub fn invalid(&self, what: impl Into<String>) -> LoadError {
        LoadError::Invalid { what: what.into(), line: self.line }
    }

    /// The error with the line of the source that the instruction at hand comes from, if that is
    /// known.
    pub fn placed(&self, error: LoadError) -> LoadError {
        let place = (self.lines.current() as usize).checked_sub(1);
        match place.and_then(|place| self.program.locations.get(place)) {
            Some(place) => LoadError::Placed { error: Box::new(error), place: place.clone() },
            None => error,
        }
    }

    /// An error about a name.
    pub fn unresolved(&self, symbol: &str) -> LoadError {
        LoadError::Unresolved { symbol: symbol.to_owned(), line: self.line }
    }

    /// Appends an operation, guarded like the instruction at hand.
    pub fn push(&mut self, run: Handler, slots: &[u32], imm: u64) {
        let op = self.op(run, slots, imm, self.weight);
        self.append(op);
        self.weight = 0;
    }

    /// Appends a helper operation, before the instruction's own.
    pub fn push_before(&mut self, run: Handler, slots: &[u32], imm: u64) {
        let op = self.op(run, slots, imm, 0);
        self.append(op);
    }

    /// Appends a helper operation once the instruction's own are there.
    pub fn push_after(&mut self, run: Handler, slots: &[u32], imm: u64) {
        let op = self.op(run, slots, imm, 0);
        self.after.push(op);
    }

    fn op(&self, run: Handler, slots: &[u32], imm: u64, weight: u8) -> Op {
        let mut own = [0; 6];
        own[..slots.len()].copy_from_slice(slots);
        Op { run, imm, slots: own, guard: self.guard, form: self.form, weight, order: self.order }
    }

    fn append(&mut self, op: Op) {
        self.program.ops.push(op);
        self.program.lines.push(self.line);
        self.program.places.push(self.lines.current());
        self.program.effect_of.push(0);
        self.program.spelled.push(self.spelling);
    }

    /// Takes from the table what it says of the instruction at hand, which has the form with that
    /// index.
    pub fn classify(&mut self, index: usize, form: &Form, modifiers: &Modifiers<'_>) {
        let Properties { class, rule, order, flops, .. } = form.properties;
        (self.form, self.order) = (index as u16, order(modifiers));
        self.effect.rule = rule(modifiers);
        let spelling = &mut self.program.spellings[self.spelling as usize];
        (spelling.class, spelling.flops) = (class(modifiers), flops);
    }

    /// Keeps the opcode and the modifiers of the instruction at hand.
    pub fn spell(&mut self, instruction: &ast::Instruction) {
        let mut text = std::mem::take(&mut self.spelled);
        text.clear();
        text.push_str(&instruction.opcode);
        for modifier in &instruction.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        self.spelling = self.spellings.get(&text).copied().unwrap_or_else(|| {
            let known = &mut self.program.spellings;
            known.push(Spelling::new(&text));
            let number = known.len() as u32 - 1;
            self.spellings.insert(text.clone(), number);
            number
        });
        self.spelled = text;
    }

    /// Begins an instruction.
    pub fn begin(&mut self, line: u32, guard: Option<&ast::Guard>) -> Result<(), LoadError> {
        self.line = line;
        (self.weight, self.spelling) = (1, 0);
        self.effect = Effect::default();
        self.guard = match guard {
            None => ALWAYS,
            Some(guard) => self.predicate(&guard.predicate, guard.negated)?,
        };
        Ok(())
    }

    /// Ends an instruction.
    pub fn end(&mut self) {
        for op in std::mem::take(&mut self.after) {
            self.append(op);
        }
        self.guard = ALWAYS;
        self.note_effect();
    }

    /// Gives the instruction's own operation its effect.
    fn note_effect(&mut self) {
        let effect = std::mem::take(&mut self.effect);
        let ops = &self.program.ops;
        let Some(own) = ops.iter().rposition(|op| op.weight > 0) else { return };
        let place = &mut self.program.effect_of[own];
        if *place == 0 {
            self.program.effects.push(effect);
            *place = self.program.effects.len() as u32;
        }
    }

    /// Keeps a list of registers, and returns its index in [`Program::lists`].
    pub fn list(&mut self, slots: Vec<u32>) -> u64 {
        self.program.lists.push(slots.into_boxed_slice());
        self.program.lists.len() as u64 - 1
    }

    /// Notes a `.loc`.
    pub fn note_place(&mut self, place: &ast::Statement) {
        self.lines.note(place, &self.linked.files, &mut self.program.locations);
    }

    /// Index of the next operation.
    pub fn here(&self) -> u32 {
        self.program.ops.len() as u32
    }

    /// Ends the program: dynamic shared memory gets its place.
    ///
    /// # Errors
    /// The kernel has more static shared memory than it may.
    pub fn finish(mut self) -> Result<Program, LoadError> {
        self.check_shared()?;
        let is_dynamic = !self.dynamic32.is_empty() || !self.dynamic64.is_empty();
        let align = if is_dynamic { self.dynamic_align } else { 1 };
        let plain = self.shared_plain_end.next_multiple_of(u64::from(align));
        self.program.declared_shared_bytes = plain as u32;
        self.program.shared_bytes = self.beyond_red_zone(plain, align) as u32;
        self.program.stack = Stack::of(&self.program.functions);
        let start = i64::from(self.program.shared_bytes);
        for (row, offset) in self.dynamic32 {
            self.program.constants32[row as usize] = [(start + offset) as u32; LANES];
        }
        for (row, offset) in self.dynamic64 {
            self.program.constants64[row as usize] = [(start + offset) as u64; LANES];
        }
        Ok(self.program)
    }
}
