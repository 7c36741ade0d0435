//! Every kind of mistake: where it is reported, and as what.

use emulator::ptx::{ParseError, parse};

use crate::HEADER;

fn error(text: &str) -> ParseError {
    parse(text).expect_err(text)
}

/// `text` fails at `line:column` of itself, with `found` there and `expected` wanted.
#[track_caller]
fn refused(text: &str, place: (u32, u32), found: &str, expected: &str) {
    let error = error(text);
    assert_eq!((error.line, error.column), place, "{error}");
    assert_eq!((error.found.as_str(), error.expected.as_str()), (found, expected), "{error}");
}

/// As [`refused`], for what follows the header; line 1 is the first after it.
#[track_caller]
fn item_refused(item: &str, (line, column): (u32, u32), found: &str, expected: &str) {
    refused(&format!("{HEADER}{item}"), (line + 3, column), found, expected);
}

/// As [`item_refused`], for one line in a function's body.
#[track_caller]
fn statement_refused(statement: &str, column: u32, found: &str, expected: &str) {
    item_refused(&format!(".func f() {{\n{statement}\n}}"), (2, column), found, expected);
}

const END: &str = "the end of the text";

#[test]
fn the_message_reads_as_a_sentence() {
    let message = error(&format!("{HEADER}.func f()\n{{\n  add.s32 %r1, %r2 %r3;\n}}")).to_string();
    assert_eq!(message, "line 6, column 20: expected `,` or `;`, found `%r3`");
}

#[test]
fn long_and_unprintable_text_is_quoted_short() {
    let name = "x".repeat(100);
    let shortened = format!("`{}…`", "x".repeat(40));
    item_refused(&format!(".global .u32 {name} {name};"), (1, 115), &shortened, "`;`");
    item_refused("\u{7}", (1, 1), "`\u{FFFD}`", "a token of PTX");
}

#[test]
fn header() {
    refused("", (1, 1), END, "`.version`, which begins a module");
    refused("// only\n  x", (2, 3), "`x`", "`.version`, which begins a module");
    refused(".version 8", (1, 10), "`8`", "a version such as `8.3`");
    refused(".version 8.x3", (1, 10), "`8.x3`", "a version such as `8.3`");
    refused(".version 8.3 .func", (1, 14), "`.func`", "`.target`");
    let expected = "an architecture such as `sm_90`";
    refused(".version 8.3\n.target sm_90,\n.func", (3, 1), "`.func`", expected);
    refused(".version 8.3 .target a .address_size 16", (1, 38), "`16`", "`32` or `64`");
}

#[test]
fn characters_and_tokens() {
    item_refused("#", (1, 1), "`#`", "a token of PTX");
    item_refused("/* é\n */ /* é */ é", (2, 13), "`é`", "a token of PTX");
    item_refused(" /* open\n\n", (1, 2), "`/*`", "a comment that ends with `*/`");
    item_refused(".pragma \"open\n\";", (1, 9), "`\"`", "a string that ends on its line");
    item_refused(".func %()", (1, 7), "`%`", "the function's name");
    item_refused(". func", (1, 1), "`.`", "a token of PTX");
}

#[test]
fn numbers() {
    let cases = [
        ("0f3F80000", "`0f` and 8 hexadecimal digits"),
        ("0f3F8000000", "`0f` and 8 hexadecimal digits"),
        ("0f+3F80000", "`0f` and 8 hexadecimal digits"),
        ("0d3FF000000000000G", "`0d` and 16 hexadecimal digits"),
        ("0x", "a hexadecimal integer"),
        ("0xG", "a hexadecimal integer"),
        ("0b2", "a binary integer"),
        ("018", "an octal integer"),
        ("12u", "a number"),
        ("1.5.5", "`;`"),
        ("1e", "a decimal number"),
        ("18446744073709551616", "an integer of at most 64 bits"),
    ];
    for (text, expected) in cases {
        let error = error(&format!("{HEADER}.global .b64 x = {text};"));
        assert!(error.expected.starts_with(expected) || text == "0f+3F80000", "{text}: {error}");
        assert_eq!(error.line, 4, "{error}");
    }
    item_refused(".global .b64 x = 0x1G;", (1, 18), "`0x1G`", "a hexadecimal integer");
}

