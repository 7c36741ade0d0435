//! Loading what is no module: damaged text, instructions with words and operands that do not belong
//! to them. An error with a line comes back; nothing panics, and nothing takes memory without
//! bound.

mod common;

use common::{HEAD, device};
use emulator::{LoadError, isa};
use proptest::prelude::*;
use proptest::sample::{Index, select};

const COMPILED: &str = include_str!("ptx/compiled.ptx");

/// Operands of every kind, some of them of the wrong one for any instruction.
const OPERANDS: &[&str] = &[
    "%r1",
    "%r2",
    "%rd1",
    "%rd2",
    "%h1",
    "%h2",
    "%f1",
    "%fd1",
    "%p1",
    "!%p1",
    "%p1|%p2",
    "%r1|%p1",
    "_",
    "0",
    "1",
    "-1",
    "0xffffffff",
    "0x8000000000000000",
    "0f3F800000",
    "0dFFF0000000000000",
    "[%rd1]",
    "[%rd1+4]",
    "[%r1]",
    "[%r1-16]",
    "[tile]",
    "[tile+1000000]",
    "[data]",
    "[p]",
    "[p+7]",
    "[p+8]",
    "tile",
    "data",
    "p",
    "k",
    "%tid.x",
    "%clock64",
    "%laneid",
    "{%r1, %r2}",
    "{%r1, %r2, %r3, %r4}",
    "{%rd1, %rd2}",
    "{%h1, %h2}",
    "{_, %r1}",
    "{}",
    "missing",
    "[missing]",
    "L",
    "(p)",
    "(p), k, (p)",
    "WARP_SZ",
    "[%rd1, {%r1}]",
    "[%rd1, {%r1, %r2}]",
    "%q",
];

/// An instruction that the table knows, with operands of any kind.
fn instruction() -> impl Strategy<Value = String> {
    let forms = isa::forms();
    (0..forms.len(), any::<Index>(), prop::collection::vec(select(OPERANDS), 0..7)).prop_map(
        move |(form, spelling, operands)| {
            let spellings = forms[form].spellings();
            let words = &spellings[spelling.index(spellings.len())];
            let name =
                words.iter().fold(forms[form].opcode.to_owned(), |name, word| name + "." + word);
            format!("{name} {};\n", operands.join(", "))
        },
    )
}

fn module(body: &str) -> String {
    format!(
        "{HEAD}.global .align 16 .b8 data[64];
        .visible .entry k(.param .u64 p) {{
            .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .b128 %q;
            .reg .f32 %f<4>; .reg .f64 %fd<4>;
            .shared .align 16 .b8 tile[256];
            L: {body} ret;
        }}"
    )
}

/// The error has a line of the text.
fn is_placed(error: &LoadError, text: &str) -> bool {
    let lines = text.split('\n').count() as u32;
    error.line().is_none_or(|line| (1..=lines).contains(&line))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_instruction_with_any_operands_loads_or_is_refused(body in prop::collection::vec(instruction(), 1..4)) {
        let text = module(&body.concat());
        if let Err(error) = device().load(&text) {
            prop_assert!(is_placed(&error, &text), "{}\n{}", error, text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_module_with_parts_missing_or_doubled_loads_or_is_refused(
        cuts in prop::collection::vec((any::<Index>(), 0..400usize, any::<bool>()), 1..4),
    ) {
        let mut lines: Vec<&str> = COMPILED.lines().collect();
        for (place, count, doubles) in cuts {
            let start = place.index(lines.len());
            let end = (start + count % 12).min(lines.len());
            let part: Vec<&str> = lines[start..end].to_vec();
            if doubles { lines.splice(start..start, part); } else { lines.drain(start..end); }
        }
        let text = lines.join("\n");
        if let Err(error) = device().load(&text) {
            prop_assert!(is_placed(&error, &text), "{error}");
        }
    }
}

#[test]
fn declarations_without_bound_are_refused_and_take_no_memory() {
    let huge = [
        ".reg .b64 %x<4294967295>;".to_owned(),
        ".reg .b32 %x<131072>;".to_owned()
            + &(0..200).map(|n| format!(".reg .b32 %y{n}_<131072>;")).collect::<String>(),
        ".local .b8 x[1099511627776];".to_owned(),
        ".shared .b8 x[1099511627776];".to_owned(),
        ".shared .b64 x[4294967296][4294967296][4294967296];".to_owned(),
        ".param .b8 x[4294967295];".to_owned(),
    ];
    for body in huge {
        let error = device().load(&module(&body)).err();
        assert!(error.is_some(), "{}", &body[..40.min(body.len())]);
    }
    for global in [".global .b8 x[1152921504606846976];", ".const .b8 x[18446744073709551615];"] {
        let error = device().load(&format!("{HEAD}{global}"));
        assert!(error.is_err(), "{global}");
    }
}
