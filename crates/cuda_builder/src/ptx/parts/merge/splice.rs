//! Kernels that were compiled again take the places of theirs in the text before.
//!
//! The text of a build that left kernels out has everything that its own kernels reach. What it defines for itself
//! gets names that the text before does not have; what both must share (the host's variables, external functions)
//! stays what it was. Where that does not work nothing is merged: then everything is to be compiled.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter;
use std::ops::Range;

use ptx_format::functions::{code, named};
use ptx_format::index::{self, IndexWriter, ModulePart};

use crate::ptx::parts::canonical::{self, Files, file, located};
use crate::ptx::parts::groups::{Group, TABLE, Text, is_global, is_state};
use crate::ptx::parts::index::{bare, hash as part_hash, own_table};
use crate::ptx::parts::items::{self, Kind, variables};
use crate::ptx::parts::names::words;
use crate::ptx::parts::spans::{Moved, joined, subtract, union};

/// What became of two texts.
#[derive(Debug)]
pub(crate) struct Merged {
    pub text: String,
    /// The kernels that are of the new text.
    pub kernels: Vec<String>,
    /// Whether these are all.
    pub is_all: bool,
}

/// Puts the kernels of `new` into `before`. `wanted` are those that `new` was made for: one that it lacks is gone.
/// Others that it has are taken if their whole parts are there. `round` is a number that `before` was not merged with.
pub(crate) fn merge(
    before: &str,
    new: &str,
    wanted: &HashSet<String>,
    round: usize,
) -> Option<Merged> {
    let parts = index::parts(before)?;
    let built: HashSet<String> =
        index::parts(new).into_iter().flatten().flat_map(|part| part.kernels).collect();
    let is_new = |kernel: &String| built.contains(kernel) || wanted.contains(kernel);
    let (gone, kept): (Vec<&ModulePart>, Vec<&ModulePart>) =
        parts.iter().partition(|part| part.kernels.iter().all(is_new));
    if kept.is_empty() && !built.is_empty() {
        let kernels = built.into_iter().collect();
        return Some(Merged { text: new.to_owned(), kernels, is_all: true });
    }
    let base = Base::read(before, kept, &gone);
    let new_body = index::body(new).unwrap_or(new);
    let new_body = base.with_version(new_body)?;
    let lines: Vec<&str> = new_body.lines().collect();
    let text = Text::new(&lines, items::read(&lines)?);
    let taken = base.taken(text.groups())?;
    if taken.is_empty() && gone.is_empty() {
        return None;
    }
    let suffix = format!("$again{round}");
    let (kernels, text) = Merge::new(&base, &text, taken, suffix)?.written();
    Some(Merged { text, kernels, is_all: false })
}

/// The text before, without the parts that are gone.
struct Base<'a> {
    text: &'a str,
    body: &'a str,
    parts: Vec<&'a ModulePart>,
    removed: Vec<Range<usize>>,
    /// Where the statements begin that name something.
    names: HashMap<&'a str, Vec<usize>>,
    /// What the sources call its variables.
    variables: HashSet<&'a str>,
    headers: Vec<Range<usize>>,
    version: &'a str,
    /// Source files: their numbers and lines, by their names.
    files: HashMap<&'a str, (&'a str, Range<usize>)>,
    by_number: Files<'a>,
    table: Option<Range<usize>>,
}

impl<'a> Base<'a> {
    fn read(text: &'a str, parts: Vec<&'a ModulePart>, gone: &[&ModulePart]) -> Self {
        let body = index::body(text).unwrap_or(text);
        let ranges =
            |parts: &[&ModulePart]| union(parts.iter().flat_map(|part| part.ranges()).cloned());
        let inside = |range: &Range<usize>| range.end <= body.len();
        let mut removed = subtract(ranges(gone), &ranges(&parts));
        removed.retain(inside);
        let (names, variables, by_number, files) = Default::default();
        let (headers, version, table) = (Vec::new(), "", None);
        let mut base = Self {
            text,
            body,
            parts,
            removed,
            names,
            variables,
            headers,
            version,
            files,
            by_number,
            table,
        };
        let mut at = 0;
        for line in body.split_inclusive('\n') {
            let range = at..at + line.len();
            at = range.end;
            base.note(line.trim_end(), range);
        }
        base
    }

