//! Where each function of a PTX text begins and ends.

use std::ops::Range;

/// A function with a body. Lines are counted from 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its symbol.
    pub name: &'a str,
    /// Whether it is a kernel.
    pub is_entry: bool,
    /// From the line of the opening brace to that of the closing one, both included.
    pub body: Range<usize>,
}

/// Finds the functions that have a body, in order.
#[must_use]
pub fn scan(text: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for (number, line) in text.lines().enumerate() {
        let code = code(line);
        let Some(function) = open.as_mut() else {
            open = header(code);
            continue;
        };
        match function.take(number, code) {
            Step::More => {}
            Step::Declaration => open = header(code),
            Step::End(body) => {
                found.push(Function { name: function.name, is_entry: function.is_entry, body });
                open = None;
            }
        }
    }
    found
}

/// A line without its comment.
#[must_use]
pub fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim()
}

enum Step {
    More,
    Declaration,
    End(Range<usize>),
}

struct Open<'a> {
    name: &'a str,
    is_entry: bool,
    first: Option<usize>,
    depth: usize,
}

impl Open<'_> {
    fn take(&mut self, number: usize, code: &str) -> Step {
        if self.first.is_none() {
            match code {
                _ if code.starts_with('{') => self.first = Some(number),
                _ if code.ends_with(';') => return Step::Declaration,
                _ => return Step::More,
            }
        }
        self.depth += code.matches('{').count();
        self.depth = self.depth.saturating_sub(code.matches('}').count());
        match self.first {
            Some(first) if self.depth == 0 => Step::End(first..number + 1),
            _ => Step::More,
        }
    }
}

fn header(code: &str) -> Option<Open<'_>> {
    let (is_entry, name) = named(code)?;
    let declared = code.ends_with(';');
    (!declared).then_some(Open { name, is_entry, first: None, depth: 0 })
}

/// Whether a header is an entry's, and the function's name, in `.visible .entry NAME(` or `.func (…) NAME(`.
#[must_use]
pub fn named(code: &str) -> Option<(bool, &str)> {
    let linkage = [".visible", ".weak", ".extern", ".common"];
    let bare = linkage.iter().find_map(|word| code.strip_prefix(word)).unwrap_or(code).trim_start();
    let (is_entry, rest) = match bare.strip_prefix(".entry") {
        Some(rest) => (true, rest),
        None => (false, after_result(bare.strip_prefix(".func")?)),
    };
    let end = |c: char| c == '(' || c == ';' || c.is_whitespace();
    Some((is_entry, rest.trim_start().split(end).next()?))
}

/// Skips a `.func`'s result, ` (.param .b64 func_retval0)`.
fn after_result(rest: &str) -> &str {
    match rest.trim_start().strip_prefix('(').and_then(|result| result.split_once(')')) {
        Some((_, name)) => name,
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 8.0
.func helper
(
\t.param .b64 helper_param_0
)
.noreturn;
.visible .entry first(
\t.param .f32 first_param_0 // {
)
{
\t{ // callseq 0, 0
\t} // callseq 0
\tret;
}
.func  (.param .b64 func_retval0) helper(
\t.param .b64 helper_param_0
)
.noreturn
{
}
.extern .func (.param .b32 r) vprintf(.param .b64 a);
.visible .entry second()
{ ret; }
";

    #[test]
    fn finds_functions_and_skips_declarations() {
        let found = scan(TEXT);
        let names: Vec<_> = found.iter().map(|f| (f.name, f.is_entry, f.body.clone())).collect();
        assert_eq!(
            names,
            [("first", true, 9..14), ("helper", false, 18..20), ("second", true, 22..23)]
        );
    }
}
