//! Random syntax trees, of the shapes that the parser itself makes.

use emulator::ptx::ast::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub fn module() -> impl Strategy<Value = Module> {
    let target = vec("[a-z][a-z0-9_]{0,6}", 1..3);
    let address_size = select(vec![32u32, 64]);
    (any::<(u32, u32)>(), target, address_size, vec(item(), 0..5)).prop_map(
        |(version, target, address_size, items)| Module { version, target, address_size, items },
    )
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        (linkage(), variable(&["global", "shared", "const"]), option::of(init())).prop_map(
            |(linkage, variable, init)| Item::Variable(Variable { linkage, init, ..variable })
        ),
        function().prop_map(Item::Function),
        (any::<u32>(), quoted()).prop_map(|(index, path)| Item::File { index, path }),
        ("\\.[a-z_]{1,8}", "[ a-z0-9.,:$\n]{0,20}")
            .prop_map(|(name, body)| Item::Section { name, body }),
        prototype().prop_map(Item::Prototype),
        quoted().prop_map(Item::Pragma),
        (name(), name()).prop_map(|(name, target)| Item::Alias(name, target)),
        name().prop_map(Item::Label),
    ]
}

fn function() -> impl Strategy<Value = Function> {
    let returns = vec(parameter(), 0..3);
    let body = option::of(vec(statement(), 0..8));
    let signature = (linkage(), any::<bool>(), returns, name(), vec(parameter(), 0..4));
    (signature, vec(directive(), 0..3), attributes(), body).prop_map(
        |((linkage, entry, returns, name, params), directives, attributes, body)| Function {
            linkage,
            entry,
            returns: if entry { Vec::new() } else { returns },
            name,
            params,
            directives,
            attributes,
            body,
            position: Position::default(),
        },
    )
}

fn directive() -> impl Strategy<Value = (String, Vec<i64>)> {
    prop_oneof![
        select(vec!["noreturn", "explicitcluster", "blocksareclusters"])
            .prop_map(|name| (name.to_owned(), Vec::new())),
        (select(vec!["maxntid", "reqntid", "reqnctapercluster"]), vec(0..i64::MAX, 1..4))
            .prop_map(|(name, numbers)| (name.to_owned(), numbers)),
        (select(vec!["minnctapersm", "maxnreg", "abi_preserve"]), 0..i64::MAX)
            .prop_map(|(name, number)| (name.to_owned(), vec![number])),
    ]
}

fn statement() -> impl Strategy<Value = Statement> {
    let leaf = prop_oneof![
        instruction().prop_map(Statement::Instruction),
        word().prop_map(Statement::Label),
        register().prop_map(|one| Statement::Variable(Box::new(one))),
        (any::<(u32, u32, u32)>(), option::of(inlined_at())).prop_map(
            |((file, line, column), inlined_at)| Statement::Loc { file, line, column, inlined_at }
        ),
        (word(), vec(name(), 1..4))
            .prop_map(|(label, targets)| Statement::BranchTargets { label, targets }),
        (word(), vec(name(), 1..4))
            .prop_map(|(label, targets)| Statement::CallTargets { label, targets }),
        prototype().prop_map(Statement::Prototype),
        quoted().prop_map(Statement::Pragma),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Statement::Block))
}

fn inlined_at() -> impl Strategy<Value = InlinedAt> {
    (option::of((name(), any::<i64>())), any::<(u32, u32, u32)>()).prop_map(
        |(function_name, (file, line, column))| InlinedAt { function_name, file, line, column },
    )
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let guard =
        (any::<bool>(), word()).prop_map(|(negated, predicate)| Guard { negated, predicate });
    let modifier = "[a-zA-Z0-9_]{1,5}(::[a-z0-9]{1,4}){0,2}";
    let (opcode, modifier) =
        ("[a-z][a-z0-9]{0,4}".prop_map(Word::from), modifier.prop_map(Word::from));
    (option::of(guard), opcode, vec(modifier, 0..4), vec(operand(), 0..4)).prop_map(
        |(guard, opcode, modifiers, operands)| Instruction {
            guard,
            opcode,
            modifiers,
            operands,
            position: Position::default(),
        },
    )
}

