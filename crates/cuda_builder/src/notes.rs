//! What this builder knows about messages of rustc that do not say enough for a kernel crate.

use std::collections::BTreeSet;

/// What LLVM says, and no more, where it has no code for something.
pub(crate) const LIBRARY_CALL: &str = "unsupported library call operation";

/// A crate that names `std`.
const STD: &str = "\
note: code on a GPU has no `std`, and `cargo add` does not help: write `core::` or `alloc::` in its place. A dependency \
often has a feature that takes `std`: `default-features = false` leaves it out. `cuda_std::prelude` has `println!`, \
`Vec`, `Box`, `String` and `format!`";

/// What is to be said behind the compiler's messages. The places are those of what LLVM lacks, if they are known.
pub(crate) fn about(messages: &str, places: &BTreeSet<String>) -> Option<String> {
    if messages.contains(LIBRARY_CALL) {
        return Some(library_call(places));
    }
    let names_std = |line: &str| line.contains("error[E04") && line.contains("`std`");
    messages.lines().any(names_std).then(|| STD.to_owned())
}

fn library_call(places: &BTreeSet<String>) -> String {
    let mut here = places.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if !here.is_empty() {
        here.insert_str(0, ": ");
    }
    format!(
        "note: LLVM has no code for a conversion between a 128-bit integer (`u128`, `i128`) and a float on a GPU, \
         nor for `f128`{here}. Convert the halves: \
         `(x >> 64) as u64 as f32 * 18446744073709551616.0 + x as u64 as f32`"
    )
}

/// A line of cargo's, without the kilobytes of a compiler's command line.
pub(crate) fn shortened(line: &str) -> String {
    const FAILED: &str = "process didn't exit successfully: `";
    let command = line.split_once(FAILED).and_then(|(before, rest)| {
        let (command, status) = rest.rsplit_once('`')?;
        Some((before, command, status))
    });
    match command {
        Some((before, command, status)) if command.len() > 200 => {
            let end = command.char_indices().map(|(at, _)| at).nth(120).unwrap_or(0);
            format!("{before}{FAILED}{} …`{status}", &command[..end])
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_say_too_little_have_a_note() {
        let none = BTreeSet::new();
        let llvm = "rustc-LLVM ERROR: unsupported library call operation\n";
        assert!(about(llvm, &none).unwrap().contains("nor for `f128`. Convert the halves"));
        let places = ["a.rs:1", "b.rs:2"].map(str::to_owned).into();
        assert!(about(llvm, &places).unwrap().contains("nor for `f128`: a.rs:1, b.rs:2. Convert"));
        for message in [
            "error[E0433]: cannot find `std` in the crate root",
            "warning: x\nerror[E0463]: can't find crate for `std`\n",
        ] {
            assert_eq!(about(message, &none).as_deref(), Some(STD));
        }
        assert_eq!(about("error[E0308]: mismatched types\n  `std`\n", &none), None);
    }

    #[test]
    fn a_command_line_is_cut() {
        let line = |command: &str| {
            format!("  process didn't exit successfully: `{command}` (exit status: 101)")
        };
        let long = shortened(&line(&"rustc --crate-name own ".repeat(50)));
        assert!(
            long.starts_with("  process didn't exit successfully: `rustc --crate-name own rustc")
        );
        assert!(long.ends_with(" …` (exit status: 101)") && long.len() < 200, "{long}");
        for other in [line("rustc -vV"), "error: could not compile `own` (lib)".to_owned()] {
            assert_eq!(shortened(&other), other);
        }
    }
}