    /// Notes what a line at module level names.
    fn note(&mut self, line: &'a str, range: Range<usize>) {
        let is_file = line.starts_with("\t.file");
        if !is_file && !line.starts_with('.') || self.is_removed(range.start) {
            return;
        }
        if let Some((number, name)) = file(line) {
            self.by_number.insert(number, name);
            self.files.insert(name, (number, range));
            return;
        }
        let words = [".version", ".target", ".address_size"];
        if words.iter().any(|word| line.starts_with(word)) {
            if line.starts_with(words[0]) {
                self.version = line;
            }
            return self.headers.push(range);
        }
        match named(code(line)) {
            Some((_, name)) => self.names.entry(name).or_default().push(range.start),
            None => variables(line).for_each(|name| {
                self.names.entry(name).or_default().push(range.start);
                self.variables.insert(of_source(name));
                if name == TABLE {
                    self.table = Some(range.clone());
                }
            }),
        }
    }

    fn is_removed(&self, at: usize) -> bool {
        let next = self.removed.partition_point(|range| range.end <= at);
        self.removed.get(next).is_some_and(|range| range.contains(&at))
    }

    /// A text with this one's version; nothing if it needs a later one.
    fn with_version(&self, text: &str) -> Option<String> {
        let own = text.lines().find(|line| line.starts_with(".version"))?;
        let number = |line: &str| -> Option<(u32, u32)> {
            let (major, minor) = line.split_whitespace().nth(1)?.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let is_known = number(own)? <= number(self.version)?;
        is_known.then(|| text.replacen(own, self.version, 1))
    }

    /// Those parts of a new text whose kernels are not kept. Nothing where a part has both.
    fn taken<'b>(&self, groups: Vec<Group<'b>>) -> Option<Vec<Group<'b>>> {
        let kept: HashSet<&str> =
            self.parts.iter().flat_map(|part| &part.kernels).map(String::as_str).collect();
        let mut taken = Vec::new();
        for group in groups {
            match group.entries.iter().filter(|entry| kept.contains(*entry)).count() {
                0 => taken.push(group),
                all if all == group.entries.len() => {}
                _ => return None,
            }
        }
        Some(taken)
    }

    /// The statement of a name that says the same as these lines.
    fn same(&self, name: &str, lines: &[&str], files: &Files<'_>) -> Option<Range<usize>> {
        let hash = canonical::hash(lines.iter().copied(), files);
        let starts = self.names.get(name)?;
        starts.iter().find_map(|start| {
            let own: Vec<&str> = self.body[*start..].lines().take(lines.len()).collect();
            let bytes: usize = own.iter().map(|line| line.len() + 1).sum();
            let is_same = canonical::hash(own.iter().copied(), &self.by_number) == hash;
            is_same.then(|| *start..start + bytes)
        })
    }
}

/// Where a statement of the new text is in the merged one.
#[derive(Clone, Debug)]
enum Place {
    /// The text before has it.
    Before(Range<usize>),
    New,
    /// The table, which each part has for itself.
    Table,
}

struct Merge<'a> {
    base: &'a Base<'a>,
    text: &'a Text<'a>,
    groups: Vec<Group<'a>>,
    places: BTreeMap<usize, Place>,
    renamed: HashSet<&'a str>,
    numbers: HashMap<&'a str, String>,
    suffix: String,
}

impl<'a> Merge<'a> {
    fn new(
        base: &'a Base<'a>,
        text: &'a Text<'a>,
        groups: Vec<Group<'a>>,
        suffix: String,
    ) -> Option<Self> {
        let (places, renamed, numbers) = Default::default();
        let mut merge = Self { base, text, groups, places, renamed, numbers, suffix };
        let all: Vec<usize> =
            merge.groups.iter().flat_map(|group| group.items.iter().copied()).collect();
        for at in all {
            if text.items[at].kind != Kind::Header && !merge.places.contains_key(&at) {
                let place = merge.place(at)?;
                merge.places.insert(at, place);
            }
        }
        Some(merge)
    }

