//! Reads an archive.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::varint::Reader;
use super::{MAGIC, compression, numbering};
use crate::index::{ModulePart, Reading};

/// How many unpacked blocks are kept: threads that load parts side by side share bases.
const KEPT_BLOCKS: usize = 64;

/// Packed PTX texts. Nothing is unpacked before it is asked for.
pub struct Archive<'a> {
    blocks: Vec<Block<'a>>,
    texts: Vec<Text<'a>>,
    /// The blocks that were unpacked last, the latest in front, as they are compressed.
    recent: Mutex<VecDeque<(usize, Arc<str>)>>,
}

struct Block<'a> {
    packed: &'a [u8],
    length: usize,
    /// The block, before it in order, whose text is its dictionary.
    base: Option<usize>,
    /// Whether numbers were taken out of its text.
    is_renumbered: bool,
}

struct Text<'a> {
    arch: &'a str,
    length: usize,
    reading: Reading,
    /// The number of each file of the archive in this text.
    files: Vec<u64>,
    runs: Vec<Run>,
}

/// Bytes of a text that follow each other in a block.
struct Run {
    start: usize,
    block: usize,
    /// Where it begins in the block's text.
    at: usize,
}

/// Bytes that are not an archive, or not a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are not an archive of PTX")
    }
}

impl std::error::Error for Damaged {}

impl fmt::Debug for Archive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let archs: Vec<&str> = self.texts.iter().map(|text| text.arch).collect();
        f.debug_struct("Archive").field("archs", &archs).finish_non_exhaustive()
    }
}

