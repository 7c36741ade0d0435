//! Which kernels, functions and variables belong together.

use std::collections::{HashMap, HashSet};

use ptx_format::functions::code;
use ptx_format::panic::REPORT;

use super::canonical::{Files, file, located, place};
use super::items::{Item, Kind};
use super::names::words;

/// What begins the names of the compiler's own constants.
const CONSTANTS: [&str; 5] = ["anon_$_", "vtable_$_", "switch_$_table", "__unnamed_", "alloc_"];
/// The variables of a panic: each module has its own.
const OF_PANICS: [&str; 3] = ["ferrowarp_panic", TABLE, "8cuda_std5panic"];
/// What the panic handler knows of addresses. It names those of the whole text, and needs those of a part.
pub(super) const TABLE: &str = "ferrowarp_known";

/// How much of kernels that share the panic handler is put together: more takes longer to compile than
/// another panic handler does.
const HEAP_BYTES: usize = 20 << 10;

/// What kernels of one part have in common: a variable, or a heap of a source file, counted from 1.
type Key<'a> = (&'a str, usize);
/// The last heap of each file, and its bytes.
type Heaps<'a> = HashMap<&'a str, (usize, usize)>;

/// A text and what its statements name.
pub(super) struct Text<'a> {
    pub lines: &'a [&'a str],
    pub items: Vec<Item<'a>>,
    pub files: Files<'a>,
    by_name: HashMap<&'a str, Vec<usize>>,
    /// The statements whose names each statement mentions.
    mentions: Vec<Vec<usize>>,
}

/// The statements of a part, in the order of the text.
pub(super) struct Group<'a> {
    pub entries: Vec<&'a str>,
    pub items: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(super) fn new(lines: &'a [&'a str], items: Vec<Item<'a>>) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, item) in items.iter().enumerate().filter(|(_, item)| item.kind != Kind::Comment) {
            item.names.iter().for_each(|name| by_name.entry(name).or_default().push(at));
        }
        let files = lines.iter().filter_map(|line| file(line)).collect();
        let mentions = items.iter().map(|item| mentions(lines, item, &by_name)).collect();
        Self { lines, items, files, by_name, mentions }
    }

    /// The parts, in the order of their first kernels.
    pub(super) fn groups(&self) -> Vec<Group<'a>> {
        let entries: Vec<usize> =
            (0..self.items.len()).filter(|at| self.items[*at].kind == Kind::Entry).collect();
        let reached: Vec<Vec<bool>> = entries.iter().map(|entry| self.reach(*entry)).collect();
        let mut heaps = Heaps::new();
        let keys = entries.iter().zip(&reached);
        let keys = keys.map(|(entry, reached)| self.keys(*entry, reached, &mut heaps));
        let mut groups: Vec<(Vec<usize>, Vec<bool>)> = Vec::new();
        for members in connected(&keys.collect::<Vec<_>>()) {
            let all = |at| members.iter().any(|member: &usize| reached[*member][at]);
            let all = (0..self.items.len()).map(all).collect();
            groups.push((members.iter().map(|member| entries[*member]).collect(), all));
        }
        groups.iter().map(|(entries, reached)| self.group(entries, reached)).collect()
    }

    /// Everything that is named from an entry on.
    fn reach(&self, entry: usize) -> Vec<bool> {
        let mut seen = vec![false; self.items.len()];
        let mut rest = vec![entry];
        while let Some(at) = rest.pop() {
            if std::mem::replace(&mut seen[at], true) || self.items[at].names == [TABLE] {
                continue;
            }
            rest.extend(&self.mentions[at]);
            let same = self.items[at].names.iter().filter_map(|name| self.by_name.get(name));
            rest.extend(same.flatten());
        }
        seen
    }

    /// What an entry shares with those that have the same key.
    fn keys(&self, entry: usize, reached: &[bool], heaps: &mut Heaps<'a>) -> Vec<Key<'a>> {
        let reached = self.items.iter().zip(reached).filter(|(_, reached)| **reached);
        let items: Vec<&Item<'_>> = reached.map(|(item, _)| item).collect();
        let is_global = |item: &Item<'_>| is_global(self.lines, item);
        let names = items.iter().filter(|item| is_global(item)).flat_map(|item| &item.names);
        let names = names.copied().filter(|name| is_state(name));
        let mut keys: Vec<Key<'a>> = names.map(|name| (name, 0)).collect();
        if items.iter().any(|item| item.names.iter().any(|name| name.contains(REPORT))) {
            let bytes = self.lines[self.items[entry].lines.clone()].iter().map(|l| l.len()).sum();
            keys.extend(self.source(entry).map(|file| (file, heap(heaps, file, bytes))));
        }
        keys
    }

    /// The source file in which a function begins.
    fn source(&self, function: usize) -> Option<&'a str> {
        let lines = &self.lines[self.items[function].lines.clone()];
        let number = lines.iter().find_map(|line| located(line).last())?;
        self.files.get(number).copied()
    }

    fn group(&self, entries: &[usize], reached: &[bool]) -> Group<'a> {
        let names: Vec<&str> =
            entries.iter().flat_map(|at| self.items[*at].names.clone()).collect();
        let lines = || {
            let functions = self.items.iter().zip(reached).filter(|(_, reached)| **reached);
            functions.flat_map(|(item, _)| &self.lines[item.lines.clone()])
        };
        let files: HashSet<&str> = lines().flat_map(|line| located(line)).collect();
        let belongs = |(at, item): &(usize, &Item<'_>)| match item.kind {
            Kind::Header => true,
            Kind::File => {
                file(self.lines[item.lines.start]).is_some_and(|(number, _)| files.contains(number))
            }
            Kind::Comment => names.contains(&item.names[0]),
            _ => reached[*at],
        };
        let items = self.items.iter().enumerate().filter(belongs).map(|(at, _)| at).collect();
        Group { entries: names, items }
    }
}

