//! Statements.

use super::super::ast::{
    Guard, InlinedAt, Instruction, Linkage, Operand, Position, Statement, Variable, Word,
};
use super::super::lexer::TokenKind;
use super::{Parser, Result};

impl<'a> Parser<'a> {
    /// `{ … }`, appended to `statements`.
    pub(super) fn block(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        self.nested(|parser| {
            parser.take()?;
            while !parser.at(b'}') {
                parser.statement(statements)?;
            }
            Ok(())
        })?;
        self.expect(b'}', "`}`")
    }

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        let position = self.position();
        match self.token.kind {
            TokenKind::Word => {
                let word = self.take()?.text;
                if self.at(b':') {
                    return self.labelled(word, position, statements);
                }
                statements.push(self.instruction(None, word, position)?);
            }
            TokenKind::Dot => self.directive_statement(statements)?,
            TokenKind::Punct(b'@') => statements.push(self.guarded()?),
            TokenKind::Punct(b'{') => {
                let mut inner = Vec::new();
                self.block(&mut inner)?;
                statements.push(Statement::Block(inner));
            }
            TokenKind::Punct(b';') => {
                self.take()?;
            }
            TokenKind::End => return self.wrong("`}`"),
            _ => return self.wrong("a statement"),
        }
        Ok(())
    }

    /// What follows `label` when a colon does.
    fn labelled(
        &mut self,
        label: &str,
        position: Position,
        statements: &mut Vec<Statement>,
    ) -> Result<()> {
        if label.contains('.') || label == "%" {
            return Err(super::ParseError::new(position, label, "a label without dots"));
        }
        self.take()?;
        statements.push(match self.dot() {
            Some("branchtargets") => {
                Statement::BranchTargets { label: label.into(), targets: self.names("a label")? }
            }
            Some("calltargets") => {
                Statement::CallTargets { label: label.into(), targets: self.names("a function")? }
            }
            Some("callprototype") => Statement::Prototype(self.prototype(label.into())?),
            _ => Statement::Label(label.into()),
        });
        Ok(())
    }

    /// `.directive a, b;`
    fn names(&mut self, expected: &str) -> Result<Vec<String>> {
        self.take()?;
        let names = self.list(|parser| parser.name(expected))?;
        self.end_of_statement()?;
        Ok(names)
    }

    fn directive_statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        match self.dot() {
            Some("loc") => statements.push(self.loc()?),
            Some("pragma") => statements.extend(self.pragmas()?.into_iter().map(Statement::Pragma)),
            Some(word) if super::declaration::is_space(word) => {
                let variables: Vec<Variable> = self.variables(Linkage::None)?;
                statements
                    .extend(variables.into_iter().map(|one| Statement::Variable(Box::new(one))));
            }
            _ => return self.wrong("a directive that may stand in a function"),
        }
        Ok(())
    }

    /// `.loc file line column[, function_name label[+offset], inlined_at file line column]`
    fn loc(&mut self) -> Result<Statement> {
        self.take()?;
        let (file, line, column) = self.file_line_column()?;
        let mut function_name = None;
        let mut inlined_at = None;
        while inlined_at.is_none() && self.accept(b',')? {
            if self.is_word("function_name") && function_name.is_none() {
                self.take()?;
                let label = self.section_label()?;
                function_name = Some((label, self.offset()?.unwrap_or(0)));
            } else if self.is_word("inlined_at") {
                self.take()?;
                inlined_at = Some(self.file_line_column()?);
            } else {
                return self.wrong("`function_name` or `inlined_at`");
            }
        }
        if function_name.is_some() && inlined_at.is_none() {
            return self.wrong("`inlined_at`");
        }
        let inlined_at =
            inlined_at.map(|(file, line, column)| InlinedAt { function_name, file, line, column });
        Ok(Statement::Loc { file, line, column, inlined_at })
    }

    /// A label in a debug section, or the section itself: `$L__info_string0`, `.debug_str`.
    fn section_label(&mut self) -> Result<String> {
        if self.token.kind == TokenKind::Dot {
            return Ok(self.take()?.text.to_owned());
        }
        self.name("a label")
    }

    fn file_line_column(&mut self) -> Result<(u32, u32, u32)> {
        let file = self.integer("a file's index")?;
        let line = self.integer("a line")?;
        let column = self.integer("a column")?;
        Ok((file, line, column))
    }

    /// `@p instruction` or `@!p instruction`
    fn guarded(&mut self) -> Result<Statement> {
        let position = self.position();
        self.take()?;
        let negated = self.accept(b'!')?;
        let predicate = self.name("a predicate")?.into();
        if self.token.kind != TokenKind::Word {
            return self.wrong("an instruction");
        }
        let word = self.take()?.text;
        self.instruction(Some(Guard { negated, predicate }), word, position)
    }

    /// The rest of an instruction behind its first word.
    fn instruction(
        &mut self,
        guard: Option<Guard>,
        word: &'a str,
        position: Position,
    ) -> Result<Statement> {
        let mut words = word.split('.');
        let opcode = words.next().unwrap_or_default();
        if !opcode.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(super::ParseError::new(position, word, "an instruction"));
        }
        let mut modifiers: Vec<Word> = words.map(Word::from).collect();
        while let Some(modifier) = self.dot() {
            modifiers.push(modifier.into());
            self.take()?;
        }
        self.negatives = opcode == "vmad";
        let operands = self.operands()?;
        let opcode = opcode.into();
        Ok(Statement::Instruction(Instruction { guard, opcode, modifiers, operands, position }))
    }

    fn operands(&mut self) -> Result<Vec<Operand>> {
        if self.accept(b';')? {
            return Ok(Vec::new());
        }
        let operands = self.list(Self::operand)?;
        self.expect(b';', "`,` or `;`")?;
        Ok(operands)
    }
}