#[test]
fn module_level() {
    let expected = "a function, a variable or another module-level directive";
    item_refused("ret;", (1, 4), "`;`", "`:` behind a label");
    item_refused(".weak .file", (1, 7), "`.file`", expected);
    item_refused("}", (1, 1), "`}`", expected);
    item_refused(".file x", (1, 7), "`x`", "the file's index");
    item_refused(".file 1 x", (1, 9), "`x`", "a string");
    item_refused(".file 1 \"a\", x", (1, 14), "`x`", "a timestamp or a file size");
    item_refused(".section { }", (1, 10), "`{`", "the section's name");
    item_refused(".section .debug_str;", (1, 20), "`;`", "`{`");
    item_refused(".section .s {\n.b8 1 // }\n", (3, 1), END, "`}` that closes the section");
    item_refused(".alias a b;", (1, 10), "`b`", "`,`");
    item_refused(".pragma nounroll;", (1, 9), "`nounroll`", "a string");
}

#[test]
fn variables() {
    item_refused(".global x;", (1, 9), "`x`", "a type such as `.b32`");
    item_refused(".global .q32 x;", (1, 9), "`.q32`", "a type such as `.b32`");
    item_refused(".global .b32 .b32 x;", (1, 14), "`.b32`", "a name");
    item_refused(".global .align 3 .b32 x;", (1, 16), "`3`", "a power of two");
    item_refused(".global .align 0 .b32 x;", (1, 16), "`0`", "a power of two");
    item_refused(".global .b32 x", (1, 15), END, "`;`");
    item_refused(".global .b32 x<4>;", (1, 15), "`<`", "`;`");
    item_refused(".global .b32 x[-1];", (1, 16), "`-`", "a length or `]`");
    item_refused(".global .b32 x[1.5];", (1, 16), "`1.5`", "a length or `]`");
    item_refused(".global .b32 x[2;", (1, 17), "`;`", "`]`");
    item_refused(".global .b32 a.b;", (1, 14), "`a.b`", "a name");
    item_refused(
        ".global .attribute(.shiny) .b32 x;",
        (1, 20),
        "`.shiny`",
        "`.managed` or `.unified`",
    );
    let twice = ".global .attribute(.managed, .managed) .b32 x;";
    item_refused(twice, (1, 30), "`.managed`", "each attribute once");
    item_refused(".reg .b32 %r<4294967296>;", (1, 14), "`4294967296`", "the number of registers");
}

#[test]
fn initialisers() {
    item_refused(".global .b32 x = ;", (1, 18), "`;`", "an initial value");
    item_refused(".global .b32 x = {1, };", (1, 22), "`}`", "an initial value");
    item_refused(".global .b32 x = {1 2};", (1, 21), "`2`", "`,` or `}`");
    item_refused(".global .b32 x = a + b;", (1, 22), "`b`", "a number");
    item_refused(".global .b32 x = 1 + 0.5;", (1, 22), "`0.5`", "an integer");
    item_refused(".global .b32 x = 0.5(a);", (1, 18), "`0.5`", "an integer mask");
    item_refused(".global .b32 x = 0xFF({1});", (1, 23), "`{`", "an initial value");
    item_refused(".global .b32 x = 0xFF(0.5);", (1, 22), "`(`", "an address to mask");
    item_refused(".global .b32 x = generic(5);", (1, 25), "`(`", "a variable in parentheses");
}

