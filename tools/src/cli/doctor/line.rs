//! One line of the report.

use std::io::{self, Write};

use serde::Serialize;

/// What a line says of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be, or not needed on this machine.
    Right,
    /// Needed, and not as it should be.
    Wrong,
    /// Optional, and not there.
    Missing,
}

/// A subject, what was found, and the fix if it is not right.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) fix: Option<String>,
}

impl Line {
    pub(super) fn right(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Right, found: found.into(), fix: None }
    }

    pub(super) fn wrong(
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, state: State::Wrong, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn missing(
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, state: State::Missing, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let state = match self.state {
            State::Right => "right",
            State::Wrong => "wrong",
            State::Missing => "missing",
        };
        writeln!(out, "{:<12} {state:<8} {}", self.name, self.found)?;
        let fix = self.fix.iter();
        fix.into_iter().try_for_each(|fix| writeln!(out, "{:21} fix: {fix}", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Line) -> String {
        let mut out = Vec::new();
        line.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_fix_has_a_row_of_its_own() {
        assert_eq!(text(&Line::right("driver", "13.0")), "driver       right    13.0\n");
        let expected = "linker       wrong    none\n                      fix: install gcc\n";
        assert_eq!(text(&Line::wrong("linker", "none", "install gcc")), expected);
    }
}