fn mentions(lines: &[&str], item: &Item<'_>, by_name: &HashMap<&str, Vec<usize>>) -> Vec<usize> {
    if matches!(item.kind, Kind::Comment | Kind::File) {
        return Vec::new();
    }
    let lines = lines[item.lines.clone()].iter().map(|line| code(line));
    let words = lines.filter(|line| place(line).is_none()).flat_map(words);
    let mut all: Vec<usize> =
        words.filter_map(|(_, word)| by_name.get(word)).flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether these are variables that outlive a launch.
pub(super) fn is_global(lines: &[&str], item: &Item<'_>) -> bool {
    let mut lines = lines[item.lines.clone()].iter().map(|line| code(line));
    item.kind == Kind::Variable
        && lines.any(|line| line.contains(".global") || line.contains(".const"))
}

/// Whether kernels could hand something on in a variable. The library's own hold what never changes.
pub(super) fn is_state(name: &str) -> bool {
    let is_constant = CONSTANTS.iter().any(|begin| name.starts_with(begin));
    !is_constant && !OF_PANICS.iter().any(|part| name.contains(part)) && !is_of_core(name)
}

/// Whether a mangled name is of `core`: `_RNvNtNtCs608T3D0IEsA_4core7unicode…`.
fn is_of_core(name: &str) -> bool {
    let behind_crate =
        |rest: &str| rest.split_once('_').is_some_and(|(_, name)| name.starts_with("4core"));
    name.starts_with("_RNv") && name.split_once("Cs").is_some_and(|(_, rest)| behind_crate(rest))
}

/// The number of the heap of a file to which a kernel of so many bytes comes.
fn heap<'a>(heaps: &mut Heaps<'a>, file: &'a str, bytes: usize) -> usize {
    let (number, full) = heaps.entry(file).or_insert((1, 0));
    if *full > 0 && *full + bytes > HEAP_BYTES {
        (*number, *full) = (*number + 1, 0);
    }
    *full += bytes;
    *number
}

/// Groups of positions that are connected by equal keys, by their first positions.
fn connected(keys: &[Vec<Key<'_>>]) -> Vec<Vec<usize>> {
    let mut root: Vec<usize> = (0..keys.len()).collect();
    let mut first: HashMap<Key<'_>, usize> = HashMap::new();
    for (at, own) in keys.iter().enumerate() {
        for key in own {
            let (a, b) = (find(&root, at), find(&root, *first.entry(*key).or_insert(at)));
            root[a.max(b)] = a.min(b);
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); keys.len()];
    (0..keys.len()).for_each(|at| groups[find(&root, at)].push(at));
    groups.retain(|group| !group.is_empty());
    groups
}

fn find(root: &[usize], mut at: usize) -> usize {
    while root[at] != at {
        at = root[at];
    }
    at
}
