//! Which files of a crate name which others, read from the text.
//!
//! Seen are `use` trees and paths that begin with `crate`, `self` or `super`. A name is followed through `pub use` to the
//! file that defines it; a `pub use` itself is not an arrow, and code behind `#[cfg(test)]` is left out. Globs
//! lead to the module that they name, not to what is in it, so an arrow can be missing, but none is invented.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The path of a module from the root of its crate; empty for the root.
pub type Module = Vec<String>;

/// The files of a crate, by module, each with its text.
pub type Sources = BTreeMap<Module, Source>;

/// A file.
#[derive(Debug)]
pub struct Source {
    /// Its path from the folder of the crate's sources.
    pub file: String,
    pub text: String,
}

/// For each module the modules that it names.
pub type Arrows = BTreeMap<Module, BTreeSet<Module>>;

/// The Rust files below `folder`, which has `lib.rs` or `main.rs`.
pub fn read(folder: &Path) -> Sources {
    let mut files = Vec::new();
    collect(folder, &mut Vec::new(), &mut files);
    let has_lib = files.iter().any(|(path, _)| path == "lib.rs");
    files
        .into_iter()
        .map(|(file, text)| (module_of(&file, has_lib), Source { file, text }))
        .collect()
}

fn collect(folder: &Path, inside: &mut Vec<String>, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        inside.push(name);
        if path.is_dir() {
            collect(&path, inside, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((inside.join("/"), fs::read_to_string(&path).expect("a file can be read")));
        }
        inside.pop();
    }
}

