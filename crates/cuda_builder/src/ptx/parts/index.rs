//! Finds the module parts of a text, and writes their index.

use std::collections::HashSet;
use std::ops::Range;

use ptx_format::index::{IndexWriter, body};

use super::canonical;
use super::groups::{Group, TABLE, Text};
use super::items;
use super::spans::joined;

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

fn index(body: &str) -> Option<String> {
    let lines: Vec<&str> = body.lines().collect();
    let text = Text::new(&lines, items::read(&lines)?);
    let groups = text.groups();
    if groups.is_empty() {
        return None;
    }
    let mut writer = IndexWriter::new(body);
    let tables: Vec<Option<String>> = groups.iter().map(|group| own_table(&text, group)).collect();
    let places: Vec<Option<Range<usize>>> =
        tables.iter().map(|table| table.as_ref().map(|table| writer.text(table))).collect();
    for (group, (table, place)) in groups.iter().zip(tables.iter().zip(places)) {
        let hash = hash(&text, group, table.as_deref());
        writer.part(hash, &group.entries, ranges(body, &text, group, place));
    }
    Some(writer.end())
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
