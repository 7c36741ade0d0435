//! Functions, scopes, and what names stand for.

use super::{Base, Emitter, Fixup, ParamHome};
use crate::fault::LoadError;
use crate::machine::FunctionInfo;
use crate::program::scope::{Scope, Symbol};

impl Emitter<'_> {
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
        self.has_vectors = false;
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
                .ok_or_else(|| LoadError::Unresolved { symbol: fixup.label.to_string(), line })?;
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
        match self.labels.insert((id, name.into()), here) {
            None => Ok(()),
            Some(_) => Err(self.invalid(format!("label `{name}` is defined twice"))),
        }
    }

    /// Makes the immediate of the operation `op` the target `label`, or that entry of its table.
    pub fn target(&mut self, op: usize, entry: Option<usize>, label: &str) {
        let (scope, line) = (self.scope().id, self.line);
        self.fixups.push(Fixup { op, entry, label: label.into(), scope, line });
    }

    /// What a name stands for.
    pub fn find(&mut self, name: &str) -> Result<Symbol, LoadError> {
        match self.find_local(name) {
            Some(symbol) => Ok(symbol),
            None => self.find_in_module(name),
        }
    }

    /// What a name that the function declares stands for.
    pub fn find_local(&self, name: &str) -> Option<Symbol> {
        self.scopes.iter().rev().find_map(|scope| scope.find(name))
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
}

/// The error with another line.
fn at(error: LoadError, line: u32) -> LoadError {
    match error {
        LoadError::Invalid { what, .. } => LoadError::Invalid { what, line },
        error => error,
    }
}
