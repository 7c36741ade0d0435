//! Text → tokens, borrowed from the source.

use super::ast::Position;
use super::error::ParseError;

/// What a token is; its text tells the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name with all that is glued to it: `%tid.x`, `ld.global.u32`, `$L__BB0_1`.
    Word,
    /// `.global`, `.16x16x16`, `.L2::128B`.
    Dot,
    /// A literal, not yet checked: `12U`, `0f3F800000`, `1.5e-3`.
    Number,
    /// `"…"`, quotes included.
    Text,
    /// One character of punctuation.
    Punct(u8),
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    pub position: Position,
}

/// Cuts the source into tokens, one at a time.
pub(super) struct Lexer<'a> {
    source: &'a str,
    /// Byte offset of the next character to read.
    at: usize,
    line: u32,
    /// Byte offset where the line begins.
    line_start: usize,
    /// Bytes of this line before `at` that begin no character (UTF-8 continuations).
    continuations: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(source: &'a str) -> Self {
        Self { source, at: 0, line: 1, line_start: 0, continuations: 0 }
    }

    /// The next token; [`TokenKind::End`] again and again once the text is used up.
    pub fn next(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_trivia()?;
        let (start, position) = (self.at, self.position());
        let kind = match self.peek(0) {
            None => TokenKind::End,
            Some(byte) if is_word_start(byte) => self.word(),
            Some(b'.') if is_word(self.peek(1)) => self.dot_word(),
            Some(b'0'..=b'9') => self.number(),
            Some(b'"') => self.text(position)?,
            Some(byte) if is_punctuation(byte) => {
                self.at += 1;
                TokenKind::Punct(byte)
            }
            Some(_) => return Err(self.error_here("a token of PTX")),
        };
        Ok(Token { kind, text: &self.source[start..self.at], position })
    }

    /// The text up to the `}` that closes a brace just read; that `}` is read too.
    pub fn raw_to_closing_brace(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        let mut open = 1u32;
        loop {
            self.skip_trivia()?;
            match self.peek(0) {
                None => return Err(self.error_here("`}` that closes the section")),
                Some(b'{') => open = open.saturating_add(1),
                Some(b'}') => open -= 1,
                Some(byte) => self.continuations += usize::from(is_continuation(byte)),
            }
            self.at += 1;
            if open == 0 {
                return Ok(&self.source[start..self.at - 1]);
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn position(&self) -> Position {
        let column = self.at - self.line_start - self.continuations + 1;
        Position { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    /// An error that quotes the one character at `at`.
    fn error_here(&self, expected: &str) -> ParseError {
        let rest = &self.source[self.at..];
        let end = rest.chars().next().map_or(0, char::len_utf8);
        ParseError::new(self.position(), &rest[..end], expected)
    }

    fn skip_trivia(&mut self) -> Result<(), ParseError> {
        loop {
            match self.peek(0) {
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'\n') => self.newline(),
                Some(b'/') if self.peek(1) == Some(b'/') => self.skip_line_comment(),
                Some(b'/') if self.peek(1) == Some(b'*') => self.skip_block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
        self.continuations = 0;
    }

    fn skip_line_comment(&mut self) {
        let rest = &self.source.as_bytes()[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.continuations += rest[..length].iter().filter(|&&byte| is_continuation(byte)).count();
        self.at += length;
    }

    fn skip_block_comment(&mut self) -> Result<(), ParseError> {
        let opening = ParseError::new(self.position(), "/*", "a comment that ends with `*/`");
        self.at += 2;
        loop {
            match self.peek(0).ok_or_else(|| opening.clone())? {
                b'*' if self.peek(1) == Some(b'/') => break,
                b'\n' => self.newline(),
                byte => {
                    self.continuations += usize::from(is_continuation(byte));
                    self.at += 1;
                }
            }
        }
        self.at += 2;
        Ok(())
    }

    fn word(&mut self) -> TokenKind {
        self.at += 1;
        self.skip_word_bytes();
        while self.peek(0) == Some(b'.') && is_word(self.peek(1)) {
            self.dot_word();
        }
        TokenKind::Word
    }

    /// `.word` or `.word::word…`.
    fn dot_word(&mut self) -> TokenKind {
        self.at += 1;
        self.skip_word_bytes();
        while self.peek(0) == Some(b':') && self.peek(1) == Some(b':') && is_word(self.peek(2)) {
            self.at += 2;
            self.skip_word_bytes();
        }
        TokenKind::Dot
    }

    fn skip_word_bytes(&mut self) {
        while is_word(self.peek(0)) {
            self.at += 1;
        }
    }

    /// Digits, letters, one point with its fraction, and the sign of an exponent.
    fn number(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_word_bytes();
        if self.peek(0) == Some(b'.') {
            self.at += 1;
            self.skip_word_bytes();
        }
        let text = &self.source.as_bytes()[start..self.at];
        let decimal = !(text.len() > 1 && text[0] == b'0' && text[1].is_ascii_alphabetic());
        let exponent = decimal && matches!(text.last(), Some(b'e' | b'E'));
        if exponent && matches!(self.peek(0), Some(b'+' | b'-')) {
            self.at += 1;
            self.skip_word_bytes();
        }
        TokenKind::Number
    }

    fn text(&mut self, opening: Position) -> Result<TokenKind, ParseError> {
        self.at += 1;
        loop {
            match self.peek(0) {
                None | Some(b'\n') => {
                    return Err(ParseError::new(opening, "\"", "a string that ends on its line"));
                }
                Some(b'"') => break,
                Some(b'\\') if matches!(self.peek(1), Some(b'"' | b'\\')) => self.at += 2,
                Some(byte) => {
                    self.continuations += usize::from(is_continuation(byte));
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(TokenKind::Text)
    }
}

fn is_word_start(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%')
}

fn is_word(byte: Option<u8>) -> bool {
    matches!(byte, Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$'))
}

fn is_punctuation(byte: u8) -> bool {
    b"{}[](),;:@!|+-=<>".contains(&byte)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}
