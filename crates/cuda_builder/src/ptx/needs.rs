//! The panic handler without what no panic of a text needs: the driver compiles it while somebody waits.

use super::functions::code;

/// Ends a line that writes 1 to a register where the text has such panics; behind it is which.
const NEEDS: &str = "// ferrowarp.needs ";
/// The line of the table of what the panic handler knows.
const TABLE: &str = " ferrowarp_known[";
/// The function that formats by `core::fmt`.
const FORMAT: &str = "22ferrowarp_panic_format";

/// The text without what its panics do not need; `has_records` says that a host is told of them, so that nobody asks
/// the driver to print.
pub(super) fn only(text: String, has_records: bool) -> String {
    if !text.contains(NEEDS) {
        return text;
    }
    let words = formatters(&text);
    let has = |letter: u8| words.iter().any(|(_, word)| *word as u8 == letter);
    let is_needed = |what: &str| match what {
        "driver" => !has_records,
        // A panic while a message is formatted.
        "again" => text.lines().any(|line| line.contains("call") && line.contains(FORMAT)),
        "dyn" => has(b'D'),
        "str" => has(b'e'),
        "arguments" => has(b'A'),
        "counts" => has(b'#'),
        "references" => words.iter().any(|(_, word)| word >> 16 & 0xFF != 0),
        _ => true,
    };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.split_once(NEEDS) {
            Some((set, what)) if !is_needed(what.trim()) => {
                out.push_str(&set.replacen(", 1;", ", 0;", 1));
                out.push('\n');
            }
            _ => out.push_str(line),
        }
    }
    out
}

/// The formatting functions of the table, and their words.
fn formatters(text: &str) -> Vec<(&str, u64)> {
    let table = text.lines().map(code).find(|line| line.contains(TABLE));
    let values = table.and_then(|line| line.split_once("= {")?.1.split('}').next());
    let values: Vec<&str> = values.unwrap_or_default().split(", ").collect();
    let pairs = values.as_chunks::<2>().0.iter();
    let functions = pairs.filter(|[address, _]| !address.starts_with("generic("));
    functions.filter_map(|[address, word]| Some((*address, word.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &str, more: &str) -> String {
        format!(
            ".visible .global .align 8 .u64 ferrowarp_known[4] = {{{table}}};\n\
             \tmov.b32 %r4, 1; // ferrowarp.needs driver\n\
             \tmov.b32 %r5, 1; // ferrowarp.needs references\n\
             \tmov.b32 %r6, 1; // ferrowarp.needs str\n\
             \tmov.b32 %r7, 1; // ferrowarp.needs again\n{more}\tmov.b32 %r8, 1;\n"
        )
    }

    fn needed(text: String) -> [bool; 4] {
        let alone = only(text.clone(), false);
        let text = only(text, true);
        assert_eq!(alone.replacen("r4, 1; // ferrowarp.needs driver", "r4, 0; ", 1), text);
        assert!(text.contains("mov.b32 %r8, 1;\n"));
        [4, 5, 6, 7].map(|number| text.contains(&format!("\tmov.b32 %r{number}, 1;")))
    }

    #[test]
    fn what_no_panic_needs_is_left_out() {
        let words = |word: u64| format!("fmt, {word}, generic(anon_$_1), {}", u64::from(b'e'));
        assert_eq!(needed(text(&words(106 | 8 << 24), "")), [false; 4]);
        assert_eq!(needed(text(&words(106 | 1 << 16), "")), [false, true, false, false]);
        assert_eq!(needed(text(&words(u64::from(b'e')), "")), [false, false, true, false]);
        let call = "\tcall.uni _R22ferrowarp_panic_format, (param0);\n";
        assert_eq!(needed(text(&words(106), call)), [false, false, false, true]);
    }

    #[test]
    fn a_text_that_asks_nothing_stays() {
        let text = "\tmov.b32 %r4, 1;\n".to_owned();
        assert_eq!(only(text.clone(), true), text);
    }
}