    fn place(&mut self, at: usize) -> Option<Place> {
        let (base, text) = (self.base, self.text);
        let item = &text.items[at];
        let lines = &text.lines[item.lines.clone()];
        match item.kind {
            Kind::Header | Kind::Comment | Kind::Entry => return Some(Place::New),
            Kind::File => return self.place_file(lines[0]),
            _ if item.names == [TABLE] => return Some(Place::Table),
            _ => {}
        }
        let is_state = is_global(text.lines, item) && item.names.iter().any(|name| is_state(name));
        let is_shared =
            [".extern", ".visible", ".weak"].iter().any(|word| lines[0].starts_with(word));
        // Both must be in one part, and are not.
        if is_state && item.names.iter().any(|name| base.variables.contains(of_source(name))) {
            return None;
        }
        match item.names.iter().find(|name| base.names.contains_key(*name)) {
            Some(name) if is_shared => base.same(name, lines, &text.files).map(Place::Before),
            _ if is_shared || is_state => Some(Place::New),
            _ => {
                self.renamed.extend(&item.names);
                Some(Place::New)
            }
        }
    }

    fn place_file(&mut self, line: &'a str) -> Option<Place> {
        let (number, name) = file(line)?;
        if let Some((known, range)) = self.base.files.get(name) {
            self.numbers.insert(number, (*known).to_owned());
            return Some(Place::Before(range.clone()));
        }
        let used = self.base.by_number.keys().filter_map(|number| number.parse::<usize>().ok());
        let above = used.max().unwrap_or(0) + number.parse::<usize>().ok()?;
        self.numbers.insert(number, above.to_string());
        Some(Place::New)
    }

