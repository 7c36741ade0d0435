//! How long the functions of the shipped kernels are: a kernel that does not fit a screen is cut into named phases.
//!
//! The sources are formatted, so a function ends at the first line that is its own indentation and a closing brace.

use std::path::Path;

use super::source::read;

/// Lines of a function, from `fn` to its closing brace.
const LIMIT: usize = 60;

/// What may stand between the beginning of a line and `fn`.
const QUALIFIERS: [&str; 6] =
    ["pub ", "pub(crate) ", "pub(super) ", "const ", "unsafe ", "extern \"C\" "];

/// The name of the function that begins in this line.
fn name_of(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    while let Some(after) = QUALIFIERS.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = after;
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

/// The functions of a text that have a body of several lines, each with its number of lines.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let length = |at: usize| {
        let indentation = lines[at].len() - lines[at].trim_start().len();
        let margin = &lines[at][..indentation];
        let is_brace = |line: &&str| line.strip_prefix(margin) == Some("}");
        lines[at..].iter().position(is_brace).map(|end| end + 1)
    };
    let has_body = |at: usize| {
        let header = lines[at..].iter().find(|line| line.ends_with(['{', ';', '}']));
        header.is_some_and(|line| line.ends_with('{'))
    };
    (0..lines.len())
        .filter(|at| has_body(*at))
        .filter_map(|at| Some((name_of(lines[at])?, length(at)?)))
        .collect()
}

#[test]
fn no_function_of_the_shipped_kernels_is_longer_than_a_screen() {
    let sources = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels-gpu/src"));
    let mut seen = 0;
    let mut too_long = Vec::new();
    for source in sources.values() {
        for (name, lines) in functions(&source.text) {
            seen += 1;
            if lines > LIMIT {
                too_long.push(format!("{}: `{name}` has {lines} lines", source.file));
            }
        }
    }
    assert!(seen >= 300, "only {seen} functions were found");
    assert!(too_long.is_empty(), "more than {LIMIT} lines:\n{}", too_long.join("\n"));
}

#[test]
fn functions_are_measured_to_their_own_brace() {
    let text = "impl A {\n    pub(crate) unsafe fn one(\n        x: u32,\n    ) {\n        if x {\n        }\n    }\n\n    \
                fn declared();\n    fn short() {}\n}\nfn two() -> [u32; 2] {\n    [1, 2]\n}\n";
    assert_eq!(functions(text), [("one", 6), ("two", 3)]);
}
