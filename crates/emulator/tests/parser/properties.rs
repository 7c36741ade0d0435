//! What must hold for every text and every tree.

use emulator::ptx::{ast::Module, parse};
use proptest::prelude::*;

use crate::generate::module;
use crate::positions::forget;
use crate::{COMPILED, HEADER, SYNTAX};

/// The tree of a text without places.
fn tree(text: &str) -> Module {
    forget(parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

/// One change to a text's bytes.
#[derive(Clone, Debug)]
enum Edit {
    Replace(u8),
    Insert(&'static str),
    Remove(usize),
    Repeat(usize),
    Truncate,
}

fn edit() -> impl Strategy<Value = Edit> {
    let pieces = vec![
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "/*",
        "*/",
        "//",
        "\"",
        "\n",
        ".",
        "::",
        ":",
        "@",
        "@!",
        "-",
        "0x",
        "0f",
        "0b1",
        "1e+",
        "99999999999999999999",
        ".section .s {",
        "é",
        "\u{1F980}",
        "|",
        ".loc 1 2 3, inlined_at",
        ".attribute(",
        "<",
        ",",
        ";",
        "%",
        "$",
        "_",
        "generic(",
        "=",
    ];
    prop_oneof![
        any::<u8>().prop_map(Edit::Replace),
        prop::sample::select(pieces).prop_map(Edit::Insert),
        (1..60usize).prop_map(Edit::Remove),
        (1..200usize).prop_map(Edit::Repeat),
        Just(Edit::Truncate),
    ]
}

fn apply(bytes: &mut Vec<u8>, place: &prop::sample::Index, edit: &Edit) {
    if bytes.is_empty() {
        return;
    }
    let at = place.index(bytes.len());
    match *edit {
        Edit::Replace(byte) => bytes[at] = byte,
        Edit::Insert(piece) => drop(bytes.splice(at..at, piece.bytes())),
        Edit::Remove(length) => drop(bytes.drain(at..bytes.len().min(at + length))),
        Edit::Repeat(length) => bytes.extend_from_within(at..bytes.len().min(at + length)),
        Edit::Truncate => bytes.truncate(at),
    }
}

/// Parses without a panic; if it parses, its print is the same module.
fn survives(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Err(error) => {
            let lines = u32::try_from(text.split('\n').count()).unwrap();
            prop_assert!((1..=lines).contains(&error.line), "{error}");
            prop_assert!(error.column >= 1, "{error}");
        }
        Ok(module) => {
            let printed = module.to_string();
            prop_assert_eq!(forget(module), tree(&printed));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn printing_then_parsing_gives_the_same_tree(module in module()) {
        let text = module.to_string();
        prop_assert_eq!(tree(&text), module, "{}", text);
    }

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        survives(&text)?;
        survives(&format!("{HEADER}{text}"))?;
        survives(&format!("{HEADER}.func f() {{ {text} }}"))?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&format!("{HEADER}{}", String::from_utf8_lossy(&bytes)))?;
    }

    #[test]
    fn a_damaged_module_never_panics(
        compiled in any::<bool>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..4),
    ) {
        let mut bytes = if compiled { COMPILED } else { SYNTAX }.as_bytes().to_vec();
        edits.iter().for_each(|(place, edit)| apply(&mut bytes, place, edit));
        survives(&String::from_utf8_lossy(&bytes))?;
    }
}

#[test]
fn real_modules_survive_printing() {
    for text in [COMPILED, SYNTAX] {
        let module = tree(text);
        assert_eq!(tree(&module.to_string()), module);
    }
}

#[test]
fn every_prefix_of_a_module_is_refused_or_read() {
    for (end, _) in SYNTAX.char_indices() {
        survives(&SYNTAX[..end]).unwrap();
    }
}

/// A million of each would overflow the stack if anything recursed without bound.
#[test]
fn deep_nesting_is_refused_or_read_in_a_loop() {
    for piece in ["{", "(", "[", "-", "[a,", "{(", "mov {", "@", "f(", "a|", "l:", ";", "x{"] {
        let deep = piece.repeat(1_000_000);
        for before in ["", ".func f() { ", ".func f() { mov ", ".global .b32 x = ", ".section .s "]
        {
            let text = format!("{HEADER}{before}{deep}");
            let legal = before.is_empty() && matches!(piece, ";" | "l:");
            assert_eq!(parse(&text).is_ok(), legal, "{before}{piece}");
        }
    }
}
