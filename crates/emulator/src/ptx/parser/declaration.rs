//! Variables and parameters.

use super::super::ast::{Attribute, Linkage, Pointer, Variable};
use super::{Parser, Result, wrong_at};

const SPACES: [&str; 8] = [
    "reg", "sreg", "global", "shared", "local", "const", "param", "tex",
];

const TYPES: [&str; 31] = [
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
    "e4m3",
    "e5m2",
    "e4m3x2",
    "e5m2x2",
    "u16x2",
    "s16x2",
    "texref",
    "samplerref",
    "surfref",
    "u128",
];

pub(super) fn is_space(word: &str) -> bool {
    SPACES.contains(&word)
}

impl Parser<'_> {
    /// `.space … a, b[4] = {…};`: one variable for each name.
    pub(super) fn variables(&mut self, linkage: Linkage) -> Result<Vec<Variable>> {
        let mut common = self.variable_head()?;
        common.linkage = linkage;
        let variables = self.list(|parser| parser.declarator(&common))?;
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
        if head.ty.is_empty() {
            self.wrong("a type such as `.b32`")
        } else {
            Ok(head)
        }
    }

    fn head_word(&mut self, head: &mut Variable, word: &str) -> Result<()> {
        match word {
            "align" => head.align = Some(self.alignment()?),
            "ptr" => head.pointer = Some(self.pointer()?),
            "attribute" => head.attributes.extend(self.attributes()?),
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
    pub(super) fn attributes(&mut self) -> Result<Vec<Attribute>> {
        if !self.accept_dot("attribute")? {
            return Ok(Vec::new());
        }
        self.expect(b'(', "`(`")?;
        let attributes = self.list(Self::attribute)?;
        self.expect(b')', "`)`")?;
        Ok(attributes)
    }

    fn attribute(&mut self) -> Result<Attribute> {
        let Some(name) = self.dot() else {
            return self.wrong("an attribute such as `.managed`");
        };
        self.take()?;
        let mut values = Vec::new();
        if self.accept(b'(')? {
            values = self.list(|parser| parser.integer("a number"))?;
            self.expect(b')', "`)`")?;
        }
        Ok(Attribute {
            name: name.to_owned(),
            values,
        })
    }

    /// `name`, `name<n>`, `name[n][m] = init`.
    fn declarator(&mut self, head: &Variable) -> Result<Variable> {
        let mut variable = Variable {
            position: self.position(),
            ..head.clone()
        };
        variable.name = self.name("a name")?;
        if self.accept(b'<')? {
            variable.range = Some(self.integer("the number of registers")?);
            self.expect(b'>', "`>`")?;
        }
        while self.accept(b'[')? {
            variable.dims.push(self.dimension()?);
        }
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
