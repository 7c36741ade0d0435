//! Tokens → syntax tree: recursive descent with one token of lookahead.
//!
//! [`module`] reads what stands at module level, [`declaration`] variables and parameters,
//! [`constant`] initialisers, [`body`] statements, [`operand`] operands.

mod body;
mod constant;
mod declaration;
mod module;
mod operand;

use super::ast::{Module, Number, Position};
use super::error::ParseError;
use super::lexer::{Lexer, Token, TokenKind};
use super::number;

/// How deep braces, brackets and parentheses may nest.
const MAX_DEPTH: u32 = 128;

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a module's text.
///
/// Time and memory are linear in the length of `source`.
///
/// # Errors
/// The first place where the text is not PTX.
pub fn parse(source: &str) -> Result<Module> {
    Parser::new(source)?.module()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to look at, not yet taken.
    token: Token<'a>,
    depth: u32,
    /// Whether a name may have a minus before it.
    negatives: bool,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(source);
        let token = lexer.next()?;
        Ok(Self { lexer, token, depth: 0, negatives: false })
    }

    /// Takes the token.
    fn take(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// The error that something else should stand where the token is.
    fn wrong<T>(&self, expected: impl Into<String>) -> Result<T> {
        Err(ParseError::new(self.token.position, self.token.text, expected))
    }

    fn at(&self, punctuation: u8) -> bool {
        self.token.kind == TokenKind::Punct(punctuation)
    }

    fn at_dot(&self, word: &str) -> bool {
        self.dot() == Some(word)
    }

    /// The dotted word here, without its dot.
    fn dot(&self) -> Option<&'a str> {
        (self.token.kind == TokenKind::Dot).then(|| &self.token.text[1..])
    }

    /// Takes the punctuation if it is next.
    fn accept(&mut self, punctuation: u8) -> Result<bool> {
        let here = self.at(punctuation);
        if here {
            self.take()?;
        }
        Ok(here)
    }

    fn accept_dot(&mut self, word: &str) -> Result<bool> {
        let here = self.at_dot(word);
        if here {
            self.take()?;
        }
        Ok(here)
    }

    fn expect(&mut self, punctuation: u8, expected: &str) -> Result<()> {
        if self.accept(punctuation)? { Ok(()) } else { self.wrong(expected) }
    }

    fn end_of_statement(&mut self) -> Result<()> {
        self.expect(b';', "`;`")
    }

    /// A name without dots.
    fn name(&mut self, expected: &str) -> Result<String> {
        if !self.is_name() {
            return self.wrong(expected);
        }
        Ok(self.take()?.text.to_owned())
    }

    fn is_name(&self) -> bool {
        self.token.kind == TokenKind::Word
            && self.token.text != "%"
            && !self.token.text.contains('.')
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Word && self.token.text == word
    }

    /// A string's text between the quotes.
    fn text(&mut self) -> Result<String> {
        if self.token.kind != TokenKind::Text {
            return self.wrong("a string");
        }
        let text = self.take()?.text;
        Ok(text[1..text.len() - 1].to_owned())
    }

    /// A literal without a sign.
    fn literal(&mut self) -> Result<Number> {
        if self.token.kind != TokenKind::Number {
            return self.wrong("a number");
        }
        match number::parse(self.token.text) {
            Ok(number) => self.take().map(|_| number),
            Err(expected) => self.wrong(expected),
        }
    }

    /// A literal with any number of signs.
    fn signed_literal(&mut self) -> Result<Number> {
        let mut negative = false;
        while self.at(b'-') || self.at(b'+') {
            negative ^= self.take()?.text == "-";
        }
        let number = self.literal()?;
        Ok(if negative { number::negate(number) } else { number })
    }

    /// A non-negative integer literal that fits `T`.
    fn integer<T: TryFrom<i128>>(&mut self, expected: &str) -> Result<T> {
        let value = match number::parse(self.token.text) {
            Ok(Number::Int { value, .. }) => T::try_from(value).ok(),
            _ => None,
        };
        match value.filter(|_| self.token.kind == TokenKind::Number) {
            Some(value) => self.take().map(|_| value),
            None => self.wrong(expected),
        }
    }

    /// `+ n`, `- n`, `+ -n`, repeated: their sum, or `None` where no sign stands.
    ///
    /// An offset counts modulo 2^64, as addresses do: `0xFFFFFFFFFFFFFFFC` is -4.
    fn offset(&mut self) -> Result<Option<i64>> {
        let mut sum = None;
        while self.at(b'+') || self.at(b'-') {
            let place = self.token;
            let Number::Int { value, .. } = self.signed_literal()? else {
                return wrong_at(place, "an integer offset");
            };
            sum = Some(sum.unwrap_or(0i64).wrapping_add(value as i64));
        }
        Ok(sum)
    }

    /// `item, item, …`: at least one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(b',')? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Runs `inside` one level deeper, or refuses to go there.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return self.wrong(format!("at most {MAX_DEPTH} levels of nesting"));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn position(&self) -> Position {
        self.token.position
    }
}

/// The error that something else should stand where `place` is.
fn wrong_at<T>(place: Token<'_>, expected: &str) -> Result<T> {
    Err(ParseError::new(place.position, place.text, expected))
}