/// The module that a file is. Beside a `lib.rs`, `main.rs` is a crate of its own, which no path of the library reaches.
fn module_of(file: &str, has_lib: bool) -> Module {
    if file == "main.rs" && has_lib {
        return vec!["main.rs".to_owned()];
    }
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| matches!(&**last, "mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// The arrows between the files of a crate.
pub fn arrows(sources: &Sources) -> Arrows {
    let texts: Vec<_> = sources
        .iter()
        .map(|(module, source)| (module, paths(&without_tests(tokens(&source.text)), module)))
        .collect();
    let mut exports = BTreeMap::new();
    for path in texts.iter().flat_map(|(_, paths)| paths).filter(|path| path.is_export) {
        if let (Some(target), Some(name)) = (absolute(path, sources), path.name()) {
            exports.insert((path.module.clone(), name), target);
        }
    }
    let mut arrows = Arrows::new();
    for (module, paths) in &texts {
        let named = paths.iter().filter(|path| !path.is_export);
        let targets = named.filter_map(|path| home(absolute(path, sources)?, sources, &exports));
        let targets = targets.filter(|target| target != *module && !target.is_empty()).collect();
        arrows.insert((*module).clone(), targets);
    }
    arrows
}

/// A path in a text, and the module that it is written in: an inline one is below its file's.
#[derive(Debug)]
struct NamedPath {
    module: Module,
    segments: Vec<String>,
    alias: Option<String>,
    is_export: bool,
}

impl NamedPath {
    /// The name under which a `pub use` of the path is found.
    fn name(&self) -> Option<String> {
        self.alias.clone().or_else(|| self.segments.last().cloned())
    }
}

/// The path from the root of the crate; `None` for a path into another crate, or to a name of the file.
fn absolute(path: &NamedPath, sources: &Sources) -> Option<Vec<String>> {
    let mut segments = &path.segments[..];
    let mut base = path.module.clone();
    match segments.first()?.as_str() {
        "crate" => return Some(segments[1..].to_vec()),
        "self" => segments = &segments[1..],
        "super" => {
            while segments.first().is_some_and(|segment| segment == "super") {
                base.pop();
                segments = &segments[1..];
            }
        }
        first => {
            base.push(first.to_owned());
            if !sources.contains_key(&base) {
                return None;
            }
            segments = &segments[1..];
        }
    }
    base.extend_from_slice(segments);
    Some(base)
}

/// The module that defines what `path` names.
fn home(
    path: Vec<String>,
    sources: &Sources,
    exports: &BTreeMap<(Module, String), Vec<String>>,
) -> Option<Module> {
    let mut path = path;
    let mut seen = BTreeSet::new();
    loop {
        let length = (0..=path.len()).rev().find(|&end| sources.contains_key(&path[..end]))?;
        let module = path[..length].to_vec();
        let Some(name) = path.get(length) else { return Some(module) };
        let key = (module.clone(), name.clone());
        let Some(onward) = exports.get(&key).filter(|_| seen.insert(key.clone())) else {
            return Some(module);
        };
        path = onward.iter().chain(&path[length + 1..]).cloned().collect();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    PathSeparator,
    Mark(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    fn is_mark(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// Words and marks, without comments and literals.
fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = string(rest) {
            length
        } else if first == '\'' {
            quoted(rest)
        } else if rest.starts_with("::") {
            tokens.push(Token::PathSeparator);
            2
        } else if first.is_alphanumeric() || first == '_' {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a string literal, plain, raw, of bytes or of C.
fn string(text: &str) -> Option<usize> {
    let prefix = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let after = &text[prefix..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let is_raw = prefix > 0 && text[..prefix].ends_with('r');
    if prefix > 2 || (hashes > 0 && !is_raw) || !after[hashes..].starts_with('"') {
        return None;
    }
    let start = prefix + hashes + 1;
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()));
    }
    let mut is_escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            '"' if !is_escaped => return Some(start + at + 1),
            '\\' if !is_escaped => is_escaped = true,
            _ => is_escaped = false,
        }
    }
    Some(text.len())
}

/// The length of a character literal, or of the quote of a lifetime.
fn quoted(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((after, _))) => {
            let from = after + 1;
            text.get(from..).and_then(|rest| rest.find('\'')).map_or(1, |at| from + at + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

/// The tokens outside of items behind `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let item =
            if is_test_attribute(&tokens[at..]) { after_attributes(&tokens, at) } else { at };
        if item > at && begins_item(&tokens[item..]) {
            at = item_end(&tokens, item);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let spelt: String = tokens.iter().take(6).map(spelling).collect();
    spelt.starts_with("#[cfg(test")
        || spelt.starts_with("#[cfg(all(") && tokens.get(6).is_some_and(|token| token.is("test"))
}

fn spelling(token: &Token) -> String {
    match token {
        Token::Word(word) => word.clone(),
        Token::PathSeparator => "::".to_owned(),
        Token::Mark(mark) => mark.to_string(),
    }
}

/// Where what attributes stand in front of begins.
fn after_attributes(tokens: &[Token], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| token.is_mark('#')) {
        at = group_end(tokens, at + 1);
    }
    at
}

fn begins_item(tokens: &[Token]) -> bool {
    const KEYWORDS: [&str; 14] = [
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "macro_rules",
        "mod",
        "pub",
        "static",
        "struct",
        "trait",
        "unsafe",
        "use",
    ];
    tokens.first().is_some_and(|first| KEYWORDS.iter().any(|keyword| first.is(keyword)))
}

/// The token after the item that begins at `at`: after its `;`, or after its body.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    let mut is_use = false;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') if !is_use => return group_end(tokens, at),
            Token::Mark('(' | '[' | '{') => at = group_end(tokens, at),
            token => {
                is_use |= token.is("use");
                at += 1;
            }
        }
    }
    at
}

/// The token after the group of brackets that opens at `at`.
fn group_end(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            break;
        }
    }
    at
}

/// The paths that a file names.
fn paths(tokens: &[Token], file: &Module) -> Vec<NamedPath> {
    let mut paths = Vec::new();
    let mut inline: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut at) = (0, 0);
    while at < tokens.len() {
        let module = || {
            file.iter()
                .cloned()
                .chain(inline.iter().map(|(name, _)| name.clone()))
                .collect::<Module>()
        };
        match (&tokens[at], tokens.get(at + 1), tokens.get(at + 2)) {
            (Token::Word(word), ..) if word == "use" => {
                let is_export = is_public(&tokens[..at]);
                let mut trees = Vec::new();
                at = use_tree(tokens, at + 1, &[], &mut trees);
                let module = module();
                paths.extend(trees.into_iter().map(|(segments, alias)| NamedPath {
                    module: module.clone(),
                    segments,
                    alias,
                    is_export,
                }));
            }
            (Token::Word(word), Some(Token::Word(name)), Some(Token::Mark('{')))
                if word == "mod" =>
            {
                inline.push((name.clone(), depth));
                at += 2;
            }
            (Token::Word(word), Some(Token::PathSeparator), _)
                if matches!(&**word, "crate" | "self" | "super") =>
            {
                let (segments, end) = path_at(tokens, at);
                paths.push(NamedPath { module: module(), segments, alias: None, is_export: false });
                at = end;
            }
            (token, ..) => {
                match token {
                    Token::Mark('{') => depth += 1,
                    Token::Mark('}') => {
                        depth = depth.saturating_sub(1);
                        inline.pop_if(|(_, outside)| *outside == depth);
                    }
                    _ => {}
                }
                at += 1;
            }
        }
    }
    paths
}

