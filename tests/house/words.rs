//! Words to avoid: expressions of our own where the field has a term that a reader would search for.
//!
//! Read are module heads (`//!`), doc comments of public items, texts of errors (`#[error("…")]`), the book, README,
//! CONTRIBUTING and the unreleased part of CHANGELOG; code in them, in fences and in backticks, is not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// An expression, and what to write instead.
///
/// It is found as whole words in any case, over line breaks, but not over the end of a sentence. A `.` at its beginning
/// stands for the beginning of a sentence.
struct Expression {
    words: &'static str,
    /// Words before it, or after it, with which it is ordinary English.
    before: &'static [&'static str],
    after: &'static [&'static str],
    instead: &'static str,
}

const fn avoid(words: &'static str, instead: &'static str) -> Expression {
    Expression { words, before: &[], after: &[], instead }
}

const EXPRESSIONS: &[Expression] = &[
    avoid("a mark", "an event"),
    avoid("puts a mark", "records an event"),
    avoid("hand in", "enqueue, submit"),
    avoid("hands in", "enqueues, submits"),
    avoid("handed in", "enqueued, submitted"),
    avoid("function of the host", "host callback"),
    avoid("functions of the host", "host callbacks"),
    avoid("kernel that stays", "persistent kernel"),
    avoid("kernels that stay", "persistent kernels"),
    avoid("queued behind", "enqueued after"),
    avoid("ordered behind", "ordered after"),
    avoid("is told", "observes, receives; is reported, returns"),
    avoid("are told", "observe, receive; are reported, return"),
    avoid("be told", "observe, receive; be reported"),
    avoid("says so", "publishes, returns an error, warns: what it does"),
    avoid("say so", "publish, return an error, warn: what it does"),
    avoid("the bell", "the doorbell, the completion flag"),
    avoid("nobody", "no thread, no caller"),
    avoid("somebody", "another thread, a caller"),
    avoid("so many", "this many, N"),
    Expression {
        words: "is no",
        before: &["there"],
        after: &["longer", "more", "less", "fewer", "larger", "smaller", "other", "such", "one"],
        instead: "is not a",
    },
    avoid(". the same for", "the name of the thing"),
    avoid(". the same with", "the name of the thing"),
    avoid(". the same where", "the name of the thing"),
    avoid(". the same of", "the name of the thing"),
    avoid(". the same as", "the name of the thing"),
    avoid(". the same by", "the name of the thing"),
    avoid(". the same in", "the name of the thing"),
    avoid(". the same from", "the name of the thing"),
    avoid(". the same without", "the name of the thing"),
    avoid(". the same holds", "the name of the thing"),
    avoid("who waits", "the waiter, a thread that waits"),
    avoid("stands still", "hangs, deadlocks"),
    avoid("stand still", "hang, deadlock"),
    avoid("for ever", "forever; terminated, poisoned"),
    avoid("way out", "fix, hint"),
    avoid("ways out", "fixes, hints"),
    avoid("mend", "fix"),
    avoid("mends", "fixes"),
    avoid("mended", "fixed"),
    avoid("anew", "again"),
    avoid("twin", "variant, reference implementation"),
    avoid("twins", "variants, reference implementations"),
    avoid("dawdle", "artificial delay"),
    avoid("troupe", "peers"),
    avoid("one sitting", "one run"),
    avoid("largest crowd", "worst conflict"),
];

/// Where an expression may stand: the file, the expression, and why.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// A piece of text with the number of its first line.
struct Passage {
    line: usize,
    lines: Vec<String>,
}

impl Passage {
    fn new(line: usize, text: &str) -> Self {
        Self { line, lines: text.lines().map(str::to_owned).collect() }
    }
}

/// A word in lower case with its line; `.` for the end of a sentence, `` ` `` for code.
type Word = (String, usize);

const END: &str = ".";
const CODE: &str = "`";

