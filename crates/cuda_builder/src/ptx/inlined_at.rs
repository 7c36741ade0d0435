//! Lines without the calls by which their code was inlined.
//!
//! From Rust 1.99 on, the compiler writes the line of each inlined call before the line of an instruction, each with the
//! name of the function that was inlined. The names stand in a section that every module part would hold a copy of. They
//! more than triple a text, and the driver's compiler takes ten times as long for it. Nothing here reads them.

use ptx_format::functions::code;

use super::parts::place;

/// The text with one `.loc` before an instruction, of the innermost function, and without the section of names.
pub(super) fn drop(raw: &str) -> String {
    if !raw.contains("inlined_at") {
        return raw.to_owned();
    }
    let mut text = String::with_capacity(raw.len() / 2);
    // The place of the next instruction, as far as it was read.
    let mut pending = None;
    let mut lines = raw.lines();
    while let Some(line) = lines.next() {
        if is_names(line) {
            lines.by_ref().find(|line| line.trim() == "}");
            continue;
        }
        if place(line).is_some() {
            pending = line.split(',').next();
            continue;
        }
        for line in pending.take().into_iter().chain([line]) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.extend(pending);
    text
}

/// Whether a line begins the section of names.
fn is_names(line: &str) -> bool {
    code(line).split_whitespace().eq([".section", ".debug_str"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_is_left() {
        let raw = "\
.visible .entry first()
{
\t.loc\t5 63 33, function_name $L__info_string2, inlined_at 4 9 1
\t.loc\t7 85 5, function_name $L__info_string4, inlined_at 5 63 33
\tmov.u32 \t%r4, %ctaid.x;
$L__tmp26:
\t.loc\t4 9 1
\tret;
}
\t.file\t4 \"a.rs\"
\t.section\t.debug_str
\t{
$L__info_string2:
.b8 95
}
\t.section\t.debug_macinfo\t{\t}
";
        let expected = "\
.visible .entry first()
{
\t.loc\t7 85 5
\tmov.u32 \t%r4, %ctaid.x;
$L__tmp26:
\t.loc\t4 9 1
\tret;
}
\t.file\t4 \"a.rs\"
\t.section\t.debug_macinfo\t{\t}
";
        assert_eq!(drop(raw), expected);
        assert_eq!(drop(expected), expected);
    }
}
