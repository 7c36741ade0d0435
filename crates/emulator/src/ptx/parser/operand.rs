//! Operands of instructions.

use compact_str::format_compact;

use super::super::ast::{Operand, Word};
use super::super::lexer::TokenKind;
use super::{Parser, Result};

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Result<Operand> {
        match self.token.kind {
            TokenKind::Word => self.named(),
            TokenKind::Punct(b'-') if self.negatives => self.negative(),
            TokenKind::Number | TokenKind::Punct(b'-' | b'+') => {
                self.signed_literal().map(Operand::Number)
            }
            TokenKind::Punct(b'{') => self.vector(),
            TokenKind::Punct(b'[') => self.address(),
            TokenKind::Punct(b'(') => self.call_list(),
            TokenKind::Punct(b'!') => {
                self.take()?;
                self.value_name().map(Operand::Not)
            }
            _ => self.wrong("an operand"),
        }
    }

    /// A name that may have a component: `%tid.x`.
    fn value_name(&mut self) -> Result<Word> {
        if self.token.kind != TokenKind::Word || self.token.text == "%" {
            return self.wrong("a name");
        }
        Ok(self.take()?.text.into())
    }

    /// `-4`, or `-a`, which only `vmad` takes: a name with its sign.
    fn negative(&mut self) -> Result<Operand> {
        self.take()?;
        if self.token.kind == TokenKind::Word {
            return Ok(Operand::Name(format_compact!("-{}", self.value_name()?)));
        }
        self.signed_literal().map(|number| Operand::Number(super::number::negate(number)))
    }

    /// `a`, `a+4` or `p|q`.
    fn named(&mut self) -> Result<Operand> {
        let name = self.value_name()?;
        if self.accept(b'|')? {
            let second = self.value_name()?;
            return Ok(Operand::Pair(
                Box::new(Operand::Name(name)),
                Box::new(Operand::Name(second)),
            ));
        }
        Ok(match self.offset()? {
            Some(offset) => Operand::NameOffset(name, offset),
            None => Operand::Name(name),
        })
    }

    /// `{a, b}`
    fn vector(&mut self) -> Result<Operand> {
        let elements = self.nested(|parser| {
            parser.take()?;
            parser.list(Self::operand)
        })?;
        self.expect(b'}', "`,` or `}`")?;
        Ok(Operand::Vector(elements))
    }

    /// `(a, b)` or `()`
    fn call_list(&mut self) -> Result<Operand> {
        let arguments = self.nested(|parser| {
            parser.take()?;
            if parser.at(b')') { Ok(Vec::new()) } else { parser.list(Self::operand) }
        })?;
        self.expect(b')', "`,` or `)`")?;
        Ok(Operand::List(arguments))
    }

    /// `[base+offset, extra…]`
    fn address(&mut self) -> Result<Operand> {
        self.take()?;
        let base = match self.token.kind {
            TokenKind::Word => Operand::Name(self.value_name()?),
            TokenKind::Number | TokenKind::Punct(b'-' | b'+') => {
                Operand::Number(self.signed_literal()?)
            }
            _ => return self.wrong("an address"),
        };
        let offset = self.offset()?.unwrap_or(0);
        let mut extra = Vec::new();
        if self.accept(b',')? {
            extra = self.nested(|parser| parser.list(Self::operand))?;
        }
        self.expect(b']', "`+`, `,` or `]`")?;
        // A promise that the address has the attribute `.unified`, which changes nothing here.
        self.accept_dot("unified")?;
        Ok(Operand::Address { base: Box::new(base), offset, extra })
    }
}
