//! Takes what the compiler counts through a whole text out of a piece of it, and puts it back.
//!
//! Labels (`$L__tmp93663`) and the files of `.loc` lines have numbers that differ between kernels and architectures
//! whose code is equal. Without the numbers such kernels have long equal pieces, which compress well.

/// Replaces the number of each label by its difference to the last one of its kind (nothing for 0, `+` for 1, else the
/// number itself), and the number of each file by `common`'s. `None` where a file is unknown.
#[cfg(feature = "pack")]
pub(super) fn remove(text: &str, common: impl Fn(u64) -> Option<u64>) -> Option<String> {
    rewrite(text, common, |last, rest, out| {
        let digits = digits(rest);
        if let Ok(number) = digits.parse::<u64>() {
            match last.replace(number) {
                Some(before) if before == number => {}
                Some(before) if before + 1 == number => out.push('+'),
                _ => out.push_str(digits),
            }
        }
        digits.len()
    })
}

/// Undoes [`remove`], with the files' own numbers from `local`.
pub(super) fn restore(text: &str, local: impl Fn(u64) -> Option<u64>) -> Option<String> {
    rewrite(text, local, |last, rest, out| {
        let digits = digits(rest);
        match (digits.parse::<u64>(), *last) {
            (Ok(number), _) => {
                *last = Some(number);
                out.push_str(digits);
                digits.len()
            }
            (Err(_), Some(before)) => {
                let is_next = rest.starts_with('+');
                let number = before + u64::from(is_next);
                *last = Some(number);
                out.push_str(&number.to_string());
                usize::from(is_next)
            }
            (Err(_), None) => 0,
        }
    })
}

/// What begins every label of the compiler.
const LABEL: &str = "$L__";
/// What begins the line of a source location; the number of its file follows.
const LOCATION: &str = "\t.loc\t";

/// Copies a text with other numbers. `label` is given the last number of the kind of label and what follows the name;
/// it writes a number and returns how many bytes of the old one to skip.
fn rewrite(
    text: &str,
    file: impl Fn(u64) -> Option<u64>,
    mut label: impl FnMut(&mut Option<u64>, &str, &mut String) -> usize,
) -> Option<String> {
    let mut kinds: Vec<(&str, Option<u64>)> = Vec::new();
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        if let Some(location) = line.strip_prefix(LOCATION) {
            let digits = digits(location);
            out.push_str(LOCATION);
            out.push_str(&file(digits.parse().ok()?)?.to_string());
            rest = &location[digits.len()..];
        }
        while let Some(at) = rest.find(LABEL) {
            let name = &rest[at..];
            let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
            let length = name.bytes().skip(LABEL.len()).take_while(|byte| is_letter(byte)).count();
            // Where the number is taken out, an underscore behind it must not become a part of the name.
            let kind = name[..LABEL.len() + length].trim_end_matches('_');
            let kind = if kind.len() < LABEL.len() { LABEL } else { kind };
            let number = &name[kind.len()..];
            out.push_str(&rest[..at]);
            out.push_str(kind);
            let at = kinds.iter().position(|(own, _)| *own == kind).unwrap_or_else(|| {
                kinds.push((kind, None));
                kinds.len() - 1
            });
            rest = &number[label(&mut kinds[at].1, number, &mut out)..];
        }
        out.push_str(rest);
    }
    Some(out)
}

fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}

#[cfg(all(test, feature = "pack"))]
mod tests {
    use super::*;

    const TEXT: &str = "$L__func_begin7:\n\t.loc\t12 4 0\n$L__tmp41:\n\t.loc\t3 1 1\n$L__tmp42:\n\
                        @%p1 bra $L__BB7_2;\n$L__BB7_2:\n$L__tmp50:\n\tbra.uni $L__BB7_2; $L__BB8_1\n\
                        $L__func_end7:\n$L__plain\n.file 3 \"a.rs\"";

    #[test]
    fn numbers_are_taken_out_and_put_back() {
        let removed = remove(TEXT, |file| Some(file + 100)).unwrap();
        let expected = "$L__func_begin7:\n\t.loc\t112 4 0\n$L__tmp41:\n\t.loc\t103 1 1\n$L__tmp+:\n\
                        @%p1 bra $L__BB7_2;\n$L__BB_2:\n$L__tmp50:\n\tbra.uni $L__BB_2; $L__BB+_1\n\
                        $L__func_end7:\n$L__plain\n.file 3 \"a.rs\"";
        assert_eq!(removed, expected);
        assert_eq!(restore(&removed, |file| Some(file - 100)).as_deref(), Some(TEXT));
    }

    #[test]
    fn a_file_that_is_not_known_is_refused() {
        assert_eq!(remove(TEXT, |file| (file == 12).then_some(1)), None);
    }
}
