//! What each construct becomes in the tree.

use emulator::ptx::{ast::*, parse};

use crate::{COMPILED, HEADER};

fn items(text: &str) -> Vec<Item> {
    parse(&format!("{HEADER}{text}")).unwrap_or_else(|error| panic!("{error}")).items
}

fn variable(text: &str) -> Variable {
    match items(text).remove(0) {
        Item::Variable(variable) => variable,
        other => panic!("{other}"),
    }
}

fn function(text: &str) -> Function {
    match items(text).remove(0) {
        Item::Function(function) => function,
        other => panic!("{other}"),
    }
}

fn body(text: &str) -> Vec<Statement> {
    function(&format!(".func f() {{\n{text}\n}}")).body.unwrap()
}

fn instruction(text: &str) -> Instruction {
    match body(text).remove(0) {
        Statement::Instruction(instruction) => instruction,
        other => panic!("{other}"),
    }
}

fn operand(text: &str) -> Operand {
    instruction(&format!("mov {text};")).operands.remove(0)
}

fn name(text: &str) -> Operand {
    Operand::Name(text.into())
}

fn int(value: i128) -> Number {
    Number::Int { value, unsigned: false }
}

fn number(text: &str) -> Number {
    match operand(text) {
        Operand::Number(number) => number,
        other => panic!("{other}"),
    }
}

fn address(symbol: &str, offset: i64, generic: bool, mask: Option<u64>) -> Init {
    Init::Address { symbol: symbol.into(), offset, generic, mask }
}

#[test]
fn header() {
    let module = parse(".version 7.10 .target sm_90a, debug").unwrap();
    assert_eq!(module.version, (7, 10));
    assert_eq!(module.target, ["sm_90a", "debug"]);
    assert_eq!(module.address_size, 64);
    assert!(module.items.is_empty());
    assert_eq!(parse(".version 1.0 .target a .address_size 32").unwrap().address_size, 32);
}

#[test]
fn numbers() {
    assert_eq!(number("42"), int(42));
    assert_eq!(number("-9223372036854775808"), int(-(1 << 63)));
    assert_eq!(number("18446744073709551615"), int((1 << 64) - 1));
    assert_eq!(number("0"), int(0));
    assert_eq!(number("0xFfU"), Number::Int { value: 255, unsigned: true });
    assert_eq!(number("017"), int(15));
    assert_eq!(number("0b110"), int(6));
    assert_eq!(number("0f3F800000"), Number::F32(1.0f32.to_bits()));
    assert_eq!(number("-0F3f800000"), Number::F32((-1.0f32).to_bits()));
    assert_eq!(number("0d3FF8000000000000"), Number::F64(1.5f64.to_bits()));
    assert_eq!(number("1.5e-3"), Number::F64(1.5e-3f64.to_bits()));
    assert_eq!(number("-2."), Number::F64((-2.0f64).to_bits()));
    assert_eq!(number("1E+2"), Number::F64(100.0f64.to_bits()));
}

#[test]
fn operands() {
    assert_eq!(operand("%tid.x"), name("%tid.x"));
    assert_eq!(operand("_"), name("_"));
    assert_eq!(operand("!%p1"), Operand::Not("%p1".into()));
    assert_eq!(operand("grid+16"), Operand::NameOffset("grid".into(), 16));
    assert_eq!(operand("grid - 16"), Operand::NameOffset("grid".into(), -16));
    let pair = Operand::Pair(Box::new(name("_")), Box::new(name("%p1")));
    assert_eq!(operand("_|%p1"), pair);
    assert_eq!(operand("{%r1, _}"), Operand::Vector(vec![name("%r1"), name("_")]));
    assert_eq!(operand("()"), Operand::List(Vec::new()));
}