    /// The kernels of the new text, and the merged text.
    fn written(&self) -> (Vec<String>, String) {
        let base = self.base;
        let table = base.table.clone();
        let split = table.as_ref().map_or(base.body.len(), |range| range.start);
        let mut out = Moved::default();
        let cut: Vec<Range<usize>> = base.removed.iter().cloned().chain(table).collect();
        let kept = subtract(iter::once(0..base.body.len()), &union(cut));
        let (first, second): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|range| range.end <= split);
        first.into_iter().for_each(|range| out.keep(base.body, range));
        let mut new = BTreeMap::new();
        // The table names variables and functions.
        let is_named = |kind| matches!(kind, Kind::Declaration | Kind::Variable);
        self.write_items(&mut out, &mut new, is_named);
        out.text.push_str(&self.main_table().unwrap_or_default());
        second.into_iter().for_each(|range| out.keep(base.body, range));
        self.write_items(&mut out, &mut new, |kind| !is_named(kind));
        let text = self.indexed(out, &new);
        let kernels = self.groups.iter().flat_map(|group| group.entries.iter());
        (kernels.map(|name| (*name).to_owned()).collect(), text)
    }

    fn write_items(
        &self,
        out: &mut Moved,
        new: &mut BTreeMap<usize, Range<usize>>,
        of: impl Fn(Kind) -> bool,
    ) {
        for (at, place) in &self.places {
            let item = &self.text.items[*at];
            if !matches!(place, Place::New) || !of(item.kind) {
                continue;
            }
            let from = out.text.len();
            for line in &self.text.lines[item.lines.clone()] {
                out.text.push_str(&self.rewritten(line));
                out.text.push('\n');
            }
            new.insert(*at, from..out.text.len());
        }
    }

    /// A line with the names and the file numbers of the merged text.
    fn rewritten<'l>(&self, line: &'l str) -> Cow<'l, str> {
        let place = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
        let mut edits: Vec<(Range<usize>, Cow<'_, str>)> = Vec::new();
        if let Some((number, _)) = file(line) {
            edits.push((place(number)..place(number) + number.len(), self.number(number)));
        } else if located(line).next().is_some() {
            let numbers = located(line);
            edits.extend(numbers.map(|n| (place(n)..place(n) + n.len(), self.number(n))));
        } else {
            let renamed = words(line).filter(|(_, word)| self.renamed.contains(word));
            edits.extend(renamed.map(|(at, word)| {
                (at + word.len()..at + word.len(), Cow::Borrowed(self.suffix.as_str()))
            }));
        }
        if edits.is_empty() {
            return Cow::Borrowed(line);
        }
        let mut rest = 0;
        let mut text = String::with_capacity(line.len() + 16);
        for (range, word) in edits {
            text.push_str(&line[rest..range.start]);
            text.push_str(&word);
            rest = range.end;
        }
        Cow::Owned(text + &line[rest..])
    }

    fn number<'l>(&'l self, number: &'l str) -> Cow<'l, str> {
        Cow::Borrowed(self.numbers.get(number).map_or(number, String::as_str))
    }

    /// The table of the whole text: what is left of the one before, and the new addresses.
    fn main_table(&self) -> Option<String> {
        let old = self.base.table.clone().map(|range| self.base.body[range].trim_end());
        let new: Vec<String> = self.groups.iter().filter_map(|group| self.table(group)).collect();
        let (head, _) = old.or(new.first().map(String::as_str))?.split_once('[')?;
        let is_left = |address: &str| {
            address.parse::<u64>().is_ok() || self.base.names.contains_key(bare(address))
        };
        let old_pairs = old.into_iter().flat_map(pairs).filter(|(address, _)| is_left(address));
        let all = old_pairs.chain(new.iter().flat_map(|line| pairs(line)));
        // What stands for all other addresses is the last one.
        let (mut seen, last) = (HashSet::new(), u64::MAX.to_string());
        let all = all.filter(|(address, _)| *address != last && seen.insert(*address));
        let all: Vec<_> = all.map(|(address, word)| format!("{address}, {word}, ")).collect();
        let (words, values) = (2 * all.len() + 2, all.concat());
        Some(format!("{head}[{words}] = {{{values}{last}, 0}};\n"))
    }

    /// The table of a new part.
    fn table(&self, group: &Group<'_>) -> Option<String> {
        let table = group.items.iter().find(|at| self.text.items[**at].names == [TABLE])?;
        let line = self.text.lines[self.text.items[*table].lines.start];
        let own = own_table(self.text, group);
        Some(self.rewritten(own.as_deref().unwrap_or(line)).into_owned())
    }

    fn indexed(&self, out: Moved, new: &BTreeMap<usize, Range<usize>>) -> String {
        let base = self.base;
        let mut writer = IndexWriter::new(&out.text);
        let of_kept = base.parts.iter().map(|part| self.kept_table(part));
        let kept: Vec<_> = of_kept.map(|line| line.map(|line| writer.text(line))).collect();
        let own = self.groups.iter().map(|group| self.table(group));
        let own: Vec<_> = own.map(|line| line.map(|line| writer.text(&line))).collect();
        for (part, table) in base.parts.iter().zip(kept) {
            let ranges = part.ranges().iter().flat_map(|range| self.kept(&out, range, &table));
            writer.part(part.hash, &part.kernels, joined(ranges));
        }
        for (group, table) in self.groups.iter().zip(own) {
            let places = group.items.iter().filter_map(|at| Some((at, self.places.get(at)?)));
            let ranges = places.flat_map(|(at, place)| match place {
                Place::Before(range) => out.of(range),
                Place::New => vec![new[at].clone()],
                Place::Table => table.clone().into_iter().collect(),
            });
            let headers = base.headers.iter().flat_map(|range| out.of(range));
            let hash = part_hash(self.text, group, own_table(self.text, group).as_deref());
            writer.part(hash, &group.entries, joined(headers.chain(ranges)));
        }
        out.text + &writer.end()
    }

    /// Where the bytes of a kept part are now; `own` is its table.
    fn kept(
        &self,
        out: &Moved,
        range: &Range<usize>,
        own: &Option<Range<usize>>,
    ) -> Vec<Range<usize>> {
        let own = own.clone().into_iter();
        match &self.base.table {
            _ if range.start >= self.base.body.len() => own.collect(),
            Some(table) if range.start <= table.start && table.end <= range.end => {
                let before = out.of(&(range.start..table.start));
                before.into_iter().chain(own).chain(out.of(&(table.end..range.end))).collect()
            }
            _ => out.of(range),
        }
    }

    /// The table that a part of the text before has: its own, or the whole one, which is another now.
    fn kept_table(&self, part: &ModulePart) -> Option<&str> {
        let base = self.base;
        let line = |range: &Range<usize>| base.text[range.clone()].trim_end();
        let own = part.ranges().iter().find(|range| range.start >= base.body.len()).map(line);
        let whole = base.table.as_ref().filter(|table| {
            part.ranges().iter().any(|r| r.start <= table.start && table.end <= r.end)
        });
        own.or_else(|| whole.map(line))
    }
}

/// What the sources call a variable: the compiler may keep a piece of it, as `NAME_$_0`.
fn of_source(name: &str) -> &str {
    name.split("_$_").next().unwrap_or(name)
}

/// The addresses of a table, and what is known of them.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let values = line.split_once("= {").and_then(|(_, values)| values.split('}').next());
    let values: Vec<&str> = values.unwrap_or_default().split(", ").collect();
    values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}