/// Whether `pub` or `pub(…)` stands at the end.
fn is_public(before: &[Token]) -> bool {
    let end = match before.last() {
        Some(Token::Mark(')')) => {
            before.iter().rposition(|token| token.is_mark('(')).unwrap_or(before.len())
        }
        _ => before.len(),
    };
    before[..end].last().is_some_and(|token| token.is("pub"))
}

/// The words of a path that begins at `at`, and the token after it.
fn path_at(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at) {
        segments.push(word.clone());
        at += 1;
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some(Token::PathSeparator), Some(Token::Word(_))) => at += 1,
            _ => break,
        }
    }
    (segments, at)
}

/// Adds the paths of the `use` tree at `at`, each behind `prefix`; returns the token after the tree.
fn use_tree(
    tokens: &[Token],
    at: usize,
    prefix: &[String],
    paths: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let (segments, mut at) = path_at(tokens, at);
    let path: Vec<String> = prefix.iter().chain(&segments).cloned().collect();
    if tokens.get(at) == Some(&Token::PathSeparator) {
        at += 1;
    }
    match tokens.get(at) {
        Some(Token::Mark('{')) => {
            at += 1;
            while tokens.get(at).is_some_and(|token| !token.is_mark('}')) {
                let before = at;
                at = use_tree(tokens, at, &path, paths);
                at += usize::from(at == before || tokens.get(at).is_some_and(|t| t.is_mark(',')));
            }
            return at + 1;
        }
        Some(Token::Mark('*')) => at += 1,
        _ => {}
    }
    let alias = match (tokens.get(at), tokens.get(at + 1)) {
        (Some(word), Some(Token::Word(alias))) if word.is("as") => {
            at += 2;
            Some(alias.clone())
        }
        _ => None,
    };
    // `use a::{self}` names `a`.
    let is_self = path.len() > 1 && path.last().is_some_and(|last| last == "self");
    let path = if is_self { path[..path.len() - 1].to_vec() } else { path };
    paths.push((path, alias));
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        without_tests(tokens(text)).iter().map(spelling).collect()
    }

    #[test]
    fn comments_and_literals_have_no_words() {
        let text = r####"a // crate::b
            /* crate::c /* crate::d */ crate::e */ "crate::f \" crate::g" r#"crate::h " "# 'i' '\'' &'j k"####;
        assert_eq!(words(text), ["a", "&", "j", "k"]);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let text = "a #[cfg(test)] #[allow(x)] mod tests { use crate::b; } c
            #[cfg(test)] use crate::{d, e}; f #[cfg(all(test, g))] fn h(i: [u8; 4]) {} j";
        assert_eq!(words(text), ["a", "c", "f", "j"]);
    }

    fn found(text: &str) -> Vec<String> {
        let paths = paths(&tokens(text), &vec!["file".to_owned()]);
        let spelt = |path: &NamedPath| {
            let export = if path.is_export { "pub " } else { "" };
            let alias = path.alias.as_ref().map_or(String::new(), |alias| format!(" as {alias}"));
            format!("{export}{}: {}{alias}", path.module.join("::"), path.segments.join("::"))
        };
        paths.iter().map(spelt).collect()
    }

    #[test]
    fn use_trees_are_opened() {
        let text =
            "pub(crate) use a::{self, b as c, d::{e, f::*}}; use crate::g; pub use self::h::I;";
        let expected = [
            "pub file: a",
            "pub file: a::b as c",
            "pub file: a::d::e",
            "pub file: a::d::f",
            "file: crate::g",
            "pub file: self::h::I",
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn paths_in_code_belong_to_the_inline_module_around_them() {
        let text = "fn f() { crate::a::b::<super::C>() } mod inner { type D = super::e::F; } static G: self::H = 1;";
        let expected =
            ["file: crate::a::b", "file: super::C", "file::inner: super::e::F", "file: self::H"];
        assert_eq!(found(text), expected);
    }
}
