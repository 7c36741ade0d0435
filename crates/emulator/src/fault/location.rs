//! Where an instruction comes from.

use std::fmt;

/// A line of the program that was compiled to PTX, from `.loc`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SourceLocation {
    /// Path as the compiler wrote it.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Column, counted from 1; 0 where the compiler gave none.
    pub column: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
