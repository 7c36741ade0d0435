//! A number for what a part says, whatever stands beside it in its text.
//!
//! The compiler counts labels, constants and files through a whole text, so an edit of one kernel
//! renumbers the others. Here they are counted in the order in which a part names them.

use std::collections::HashMap;

use ptx_format::functions::code;
use ptx_format::hash::Hash;

use super::names::words;

/// What begins a name that ends with a number of the whole text.
const NUMBERED: [&str; 5] = ["$L__", "__local_depot", "prototype_", "anon_$_", "shared_array_"];

/// Source files, by their numbers.
pub(super) type Files<'a> = HashMap<&'a str, &'a str>;

/// Reads `.file 3 "src/lib.rs"`.
pub(super) fn file(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix(".file")?.trim_start();
    rest.split_once(char::is_whitespace).map(|(number, name)| (number, name.trim()))
}

/// What stands behind `.loc`.
pub(in crate::ptx) fn place(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix(".loc").filter(|rest| rest.starts_with(char::is_whitespace))
}

/// The numbers of the files that a line names, if it is `.loc 3 7 1, … inlined_at 4 9 2`.
pub(super) fn located(line: &str) -> impl Iterator<Item = &str> {
    let places = place(line).unwrap_or_default().split("inlined_at");
    places.filter_map(|place| place.split_whitespace().next())
}

/// The same number for lines that differ in nothing but what is counted through a whole text.
pub(super) fn hash<'a>(lines: impl Iterator<Item = &'a str>, files: &Files<'_>) -> u64 {
    let mut hash = Hash::new();
    let mut known: HashMap<&'a str, usize> = HashMap::new();
    for line in lines {
        if line.starts_with("// ferrowarp.") {
            hash.text(line);
        }
        let code = code(line);
        if code.is_empty() || code.starts_with(".file") {
            continue;
        }
        located(code).for_each(|number| hash.text(files.get(number).unwrap_or(&"")));
        let code = place(code).map_or(code, behind_file);
        let mut rest = 0;
        for (at, word) in words(code).filter(|(_, word)| is_numbered(word)) {
            hash.text(&code[rest..at]);
            let next = known.len();
            hash.number(*known.entry(word).or_insert(next) as u64);
            rest = at + word.len();
        }
        hash.text(&code[rest..]);
    }
    hash.0
}

/// A `.loc` without its file.
fn behind_file(place: &str) -> &str {
    let place = place.trim_start();
    place.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
}

fn is_numbered(word: &str) -> bool {
    NUMBERED.iter().any(|begin| word.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "\
.global .align 1 .b8 anon_$_8c_$_3[2] = {1, 2};
.visible .entry first(
)
{
\t.loc\t4 7 9, function_name $L__info_string3, inlined_at 5 2 1
\t{ // callseq 12, 0
\t.local .align 8 .b8 \t__local_depot3[16];
\tmov.b64 %rd1, anon_$_8c_$_3;
$L__BB3_1:
\tbra $L__BB3_1;
}
\t.file\t4 \"a.rs\"
\t.file\t5 \"b.rs\"
";

    fn of(text: &str) -> u64 {
        hash(text.lines(), &text.lines().filter_map(file).collect())
    }

    #[test]
    fn what_is_counted_through_the_text_does_not_matter() {
        let other = PART
            .replace("anon_$_8c_$_3", "anon_$_9d_$_14")
            .replace("BB3_", "BB27_")
            .replace("string3", "string9")
            .replace("depot3", "depot8")
            .replace("callseq 12", "callseq 44")
            .replace("loc\t4", "loc\t17")
            .replace("file\t4", "file\t17");
        assert_ne!(PART, other);
        assert_eq!(of(PART), of(&other));
    }

    #[test]
    fn everything_else_does() {
        let edits = [
            ("{1, 2}", "{1, 3}"),
            ("bra $L__BB3_1", "bra $L__BB3_2"),
            ("4 7 9", "4 8 9"),
            ("4 7 9", "5 7 9"),
            ("inlined_at 5 2", "inlined_at 5 3"),
            ("inlined_at 5", "inlined_at 4"),
            ("a.rs", "c.rs"),
            ("%rd1", "%rd2"),
            ("first", "firs\u{0}"),
            (".local .align", ".local .b"),
        ];
        for (from, to) in edits {
            let other = PART.replacen(from, to, 1);
            assert_ne!(PART, other);
            assert_ne!(of(PART), of(&other), "{from} → {to}");
        }
    }
}
