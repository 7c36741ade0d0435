//! Module level: the header, functions, variables, debug data.

use super::super::ast::{
    Function, Item, Linkage, Module, Position, Prototype, Statement, Variable, Word,
};
use super::super::lexer::TokenKind;
use super::{Parser, Result, wrong_at};

/// Directives between a function's parameters and its body, and how many numbers each takes.
const DIRECTIVES: [(&str, usize, usize); 12] = [
    ("noreturn", 0, 0),
    ("maxntid", 1, 3),
    ("reqntid", 1, 3),
    ("minnctapersm", 1, 1),
    ("maxnctapersm", 1, 1),
    ("maxnreg", 1, 1),
    ("explicitcluster", 0, 0),
    ("blocksareclusters", 0, 0),
    ("reqnctapercluster", 1, 3),
    ("maxclusterrank", 1, 1),
    ("abi_preserve", 1, 1),
    ("abi_preserve_control", 1, 1),
];

impl Parser<'_> {
    pub(super) fn module(mut self) -> Result<Module> {
        let version = self.version()?;
        let target = self.target()?;
        let address_size = self.address_size()?;
        let mut module = Module { version, target, address_size, items: Vec::new() };
        while self.token.kind != TokenKind::End {
            self.item(&mut module.items)?;
        }
        Ok(module)
    }

    fn version(&mut self) -> Result<(u32, u32)> {
        if !self.accept_dot("version")? {
            return self.wrong("`.version`, which begins a module");
        }
        let text = self.token.text;
        let version = text.split_once('.').and_then(|(major, minor)| {
            Some((decimal(major)?, decimal(minor)?))
                .filter(|_| self.token.kind == TokenKind::Number)
        });
        match version {
            Some(version) => self.take().map(|_| version),
            None => self.wrong("a version such as `8.3`"),
        }
    }

    fn target(&mut self) -> Result<Vec<String>> {
        if !self.accept_dot("target")? {
            return self.wrong("`.target`");
        }
        self.list(|parser| parser.name("an architecture such as `sm_90`"))
    }

    fn address_size(&mut self) -> Result<u32> {
        if !self.accept_dot("address_size")? {
            return Ok(64);
        }
        let place = self.token;
        match self.integer("`32` or `64`")? {
            size @ (32 | 64) => Ok(size),
            _ => wrong_at(place, "`32` or `64`"),
        }
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        if self.accept(b';')? {
            return Ok(());
        }
        if self.is_name() {
            items.push(self.labelled_item()?);
            return Ok(());
        }
        match self.dot() {
            Some("file") => items.push(self.file()?),
            Some("section") => items.push(self.section()?),
            Some("alias") => items.push(self.alias()?),
            Some("pragma") => items.extend(self.pragmas()?.into_iter().map(Item::Pragma)),
            _ => self.linked_item(items)?,
        }
        Ok(())
    }

    fn linked_item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let position = self.position();
        let linkage = self.linkage()?;
        match self.dot() {
            Some(word @ ("entry" | "func")) => {
                self.take()?;
                items.push(Item::Function(self.function(linkage, word == "entry", position)?));
            }
            Some(word) if super::declaration::is_space(word) => {
                let variables = self.variables(linkage)?;
                items.extend(variables.into_iter().map(Item::Variable));
            }
            _ => return self.wrong("a function, a variable or another module-level directive"),
        }
        Ok(())
    }

    fn linkage(&mut self) -> Result<Linkage> {
        let linkage = match self.dot() {
            Some("extern") => Linkage::Extern,
            Some("visible") => Linkage::Visible,
            Some("weak") => Linkage::Weak,
            Some("common") => Linkage::Common,
            _ => return Ok(Linkage::None),
        };
        self.take()?;
        Ok(linkage)
    }

    /// `.file index "path"[, timestamp, size]`
    fn file(&mut self) -> Result<Item> {
        self.take()?;
        let index = self.integer("the file's index")?;
        let path = self.text()?;
        if self.accept(b',')? {
            self.list(|parser| parser.integer::<u64>("a timestamp or a file size"))?;
        }
        Ok(Item::File { index, path })
    }

    fn section(&mut self) -> Result<Item> {
        self.take()?;
        let mut name = String::new();
        while matches!(self.token.kind, TokenKind::Dot | TokenKind::Word) {
            name.push_str(self.take()?.text);
        }
        if name.is_empty() {
            return self.wrong("the section's name");
        }
        if !self.at(b'{') {
            return self.wrong("`{`");
        }
        let body = self.lexer.raw_to_closing_brace()?.to_owned();
        self.take()?;
        Ok(Item::Section { name, body })
    }

    fn alias(&mut self) -> Result<Item> {
        self.take()?;
        let name = self.name("the alias")?;
        self.expect(b',', "`,`")?;
        let target = self.name("the function that the alias names")?;
        self.end_of_statement()?;
        Ok(Item::Alias(name, target))
    }

    /// `.pragma "a", "b";`
    pub(super) fn pragmas(&mut self) -> Result<Vec<String>> {
        self.take()?;
        let texts = self.list(Self::text)?;
        self.end_of_statement()?;
        Ok(texts)
    }

    fn function(&mut self, linkage: Linkage, entry: bool, position: Position) -> Result<Function> {
        let mut attributes = Vec::new();
        self.attributes(&mut attributes)?;
        let returns = if entry { Vec::new() } else { self.parameters()? };
        let name = self.name("the function's name")?;
        let params = self.parameters()?;
        let (mut directives, mut pragmas) = (Vec::new(), Vec::new());
        while let Some(word) = self.dot() {
            match word {
                "pragma" => pragmas.extend(self.pragmas()?.into_iter().map(Statement::Pragma)),
                _ => directives.push(self.directive(word)?),
            }
        }
        let body = self.function_body(pragmas)?;
        Ok(Function {
            linkage,
            entry,
            returns,
            name,
            params,
            directives,
            attributes,
            body,
            position,
        })
    }

    /// `.maxntid 256, 1, 1` and the like.
    fn directive(&mut self, word: &str) -> Result<(String, Vec<i64>)> {
        let Some(&(_, least, most)) = DIRECTIVES.iter().find(|(name, ..)| *name == word) else {
            return self.wrong("a directive of a function, `{` or `;`");
        };
        self.take()?;
        let mut numbers = Vec::new();
        while numbers.len() < least
            || (numbers.len() < most && !numbers.is_empty() && self.accept(b',')?)
        {
            numbers.push(self.integer("a number")?);
        }
        Ok((word.to_owned(), numbers))
    }

    /// `{ … }`, or `;` for a declaration. Pragmas that stood before the body begin it.
    fn function_body(&mut self, pragmas: Vec<Statement>) -> Result<Option<Vec<Statement>>> {
        if self.accept(b';')? {
            return Ok(None);
        }
        if !self.at(b'{') {
            return self.wrong("`{` or `;`");
        }
        let mut body = pragmas;
        self.block(&mut body)?;
        Ok(Some(body))
    }

    /// `(a, b)`, `()` or nothing.
    fn parameters(&mut self) -> Result<Vec<Variable>> {
        if !self.accept(b'(')? || self.accept(b')')? {
            return Ok(Vec::new());
        }
        let parameters = self.list(Self::parameter)?;
        self.expect(b')', "`,` or `)`")?;
        Ok(parameters)
    }

    /// A prototype, or a label of debug data.
    fn labelled_item(&mut self) -> Result<Item> {
        let label = self.name("a label")?;
        self.expect(b':', "`:` behind a label")?;
        if self.at_dot("callprototype") {
            return self.prototype(label.into()).map(Item::Prototype);
        }
        Ok(Item::Label(label))
    }

    /// `.callprototype (returns) _ (parameters) .noreturn;`
    pub(super) fn prototype(&mut self, label: Word) -> Result<Prototype> {
        self.take()?;
        let returns = self.parameters()?;
        self.name("`_`")?;
        let params = self.parameters()?;
        let (mut noreturn, mut directives) = (false, Vec::new());
        while let Some(word) = self.dot() {
            match word {
                "noreturn" => noreturn = self.accept_dot(word)?,
                _ => directives.push(self.directive(word)?),
            }
        }
        self.end_of_statement()?;
        Ok(Prototype { label, returns, params, noreturn, directives })
    }
}

fn decimal(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
