//! Writes the operations of functions, and keeps what is known while doing so.

pub use super::effect::Register;
use super::layout::{Linked, MAX_LOCAL_BYTES, MAX_PARAM_BYTES, MAX_SHARED_BYTES};
use super::lines::Lines;
pub use super::scope::Base;
use super::scope::{Scope, Symbol};
use super::{
    ALWAYS, CONSTANT, Effect, FunctionInfo, LANES, LocalVariable, Op, Part, Passed, Piece, Program,
    Rule, SINK, SharedVariable, Span,
};
use crate::exec::Handler;
use crate::fault::LoadError;
use crate::isa::{Order, Type};
use crate::ptx::ast;
use std::collections::HashMap;

/// Which parameter memory a function's `.param` space is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamHome {
    /// That of the launch.
    Kernel,
    /// That of the frame.
    Frame,
}

/// The least distance between variables where there are red zones.
const RED_ZONE: u32 = 32;
/// Red zones move a variable of shared memory by multiples of this.
const SHARED_UNIT: u32 = 128;

/// A branch whose target is not known yet.
struct Fixup {
    op: usize,
    /// Position in a table, for `brx.idx`.
    entry: Option<usize>,
    label: String,
    scope: usize,
    line: u32,
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
    lines: Lines,
    guard: u32,
    weight: u8,
    form: u16,
    order: Order,
    spelling: u32,
    spellings: HashMap<String, u32>,
    effect: Effect,
    after: Vec<Op>,
    info: FunctionInfo,
    /// Registers that the function at hand returns.
    pub returned: Vec<Passed>,
    scopes: Vec<Scope>,
    parents: Vec<usize>,
    labels: HashMap<(usize, String), u32>,
    fixups: Vec<Fixup>,
    param_row: u32,
    sinks: [Option<u32>; 2],
    carry: Option<u32>,
    constants32: HashMap<u32, u32>,
    constants64: HashMap<u64, u32>,
    functions: HashMap<String, u32>,
    shared: HashMap<String, u32>,
    shared_end: u32,
    /// The same without red zones.
    shared_plain_end: u32,
    dynamic_align: u32,
    dynamic32: Vec<(u32, i64)>,
    dynamic64: Vec<(u32, i64)>,
    /// Functions referred to, in the order of their indices.
    pub wanted: Vec<String>,
}