/// The words of a passage. It begins with the end of a sentence.
fn words(passage: &Passage) -> Vec<Word> {
    let mut words = vec![(END.to_owned(), passage.line)];
    let (mut word, mut in_code) = (String::new(), false);
    for (number, text) in passage.lines.iter().enumerate() {
        let line = passage.line + number;
        for c in text.chars().chain(['\n']) {
            if !in_code && (c.is_alphanumeric() || c == '\'' || c == '_') {
                word.extend(c.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((std::mem::take(&mut word), line));
            }
            match c {
                '`' => in_code = !in_code,
                '.' | ';' | ':' | '!' | '?' | '|' if !in_code => words.push((END.to_owned(), line)),
                _ => continue,
            }
            if c == '`' && in_code {
                words.push((CODE.to_owned(), line));
            }
        }
    }
    words
}

/// The lines at which an expression stands among these words.
fn places(expression: &Expression, words: &[Word]) -> Vec<usize> {
    let wanted: Vec<&str> = expression.words.split(' ').collect();
    let word = |i: usize| words.get(i).map_or(END, |(word, _)| word.as_str());
    (0..words.len())
        .filter(|&start| wanted.iter().enumerate().all(|(i, wanted)| word(start + i) == *wanted))
        .filter(|&start| start == 0 || !expression.before.contains(&word(start - 1)))
        .filter(|&start| !expression.after.contains(&word(start + wanted.len())))
        .map(|start| words[start].1)
        .collect()
}

/// Splits lines into passages: paragraphs, headings, list items and rows of tables. Fenced code is left out.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let (mut in_fence, mut is_new) = (false, true);
    for (number, line) in lines {
        let text = line.trim();
        if text.starts_with("```") {
            (in_fence, is_new) = (!in_fence, true);
            continue;
        }
        let starts_item = text.starts_with(['#', '|', '*', '-']) || text.is_empty();
        if !in_fence && !text.is_empty() {
            match passages.last_mut().filter(|_| !is_new && !starts_item) {
                Some(passage) => passage.lines.push(text.to_owned()),
                None => passages.push(Passage::new(number, text)),
            }
        }
        is_new = text.is_empty() || text.starts_with(['#', '|']);
    }
    passages
}

fn markdown(text: &str) -> Vec<Passage> {
    paragraphs((1..).zip(text.lines()))
}

/// Module heads, docs of public items, and texts of errors.
fn rust(text: &str) -> Vec<Passage> {
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines().map(str::trim)).collect();
    let mut passages = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let marker = ["//!", "///"].into_iter().find(|marker| lines[start].1.starts_with(marker));
        let Some(marker) = marker else {
            start += 1;
            continue;
        };
        let comment = |(_, line): &(usize, &str)| line.starts_with(marker);
        let len = lines[start..].iter().take_while(|line| comment(line)).count();
        let block = &lines[start..start + len];
        start += len;
        if marker == "//!" || is_public(&lines[start..]) {
            let stripped = block.iter().map(|&(number, line)| (number, &line[marker.len()..]));
            passages.extend(paragraphs(stripped));
        }
    }
    passages.extend(error_texts(text));
    passages
}

/// Whether these lines begin with a public item, after its attributes.
fn is_public(lines: &[(usize, &str)]) -> bool {
    let mut open = 0;
    for (_, line) in lines {
        if open == 0 && !line.starts_with("#[") {
            return line.starts_with("pub ");
        }
        open += line.matches('[').count();
        open = open.saturating_sub(line.matches(']').count());
    }
    false
}

/// The string literals in `#[error(…)]`, with `{…}` as code.
fn error_texts(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    for (at, head) in text.match_indices("#[error(") {
        let line = 1 + text[..at].matches('\n').count();
        let attribute = &text[at + head.len()..];
        let attribute = &attribute[..attribute.find(")]").unwrap_or(attribute.len())];
        let mut literal = String::new();
        let (mut in_literal, mut is_escaped) = (false, false);
        for c in attribute.chars() {
            match c {
                _ if is_escaped => {
                    is_escaped = false;
                    literal.push(if c == '"' { '"' } else { '\n' });
                }
                '\\' if in_literal => is_escaped = true,
                '"' => {
                    in_literal = !in_literal;
                    literal.push('.');
                }
                '{' | '}' if in_literal => literal.push('`'),
                _ if in_literal => literal.push(c),
                _ => {}
            }
        }
        passages.push(Passage::new(line, &literal));
    }
    passages
}

/// The part of CHANGELOG that is not released yet, with the lines' numbers.
fn unreleased(text: &str) -> Vec<Passage> {
    let is_version = |line: &str| line.starts_with("## ") && line != "## Unreleased";
    let lines = (1..).zip(text.lines());
    paragraphs(
        lines
            .skip_while(|(_, line)| *line != "## Unreleased")
            .take_while(|(_, line)| !is_version(line)),
    )
}

/// The files with an extension below a folder, by their paths from `root`.
fn files(root: &Path, folder: &Path, extension: &str, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(root, &path, extension, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            let own = path.strip_prefix(root).expect("it is below the root");
            found.push(own.to_string_lossy().into_owned());
        }
    }
}