impl<'a> Archive<'a> {
    /// Reads the head of an archive.
    ///
    /// # Errors
    /// [`Damaged`] bytes. Damage behind the head shows when a text is unpacked.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Damaged> {
        Self::parsed(bytes).ok_or(Damaged)
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The architecture of a text, for example `sm_90a`.
    #[must_use]
    pub fn arch(&self, text: usize) -> &'a str {
        self.texts[text].arch
    }

    /// The length of a text in bytes.
    #[must_use]
    pub fn text_len(&self, text: usize) -> usize {
        self.texts[text].length
    }

    /// What [`read_ptx`](crate::index::read_ptx) returns for a text. Nothing is unpacked.
    #[must_use]
    pub fn reading(&self, text: usize) -> &Reading {
        &self.texts[text].reading
    }

    /// All of a text.
    ///
    /// # Errors
    /// [`Damaged`] bytes.
    pub fn text(&self, text: usize) -> Result<String, Damaged> {
        self.bytes(text, 0..self.texts[text].length).ok_or(Damaged)
    }

    /// A module part of a text, as [`ModulePart::text`] returns it.
    ///
    /// # Errors
    /// [`Damaged`] bytes.
    pub fn part(&self, text: usize, part: &ModulePart) -> Result<String, Damaged> {
        let mut blocks: Vec<(usize, Arc<str>)> = Vec::new();
        part.read_text(|range| self.bytes_from(text, range, &mut blocks)).ok_or(Damaged)
    }

    fn bytes(&self, text: usize, range: Range<usize>) -> Option<String> {
        self.bytes_from(text, range, &mut Vec::new())
    }

    /// Bytes of a text. `blocks` are those that were unpacked for the same reader, with their numbers.
    fn bytes_from(
        &self,
        text: usize,
        range: Range<usize>,
        blocks: &mut Vec<(usize, Arc<str>)>,
    ) -> Option<String> {
        if range.is_empty() {
            return Some(String::new());
        }
        let own = &self.texts[text];
        let mut out = String::with_capacity(range.len());
        let first = own.runs.partition_point(|run| run.start <= range.start).checked_sub(1)?;
        for (number, run) in own.runs.iter().enumerate().skip(first) {
            if run.start >= range.end {
                break;
            }
            let end = own.runs.get(number + 1).map_or(own.length, |next| next.start);
            let piece = range.start.max(run.start)..range.end.min(end);
            let block = match blocks.iter().find(|(known, _)| *known == run.block) {
                Some((_, block)) => block.clone(),
                None => {
                    let block = self.numbered(own, run.block)?;
                    blocks.push((run.block, block.clone()));
                    block
                }
            };
            out.push_str(
                block.get(run.at + piece.start - run.start..run.at + piece.end - run.start)?,
            );
        }
        (out.len() == range.len()).then_some(out)
    }

    /// A block as it is in its text.
    fn numbered(&self, text: &Text<'_>, block: usize) -> Option<Arc<str>> {
        let bare = self.block(block)?;
        if !self.blocks[block].is_renumbered {
            return Some(bare);
        }
        let file = |common: u64| text.files.get(usize::try_from(common).ok()?).copied();
        numbering::restore(&bare, file).map(Arc::from)
    }

    /// A block as it is compressed.
    fn block(&self, block: usize) -> Option<Arc<str>> {
        if let Some(known) = self.recent(block) {
            return Some(known);
        }
        let own = self.blocks.get(block)?;
        let base = match own.base {
            Some(base) => self.block(base)?,
            None => Arc::from(""),
        };
        let text = compression::decompress(own.packed, own.length, base.as_bytes()).ok()?;
        let text: Arc<str> = String::from_utf8(text).ok()?.into();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(KEPT_BLOCKS - 1);
        recent.push_front((block, text.clone()));
        Some(text)
    }

    fn recent(&self, block: usize) -> Option<Arc<str>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let at = recent.iter().position(|(known, _)| *known == block)?;
        let found = recent.remove(at)?;
        recent.push_front(found.clone());
        Some(found.1)
    }

    fn parsed(bytes: &'a [u8]) -> Option<Self> {
        let mut head = Reader(bytes.strip_prefix(MAGIC)?);
        let mut blocks = head.list(|head| {
            let (packed_len, length, base) = (head.number()?, head.number()?, head.number()?);
            let is_renumbered = head.number()? == 1;
            Some((
                packed_len,
                Block { packed: &[], length, base: base.checked_sub(1), is_renumbered },
            ))
        })?;
        let texts = head.list(|head| Self::parsed_text(head, blocks.len()))?;
        for (number, (packed_len, block)) in blocks.iter_mut().enumerate() {
            block.packed = head.bytes(*packed_len)?;
            if block.base.is_some_and(|base| base >= number) {
                return None;
            }
        }
        let blocks = blocks.into_iter().map(|(_, block)| block).collect();
        Some(Self { blocks, texts, recent: Mutex::default() })
    }

    fn parsed_text(head: &mut Reader<'a>, blocks: usize) -> Option<Text<'a>> {
        let (arch, length, hash) = (head.text()?, head.number()?, head.wide()?);
        let files = head.list(Reader::wide)?;
        let has_parts = head.number()? == 1;
        let parts = head.list(|head| {
            let hash = head.wide()?;
            let kernels = head.list(|head| head.text().map(str::to_owned))?;
            let mut at = 0usize;
            let ranges = head.list(|head| {
                // A range may lie before the last one.
                let is_before = head.number()? == 1;
                let distance = head.number()?;
                let start =
                    if is_before { at.checked_sub(distance)? } else { at.checked_add(distance)? };
                at = start.checked_add(head.number()?).filter(|end| *end <= length)?;
                Some(start..at)
            })?;
            Some(ModulePart::new(kernels, hash, ranges))
        })?;
        let (mut start, mut ends) = (0usize, vec![0usize; blocks]);
        let runs = head.list(|head| {
            let (block, length) = (head.number()?, head.number()?);
            let end = ends.get_mut(block)?;
            let run = Run { start, block, at: *end };
            *end = end.checked_add(length)?;
            start = start.checked_add(length)?;
            Some(run)
        })?;
        let reading = Reading { hash, parts: has_parts.then_some(parts) };
        (start == length).then_some(Text { arch, length, reading, files, runs })
    }
}
