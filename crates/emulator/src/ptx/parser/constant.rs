//! Initialisers: numbers, lists, and addresses that the loader fills in.

use super::super::ast::{Init, Number};
use super::super::lexer::TokenKind;
use super::super::number::negate;
use super::{Parser, Result, wrong_at};

impl Parser<'_> {
    /// `{a, b}`, a number, or an address.
    pub(super) fn initialiser(&mut self) -> Result<Init> {
        if !self.at(b'{') {
            return self.nested(Self::sum);
        }
        let list = self.nested(|parser| {
            parser.take()?;
            if parser.at(b'}') { Ok(Vec::new()) } else { parser.list(Self::initialiser) }
        })?;
        self.expect(b'}', "`,` or `}`")?;
        Ok(Init::List(list))
    }

    /// `term + term - term …`, where at most the first has an address.
    fn sum(&mut self) -> Result<Init> {
        let mut sum = self.term()?;
        while self.at(b'+') || self.at(b'-') {
            let minus = self.take()?.text == "-";
            let place = self.token;
            let Init::Number(number) = self.term()? else {
                return wrong_at(place, "a number");
            };
            let number = if minus { negate(number) } else { number };
            sum = match add(sum, number) {
                Some(sum) => sum,
                None => {
                    return wrong_at(place, "an integer");
                }
            };
        }
        Ok(sum)
    }

    fn term(&mut self) -> Result<Init> {
        match self.token.kind {
            TokenKind::Punct(b'(') => self.parenthesised(),
            TokenKind::Punct(b'-' | b'+') => self.signed_literal().map(Init::Number),
            TokenKind::Number => self.number_or_mask(),
            TokenKind::Word if self.is_word("generic") => self.generic(),
            _ => {
                let symbol = self.name("an initial value")?;
                Ok(Init::Address { symbol, offset: 0, generic: false, mask: None })
            }
        }
    }

    fn parenthesised(&mut self) -> Result<Init> {
        let inner = self.nested(|parser| {
            parser.expect(b'(', "`(`")?;
            parser.sum()
        })?;
        self.expect(b')', "`)`")?;
        Ok(inner)
    }

    /// `12`, or `0xFF00(address)`, which is one byte of an address (or of a number).
    fn number_or_mask(&mut self) -> Result<Init> {
        let place = self.token;
        let number = self.literal()?;
        if !self.at(b'(') {
            return Ok(Init::Number(number));
        }
        let bits = match number {
            Number::Int { value, .. } => u64::try_from(value).ok(),
            _ => None,
        };
        let Some(bits) = bits else {
            return wrong_at(place, "an integer mask");
        };
        let place = self.token;
        match self.parenthesised()? {
            Init::Address { symbol, offset, generic, mask: None } => {
                Ok(Init::Address { symbol, offset, generic, mask: Some(bits) })
            }
            Init::Number(Number::Int { value, unsigned }) => {
                let value = i128::from((value as u64 & bits) >> bits.trailing_zeros().min(63));
                Ok(Init::Number(Number::Int { value, unsigned }))
            }
            _ => wrong_at(place, "an address to mask"),
        }
    }

    fn generic(&mut self) -> Result<Init> {
        self.take()?;
        let place = self.token;
        match self.parenthesised()? {
            Init::Address { symbol, offset, generic: false, mask: None } => {
                Ok(Init::Address { symbol, offset, generic: true, mask: None })
            }
            _ => wrong_at(place, "a variable in parentheses"),
        }
    }
}

/// `value + number`; `None` where a float or a masked byte would be added to.
fn add(value: Init, number: Number) -> Option<Init> {
    let Number::Int { value: addend, unsigned: right } = number else {
        return None;
    };
    match value {
        Init::Number(Number::Int { value, unsigned: left }) => {
            let value = value.wrapping_add(addend);
            Some(Init::Number(Number::Int { value, unsigned: left || right }))
        }
        Init::Address { symbol, offset, generic, mask: None } => {
            let offset = offset.wrapping_add(addend as i64);
            Some(Init::Address { symbol, offset, generic, mask: None })
        }
        _ => None,
    }
}
