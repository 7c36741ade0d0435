//! Syntax tree → text. What [`parse`](super::parse) reads back is the same tree.

use super::ast::{
    Attribute, Function, Guard, Init, Instruction, Item, Linkage, Module, Number, Operand, Pointer,
    Prototype, Statement, Variable,
};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        writeln!(f, ".target {}", Joined(&self.target))?;
        writeln!(f, ".address_size {}", self.address_size)?;
        self.items.iter().try_for_each(|item| writeln!(f, "{item}"))
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Variable(variable) => write!(f, "{variable};"),
            Item::Function(function) => function.fmt(f),
            Item::File { index, path } => write!(f, ".file {index} \"{path}\""),
            Item::Section { name, body } => write!(f, ".section {name} {{{body}}}"),
            Item::Prototype(prototype) => prototype.fmt(f),
            Item::Pragma(text) => write!(f, ".pragma \"{text}\";"),
            Item::Label(name) => write!(f, "{name}:"),
            Item::Alias(name, target) => write!(f, ".alias {name}, {target};"),
        }
    }
}

impl Display for Linkage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Linkage::None => "",
            Linkage::Extern => ".extern ",
            Linkage::Visible => ".visible ",
            Linkage::Weak => ".weak ",
            Linkage::Common => ".common ",
        })
    }
}

/// Without the `;`, since a parameter is a variable too.
impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ", self.linkage, self.space)?;
        write_attributes(f, &self.attributes)?;
        if let Some(align) = self.align {
            write!(f, ".align {align} ")?;
        }
        if self.vector != 1 {
            write!(f, ".v{} ", self.vector)?;
        }
        write!(f, ".{} ", self.ty)?;
        if let Some(pointer) = &self.pointer {
            write!(f, "{pointer} ")?;
        }
        f.write_str(&self.name)?;
        if let Some(range) = self.range {
            write!(f, "<{range}>")?;
        }
        for dim in &self.dims {
            match dim {
                Some(length) => write!(f, "[{length}]")?,
                None => f.write_str("[]")?,
            }
        }
        self.init.iter().try_for_each(|init| write!(f, " = {init}"))
    }
}

impl Display for Pointer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(".ptr")?;
        if let Some(space) = &self.space {
            write!(f, " .{space}")?;
        }
        self.align.iter().try_for_each(|align| write!(f, " .align {align}"))
    }
}

impl Display for Attribute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.name)?;
        if self.values.is_empty() { Ok(()) } else { write!(f, "({})", Joined(&self.values)) }
    }
}

impl Display for Init {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Init::List(values) => write!(f, "{{{}}}", Joined(values)),
            Init::Number(number) => number.fmt(f),
            Init::Address { symbol, offset, generic, mask } => {
                if let Some(mask) = mask {
                    write!(f, "{mask:#X}(")?;
                }
                f.write_str(if *generic { "generic(" } else { "" })?;
                f.write_str(symbol)?;
                f.write_str(if *generic { ")" } else { "" })?;
                write_offset(f, *offset)?;
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int { value, unsigned: false } => write!(f, "{value}"),
            Number::Int { value, unsigned: true } => write!(f, "{value}U"),
            Number::F32(bits) => write!(f, "0f{bits:08X}"),
            Number::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} ", self.linkage, if self.entry { ".entry" } else { ".func" })?;
        write_attributes(f, &self.attributes)?;
        if !self.returns.is_empty() {
            write!(f, "({}) ", Joined(&self.returns))?;
        }
        write!(f, "{}({})", self.name, Joined(&self.params))?;
        write_directives(f, &self.directives, '\n')?;
        match &self.body {
            None => f.write_str(";"),
            Some(body) => {
                f.write_str("\n{\n")?;
                write_statements(f, body, 1)?;
                f.write_str("}")
            }
        }
    }
}

/// On lines of its own, with what a block holds indented.
impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_statement(f, self, 0)
    }
}

