//! What can be wrong with the text of a module.

use super::ast::Position;

/// The longest piece of source that an error quotes, in characters.
const QUOTED_CHARS: usize = 40;

/// A place where the text is not PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What stands there, quoted, or `the end of the text`.
    pub found: String,
    /// What could have stood there.
    pub expected: String,
}

impl ParseError {
    /// An error at `position`, where `text` stands; an empty `text` is the end.
    pub(super) fn new(position: Position, text: &str, expected: impl Into<String>) -> Self {
        let Position { line, column } = position;
        Self { line, column, found: quote(text), expected: expected.into() }
    }
}

fn quote(text: &str) -> String {
    if text.is_empty() {
        return "the end of the text".into();
    }
    let shown = |text: &str| text.chars().map(printable).collect::<String>();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("`{}…`", shown(&text[..end])),
        None => format!("`{}`", shown(text)),
    }
}

/// The character, or U+FFFD for one that would disturb the message.
fn printable(character: char) -> char {
    if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
}
