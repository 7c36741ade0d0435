//! Collective operations that the compiler must not duplicate.
//!
//! LLVM may copy an inline `asm!` into both arms of a branch. For a barrier that is fatal: threads
//! of one block then wait at two places. An `asm!` that must stand alone carries the comment
//! `// ferrowarp.once TAG`, where TAG names its place in the source; the same tag twice in one
//! function of the PTX is an error.

use std::collections::BTreeMap;

use super::error::PtxError;
use ptx_format::functions::Function;

const MARK: &str = "ferrowarp.once ";

pub(super) fn check(text: &str, functions: &[Function<'_>]) -> Result<(), PtxError> {
    let lines: Vec<&str> = text.lines().collect();
    functions.iter().try_for_each(|function| check_one(&lines, function))
}

fn check_one(lines: &[&str], function: &Function<'_>) -> Result<(), PtxError> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for tag in lines[function.body.clone()].iter().filter_map(|line| tag(line)) {
        *counts.entry(tag).or_default() += 1;
    }
    match counts.into_iter().find(|(_, count)| *count > 1) {
        None => Ok(()),
        Some((tag, count)) => Err(PtxError::DuplicatedCollective {
            function: function.name.to_owned(),
            tag: tag.to_owned(),
            count,
        }),
    }
}

fn tag(line: &str) -> Option<&str> {
    let (_, comment) = line.split_once("//")?;
    comment.trim().strip_prefix(MARK).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_format::functions::scan;

    fn check_text(text: &str) -> Result<(), PtxError> {
        check(text, &scan(text))
    }

    #[test]
    fn a_tag_twice_in_a_function_is_an_error() {
        let text = ".visible .entry k()\n{\n// ferrowarp.once sync lib.rs:7\nbar.sync 0;\n\
                    bra $L1;\nbar.sync 0; // ferrowarp.once sync lib.rs:7\n}\n";
        let error = check_text(text).unwrap_err();
        let expected = ("k", "sync lib.rs:7", 2);
        match &error {
            PtxError::DuplicatedCollective { function, tag, count } => {
                assert_eq!((function.as_str(), tag.as_str(), *count), expected);
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_tag_once_in_each_of_two_functions_is_fine() {
        let text = ".visible .entry a()\n{\n// ferrowarp.once x\n}\n\
                    .visible .entry b()\n{\n// ferrowarp.once x\n// ferrowarp.once y\n}\n";
        assert!(check_text(text).is_ok());
    }
}
