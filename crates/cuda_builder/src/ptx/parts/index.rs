//! Where in a text the lines of its parts are: comments at its end.
//!
//! ```text
//! // ferrowarp.parts BYTES HASH                       of the text before
//! // ferrowarp.text LINE                              a line of parts that the text has otherwise
//! // ferrowarp.part HASH KERNEL,KERNEL FROM-TO …      the bytes of a part
//! // ferrowarp.end                                    behind the last part
//! ```

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use super::super::needs;
use super::canonical::{self, Hash};
use super::groups::{Group, TABLE, Text};
use super::items;
use super::spans::joined;

const PARTS: &str = "// ferrowarp.parts ";
const TEXT: &str = "// ferrowarp.text ";
const PART: &str = "// ferrowarp.part ";
const END: &str = "// ferrowarp.end";

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
    /// Its lines as a module, out of the text whose part it is, for a host that is told of its panics.
    #[must_use]
    pub fn text(&self, ptx: &str) -> String {
        let pieces = self.ranges.iter().map(|range| ptx.get(range.clone()).unwrap_or_default());
        needs::only(pieces.collect(), true)
    }

    /// The same, where the bytes of a text are read as they are asked for; nothing if some are not there.
    #[must_use]
    pub fn read_text(&self, read: impl FnMut(Range<usize>) -> Option<String>) -> Option<String> {
        let pieces: Option<String> = self.ranges.iter().cloned().map(read).collect();
        Some(needs::only(pieces?, true))
    }

    /// Whether the byte at that place of its text belongs to it.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&at))
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Where its lines are, in order.
    pub(super) fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
}

/// What a text says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The same number for the same text.
    pub hash: u64,
    /// Its [`parts`].
    pub parts: Option<Vec<Part>>,
}

/// Reads a text once, in about the time of a copy.
#[must_use]
pub fn read_ptx(ptx: &str) -> Reading {
    let body = body(ptx).unwrap_or(ptx);
    let (hash_of_body, index) = (Hash::of_long(body), &ptx[body.len()..]);
    let mut hash = Hash::new();
    hash.number(hash_of_body);
    hash.text(index);
    let own = read_index(index).filter(|own| own.is_of(body.len(), hash_of_body));
    Reading { hash: hash.0, parts: own.map(|own| own.parts) }
}

/// What the end of a text says of its parts. Nobody compares it with the text: this is for what may be in vain,
/// before the rest is read. `end` begins in the text's `bytes`, wherever.
#[must_use]
pub fn parts_at_end(end: &str, bytes: usize) -> Option<Vec<Part>> {
    let before = bytes.checked_sub(end.len())?;
    let body_here = body(end)?.len();
    let own = read_index(&end[body_here..])?;
    (own.body_bytes == before + body_here).then_some(own.parts)
}

/// The parts of a text, as [`with_parts`] wrote them; nothing for a text without parts, for one that was edited
/// behind it, and for one that is not whole.
#[must_use]
pub fn parts(ptx: &str) -> Option<Vec<Part>> {
    read_ptx(ptx).parts
}

/// What an index says.
struct Index {
    body_bytes: usize,
    body_hash: u64,
    parts: Vec<Part>,
}

impl Index {
    fn is_of(&self, bytes: usize, hash: u64) -> bool {
        (self.body_bytes, self.body_hash) == (bytes, hash)
    }
}

