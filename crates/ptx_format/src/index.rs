//! The index of a text's module parts: comments at its end.
//!
//! A driver compiles all of a text before one kernel of it runs. So the builder finds the *module parts* of the text,
//! kernels with all that they reach, each of which is a PTX module of its own, and lists their lines.
//!
//! ```text
//! // ferrowarp.parts BYTES HASH                       length and hash of the text before the index
//! // ferrowarp.text LINE                              a line that module parts have in place of one of the text
//! // ferrowarp.part HASH KERNEL,KERNEL FROM-TO …      the byte ranges of a module part
//! // ferrowarp.end                                    after the last one
//! ```

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use crate::hash::Hash;
use crate::panic;

const PARTS: &str = "// ferrowarp.parts ";
const TEXT: &str = "// ferrowarp.text ";
const PART: &str = "// ferrowarp.part ";
const END: &str = "// ferrowarp.end";

/// Kernels of a PTX text that a driver can load without the rest of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModulePart {
    /// Its kernels, in the order of the text.
    pub kernels: Vec<String>,
    /// Module parts with equal hashes, of any two texts for the same architecture, have the same code: they
    /// differ at most in how the compiler numbered labels, constants and files.
    pub hash: u64,
    ranges: Vec<Range<usize>>,
}

impl ModulePart {
    /// Its PTX module, cut out of the text that it is a part of, for a host that reads panics from records.
    #[must_use]
    pub fn text(&self, ptx: &str) -> String {
        let pieces = self.ranges.iter().map(|range| ptx.get(range.clone()).unwrap_or_default());
        panic::drop_unneeded(pieces.collect(), true)
    }

    /// Its PTX module, from a text whose bytes `read` returns on demand; `None` if `read` returns `None`.
    #[must_use]
    pub fn read_text(&self, read: impl FnMut(Range<usize>) -> Option<String>) -> Option<String> {
        let pieces: Option<String> = self.ranges.iter().cloned().map(read).collect();
        Some(panic::drop_unneeded(pieces?, true))
    }

    /// Whether the byte at this offset of the text belongs to it.
    #[must_use]
    pub fn has(&self, at: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&at))
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// The byte ranges of its lines, in order.
    #[must_use]
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
}

/// The hash of a text, and its index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// A hash of the whole text.
    pub hash: u64,
    /// Its module [`parts`].
    pub parts: Option<Vec<ModulePart>>,
}

/// Hashes a text and reads its index, in about the time of a copy.
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

/// The module parts that the end of a text of `bytes` bytes lists. They are not compared with the text's hash: use
/// them for work that may turn out useless, before the rest of the text is read. `end` may begin anywhere.
#[must_use]
pub fn parts_at_end(end: &str, bytes: usize) -> Option<Vec<ModulePart>> {
    let before = bytes.checked_sub(end.len())?;
    let body_here = body(end)?.len();
    let own = read_index(&end[body_here..])?;
    (own.body_bytes == before + body_here).then_some(own.parts)
}

/// The module parts of a text, as `cuda_builder::with_parts` wrote them; `None` for a text without an index, and for
/// one that was edited or cut off afterwards.
#[must_use]
pub fn parts(ptx: &str) -> Option<Vec<ModulePart>> {
    read_ptx(ptx).parts
}

/// What an index says.
struct Index {
    body_bytes: usize,
    body_hash: u64,
    parts: Vec<ModulePart>,
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

/// The text before its index; `None` where there is no index.
#[must_use]
pub fn body(ptx: &str) -> Option<&str> {
    let at = ptx.rfind(PARTS)?;
    (at == 0 || ptx[..at].ends_with('\n')).then_some(&ptx[..at])
}

fn read_part(line: &str) -> Option<ModulePart> {
    let mut words = line.split(' ');
    let hash = u64::from_str_radix(words.next()?, 16).ok()?;
    let kernels = words.next()?.split(',').map(str::to_owned).collect();
    let range = |word: &str| {
        let (from, to) = word.split_once('-')?;
        Some(from.parse().ok()?..to.parse().ok()?)
    };
    Some(ModulePart { kernels, hash, ranges: words.map(range).collect::<Option<_>>()? })
}

/// Writes the index of a text.
#[derive(Debug)]
pub struct IndexWriter {
    index: String,
    body_bytes: usize,
    texts: HashMap<String, Range<usize>>,
}

impl IndexWriter {
    /// For the text before the index.
    #[must_use]
    pub fn new(body: &str) -> Self {
        let index = format!("{PARTS}{} {:016x}\n", body.len(), Hash::of_long(body));
        Self { index, body_bytes: body.len(), texts: HashMap::new() }
    }

    /// Writes a line that module parts have in place of one of the text, and returns its byte range. Equal lines are
    /// written once.
    pub fn text(&mut self, line: &str) -> Range<usize> {
        if let Some(known) = self.texts.get(line) {
            return known.clone();
        }
        let from = self.body_bytes + self.index.len() + TEXT.len();
        let _infallible = writeln!(self.index, "{TEXT}{line}");
        let place = from..self.body_bytes + self.index.len();
        self.texts.insert(line.to_owned(), place.clone());
        place
    }

    /// Writes a module part.
    pub fn part(&mut self, hash: u64, kernels: &[impl AsRef<str>], at: Vec<Range<usize>>) {
        let kernels: Vec<&str> = kernels.iter().map(AsRef::as_ref).collect();
        let _infallible = write!(self.index, "{PART}{hash:016x} {}", kernels.join(","));
        for range in at {
            let _infallible = write!(self.index, " {}-{}", range.start, range.end);
        }
        self.index.push('\n');
    }

    /// The finished index.
    #[must_use]
    pub fn end(self) -> String {
        self.index + END + "\n"
    }
}
