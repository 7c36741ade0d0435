//! Changes to the lines of a PTX text.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// Changes, by line.
#[derive(Default)]
pub(super) struct Edits {
    pub replaced: BTreeMap<usize, String>,
    pub inserted: BTreeMap<usize, String>,
    pub removed: HashSet<usize>,
}

impl Edits {
    /// The text with them. What is inserted stands before its line.
    pub fn apply(&self, lines: &[&str]) -> String {
        let mut out = String::new();
        for (number, line) in lines.iter().enumerate() {
            out.push_str(self.inserted.get(&number).map_or("", String::as_str));
            match self.replaced.get(&number) {
                _ if self.removed.contains(&number) => {}
                Some(other) => out.push_str(other),
                None => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        out
    }
}

/// The lines of a whole call, of which one has the `call`: before it stands the brace that opens the block of its
/// parameters, and behind it the one that closes it.
pub(super) fn call(lines: &[&str], number: usize) -> RangeInclusive<usize> {
    let opens = (0..number).rev().find(|at| lines[*at].trim_start().starts_with('{'));
    let closes = (number..lines.len()).find(|at| lines[*at].trim_start().starts_with('}'));
    opens.unwrap_or(number)..=closes.unwrap_or(number)
}