/// Reads an index, if it is whole.
fn read_index(index: &str) -> Option<Index> {
    let mut lines = index.lines();
    let mut head = lines.next()?.strip_prefix(PARTS)?.split(' ');
    let body_bytes = head.next()?.parse().ok()?;
    let body_hash = u64::from_str_radix(head.next()?, 16).ok()?;
    let mut parts = Vec::new();
    for line in lines {
        match line.strip_prefix(PART) {
            Some(part) => parts.push(read_part(part)?),
            None if line == END => {
                return (!parts.is_empty()).then_some(Index { body_bytes, body_hash, parts });
            }
            None => {}
        }
    }
    None
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
pub(super) fn body(ptx: &str) -> Option<&str> {
    let at = ptx.rfind(PARTS)?;
    (at == 0 || ptx[..at].ends_with('\n')).then_some(&ptx[..at])
}

fn read_part(line: &str) -> Option<Part> {
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
    let mut writer = Writer::new(body);
    let tables: Vec<Option<String>> = groups.iter().map(|group| own_table(&text, group)).collect();
    let places: Vec<Option<Range<usize>>> =
        tables.iter().map(|table| table.as_ref().map(|table| writer.text(table))).collect();
    for (group, (table, place)) in groups.iter().zip(tables.iter().zip(places)) {
        let hash = hash(&text, group, table.as_deref());
        writer.part(hash, &group.entries, ranges(body, &text, group, place));
    }
    Some(writer.end())
}

/// An index that grows behind its text.
pub(super) struct Writer {
    index: String,
    body_bytes: usize,
    texts: HashMap<String, Range<usize>>,
}

impl Writer {
    pub(super) fn new(body: &str) -> Self {
        let index = format!("{PARTS}{} {:016x}\n", body.len(), Hash::of_long(body));
        Self { index, body_bytes: body.len(), texts: HashMap::new() }
    }

    /// Where a line is that the text has otherwise: it stands once.
    pub(super) fn text(&mut self, line: &str) -> Range<usize> {
        if let Some(known) = self.texts.get(line) {
            return known.clone();
        }
        let from = self.body_bytes + self.index.len() + TEXT.len();
        let _infallible = writeln!(self.index, "{TEXT}{line}");
        let place = from..self.body_bytes + self.index.len();
        self.texts.insert(line.to_owned(), place.clone());
        place
    }

    /// `HASH KERNEL,KERNEL FROM-TO …`
    pub(super) fn part(&mut self, hash: u64, kernels: &[impl AsRef<str>], at: Vec<Range<usize>>) {
        let kernels: Vec<&str> = kernels.iter().map(AsRef::as_ref).collect();
        let _infallible = write!(self.index, "{PART}{hash:016x} {}", kernels.join(","));
        for range in at {
            let _infallible = write!(self.index, " {}-{}", range.start, range.end);
        }
        self.index.push('\n');
    }

    /// The index.
    pub(super) fn end(self) -> String {
        self.index + END + "\n"
    }
}

/// The table with the addresses of a part, if they are not all.
pub(super) fn own_table(text: &Text<'_>, group: &Group<'_>) -> Option<String> {
    let table = group.items.iter().find(|at| text.items[**at].names == [TABLE])?;
    let line = text.lines[text.items[*table].lines.start];
    let (head, values) = line.split_once("= {")?;
    let values: Vec<&str> = values.split('}').next()?.split(", ").collect();
    let names = |at: &usize| text.items[*at].names.iter();
    let here: HashSet<&&str> = group.items.iter().flat_map(names).collect();
    let is_own = |address: &str| address.parse::<u64>().is_ok() || here.contains(&bare(address));
    let own = values.chunks_exact(2).filter(|pair| is_own(pair[0]));
    let own: Vec<&str> = own.flatten().copied().collect();
    let (name, _) = head.split_once('[')?;
    let (words, values_here) = (own.len(), own.join(", "));
    (own != values).then(|| format!("{name}[{words}] = {{{values_here}}};"))
}

/// The name in `generic(name)`, or the name itself.
pub(super) fn bare(address: &str) -> &str {
    let generic = address.strip_prefix("generic(").and_then(|name| name.strip_suffix(')'));
    generic.unwrap_or(address)
}

/// A part's number; `table` stands for the panic handler's table.
pub(super) fn hash(text: &Text<'_>, group: &Group<'_>, table: Option<&str>) -> u64 {
    let mut lines: Vec<&str> = Vec::new();
    for item in group.items.iter().map(|at| &text.items[*at]) {
        match table {
            Some(line) if item.names == [TABLE] => lines.push(line),
            _ => lines.extend(&text.lines[item.lines.clone()]),
        }
    }
    canonical::hash(lines.into_iter(), &text.files)
}

/// Where a part's lines are, in order; `table` is where the panic handler's table is for it.
fn ranges(
    body: &str,
    text: &Text<'_>,
    group: &Group<'_>,
    table: Option<Range<usize>>,
) -> Vec<Range<usize>> {
    let line = |number| offset(body, text.lines, number);
    let ranges = group.items.iter().map(|at| &text.items[*at]).map(|item| match &table {
        Some(range) if item.names == [TABLE] => range.clone(),
        _ => line(item.lines.start)..line(item.lines.end),
    });
    joined(ranges)
}

/// Where a line begins.
fn offset(body: &str, lines: &[&str], line: usize) -> usize {
    lines.get(line).map_or(body.len(), |line| line.as_ptr() as usize - body.as_ptr() as usize)
}
