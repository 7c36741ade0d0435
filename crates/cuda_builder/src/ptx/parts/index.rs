//! Where in a text the lines of its parts are: comments at its end.
//!
//! ```text
//! // ferrowarp.parts BYTES HASH                       of the text before
//! // ferrowarp.text LINE                              a line of parts that the text has otherwise
//! // ferrowarp.part HASH KERNEL,KERNEL FROM-TO …      the bytes of a part
//! ```

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use super::canonical::{self, Hash};
use super::groups::{Group, TABLE, Text};
use super::items;

const PARTS: &str = "// ferrowarp.parts ";
const TEXT: &str = "// ferrowarp.text ";
const PART: &str = "// ferrowarp.part ";

/// Kernels of a PTX text that can be given to a driver without the rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Its kernels, in the order of the text.
    pub kernels: Vec<String>,
    /// Parts with the same number, of any two texts for the same architecture, say the same: they
    /// differ at most in how the compiler counted labels, constants and files.
    pub hash: u64,
    ranges: Vec<Range<usize>>,
}

impl Part {
    /// Its lines as a module, out of the text whose part it is.
    #[must_use]
    pub fn text(&self, ptx: &str) -> String {
        let pieces = self.ranges.iter().map(|range| ptx.get(range.clone()).unwrap_or_default());
        pieces.collect()
    }
}

/// The parts of a text, as [`with_parts`] wrote them; nothing for a text without parts, and for one that
/// was edited behind it.
#[must_use]
pub fn parts(ptx: &str) -> Option<Vec<Part>> {
    let body = body(ptx)?;
    let mut lines = ptx[body.len()..].lines();
    let mut head = lines.next()?.strip_prefix(PARTS)?.split(' ');
    let bytes: usize = head.next()?.parse().ok()?;
    let hash = u64::from_str_radix(head.next()?, 16).ok()?;
    if bytes != body.len() || hash != hash_of(body) {
        return None;
    }
    let parts = lines.filter_map(|line| line.strip_prefix(PART)).map(read);
    parts.collect::<Option<Vec<_>>>().filter(|parts| !parts.is_empty())
}

/// The text, with the places of its parts at its end instead of those that it had. The text as
/// it was if it is not read, or has no kernel.
#[must_use]
pub fn with_parts(ptx: &str) -> String {
    let mut text = body(ptx).unwrap_or(ptx).to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let index = index(&text).unwrap_or_default();
    text + &index
}

/// What stands before the index.
fn body(ptx: &str) -> Option<&str> {
    let at = ptx.rfind(PARTS)?;
    (at == 0 || ptx[..at].ends_with('\n')).then_some(&ptx[..at])
}

fn hash_of(body: &str) -> u64 {
    let mut hash = Hash::new();
    hash.text(body);
    hash.0
}

fn read(line: &str) -> Option<Part> {
    let mut words = line.split(' ');
    let hash = u64::from_str_radix(words.next()?, 16).ok()?;
    let kernels = words.next()?.split(',').map(str::to_owned).collect();
    let range = |word: &str| {
        let (from, to) = word.split_once('-')?;
        Some(from.parse().ok()?..to.parse().ok()?)
    };
    Some(Part { kernels, hash, ranges: words.map(range).collect::<Option<_>>()? })
}

// ---- writing

fn index(body: &str) -> Option<String> {
    let lines: Vec<&str> = body.lines().collect();
    let text = Text::new(&lines, items::read(&lines)?);
    let groups = text.groups();
    if groups.is_empty() {
        return None;
    }
    let mut index = format!("{PARTS}{} {:016x}\n", body.len(), hash_of(body));
    let tables: Vec<Option<String>> = groups.iter().map(|group| own_table(&text, group)).collect();
    let mut places = HashMap::new();
    for table in tables.iter().flatten() {
        places.entry(table).or_insert_with(|| {
            let from = body.len() + index.len() + TEXT.len();
            let _infallible = writeln!(index, "{TEXT}{table}");
            from..body.len() + index.len()
        });
    }
    for (group, table) in groups.iter().zip(&tables) {
        let own = table.as_ref().map(|table| (table.as_str(), places[table].clone()));
        let _infallible = writeln!(index, "{PART}{}", part(body, &text, group, own));
    }
    Some(index)
}

/// The table of formatting functions with those of a part, if they are not all.
fn own_table(text: &Text<'_>, group: &Group<'_>) -> Option<String> {
    let table = group.items.iter().find(|at| text.items[**at].names == [TABLE])?;
    let line = text.lines[text.items[*table].lines.start];
    let (head, values) = line.split_once("= {")?;
    let values: Vec<&str> = values.split('}').next()?.split(", ").collect();
    let names = |at: &usize| text.items[*at].names.iter();
    let here: HashSet<&&str> = group.items.iter().flat_map(names).collect();
    let known = values.chunks_exact(2).filter(|pair| here.contains(&pair[0]));
    let own: Vec<&str> = known.flatten().copied().chain(["0"]).collect();
    (own != values).then(|| format!("{head}= {{{}}};", own.join(", ")))
}

/// `HASH KERNEL,KERNEL FROM-TO …`; `table` is what stands for the table of formatting functions, and where.
fn part(
    body: &str,
    text: &Text<'_>,
    group: &Group<'_>,
    table: Option<(&str, Range<usize>)>,
) -> String {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for item in group.items.iter().map(|at| &text.items[*at]) {
        let range = match &table {
            Some((line, range)) if item.names == [TABLE] => {
                lines.push(line);
                range.clone()
            }
            _ => {
                lines.extend(&text.lines[item.lines.clone()]);
                offset(body, text.lines, item.lines.start)..offset(body, text.lines, item.lines.end)
            }
        };
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    let hash = canonical::hash(lines.into_iter(), &text.files);
    let ranges = ranges.iter().map(|range| format!(" {}-{}", range.start, range.end));
    format!("{hash:016x} {}{}", group.entries.join(","), ranges.collect::<String>())
}

/// Where a line begins.
fn offset(body: &str, lines: &[&str], line: usize) -> usize {
    lines.get(line).map_or(body.len(), |line| line.as_ptr() as usize - body.as_ptr() as usize)
}