#[test]
fn addresses() {
    let at = |base, offset, extra| Operand::Address { base: Box::new(base), offset, extra };
    assert_eq!(operand("[%rd1]"), at(name("%rd1"), 0, vec![]));
    assert_eq!(operand("[%rd1+-4]"), at(name("%rd1"), -4, vec![]));
    assert_eq!(operand("[%rd1-4]"), at(name("%rd1"), -4, vec![]));
    assert_eq!(operand("[a + 0x10 + 4]"), at(name("a"), 20, vec![]));
    assert_eq!(operand("[a+0xFFFFFFFFFFFFFFFC]"), at(name("a"), -4, vec![]));
    assert_eq!(operand("[4096]"), at(Operand::Number(int(4096)), 0, vec![]));
    let coordinates = Operand::Vector(vec![name("x"), name("y")]);
    assert_eq!(operand("[map, {x, y}]"), at(name("map"), 0, vec![coordinates]));
}

#[test]
fn instructions() {
    let text = "  @!%p1 cp.async.bulk.tensor.2d.mbarrier::complete_tx::bytes [a], b;";
    let instruction = instruction(text);
    assert_eq!(instruction.guard, Some(Guard { negated: true, predicate: "%p1".into() }));
    assert_eq!(instruction.opcode, "cp");
    let modifiers = ["async", "bulk", "tensor", "2d", "mbarrier::complete_tx::bytes"];
    assert_eq!(instruction.modifiers, modifiers);
    assert_eq!(instruction.operands.len(), 2);
    assert_eq!(instruction.position, Position { line: 5, column: 3 });
}

#[test]
fn modifiers_may_stand_apart_and_begin_with_digits() {
    let spaced = instruction("mma.sync .m16n8k16\n .row /* */ .16x16x16 a;");
    assert_eq!(spaced.modifiers, ["sync", "m16n8k16", "row", "16x16x16"]);
}

#[test]
fn calls() {
    let call = instruction("call.uni (ret), %rd1, (a, 4), proto;");
    let arguments = Operand::List(vec![name("a"), Operand::Number(int(4))]);
    let returns = Operand::List(vec![name("ret")]);
    assert_eq!(call.operands, [returns, name("%rd1"), arguments, name("proto")]);
}

#[test]
fn labels_and_their_lists() {
    let statements = body("a: b: ret; t: .branchtargets a, b; c: .calltargets f;");
    assert_eq!(statements[0], Statement::Label("a".into()));
    assert_eq!(statements[1], Statement::Label("b".into()));
    let (label, targets) = ("t".into(), vec!["a".into(), "b".into()]);
    assert_eq!(statements[3], Statement::BranchTargets { label, targets });
    let (label, targets) = ("c".into(), vec!["f".into()]);
    assert_eq!(statements[4], Statement::CallTargets { label, targets });
}

#[test]
fn prototypes() {
    let text = "p : .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16]) .noreturn .abi_preserve 4;";
    let Statement::Prototype(prototype) = body(text).remove(0) else { panic!() };
    assert_eq!(prototype.label, "p");
    assert_eq!(prototype.returns.len(), 1);
    assert_eq!(prototype.params[0].dims, [Some(16)]);
    assert!(prototype.noreturn);
    assert_eq!(prototype.directives, [("abi_preserve".to_owned(), vec![4])]);
}

#[test]
fn scopes_nest_and_empty_statements_vanish() {
    let statements = body("{ ; { ret; } };");
    let Statement::Block(outer) = &statements[0] else { panic!() };
    let Statement::Block(inner) = &outer[0] else { panic!() };
    assert_eq!((statements.len(), outer.len(), inner.len()), (1, 1, 1));
}

