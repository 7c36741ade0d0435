//! The syntax tree of a PTX module: what the text says, nothing decided yet.
//!
//! Names stay words and opcodes stay dotted ones; [`crate::program`] gives them meaning.

/// A word of a statement: an opcode, a modifier, a name. It holds up to 24 bytes in itself, which nearly all words are: a
/// module has millions of them, and strings on the heap would be half of its loading time.
pub type Word = compact_str::CompactString;

/// A place in the PTX text, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// A whole translation unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version major.minor`
    pub version: (u32, u32),
    /// `.target`: the architecture first, then options such as `debug`.
    pub target: Vec<String>,
    /// `.address_size`: 64 unless said.
    pub address_size: u32,
    /// Everything else, in order.
    pub items: Vec<Item>,
}

/// One thing at module level.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A module-scope variable (`.global`, `.shared`, `.const`, `.extern` ones too).
    Variable(Variable),
    /// A kernel or device function, declared or defined.
    Function(Function),
    /// `.file index "path"[, timestamp, size]`
    File {
        /// Number that `.loc` uses.
        index: u32,
        /// Path as written.
        path: String,
    },
    /// `.section name { … }`: debug data, kept as text.
    Section {
        /// Name with its leading dot.
        name: String,
        /// Text between the braces.
        body: String,
    },
    /// `.callprototype` or a like declaration with a label.
    Prototype(Prototype),
    /// `.pragma "text";`
    Pragma(String),
    /// `.alias name, target;`
    Alias(String, String),
    /// `name:` between debug sections.
    Label(String),
}

/// `.extern`, `.visible`, `.weak`, `.common` or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// Local to the module.
    #[default]
    None,
    /// Declared elsewhere.
    Extern,
    /// Seen from outside.
    Visible,
    /// Seen from outside, replaceable.
    Weak,
    /// Merged by name.
    Common,
}

/// A variable's or parameter's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Linkage.
    pub linkage: Linkage,
    /// State space without its dot: `reg`, `global`, `shared`, `local`, `const`, `param`.
    pub space: String,
    /// `.align n`, in bytes.
    pub align: Option<u32>,
    /// `.v2`, `.v4`: number of elements; 1 without.
    pub vector: u32,
    /// Fundamental type without its dot: `b32`, `f64`, `pred`.
    pub ty: String,
    /// Name; of a `.reg` range, the prefix.
    pub name: String,
    /// `%r<10>` declares `%r0` to `%r9`.
    pub range: Option<u32>,
    /// Array dimensions; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// `.ptr .space .align n` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// `= …`
    pub init: Option<Init>,
    /// `.attribute(…)`
    pub attributes: Vec<Attribute>,
    /// Where it stands.
    pub position: Position,
}

/// One entry of `.attribute(…)`: `.managed`, `.unified(a, b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name without its dot.
    pub name: String,
    /// Numbers in parentheses.
    pub values: Vec<u64>,
}

/// Attributes of a pointer parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// Space without its dot, if said.
    pub space: Option<String>,
    /// Alignment of what it points to, in bytes.
    pub align: Option<u32>,
}

/// An initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// `{a, b, …}`
    List(Vec<Init>),
    /// A number.
    Number(Number),
    /// `symbol + offset`, or with `generic` set `generic(symbol) + offset`.
    Address {
        /// Whose address.
        symbol: String,
        /// Bytes added.
        offset: i64,
        /// `generic(…)`
        generic: bool,
        /// `mask(…)`: the byte mask and its shift, as in `0xFF(symbol)`.
        mask: Option<u64>,
    },
}

/// A literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Integer, two's complement; `unsigned` marks the suffix `U`.
    Int {
        /// Bits.
        value: i128,
        /// Suffix `U`.
        unsigned: bool,
    },
    /// `0f…`: bits of an f32.
    F32(u32),
    /// `0d…` or a decimal literal: bits of an f64.
    F64(u64),
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Linkage.
    pub linkage: Linkage,
    /// `.entry` rather than `.func`.
    pub entry: bool,
    /// Return parameters.
    pub returns: Vec<Variable>,
    /// Name.
    pub name: String,
    /// Parameters.
    pub params: Vec<Variable>,
    /// `.maxntid 256,1,1`, `.noreturn`, …: name without its dot, and its numbers.
    pub directives: Vec<(String, Vec<i64>)>,
    /// `.attribute(…)`
    pub attributes: Vec<Attribute>,
    /// Body; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    /// Where it stands.
    pub position: Position,
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name:`
    Label(Word),
    /// A declaration (`.reg`, `.shared`, `.local`, `.param`); boxed, for it is large and rare.
    Variable(Box<Variable>),
    /// `{ … }`: a scope of names.
    Block(Vec<Statement>),
    /// An instruction.
    Instruction(Instruction),
    /// `.loc file line column[, function_name label[+offset], inlined_at file line column]`
    Loc {
        /// Index of a `.file`.
        file: u32,
        /// Line.
        line: u32,
        /// Column.
        column: u32,
        /// Function name label and the call site, when inlined.
        inlined_at: Option<InlinedAt>,
    },
    /// `label: .branchtargets a, b;`
    BranchTargets {
        /// Label of the list.
        label: Word,
        /// Targets, in order.
        targets: Vec<String>,
    },
    /// `label: .callprototype …;`
    Prototype(Prototype),
    /// `label: .calltargets a, b;`
    CallTargets {
        /// Label of the list.
        label: Word,
        /// Functions.
        targets: Vec<String>,
    },
    /// `.pragma "text";`
    Pragma(String),
}

/// The inlining part of a `.loc`.
#[derive(Clone, Debug, PartialEq)]
pub struct InlinedAt {
    /// Label in `.debug_str` that names the function, with its offset.
    pub function_name: Option<(String, i64)>,
    /// Index of a `.file`.
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// `.callprototype`: the signature of an indirect call.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// Label.
    pub label: Word,
    /// Return parameters.
    pub returns: Vec<Variable>,
    /// Parameters.
    pub params: Vec<Variable>,
    /// `.noreturn`
    pub noreturn: bool,
    /// `.abi_preserve 8` and the like: name without its dot, and its numbers.
    pub directives: Vec<(String, Vec<i64>)>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// First word: `ld`, `add`, `bra`.
    pub opcode: Word,
    /// Dotted words after it, in order, without dots; `::` stays (`shared::cluster`).
    pub modifiers: Vec<Word>,
    /// Operands, in order.
    pub operands: Vec<Operand>,
    /// Where it stands.
    pub position: Position,
}

/// A guard predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// `@!p`
    pub negated: bool,
    /// Name of the predicate register.
    pub predicate: Word,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x` stays one name), label, function, variable, or `_`;
    /// for `vmad` with a minus before it.
    Name(Word),
    /// `!p`
    Not(Word),
    /// A number.
    Number(Number),
    /// `-%r1`-like negation of a name does not exist in PTX; `name+offset` outside brackets does.
    NameOffset(Word, i64),
    /// `[base+offset]`; a tensor access has coordinates: `[map, {x, y}]`.
    Address {
        /// Register, variable, parameter or number.
        base: Box<Operand>,
        /// Bytes added.
        offset: i64,
        /// Further operands inside the brackets.
        extra: Vec<Operand>,
    },
    /// `{a, b, …}`
    Vector(Vec<Operand>),
    /// `p|q` (`setp`, `shfl`).
    Pair(Box<Operand>, Box<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
}