/// Every file that is read, with its passages.
fn all(root: &Path) -> Vec<(String, Vec<Passage>)> {
    let mut sources = Vec::new();
    let crates = fs::read_dir(root.join("crates")).expect("the workspace has crates");
    let crates = crates.map(|entry| entry.expect("the folder can be read").path().join("src"));
    let at_top = ["host/src", "kernels-gpu/src", "tools/src", "examples"].map(|own| root.join(own));
    for folder in crates.chain(at_top).filter(|folder| folder.is_dir()) {
        files(root, &folder, "rs", &mut sources);
    }
    sources.sort();
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    files(root, &root.join("book/src"), "md", &mut pages);
    let read = |file: &String| fs::read_to_string(root.join(file)).expect("a file can be read");
    let sources = sources.iter().map(|file| (file.clone(), rust(&read(file))));
    let pages = pages.iter().map(|file| (file.clone(), markdown(&read(file))));
    let changes = "CHANGELOG.md".to_owned();
    let changes = (changes.clone(), unreleased(&read(&changes)));
    sources.chain(pages).chain([changes]).collect()
}

fn is_allowed(file: &str, expression: &Expression) -> bool {
    ALLOWED.iter().any(|(own, words, _)| *own == file && *words == expression.words)
}

#[test]
fn texts_use_the_terms_of_the_field() {
    let all = all(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(all.len() > 400, "only {} files were found", all.len());
    let (mut report, mut rooms) = (String::new(), BTreeMap::<String, usize>::new());
    for (file, passages) in &all {
        for words in passages.iter().map(words) {
            for expression in EXPRESSIONS.iter().filter(|own| !is_allowed(file, own)) {
                for line in places(expression, &words) {
                    let (found, instead) = (expression.words, expression.instead);
                    let _ = writeln!(report, "{file}:{line}: `{found}`: write {instead}");
                    let room = file.split('/').take(if file.starts_with("crates") { 2 } else { 1 });
                    *rooms.entry(room.collect::<Vec<_>>().join("/")).or_default() += 1;
                }
            }
        }
    }
    assert!(report.is_empty(), "\n{report}\nby folder: {rooms:#?}");
}

#[test]
fn what_is_allowed_is_there() {
    let all = all(Path::new(env!("CARGO_MANIFEST_DIR")));
    for (file, words_of, reason) in ALLOWED {
        assert!(!reason.is_empty());
        let (_, passages) = all.iter().find(|(own, _)| own == file).expect("the file is there");
        let expression = EXPRESSIONS.iter().find(|own| own.words == *words_of).expect("it is one");
        let is_there = passages.iter().map(words).any(|own| !places(expression, &own).is_empty());
        assert!(is_there, "{file} has no `{words_of}` any more");
    }
}

/// The expressions in these passages, with their lines.
fn found(passages: &[Passage]) -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    for words in passages.iter().map(words) {
        for expression in EXPRESSIONS {
            found.extend(places(expression, &words).iter().map(|line| (expression.words, *line)));
        }
    }
    found
}

#[test]
fn expressions_are_found_over_line_breaks_and_not_in_code() {
    let text = "# A kernel\nthat\n\nA kernel that\nstays. `nobody` waits.\n\n```\nnobody\n```\nIt is no\nring.";
    assert_eq!(found(&markdown(text)), [("kernel that stays", 4), ("is no", 10)]);
}

#[test]
fn ordinary_english_is_not_found() {
    let text = "There is no ring, and it is no longer told. Both hands. In this case it marks the same word.\n\
                The same bits are read. The sum is the same for both.";
    assert_eq!(found(&markdown(text)), []);
}

#[test]
fn sentences_that_begin_with_the_same_are_found() {
    assert_eq!(found(&markdown("It adds.\nThe same for floats.")), [(". the same for", 1)]);
}

#[test]
fn heads_public_docs_and_errors_are_read_and_nothing_else() {
    let text = "//! Nobody.\n\nuse x;\n\n/// Nobody.\n#[derive(\n    Clone,\n)]\npub struct S;\n\n/// Nobody.\nfn own() {}\n\
                /// Nobody.\npub(crate) fn ours() {}\n#[error(\"{nobody}, \\\n    so many\")]\nLost,\n// Nobody.\n";
    let expected = [("nobody", 1), ("nobody", 5), ("so many", 16)];
    assert_eq!(found(&rust(text)), expected);
}

#[test]
fn only_the_unreleased_changes_are_read() {
    let text = "# Changes\n\nNobody.\n\n## Unreleased\n\n- So many.\n\n## 0.1\n\n- Nobody.\n";
    assert_eq!(found(&unreleased(text)), [("so many", 7)]);
}
