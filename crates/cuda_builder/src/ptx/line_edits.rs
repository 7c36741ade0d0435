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
    let begins = |at: &usize, with: char| lines[*at].trim_start().starts_with(with);
    let mut before = (0..number).rev().take_while(|at| !begins(at, '}'));
    let opens = before.find(|at| begins(at, '{') && lines[*at].contains("callseq"));
    let closes = (number..lines.len()).find(|at| begins(at, '}'));
    match (opens, closes) {
        (Some(opens), Some(closes)) => opens..=closes,
        _ => number..=number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_its_block_where_it_has_one() {
        let text = "{\n\t{ // callseq 0, 0\n\tst.param.b64 [param0], %rd1;\n\tcall.uni one, (param0);\n\t} // callseq 0\n\
                    \tcall.uni two;\n}\n{\n\tcall.uni three;\n}";
        let lines: Vec<&str> = text.lines().collect();
        let of = |name| call(&lines, lines.iter().position(|line| line.contains(name)).unwrap());
        assert_eq!([of("one"), of("two"), of("three")], [1..=4, 5..=5, 8..=8]);
    }

    #[test]
    fn lines_are_replaced_removed_and_put_before_others() {
        let mut edits = Edits::default();
        edits.replaced.insert(0, "A\n".to_owned());
        edits.removed.insert(1);
        edits.inserted.insert(2, "before\n".to_owned());
        assert_eq!(edits.apply(&["a", "b", "c"]), "A\nbefore\nc\n");
    }
}