fn operand() -> impl Strategy<Value = Operand> {
    let base = prop_oneof![dotted().prop_map(Operand::Name), number().prop_map(Operand::Number),];
    let leaf = prop_oneof![
        dotted().prop_map(Operand::Name),
        dotted().prop_map(Operand::Not),
        number().prop_map(Operand::Number),
        (dotted(), any::<i64>()).prop_map(|(name, offset)| Operand::NameOffset(name, offset)),
        (dotted(), dotted()).prop_map(|(first, second)| {
            Operand::Pair(Box::new(Operand::Name(first)), Box::new(Operand::Name(second)))
        }),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Operand::Vector),
            vec(inner.clone(), 0..4).prop_map(Operand::List),
            (base.clone(), any::<i64>(), vec(inner, 0..3)).prop_map(|(base, offset, extra)| {
                Operand::Address { base: Box::new(base), offset, extra }
            }),
        ]
    })
}

fn prototype() -> impl Strategy<Value = Prototype> {
    let preserve = (0..i64::MAX).prop_map(|n| ("abi_preserve".to_owned(), vec![n]));
    let signature = (word(), vec(parameter(), 0..2), vec(parameter(), 0..3));
    (signature, any::<bool>(), vec(preserve, 0..2)).prop_map(
        |((label, returns, params), noreturn, directives)| Prototype {
            label,
            returns,
            params,
            noreturn,
            directives,
        },
    )
}

fn parameter() -> impl Strategy<Value = Variable> {
    variable(&["param", "reg"])
}

fn register() -> impl Strategy<Value = Variable> {
    (variable(&["reg"]), option::of(any::<u32>()))
        .prop_map(|(variable, range)| Variable { range, ..variable })
}

fn variable(spaces: &'static [&'static str]) -> impl Strategy<Value = Variable> {
    let align = || option::of((0..32u32).prop_map(|shift| 1 << shift));
    let space = option::of(select(vec!["global", "shared", "const"]).prop_map(str::to_owned));
    let pointer = option::of((space, align()).prop_map(|(space, align)| Pointer { space, align }));
    let head = (select(spaces.to_vec()), align(), select(vec![1u32, 2, 4, 8]), attributes());
    let ty = select(vec!["b8", "b32", "f64", "pred", "u16"]);
    let dims = vec(option::of(any::<u64>()), 0..3);
    (head, ty, name(), dims, pointer).prop_map(
        |((space, align, vector, attributes), ty, name, dims, pointer)| Variable {
            linkage: Linkage::None,
            space: space.to_owned(),
            align,
            vector,
            ty: ty.to_owned(),
            name,
            range: None,
            dims,
            pointer,
            init: None,
            attributes,
            position: Position::default(),
        },
    )
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let managed = Attribute { name: "managed".into(), values: Vec::new() };
    any::<(bool, Option<(u64, u64)>)>().prop_map(move |(managed_too, unified)| {
        let unified =
            unified.map(|(a, b)| Attribute { name: "unified".into(), values: vec![a, b] });
        managed_too.then(|| managed.clone()).into_iter().chain(unified).collect()
    })
}

fn init() -> impl Strategy<Value = Init> {
    let address = (name(), any::<(i64, bool, Option<u64>)>()).prop_map(
        |(symbol, (offset, generic, mask))| Init::Address { symbol, offset, generic, mask },
    );
    let leaf = prop_oneof![number().prop_map(Init::Number), address];
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Init::List))
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<(u64, bool, bool)>().prop_map(|(magnitude, negative, unsigned)| {
            let magnitude = i128::from(magnitude);
            Number::Int { value: if negative { -magnitude } else { magnitude }, unsigned }
        }),
        any::<u32>().prop_map(Number::F32),
        any::<u64>().prop_map(Number::F64),
    ]
}

fn linkage() -> impl Strategy<Value = Linkage> {
    use Linkage::{Common, Extern, None, Visible, Weak};
    select(vec![None, Extern, Visible, Weak, Common])
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z][a-zA-Z0-9_$]{0,5}", "%[a-z]{1,2}[0-9]{0,3}", "[_$][A-Z0-9_]{0,5}"]
}

/// A name, as a statement has it.
fn word() -> impl Strategy<Value = Word> {
    name().prop_map(Word::from)
}

/// A name that may have a component.
fn dotted() -> impl Strategy<Value = Word> {
    (word(), option::of("\\.[xyzw]")).prop_map(|(name, part)| name + &part.unwrap_or_default())
}

fn quoted() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9/._ é{}-]{0,12}"
}
