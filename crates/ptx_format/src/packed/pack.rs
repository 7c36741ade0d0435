//! Writes an archive.

use std::collections::HashMap;
use std::io;
use std::thread;

use super::varint::Writer;
use super::{MAGIC, compression, numbering};
use crate::hash::Hash;
use crate::index::{ModulePart, read_ptx};

/// How many bases one after the other a block may need.
const MOST_BASES: usize = 4;
/// Lines that are compared at once where a similar block is looked for.
const LINES: usize = 5;
/// One in this many groups of lines is compared.
const SAMPLED: u64 = 8;

/// Packs the PTX of one kernel crate for each architecture: `(architecture, text)`, with the index of
/// `cuda_builder::with_parts`.
///
/// # Errors
/// What the compressor says, which writes to memory alone.
pub fn pack(texts: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    let files: Vec<Files> = texts.iter().map(|(_, text)| Files::of(text, &mut names)).collect();
    let mut blocks = Vec::new();
    let cut: Vec<Cut> = texts.iter().map(|(_, text)| Cut::of(text, &mut blocks)).collect();
    let owners = cut.iter().zip(&files).flat_map(|(cut, files)| vec![files; cut.blocks]);
    let blocks: Vec<Block> =
        blocks.iter().zip(owners).map(|(text, files)| Block::new(text, files)).collect();
    let bases = bases(&blocks);
    let packed = compressed(&blocks, &bases)?;

    let mut head = Writer(MAGIC.to_vec());
    head.number(blocks.len());
    for ((block, base), packed) in blocks.iter().zip(&bases).zip(&packed) {
        head.number(packed.len());
        head.number(block.text.len());
        head.number(base.map_or(0, |base| base + 1));
        head.number(block.is_renumbered.into());
    }
    head.number(texts.len());
    for (((arch, text), files), cut) in texts.iter().zip(&files).zip(cut) {
        head.text(arch);
        head.number(text.len());
        head.wide(cut.hash);
        head.number(names.len());
        names.iter().for_each(|name| head.wide(files.local(name)));
        head.number(cut.has_index.into());
        head.number(cut.parts.len());
        cut.parts.iter().for_each(|part| write_part(&mut head, part));
        head.number(cut.runs.len());
        for (block, length) in cut.runs {
            head.number(block);
            head.number(length);
        }
    }
    packed.iter().for_each(|packed| head.0.extend_from_slice(packed));
    Ok(head.0)
}

fn write_part(head: &mut Writer, part: &ModulePart) {
    head.wide(part.hash);
    head.number(part.kernels.len());
    part.kernels.iter().for_each(|kernel| head.text(kernel));
    head.number(part.ranges().len());
    let mut at = 0;
    for range in part.ranges() {
        head.number(usize::from(range.start < at));
        head.number(range.start.abs_diff(at));
        head.number(range.len());
        at = range.end;
    }
}

/// The source files of a text.
struct Files {
    /// Numbers in the text, and those in the archive.
    common: HashMap<u64, u64>,
    by_name: HashMap<String, u64>,
}

impl Files {
    /// `names` are those of the archive.
    fn of(text: &str, names: &mut Vec<String>) -> Self {
        let mut own = Self { common: HashMap::new(), by_name: HashMap::new() };
        for line in text.lines().filter_map(|line| line.strip_prefix("\t.file\t")) {
            let Some((number, name)) = line.split_once(' ') else { continue };
            let Ok(number) = number.parse() else { continue };
            let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            own.common.insert(number, at as u64);
            own.by_name.insert(name.to_owned(), number);
        }
        own
    }

    /// The number of a file in the text; 0 where it has none.
    fn local(&self, name: &str) -> u64 {
        self.by_name.get(name).copied().unwrap_or(0)
    }
}

/// A text that was cut into blocks: one with the lines of no module part, one with those of several, one for each part.
struct Cut {
    hash: u64,
    has_index: bool,
    parts: Vec<ModulePart>,
    /// The blocks and lengths of the pieces of the text, in order.
    runs: Vec<(usize, usize)>,
    /// How many blocks it has.
    blocks: usize,
}