#[test]
fn one_declaration_may_have_several_names() {
    let statements = body(".reg .b32 %r<10>, %x;");
    let declared: Vec<_> = statements
        .iter()
        .map(|statement| match statement {
            Statement::Variable(one) => (one.name.as_str(), one.range, one.ty.as_str()),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(declared, [("%r", Some(10), "b32"), ("%x", None, "b32")]);
}

#[test]
fn locations() {
    let text = ".loc 1 2 3\n.loc 1 2 3, function_name $L__s+4, inlined_at 5 6 7";
    let statements = body(text);
    let plain = Statement::Loc { file: 1, line: 2, column: 3, inlined_at: None };
    assert_eq!(statements[0], plain);
    let function_name = Some(("$L__s".into(), 4));
    let call = InlinedAt { function_name, file: 5, line: 6, column: 7 };
    let inlined = Statement::Loc { file: 1, line: 2, column: 3, inlined_at: Some(call) };
    assert_eq!(statements[1], inlined);
}

#[test]
fn variables() {
    let text = ".visible .global .attribute(.managed, .unified(1, 2)) .align 16 .v4 .f32 x[2][];";
    let variable = variable(text);
    assert_eq!(variable.linkage, Linkage::Visible);
    assert_eq!((variable.space.as_str(), variable.ty.as_str()), ("global", "f32"));
    assert_eq!((variable.align, variable.vector), (Some(16), 4));
    assert_eq!(variable.dims, [Some(2), None]);
    let attributes = &variable.attributes;
    assert_eq!(
        (attributes[0].name.as_str(), attributes[1].values.as_slice()),
        ("managed", &[1, 2][..])
    );
}

#[test]
fn initialisers() {
    let init = |text: &str| variable(&format!(".global .b64 x = {text};")).init.unwrap();
    assert_eq!(init("-5"), Init::Number(int(-5)));
    assert_eq!(init("1 + 2 - (3 + -4)"), Init::Number(int(4)));
    assert_eq!(init("f"), address("f", 0, false, None));
    assert_eq!(init("generic(a)+8"), address("a", 8, true, None));
    assert_eq!(init("(generic(a + 4) - 12)"), address("a", -8, true, None));
    assert_eq!(init("0xFF00(generic(a)+4)"), address("a", 4, true, Some(0xFF00)));
    assert_eq!(init("0xFF00(0x1234)"), Init::Number(int(0x12)));
    let row = Init::List(vec![Init::Number(int(1)), address("f", 0, false, None)]);
    assert_eq!(init("{{1, f}, {}}"), Init::List(vec![row, Init::List(Vec::new())]));
}

#[test]
fn functions() {
    let text =
        ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 q[128])
        .maxntid 256, 1, 1 .minnctapersm 2 .pragma \"nounroll\"; { ret; }";
    let kernel = function(text);
    assert!(kernel.entry && kernel.linkage == Linkage::Visible && kernel.name == "k");
    let pointer = Pointer { space: Some("global".into()), align: Some(16) };
    assert_eq!((kernel.params[0].pointer.clone(), kernel.params[0].align), (Some(pointer), None));
    assert_eq!((kernel.params[1].pointer.clone(), kernel.params[1].align), (None, Some(64)));
    let limits = [("maxntid".to_owned(), vec![256, 1, 1]), ("minnctapersm".to_owned(), vec![2])];
    assert_eq!(kernel.directives, limits);
    assert_eq!(kernel.body.unwrap()[0], Statement::Pragma("nounroll".into()));
    let declared = function(".extern .func (.param .b32 r) f(.param .b64 a) .noreturn;");
    assert_eq!((declared.returns.len(), declared.body), (1, None));
    assert_eq!(declared.directives, [("noreturn".to_owned(), vec![])]);
}

#[test]
fn sections_are_kept_as_text() {
    let text =
        ".section .debug_str\n{\n.b8 1 // {impl#0}\n}\n$L__end:\n.section .debug_macinfo { }";
    let body = "\n.b8 1 // {impl#0}\n".to_owned();
    let expected = [
        Item::Section { name: ".debug_str".into(), body },
        Item::Label("$L__end".into()),
        Item::Section { name: ".debug_macinfo".into(), body: " ".into() },
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn small_items() {
    let text = ".file 3 \"a b.rs\", 17, 4\n.alias a, b;\n.pragma \"x\", \"y\";";
    let expected = [
        Item::File { index: 3, path: "a b.rs".into() },
        Item::Alias("a".into(), "b".into()),
        Item::Pragma("x".into()),
        Item::Pragma("y".into()),
    ];
    assert_eq!(items(text), expected);
}

#[test]
fn a_compiled_module_has_its_kernels() {
    let module = parse(COMPILED).unwrap();
    let kernels: Vec<_> = module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.entry => Some(function.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(kernels, ["dispatch", "saxpy"]);
}
