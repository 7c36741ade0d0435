//! Removes what no panic of a text needs from the panic handler, which a driver would compile while a launch waits.

use std::iter;

use super::FORMAT;
use crate::functions::{code, scan};

/// Ends a line that writes 1 to a register where the text has such panics; behind it is which.
const NEEDS: &str = "// ferrowarp.needs ";
/// Ends a line that writes 0 to a register, in place of what all values have in common; behind it is what that is.
const ONLY: &str = "// ferrowarp.only ";
/// The line of the table of what the panic handler knows.
const TABLE: &str = " ferrowarp_known[";
/// The function that takes values of any type.
const VALUES: &str = "22ferrowarp_panic_values";

/// The text without what its panics do not need. With `has_records` the host reads panics from records in shared memory,
/// and the kernels do not print them through the driver.
#[must_use]
pub fn drop_unneeded(text: String, has_records: bool) -> String {
    if !text.contains(NEEDS) {
        return text;
    }
    let (words, templates) = (formatters(&text), templates(&text));
    let has = |letter: u8| words.iter().any(|word| *word as u8 == letter);
    // The device formats what the table does not have.
    let formats = text.lines().any(|line| line.contains("call") && line.contains(FORMAT));
    let same = if formats { None } else { same(&words, &templates) };
    let is_needed = |what: &str| match what {
        "driver" => !has_records,
        // A panic while a message is formatted.
        "again" => formats,
        "values" => same.is_none(),
        "templates" => !templates.is_empty(),
        "dyn" => has(b'D'),
        "str" => has(b'e'),
        "arguments" => has(b'A'),
        "counts" => has(b'#'),
        "references" => words.iter().any(|word| word >> 16 & 0xFF != 0),
        _ => true,
    };
    let values = scan(&text).into_iter().find(|own| own.name.contains(VALUES));
    let values = values.filter(|_| same.is_some()).map_or(0..0, |own| own.body);
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if values.contains(&number) {
            out.push_str(if number == values.start { "{\n\ttrap;\n}\n" } else { "" });
            continue;
        }
        match (line.split_once(NEEDS), line.split_once(ONLY), same) {
            (Some((set, what)), ..) if !is_needed(what.trim()) => {
                out.push_str(&set.replacen(", 1;", ", 0;", 1));
                out.push('\n');
            }
            (_, Some((set, what)), Some(same)) => {
                let number = if what.trim() == "type" { same.word } else { same.values.into() };
                out.push_str(&set.replacen(", 0;", &format!(", {number};"), 1));
                out.push('\n');
            }
            _ => out.push_str(line),
        }
    }
    out
}

/// What all values of a text's messages have in common.
#[derive(Clone, Copy)]
struct Same {
    /// The word of the one function that formats them.
    word: u64,
    /// How many each template has.
    values: u32,
}

/// What the values have in common, if they are all of one type whose values are their 8 bytes, and each template has
/// one or two; or there are none.
fn same(words: &[u64], templates: &[u32]) -> Option<Same> {
    let is_plain = |word: u64| (word >> 24, word >> 16 & 0xFF) == (8, 0);
    let values = templates.first().copied().unwrap_or_default();
    let is_same = values <= 2 && templates.iter().all(|own| *own == values);
    match *words {
        [] if templates.is_empty() => Some(Same { word: 0, values }),
        [word] if is_plain(word) && is_same => Some(Same { word, values }),
        _ => None,
    }
}

/// The addresses of the table, and their words.
fn entries(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let table = text.lines().map(code).find(|line| line.contains(TABLE));
    let values = table.and_then(|line| line.split_once("= {")?.1.split('}').next());
    let mut values = values.unwrap_or_default().split(", ");
    let pairs = iter::from_fn(move || Some((values.next()?, values.next()?)));
    pairs.filter_map(|(address, word)| Some((address, word.parse().ok()?)))
}

/// The words of formatting functions, and of what stands for one.
fn formatters(text: &str) -> Vec<u64> {
    let own =
        entries(text).filter(|(address, word)| !address.starts_with("generic(") && *word != 0);
    own.map(|(_, word)| word).collect()
}

