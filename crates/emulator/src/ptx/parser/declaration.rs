//! Variables and parameters.

use super::super::ast::{Attribute, Linkage, Pointer, Variable};
use super::{Parser, Result, wrong_at};

const SPACES: [&str; 8] = ["reg", "sreg", "global", "shared", "local", "const", "param", "tex"];

const TYPES: [&str; 24] = [
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "f16",
    "f16x2",
    "bf16",
    "bf16x2",
    "tf32",
    "f32",
    "f64",
    "pred",
    "texref",
    "samplerref",
    "surfref",
];

/// What `.attribute(…)` may list, and how many numbers each takes.
const ATTRIBUTES: [(&str, usize); 2] = [("managed", 0), ("unified", 2)];

pub(super) fn is_space(word: &str) -> bool {
    SPACES.contains(&word)
}

impl Parser<'_> {
    /// `.space … a, b[4] = {…};`: one variable for each name.
    ///
    /// What the names share is copied for each, so it must stay small: types and attributes come
    /// from short lists.
    pub(super) fn variables(&mut self, linkage: Linkage) -> Result<Vec<Variable>> {
        let mut common = self.variable_head()?;
        common.linkage = linkage;
        let variables = self.list(|parser| parser.initialised(&common))?;
        self.end_of_statement()?;
        Ok(variables)
    }

    pub(super) fn parameter(&mut self) -> Result<Variable> {
        if !self.at_dot("param") && !self.at_dot("reg") {
            return self.wrong("`.param` or `.reg`");
        }
        let head = self.variable_head()?;
        self.declarator(&head)
    }

    /// All that stands before the names, which may come in any order.
    fn variable_head(&mut self) -> Result<Variable> {
        let position = self.position();
        let space = self.take()?.text[1..].to_owned();
        let mut head = Variable {
            linkage: Linkage::None,
            space,
            align: None,
            vector: 1,
            ty: String::new(),
            name: String::new(),
            range: None,
            dims: Vec::new(),
            pointer: None,
            init: None,
            attributes: Vec::new(),
            position,
        };
        while let Some(word) = self.dot() {
            self.head_word(&mut head, word)?;
        }
        if head.ty.is_empty() { self.wrong("a type such as `.b32`") } else { Ok(head) }
    }

    fn head_word(&mut self, head: &mut Variable, word: &str) -> Result<()> {
        match word {
            "align" => head.align = Some(self.alignment()?),
            "ptr" => head.pointer = Some(self.pointer()?),
            "attribute" => self.attributes(&mut head.attributes)?,
            "v2" | "v4" | "v8" => {
                head.vector = self.take()?.text[2..].parse().unwrap_or(1);
            }
            _ if head.ty.is_empty() && TYPES.contains(&word) => {
                head.ty = self.take()?.text[1..].to_owned();
            }
            _ if head.ty.is_empty() => return self.wrong("a type such as `.b32`"),
            _ => return self.wrong("a name"),
        }
        Ok(())
    }

    fn alignment(&mut self) -> Result<u32> {
        self.take()?;
        let place = self.token;
        let align: u32 = self.integer("an alignment")?;
        if align.is_power_of_two() {
            return Ok(align);
        }
        wrong_at(place, "a power of two")
    }

    /// `.ptr .space .align n`, the last two optional.
    fn pointer(&mut self) -> Result<Pointer> {
        self.take()?;
        let mut pointer = Pointer::default();
        if self.dot().is_some_and(is_space) {
            pointer.space = Some(self.take()?.text[1..].to_owned());
        }
        if self.at_dot("align") {
            pointer.align = Some(self.alignment()?);
        }
        Ok(pointer)
    }

    /// `.attribute(.managed, .unified(a, b))`, if it stands here.
    pub(super) fn attributes(&mut self, attributes: &mut Vec<Attribute>) -> Result<()> {
        if !self.accept_dot("attribute")? {
            return Ok(());
        }
        self.expect(b'(', "`(`")?;
        self.list(|parser| {
            let attribute = parser.attribute(attributes)?;
            attributes.push(attribute);
            Ok(())
        })?;
        self.expect(b')', "`)`")
    }

    /// One attribute, which `others` must not list already.
    fn attribute(&mut self, others: &[Attribute]) -> Result<Attribute> {
        let word = self.dot().unwrap_or_default();
        let Some(&(name, count)) = ATTRIBUTES.iter().find(|(name, _)| *name == word) else {
            return self.wrong("`.managed` or `.unified`");
        };
        if others.iter().any(|other| other.name == name) {
            return self.wrong("each attribute once");
        }
        self.take()?;
        let mut values = Vec::new();
        for index in 0..count {
            self.expect(if index == 0 { b'(' } else { b',' }, "`(` and two numbers")?;
            values.push(self.integer("a number")?);
        }
        if count > 0 {
            self.expect(b')', "`)`")?;
        }
        Ok(Attribute { name: name.to_owned(), values })
    }

    /// `name`, `name[n][m]`, and of registers `name<n>`.
    fn declarator(&mut self, head: &Variable) -> Result<Variable> {
        let mut variable = Variable { position: self.position(), ..head.clone() };
        variable.name = self.name("a name")?;
        if head.space == "reg" && self.accept(b'<')? {
            variable.range = Some(self.integer("the number of registers")?);
            self.expect(b'>', "`>`")?;
        }
        while self.accept(b'[')? {
            variable.dims.push(self.dimension()?);
        }
        Ok(variable)
    }

    /// A declarator, then `= init` if it stands here.
    fn initialised(&mut self, head: &Variable) -> Result<Variable> {
        let mut variable = self.declarator(head)?;
        if self.accept(b'=')? {
            variable.init = Some(self.initialiser()?);
        }
        Ok(variable)
    }

    fn dimension(&mut self) -> Result<Option<u64>> {
        if self.accept(b']')? {
            return Ok(None);
        }
        let length = self.integer("a length or `]`")?;
        self.expect(b']', "`]`")?;
        Ok(Some(length))
    }
}