impl<'m> Emitter<'m> {
    /// An empty program.
    pub fn new(linked: &'m Linked<'m>) -> Self {
        Self {
            program: Program { spellings: vec![String::new()], ..Program::default() },
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
            effect: Effect::default(),
            after: Vec::new(),
            info: FunctionInfo::default(),
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

    /// An error about a name.
    pub fn unresolved(&self, symbol: &str) -> LoadError {
        LoadError::Unresolved { symbol: symbol.to_owned(), line: self.line }
    }

    // ---- operations

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

    /// Says which form the instruction at hand has, and how strong it is.
    pub fn classify(&mut self, form: usize, order: Order) {
        (self.form, self.order) = (form as u16, order);
    }

    /// Keeps the opcode and the modifiers of the instruction at hand.
    pub fn spell(&mut self, instruction: &ast::Instruction) {
        let words = std::iter::once(&instruction.opcode).chain(&instruction.modifiers);
        let text = words.map(String::as_str).collect::<Vec<_>>().join(".");
        let known = &mut self.program.spellings;
        self.spelling = *self.spellings.entry(text).or_insert_with_key(|text| {
            known.push(text.clone());
            known.len() as u32 - 1
        });
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

    /// Notes that the instruction at hand reads the registers that hold a value of a type.
    pub fn note_reads(&mut self, ty: Type, slot: u32) {
        (0..ty.rows()).for_each(|row| self.note_read(Register::of(ty, slot + row)));
    }

    /// Notes that the instruction at hand writes the registers that hold a value of a type.
    pub fn note_writes(&mut self, ty: Type, slot: u32) {
        (0..ty.rows()).for_each(|row| self.note_write(Register::of(ty, slot + row)));
    }

    /// Notes that the instruction at hand reads a register.
    pub fn note_read(&mut self, register: Register) {
        self.effect.reads.push(register);
    }

    /// Notes that the instruction at hand makes an address of a register.
    pub fn note_address(&mut self, register: Register) {
        self.effect.reads.push(register);
        self.effect.addresses.push(register);
    }

    /// Notes that the instruction at hand writes a register.
    pub fn note_write(&mut self, register: Register) {
        self.effect.writes.push(register);
    }

    /// Says how the instruction at hand makes what it writes.
    pub fn note_rule(&mut self, rule: Rule) {
        self.effect.rule = rule;
    }

    /// Notes bits that the instruction at hand copies; unless it is a call, it does nothing else.
    pub fn note_piece(&mut self, piece: Piece) {
        if self.effect.rule != Rule::Calls {
            self.effect.rule = Rule::Pieces;
        }
        self.effect.pieces.push(piece);
    }

    /// Notes an element of the load or store at hand.
    pub fn note_part(&mut self, part: Part) {
        self.effect.parts.push(part);
    }

    /// What is known of the instruction at hand.
    pub fn effect(&self) -> &Effect {
        &self.effect
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

    // ---- functions

    /// The index of a function that is called or whose address is taken.
    pub fn function(&mut self, name: &str) -> Result<u32, LoadError> {
        if let Some(index) = self.functions.get(name) {
            return Ok(*index);
        }
        if !self.linked.functions.contains_key(name) {
            return Err(self.unresolved(name));
        }
        let index = self.wanted.len() as u32;
        self.wanted.push(name.to_owned());
        self.functions.insert(name.to_owned(), index);
        if let Some(address) = self.linked.code.get(name) {
            self.program.code.insert(*address, index);
        }
        Ok(index)
    }

    /// Begins a function.
    pub fn enter_function(&mut self, name: &str, home: ParamHome) {
        self.info =
            FunctionInfo { name: name.to_owned(), entry: self.here(), ..FunctionInfo::default() };
        self.home = home;
        self.param_row = 0;
        self.returned.clear();
        (self.sinks, self.carry) = ([None; 2], None);
        self.lines.forget();
        self.enter_scope();
    }

    /// Ends a function: branches get their targets.
    pub fn leave_function(&mut self) -> Result<(), LoadError> {
        self.leave_scope();
        for fixup in std::mem::take(&mut self.fixups) {
            let line = fixup.line;
            let target = self
                .label(&fixup)
                .ok_or_else(|| LoadError::Unresolved { symbol: fixup.label.clone(), line })?;
            let imm = &mut self.program.ops[fixup.op].imm;
            match fixup.entry {
                None => *imm = u64::from(target),
                Some(entry) => self.program.tables[*imm as usize][entry] = target,
            }
        }
        self.labels.clear();
        self.parents.clear();
        let info = std::mem::take(&mut self.info);
        self.program.functions.push(info);
        Ok(())
    }

    fn label(&self, fixup: &Fixup) -> Option<u32> {
        let mut scope = fixup.scope;
        loop {
            if let Some(target) = self.labels.get(&(scope, fixup.label.clone())) {
                return Some(*target);
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope];
        }
    }

    /// The function at hand.
    pub fn info(&mut self) -> &mut FunctionInfo {
        &mut self.info
    }

    // ---- scopes and names

    /// An opening brace.
    pub fn enter_scope(&mut self) {
        let id = self.parents.len();
        self.parents.push(self.scopes.last().map_or(0, |scope| scope.id));
        self.scopes.push(Scope::new(id, self.param_row));
    }

    /// A closing brace.
    pub fn leave_scope(&mut self) {
        if let Some(scope) = self.scopes.pop() {
            self.param_row = scope.param_row;
        }
    }

    /// The innermost scope.
    pub fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.enter_scope();
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Defines a label here.
    pub fn define_label(&mut self, name: &str) -> Result<(), LoadError> {
        let (id, here) = (self.scope().id, self.here());
        match self.labels.insert((id, name.to_owned()), here) {
            None => Ok(()),
            Some(_) => Err(self.invalid(format!("label `{name}` is defined twice"))),
        }
    }

    /// Makes the immediate of the operation `op` the target `label`, or that entry of its table.
    pub fn target(&mut self, op: usize, entry: Option<usize>, label: &str) {
        let (scope, line) = (self.scope().id, self.line);
        self.fixups.push(Fixup { op, entry, label: label.to_owned(), scope, line });
    }

    /// What a name stands for.
    pub fn find(&mut self, name: &str) -> Result<Symbol, LoadError> {
        if let Some(symbol) = self.scopes.iter().rev().find_map(|scope| scope.find(name)) {
            return Ok(symbol);
        }
        self.find_in_module(name)
    }

    fn find_in_module(&mut self, name: &str) -> Result<Symbol, LoadError> {
        if let Some(global) = self.linked.globals.get(name) {
            return Ok(Symbol::Place(Base::Global(global.address), global.size_bytes));
        }
        if let Some(variable) = self.linked.shared.get(name) {
            let (variable, line) = (*variable, self.line);
            return self.place_shared(name, variable).map_err(|error| at(error, line));
        }
        if self.linked.functions.contains_key(name) {
            self.function(name)?;
            let address = self.linked.code[name];
            return Ok(Symbol::Place(Base::Code(address), 0));
        }
        Err(self.unresolved(name))
    }

    /// True if `label` names a prototype.
    pub fn is_prototype(&self, label: &str) -> bool {
        self.scopes.iter().any(|scope| scope.has_prototype(label))
            || self.linked.prototypes.contains(label)
    }

    /// The targets of a list of branches.
    pub fn branch_list(&self, label: &str) -> Option<Vec<String>> {
        self.scopes.iter().rev().find_map(|scope| scope.list(label)).cloned()
    }

    // ---- memory

    /// Gives a shared variable its place in the kernel's shared memory.
    pub fn place_shared(
        &mut self,
        key: &str,
        variable: &ast::Variable,
    ) -> Result<Symbol, LoadError> {
        let (bytes, align) = super::layout::size(variable)?;
        if variable.linkage == ast::Linkage::Extern {
            self.dynamic_align = self.dynamic_align.max(align);
            return Ok(Symbol::Place(Base::SharedDynamic, 0));
        }
        if let Some(offset) = self.shared.get(key) {
            return Ok(Symbol::Place(Base::Shared(*offset), bytes));
        }
        let plain = self.shared_plain_end.next_multiple_of(align);
        if u64::from(plain) + bytes > MAX_SHARED_BYTES {
            return Err(self.invalid("too much shared memory"));
        }
        let offset = self.beyond_red_zone(plain, align);
        self.shared_plain_end = plain + bytes as u32;
        self.shared_end = offset + bytes as u32;
        self.shared.insert(key.to_owned(), offset);
        let name = variable.name.clone();
        self.program.shared_variables.push(SharedVariable { name, offset, bytes: bytes as u32 });
        Ok(Symbol::Place(Base::Shared(offset), bytes))
    }

    /// Where what would lie at `plain` comes to lie: the same without red zones, else behind one, and
    /// aligned as luckily.
    fn beyond_red_zone(&self, plain: u32, align: u32) -> u32 {
        if !self.linked.red_zones || self.shared_end == 0 {
            return plain;
        }
        let unit = align.max(SHARED_UNIT);
        let low = self.shared_end + RED_ZONE;
        low + (plain % unit + unit - low % unit) % unit
    }

    /// Gives a local variable its place in the frame.
    pub fn place_local(&mut self, name: &str, bytes: u64, align: u32) -> Result<Base, LoadError> {
        let align = u64::from(align);
        let offset = self.info.local_bytes.next_multiple_of(align);
        let zone = if self.linked.red_zones { u64::from(RED_ZONE) } else { 0 };
        self.info.local_bytes = offset + bytes + zone;
        let declared = self.info.declared_local_bytes.next_multiple_of(align) + bytes;
        self.info.declared_local_bytes = declared;
        let name = name.to_owned();
        self.info.locals.push(LocalVariable { name, offset, bytes });
        match declared > MAX_LOCAL_BYTES {
            true => Err(self.invalid("too much local memory")),
            false => Ok(Base::Local(offset)),
        }
    }

    /// Rows of parameter memory, until the scope ends.
    pub fn place_param(&mut self, bytes: u64, align: u32) -> Result<Span, LoadError> {
        if bytes > MAX_PARAM_BYTES {
            return Err(self.invalid("too many parameter bytes"));
        }
        let row = self.param_row.next_multiple_of(align.div_ceil(4).max(1));
        let rows = bytes.div_ceil(4) as u32;
        self.param_row = row + rows;
        self.info.param_rows = self.info.param_rows.max(self.param_row);
        Ok(Span { row, rows })
    }

    /// The first free row of parameter memory, for [`Emitter::reset_params`].
    pub fn param_mark(&self) -> u32 {
        self.param_row
    }

    /// Frees the rows of parameter memory from a mark on.
    pub fn reset_params(&mut self, mark: u32) {
        self.param_row = mark;
    }

    // ---- registers and constants

    /// A fresh register of the bank that holds `ty`.
    pub fn register(&mut self, ty: Type) -> u32 {
        self.registers(ty, 1)
    }

    /// Fresh registers in a row.
    pub fn registers(&mut self, ty: Type, count: u32) -> u32 {
        let counter = match ty {
            Type::Pred => &mut self.info.predicates,
            _ if ty.bits() >= 64 => &mut self.info.rows64,
            _ => &mut self.info.rows32,
        };
        let first = *counter;
        *counter += count * ty.rows();
        first
    }

    /// A register whose value nobody reads.
    pub fn sink(&mut self, ty: Type) -> u32 {
        if ty == Type::Pred {
            return SINK;
        }
        if ty == Type::B128 {
            return self.register(ty);
        }
        let bank = usize::from(ty.bits() == 64);
        if let Some(slot) = self.sinks[bank] {
            return slot;
        }
        let slot = self.register(ty);
        self.sinks[bank] = Some(slot);
        slot
    }

    /// The predicate that is the function's carry flag.
    pub fn carry(&mut self) -> u32 {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.register(Type::Pred);
        self.carry = Some(slot);
        slot
    }

    /// A row that holds `bits` in every lane, of the bank for `ty`.
    pub fn constant(&mut self, ty: Type, bits: u64) -> u32 {
        if ty.bits() == 64 { self.constant64(bits) } else { self.constant32(bits as u32) }
    }

    fn constant32(&mut self, bits: u32) -> u32 {
        let rows = &mut self.program.constants32;
        *self.constants32.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            (rows.len() - 1) as u32 | CONSTANT
        })
    }

    fn constant64(&mut self, bits: u64) -> u32 {
        let rows = &mut self.program.constants64;
        *self.constants64.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            (rows.len() - 1) as u32 | CONSTANT
        })
    }