/// How many values each template has. A place in the source has no length.
fn templates(text: &str) -> Vec<u32> {
    let own = entries(text).filter(|(address, _)| address.starts_with("generic("));
    own.filter(|(_, word)| word >> 32 != 0).map(|(_, word)| word as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: [&str; 8] =
        ["driver", "values", "templates", "references", "str", "dyn", "counts", "again"];

    fn text(table: &str, more: &str) -> String {
        let needs =
            WHAT.iter().map(|what| format!("\tmov.b32 %r4, 1; // ferrowarp.needs {what}\n"));
        let needs: String = needs.collect();
        format!(
            ".visible .global .align 8 .u64 ferrowarp_known[4] = {{{table}18446744073709551615, 0}};\n\
             {needs}\tmov.b64 %rd1, 0; // ferrowarp.only type\n\tmov.b64 %rd2, 0; // ferrowarp.only values\n{more}\
             .func _R22ferrowarp_panic_values(\n)\n{{\n\tbody;\n}}\n\tmov.b32 %r8, 1;\n"
        )
    }

    /// What a table makes needed, and the type and the number of all values.
    fn needed(table: &str, more: &str) -> (Vec<&'static str>, [u64; 2]) {
        let text = text(table, more);
        let (alone, told) = (drop_unneeded(text.clone(), false), drop_unneeded(text, true));
        let driver = alone.replacen("r4, 1; // ferrowarp.needs driver", "r4, 0; ", 1);
        assert_eq!(driver, told);
        assert!(told.ends_with("\tmov.b32 %r8, 1;\n"));
        let lines = told.lines().skip(1).zip(WHAT);
        let needed: Vec<_> =
            lines.filter(|(line, _)| line.contains(" 1;")).map(|(_, what)| what).collect();
        let number = |register: &str| {
            let (_, number) = told.split_once(register).expect("the line is there");
            number.split(';').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let body = if needed.contains(&"values") { "body" } else { "trap" };
        assert!(told.contains(&format!("values(\n)\n{{\n\t{body};\n}}\n\tmov")), "{told}");
        (needed, ["%rd1, ", "%rd2, "].map(number))
    }

    const TEMPLATE: &str = "generic(anon_$_1), 21474836482, ";

    #[test]
    fn texts_alone_need_nothing() {
        assert_eq!(needed("", ""), (vec![], [0, 0]));
        assert_eq!(needed("generic(place), 0, ", ""), (vec![], [0, 0]));
    }

    #[test]
    fn values_of_one_type_need_no_look_at_their_types() {
        let word = 106 | 8 << 24;
        let one = format!("fmt, {word}, {TEMPLATE}");
        assert_eq!(needed(&one, ""), (vec!["templates"], [word, 2]));
        assert_eq!(needed(&format!("{one}{TEMPLATE}"), ""), (vec!["templates"], [word, 2]));
        let (single, three) =
            ("generic(anon_$_2), 21474836481, ", "generic(anon_$_2), 21474836483, ");
        let others = [
            // Two types, a small one, one that is behind a reference, other numbers of values, widths, and two that
            // have no bytes of their own.
            (format!("fmt, {word}, other, {word}, {TEMPLATE}"), vec![]),
            (format!("fmt, {}, {TEMPLATE}", 108 | 4 << 24), vec![]),
            (format!("fmt, {}, {TEMPLATE}", word | 1 << 16), vec!["references"]),
            (format!("{one}{single}"), vec![]),
            (format!("fmt, {word}, {three}"), vec![]),
            (format!("{one}0, 33554467, "), vec!["counts"]),
            (format!("fmt, {}, {TEMPLATE}", b'e'), vec!["str"]),
            (format!("fmt, {}, {TEMPLATE}", b'D'), vec!["dyn"]),
        ];
        for (table, more) in others {
            assert_eq!(needed(&table, ""), ([vec!["values", "templates"], more].concat(), [0, 0]));
        }
    }

    #[test]
    fn what_the_device_formats_may_be_anything() {
        let call = "\tcall.uni _R22ferrowarp_panic_format, (param0);\n";
        assert_eq!(needed("", call), (vec!["values", "again"], [0, 0]));
        let one = format!("fmt, {}, {TEMPLATE}", 106 | 8 << 24);
        assert_eq!(needed(&one, call), (vec!["values", "templates", "again"], [0, 0]));
    }

    #[test]
    fn a_text_that_asks_nothing_stays() {
        let text = "\tmov.b32 %r4, 1;\n".to_owned();
        assert_eq!(drop_unneeded(text.clone(), true), text);
    }
}