impl Cut {
    fn of(text: &str, blocks: &mut Vec<String>) -> Self {
        let reading = read_ptx(text);
        let has_index = reading.parts.is_some();
        let parts = reading.parts.unwrap_or_default();
        let mut changes: Vec<(usize, isize, usize)> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            for range in part.ranges() {
                changes.extend([(range.start, 1, number), (range.end, -1, number)]);
            }
        }
        changes.sort_unstable();
        changes.push((text.len(), 0, 0));
        let (rest, shared, first) = (blocks.len(), blocks.len() + 1, blocks.len() + 2);
        blocks.resize(first + parts.len(), String::new());
        let mut runs: Vec<(usize, usize)> = Vec::new();
        // How many parts have the byte, and the sum of their numbers: that of the only one.
        let (mut at, mut count, mut sum) = (0, 0, 0);
        for (next, change, number) in changes {
            if next > at {
                let block = match count {
                    0 => rest,
                    1 => first + sum,
                    _ => shared,
                };
                blocks[block].push_str(&text[at..next]);
                match runs.last_mut() {
                    Some((last, length)) if *last == block => *length += next - at,
                    _ => runs.push((block, next - at)),
                }
                at = next;
            }
            count += change;
            sum = sum.wrapping_add_signed(change * number as isize);
        }
        Self { hash: reading.hash, has_index, blocks: 2 + parts.len(), parts, runs }
    }
}

struct Block {
    text: String,
    is_renumbered: bool,
}

impl Block {
    fn new(text: &str, files: &Files) -> Self {
        let common = |file| files.common.get(&file).copied();
        let local =
            |file| files.common.iter().find(|(_, common)| **common == file).map(|(l, _)| *l);
        let locals: HashMap<u64, u64> =
            files.common.values().filter_map(|c| Some((*c, local(*c)?))).collect();
        let renumbered = numbering::remove(text, common).filter(|bare| {
            numbering::restore(bare, |file| locals.get(&file).copied()).as_deref() == Some(text)
        });
        match renumbered {
            Some(text) => Self { text, is_renumbered: true },
            None => Self { text: text.to_owned(), is_renumbered: false },
        }
    }

    /// Hashes of groups of lines, whatever numbers they have.
    fn samples(&self) -> Vec<u64> {
        let line = |line: &str| {
            let mut hash = Hash::new();
            line.split(|c: char| c.is_ascii_digit()).for_each(|piece| hash.text(piece));
            hash.0
        };
        let lines: Vec<u64> = self.text.lines().map(line).collect();
        let group = |lines: &[u64]| {
            let mut hash = Hash::new();
            lines.iter().for_each(|line| hash.number(*line));
            hash.0
        };
        let mut groups: Vec<u64> = lines.windows(LINES).map(group).collect();
        groups.retain(|hash| hash % SAMPLED == 0);
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

/// For each block the earlier one that has most in common with it.
fn bases(blocks: &[Block]) -> Vec<Option<usize>> {
    let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut bases: Vec<Option<usize>> = Vec::new();
    let mut depths: Vec<usize> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let samples = block.samples();
        let mut common: HashMap<usize, usize> = HashMap::new();
        for sample in &samples {
            for other in known.get(sample).into_iter().flatten() {
                *common.entry(*other).or_default() += 1;
            }
        }
        // A long base takes longer to unpack than it saves.
        let is_short = |base: usize| blocks[base].text.len() < 4 * block.text.len().max(16 << 10);
        let best = common.into_iter().filter(|(base, _)| is_short(*base));
        let best = best.max_by_key(|(base, count)| (*count, std::cmp::Reverse(*base)));
        let base = best.filter(|(_, count)| 4 * count > samples.len()).map(|(base, _)| base);
        let depth = base.map_or(0, |base| depths[base] + 1);
        if depth < MOST_BASES {
            samples.into_iter().for_each(|sample| known.entry(sample).or_default().push(number));
        }
        bases.push(base);
        depths.push(depth);
    }
    bases
}

/// The compressed blocks, by several threads.
fn compressed(blocks: &[Block], bases: &[Option<usize>]) -> io::Result<Vec<Vec<u8>>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(blocks.len().max(1));
    let one = |number: usize| {
        let base = bases[number].map_or("", |base| &blocks[base].text);
        compression::compress(blocks[number].text.as_bytes(), base.as_bytes())
    };
    let of_thread = |first: usize| {
        (first..blocks.len())
            .step_by(threads)
            .map(|number| (number, one(number)))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<(usize, io::Result<Vec<u8>>)> = thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map(|first| scope.spawn(move || of_thread(first))).collect();
        let mut all = of_thread(0);
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, packed)| packed).collect()
}