    /// A row that will hold the start of dynamic shared memory plus `offset`.
    pub fn dynamic_constant(&mut self, ty: Type, offset: i64) -> u32 {
        if ty.bits() == 64 {
            self.program.constants64.push([0; LANES]);
            let row = self.program.constants64.len() as u32 - 1;
            self.dynamic64.push((row, offset));
            row | CONSTANT
        } else {
            self.program.constants32.push([0; LANES]);
            let row = self.program.constants32.len() as u32 - 1;
            self.dynamic32.push((row, offset));
            row | CONSTANT
        }
    }

    /// Ends the program: dynamic shared memory gets its place.
    pub fn finish(mut self) -> Program {
        let is_dynamic = !self.dynamic32.is_empty() || !self.dynamic64.is_empty();
        let align = if is_dynamic { self.dynamic_align } else { 1 };
        let plain = self.shared_plain_end.next_multiple_of(align);
        self.program.declared_shared_bytes = plain;
        self.program.shared_bytes = self.beyond_red_zone(plain, align);
        let start = i64::from(self.program.shared_bytes);
        for (row, offset) in self.dynamic32 {
            self.program.constants32[row as usize] = [(start + offset) as u32; LANES];
        }
        for (row, offset) in self.dynamic64 {
            self.program.constants64[row as usize] = [(start + offset) as u64; LANES];
        }
        self.program
    }
}

/// The same error at another line.
fn at(error: LoadError, line: u32) -> LoadError {
    match error {
        LoadError::Invalid { what, .. } => LoadError::Invalid { what, line },
        error => error,
    }
}