#[test]
fn functions() {
    item_refused(".func 5", (1, 7), "`5`", "the function's name");
    item_refused(".entry (.param .b32 r) k()", (1, 8), "`(`", "the function's name");
    item_refused(".func f(x)", (1, 9), "`x`", "`.param` or `.reg`");
    item_refused(".func f(.param .b32 x", (1, 22), END, "`,` or `)`");
    item_refused(".func f(.param .b32 x = 1)", (1, 23), "`=`", "`,` or `)`");
    item_refused(".func f() ret;", (1, 11), "`ret`", "`{` or `;`");
    item_refused(".func f() .loud {}", (1, 11), "`.loud`", "a directive of a function, `{` or `;`");
    item_refused(".entry f() .maxntid {}", (1, 21), "`{`", "a number");
    item_refused(".entry f() .maxntid 1,2,3,4 {}", (1, 26), "`,`", "`{` or `;`");
    item_refused(".func f() {\n ret;\n", (3, 1), END, "`}`");
}

#[test]
fn statements() {
    statement_refused("5;", 1, "`5`", "a statement");
    statement_refused("a.b: ret;", 1, "`a.b`", "a label without dots");
    statement_refused("%r1;", 1, "`%r1`", "an instruction");
    statement_refused("@5 ret;", 2, "`5`", "a predicate");
    statement_refused("@p { ret; }", 4, "`{`", "an instruction");
    statement_refused("@p l: ret;", 5, "`:`", "an operand");
    statement_refused(".entry k()", 1, "`.entry`", "a directive that may stand in a function");
    statement_refused(
        ".branchtargets a;",
        1,
        "`.branchtargets`",
        "a directive that may stand in a function",
    );
    statement_refused("l: .branchtargets a, 5;", 22, "`5`", "a label");
    statement_refused("l: .calltargets f g;", 19, "`g`", "`;`");
    statement_refused("l: .callprototype ();", 21, "`;`", "`_`");
    statement_refused(".loc 1 x 2", 8, "`x`", "a line");
    statement_refused(".loc 1 2 3, 4", 13, "`4`", "`function_name` or `inlined_at`");
    item_refused(".func f() {\n.loc 1 2 3, function_name x ret;", (2, 29), "`ret`", "`inlined_at`");
}

#[test]
fn operands() {
    statement_refused("mov.u32 , 5;", 9, "`,`", "an operand");
    statement_refused("mov.u32 %r1, ;", 14, "`;`", "an operand");
    statement_refused("mov.u32 %r1 5;", 13, "`5`", "`,` or `;`");
    statement_refused("mov.u32 %r1, -x;", 15, "`x`", "a number");
    statement_refused("mov.u32 %r1, !5;", 15, "`5`", "a name");
    statement_refused("mov.u32 %r1|5, 1;", 13, "`5`", "a name");
    statement_refused("mov.b64 {}, 1;", 10, "`}`", "an operand");
    statement_refused("mov.b64 {a, b;", 14, "`;`", "`,` or `}`");
    statement_refused("call f, (a;", 11, "`;`", "`,` or `)`");
    statement_refused("ld.b32 a, [];", 12, "`]`", "an address");
    statement_refused("ld.b32 a, [b c];", 14, "`c`", "`+`, `,` or `]`");
    statement_refused("ld.b32 a, [b+c];", 14, "`c`", "a number");
    statement_refused("ld.b32 a, [b+1.5];", 13, "`+`", "an integer offset");
}

#[test]
fn nesting() {
    let expected = "at most 128 levels of nesting";
    let at_limit = format!("{HEADER}.func f() {}{}", "{".repeat(128), "}".repeat(128));
    assert!(parse(&at_limit).is_ok());
    item_refused(&format!(".func f() {}", "{".repeat(129)), (1, 139), "`{`", expected);
    statement_refused(&format!("mov {}", "{".repeat(200)), 132, "`{`", expected);
    item_refused(&format!(".global .b32 x = {}", "(".repeat(200)), (1, 145), "`(`", expected);
}
