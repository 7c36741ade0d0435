//! Names in a function's body, with the nesting of its braces.

use crate::isa::Type;
use crate::ptx::ast::{Variable, Word};
use compact_str::format_compact;
use std::collections::HashMap;

/// Where a named thing lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// At an address of device memory.
    Global(u64),
    /// At an offset of shared memory.
    Shared(u32),
    /// Where dynamic shared memory begins.
    SharedDynamic,
    /// At an offset of the frame's local memory.
    Local(u64),
    /// At an offset of the kernel's parameters.
    KernelParam(u32),
    /// At an offset in bytes of the frame's parameter memory.
    FrameParam(u32),
    /// A function's code.
    Code(u64),
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Symbol {
    /// A register: its type and slot.
    Register(Type, u32),
    /// Registers that make up a vector: their type, the first's slot, and how many.
    Vector(Type, u32, u32),
    /// Something in memory, with its size in bytes.
    Place(Base, u64),
}

impl Symbol {
    /// A register, or a vector of more than one.
    pub fn of_registers(ty: Type, first: u32, vector: u32) -> Self {
        if vector > 1 { Self::Vector(ty, first, vector) } else { Self::Register(ty, first) }
    }
}

/// Components of a vector; colours are another way to name them.
const COMPONENTS: [[&str; 2]; 4] = [["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]];

/// The name of a component of a vector.
pub fn component(vector: &str, index: u32) -> Word {
    format_compact!("{vector}.{}", COMPONENTS[index as usize % COMPONENTS.len()][0])
}

/// Registers `%r0` to `%r9`, declared as `%r<10>`, or so many vectors.
#[derive(Clone, Debug)]
struct Range {
    prefix: String,
    count: u32,
    vector: u32,
    ty: Type,
    first: u32,
}

/// The names of one pair of braces.
#[derive(Default)]
pub struct Scope {
    symbols: HashMap<String, Symbol>,
    ranges: Vec<Range>,
    prototypes: HashMap<String, ()>,
    lists: HashMap<String, Vec<String>>,
    /// Which pair of braces, for labels.
    pub id: usize,
    /// Row of parameter memory to go back to when it ends.
    pub param_row: u32,
}

impl Scope {
    /// A scope with its number and the first free row of parameter memory.
    pub fn new(id: usize, param_row: u32) -> Self {
        Self { id, param_row, ..Self::default() }
    }

    /// Declares a name.
    pub fn declare(&mut self, name: &str, symbol: Symbol) {
        self.symbols.insert(name.to_owned(), symbol);
    }

    /// Declares a range of registers in consecutive slots.
    pub fn declare_range(&mut self, variable: &Variable, count: u32, ty: Type, first: u32) {
        let (prefix, vector) = (variable.name.clone(), variable.vector);
        self.ranges.push(Range { prefix, count, vector, ty, first });
    }

    /// Declares the label of a `.callprototype`.
    pub fn declare_prototype(&mut self, label: &str) {
        self.prototypes.insert(label.to_owned(), ());
    }

    /// Declares the label of a list of branch targets.
    pub fn declare_list(&mut self, label: &str, targets: &[String]) {
        self.lists.insert(label.to_owned(), targets.to_vec());
    }

    /// What a name stands for here, leaving outer scopes aside.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.find_whole(name).or_else(|| {
            let (vector, component) = name.rsplit_once('.')?;
            let index = COMPONENTS.iter().position(|names| names.contains(&component))? as u32;
            match self.find_whole(vector)? {
                Symbol::Vector(ty, first, count) if index < count => {
                    Some(Symbol::Register(ty, first + index * ty.rows()))
                }
                _ => None,
            }
        })
    }

    fn find_whole(&self, name: &str) -> Option<Symbol> {
        if let Some(symbol) = self.symbols.get(name) {
            return Some(symbol.clone());
        }
        self.ranges.iter().find_map(|range| {
            let digits = name.strip_prefix(range.prefix.as_str())?;
            let plain = digits == "0" || !digits.starts_with('0');
            let index: u32 = digits.parse().ok().filter(|index| plain && *index < range.count)?;
            let slot = range.first + index * range.vector * range.ty.rows();
            Some(Symbol::of_registers(range.ty, slot, range.vector))
        })
    }

    /// True if the label is that of a prototype.
    pub fn has_prototype(&self, label: &str) -> bool {
        self.prototypes.contains_key(label)
    }

    /// The targets of a list.
    pub fn list(&self, label: &str) -> Option<&Vec<String>> {
        self.lists.get(label)
    }
}