impl Display for Prototype {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: .callprototype ", self.label)?;
        if !self.returns.is_empty() {
            write!(f, "({}) ", Joined(&self.returns))?;
        }
        let noreturn = if self.noreturn { " .noreturn" } else { "" };
        write!(f, "_ ({}){noreturn}", Joined(&self.params))?;
        write_directives(f, &self.directives, ' ')?;
        f.write_char(';')
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(f, "{guard} ")?;
        }
        f.write_str(&self.opcode)?;
        self.modifiers.iter().try_for_each(|modifier| write!(f, ".{modifier}"))?;
        let gap = if self.operands.is_empty() { "" } else { " " };
        write!(f, "{gap}{};", Joined(&self.operands))
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.predicate)
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name) => f.write_str(name),
            Operand::Not(name) => write!(f, "!{name}"),
            Operand::Number(number) => number.fmt(f),
            Operand::NameOffset(name, offset) => write!(f, "{name}+{offset}"),
            Operand::Address { base, offset, extra } => {
                write!(f, "[{base}")?;
                write_offset(f, *offset)?;
                extra.iter().try_for_each(|operand| write!(f, ", {operand}"))?;
                f.write_str("]")
            }
            Operand::Vector(elements) => write!(f, "{{{}}}", Joined(elements)),
            Operand::Pair(first, second) => write!(f, "{first}|{second}"),
            Operand::List(arguments) => write!(f, "({})", Joined(arguments)),
        }
    }
}

fn write_statements(f: &mut Formatter<'_>, statements: &[Statement], depth: usize) -> fmt::Result {
    statements.iter().try_for_each(|statement| {
        write_statement(f, statement, depth)?;
        f.write_char('\n')
    })
}

fn write_statement(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> fmt::Result {
    write!(f, "{:1$}", "", depth * 4)?;
    match statement {
        Statement::Label(name) => write!(f, "{name}:"),
        Statement::Variable(variable) => write!(f, "{variable};"),
        Statement::Block(inner) => {
            f.write_str("{\n")?;
            write_statements(f, inner, depth + 1)?;
            write!(f, "{:1$}}}", "", depth * 4)
        }
        Statement::Instruction(instruction) => instruction.fmt(f),
        Statement::Loc { file, line, column, inlined_at } => {
            write!(f, ".loc {file} {line} {column}")?;
            let Some(call) = inlined_at else {
                return Ok(());
            };
            if let Some((label, offset)) = &call.function_name {
                write!(f, ", function_name {label}")?;
                write_offset(f, *offset)?;
            }
            write!(f, ", inlined_at {} {} {}", call.file, call.line, call.column)
        }
        Statement::BranchTargets { label, targets } => {
            write!(f, "{label}: .branchtargets {};", Joined(targets))
        }
        Statement::Prototype(prototype) => prototype.fmt(f),
        Statement::CallTargets { label, targets } => {
            write!(f, "{label}: .calltargets {};", Joined(targets))
        }
        Statement::Pragma(text) => write!(f, ".pragma \"{text}\";"),
    }
}

fn write_directives(
    f: &mut Formatter<'_>,
    directives: &[(String, Vec<i64>)],
    before: char,
) -> fmt::Result {
    directives.iter().try_for_each(|(name, numbers)| {
        let gap = if numbers.is_empty() { "" } else { " " };
        write!(f, "{before}.{name}{gap}{}", Joined(numbers))
    })
}

fn write_attributes(f: &mut Formatter<'_>, attributes: &[Attribute]) -> fmt::Result {
    if attributes.is_empty() { Ok(()) } else { write!(f, ".attribute({}) ", Joined(attributes)) }
}

fn write_offset(f: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    if offset == 0 { Ok(()) } else { write!(f, "{offset:+}") }
}

/// Items with commas between them.
struct Joined<'a, T>(&'a [T]);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(());
        };
        first.fmt(f)?;
        rest.iter().try_for_each(|item| write!(f, ", {item}"))
    }
}
