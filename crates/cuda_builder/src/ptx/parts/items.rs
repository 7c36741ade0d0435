//! A PTX text as a list of statements.

use std::ops::Range;

use ptx_format::functions::{code, named};

/// One statement outside of functions: a directive, a variable, a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub kind: Kind,
    pub lines: Range<usize>,
    /// What it declares or defines; for a comment the kernel that it is about.
    pub names: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `.version`, `.target`, `.address_size`, and what else belongs to every module.
    Header,
    /// A kernel with its body.
    Entry,
    /// Another function with its body.
    Function,
    /// A function without its body.
    Declaration,
    /// One or more variables.
    Variable,
    /// The name of a source file.
    File,
    /// `// ferrowarp.WORD KERNEL …`.
    Comment,
}

/// Reads the statements; comments that say nothing to this crate are left out. Nothing where a statement
/// has no end, or no name.
pub(super) fn read<'a>(lines: &[&'a str]) -> Option<Vec<Item<'a>>> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let item = match code(lines[at]) {
            "" => comment(lines[at], at),
            first => Some(statement(first, lines, at)?),
        };
        at = item.as_ref().map_or(at + 1, |item| item.lines.end);
        items.extend(item);
    }
    Some(items)
}

fn comment<'a>(line: &'a str, at: usize) -> Option<Item<'a>> {
    let (_, text) = line.split_once("// ferrowarp.")?;
    let kernel = text.split_whitespace().nth(1)?;
    Some(Item { kind: Kind::Comment, lines: at..at + 1, names: vec![kernel] })
}

fn statement<'a>(first: &'a str, lines: &[&'a str], at: usize) -> Option<Item<'a>> {
    let one_line = |kind| Some(Item { kind, lines: at..at + 1, names: Vec::new() });
    if let Some((is_entry, name)) = named(first) {
        let (end, has_body) = end(lines, at, true)?;
        let kind = match (has_body, is_entry) {
            (false, _) => Kind::Declaration,
            (true, true) => Kind::Entry,
            (true, false) => Kind::Function,
        };
        return (!name.is_empty()).then(|| Item { kind, lines: at..end, names: vec![name] });
    }
    match first.split_whitespace().next() {
        Some(".version" | ".target" | ".address_size") => return one_line(Kind::Header),
        Some(".file") => return one_line(Kind::File),
        _ => {}
    }
    let (end, _) = end(lines, at, first.starts_with(".section"))?;
    let names: Vec<&str> = lines[at..end].iter().flat_map(|line| variables(line)).collect();
    if names.contains(&"") {
        return None;
    }
    let kind = if names.is_empty() { Kind::Header } else { Kind::Variable };
    Some(Item { kind, lines: at..end, names })
}

/// The line behind a statement, and whether it ends with a brace, if it may.
fn end(lines: &[&str], at: usize, may_have_body: bool) -> Option<(usize, bool)> {
    let (mut opened, mut closed) = (0, 0);
    for (number, line) in lines.iter().enumerate().skip(at) {
        let code = code(line);
        opened += code.matches('{').count();
        closed += code.matches('}').count();
        if opened == closed && opened > 0 && may_have_body {
            return Some((number + 1, true));
        }
        if opened == closed && code.ends_with(';') {
            return Some((number + 1, false));
        }
    }
    None
}

/// The names of the variables that a line declares: `.visible .global .align 4 .b8 x[4] = {1}; …`.
pub(super) fn variables(line: &str) -> impl Iterator<Item = &str> {
    const SPACES: [&str; 3] = [".global", ".shared", ".const"];
    code(line).split(';').filter_map(|one| {
        let head = one.split('=').next()?.trim();
        let mut words = head.split_whitespace();
        words.find(|word| SPACES.contains(word))?;
        words.next_back()?.split('[').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart() {
        let text = "\
// Generated
.version 8.0
\t// .globl first
// ferrowarp.bounds first reqntid=32
.extern .shared .align 16 .b8 dynamic[];
.shared .b8 a[4]; .shared .b8 b[4];
.visible .global .align 8 .u64 table[2] = {f, 1};
.func  (.param .b32 r) f
(
\t.param .b64 f_param_0
)
.noreturn;
.extern .func vprintf;
.visible .entry first(
)
.maxntid 32
{
\t{ // callseq 0, 0
\t}
}
.func g()
{ ret; }
\t.file\t1 \"a {.rs\"
\t.section\t.debug_macinfo\t{\t}
.pragma \"nounroll\";
";
        let lines: Vec<&str> = text.lines().collect();
        let items = read(&lines).unwrap();
        let found: Vec<_> =
            items.iter().map(|i| (i.kind, i.names.join(" "), i.lines.clone())).collect();
        let expected = [
            (Kind::Header, "", 1..2),
            (Kind::Comment, "first", 3..4),
            (Kind::Variable, "dynamic", 4..5),
            (Kind::Variable, "a b", 5..6),
            (Kind::Variable, "table", 6..7),
            (Kind::Declaration, "f", 7..12),
            (Kind::Declaration, "vprintf", 12..13),
            (Kind::Entry, "first", 13..20),
            (Kind::Function, "g", 20..22),
            (Kind::File, "", 22..23),
            (Kind::Header, "", 23..24),
            (Kind::Header, "", 24..25),
        ];
        assert_eq!(found, expected.map(|(kind, names, lines)| (kind, names.to_owned(), lines)));
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        assert_eq!(read(&[".visible .entry first(", ")", "{"]), None);
        assert_eq!(read(&[".func (.param .b32 r)", "f()", "{", "}"]), None);
    }
}
