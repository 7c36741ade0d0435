//! Several modules made one: what one declares, another defines.
//!
//! Names that a module keeps to itself stay apart: where two modules have the same one, it gets a
//! new name in the later one. Of names that are seen from outside there is one definition: a strong
//! one, or the first weak one, or the largest common one.

use super::ast::{Function, Init, Item, Linkage, Module, Operand, Statement, Variable};
use std::collections::{HashMap, HashSet};

/// Modules that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Nothing to link.
    #[error("there is no module to link")]
    Nothing,
    /// Two definitions that are neither weak nor common.
    #[error("multiple definition of `{symbol}` in `{second}`, first defined in `{first}`")]
    Twice {
        /// The name.
        symbol: String,
        /// The module that defines it first.
        first: String,
        /// The module that defines it again.
        second: String,
    },
    /// A declaration without a definition in any module.
    #[error("undefined reference to `{symbol}` in `{module}`")]
    Undefined {
        /// The name.
        symbol: String,
        /// The module that declares it.
        module: String,
    },
    /// The same name stands for a function and a variable, or for variables of two spaces.
    #[error("`{symbol}` is one thing in `{first}` and another in `{second}`")]
    Mismatch {
        /// The name.
        symbol: String,
        /// The one module.
        first: String,
        /// The other module.
        second: String,
    },
}

/// Functions that the device itself provides; a declaration of them needs no definition.
const PROVIDED: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// How strong a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Declaration,
    Common,
    Weak,
    Strong,
}

/// A name that is seen from outside, where it stands, and how strongly.
struct Definition {
    module: usize,
    rank: Rank,
    kind: String,
    bytes: u64,
}

/// Links modules, each with the name that errors call it by.
///
/// # Errors
/// A name has two strong definitions, or none.
pub fn link(modules: Vec<(String, Module)>) -> Result<Module, LinkError> {
    let (names, mut trees): (Vec<_>, Vec<_>) = modules.into_iter().unzip();
    let kept = chosen(&names, &trees)?;
    separate(&mut trees);
    let mut linked = header(&trees).ok_or(LinkError::Nothing)?;
    let mut files = 0;
    let mut dynamic = HashSet::new();
    for (at, tree) in trees.into_iter().enumerate() {
        let count = shift_files_from(&tree);
        for mut item in tree.items {
            shift_item(&mut item, files);
            if belongs(&item, at, &kept, &mut dynamic) {
                linked.items.push(item);
            }
        }
        files += count;
    }
    Ok(linked)
}

/// The newest version, and the newest architecture, of those given.
fn header(trees: &[Module]) -> Option<Module> {
    let number = |tree: &&Module| -> u32 {
        let target = tree.target.first().map_or("", String::as_str);
        target.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
    };
    let newest = trees.iter().max_by_key(number)?;
    let version = trees.iter().map(|tree| tree.version).max()?;
    let (target, address_size) = (newest.target.clone(), newest.address_size);
    Some(Module { version, target, address_size, items: Vec::new() })
}

/// The name of a symbol that other modules may mean too, and what is known of it.
fn outside(item: &Item, module: usize) -> Option<(&str, Definition)> {
    match item {
        Item::Function(function) => {
            let kind = if function.entry { "kernel" } else { "function" }.to_owned();
            let rank = match (function.linkage, function.body.is_some()) {
                (Linkage::None, _) if !function.entry => return None,
                (Linkage::Extern, _) | (_, false) => Rank::Declaration,
                (Linkage::Weak, true) => Rank::Weak,
                _ => Rank::Strong,
            };
            Some((&function.name, Definition { module, rank, kind, bytes: 0 }))
        }
        Item::Variable(variable) => {
            let rank = match variable.linkage {
                Linkage::None => return None,
                Linkage::Extern => Rank::Declaration,
                Linkage::Common => Rank::Common,
                Linkage::Weak => Rank::Weak,
                Linkage::Visible => Rank::Strong,
            };
            let (kind, bytes) = (variable.space.clone(), elements(variable));
            Some((&variable.name, Definition { module, rank, kind, bytes }))
        }
        _ => None,
    }
}

/// Elements of a variable; enough to tell which of two is larger, their types being equal.
fn elements(variable: &Variable) -> u64 {
    variable.dims.iter().map(|dim| dim.unwrap_or(0)).fold(1, u64::saturating_mul)
}

/// For each name that is seen from outside: the module whose item stays.
fn chosen(names: &[String], trees: &[Module]) -> Result<HashMap<String, (usize, Rank)>, LinkError> {
    let mut best: HashMap<String, Definition> = HashMap::new();
    for (module, tree) in trees.iter().enumerate() {
        for (symbol, found) in tree.items.iter().filter_map(|item| outside(item, module)) {
            let Some(other) = best.get(symbol) else {
                best.insert(symbol.to_owned(), found);
                continue;
            };
            let symbol = symbol.to_owned();
            let (first, second) = (names[other.module].clone(), names[module].clone());
            if other.kind != found.kind {
                return Err(LinkError::Mismatch { symbol, first, second });
            }
            if other.rank == Rank::Strong && found.rank == Rank::Strong {
                return Err(LinkError::Twice { symbol, first, second });
            }
            let larger = found.rank == Rank::Common && found.bytes > other.bytes;
            if found.rank > other.rank || found.rank == other.rank && larger {
                best.insert(symbol, found);
            }
        }
    }
    for (symbol, found) in &best {
        let open = found.rank == Rank::Declaration && found.kind != "shared";
        if open && !PROVIDED.contains(&symbol.as_str()) {
            let (symbol, module) = (symbol.clone(), names[found.module].clone());
            return Err(LinkError::Undefined { symbol, module });
        }
    }
    Ok(best.into_iter().map(|(name, found)| (name, (found.module, found.rank))).collect())
}

/// Whether an item of a module comes into the linked one. Dynamic shared memory and functions that
/// the device provides are declared once.
fn belongs(
    item: &Item,
    module: usize,
    kept: &HashMap<String, (usize, Rank)>,
    declared: &mut HashSet<String>,
) -> bool {
    // Debug data refers to places in its own module's text.
    if matches!(item, Item::Section { .. } | Item::Label(_)) {
        return false;
    }
    let Some((name, found)) = outside(item, module) else { return true };
    let Some((owner, rank)) = kept.get(name) else { return true };
    match rank {
        Rank::Declaration => declared.insert(name.to_owned()),
        _ => *owner == module && found.rank == *rank,
    }
}

/// The name of a symbol that a module keeps to itself.
fn inside(item: &Item) -> Option<&str> {
    match item {
        Item::Function(function) if function.linkage == Linkage::None && !function.entry => {
            Some(&function.name)
        }
        Item::Variable(variable) if variable.linkage == Linkage::None => Some(&variable.name),
        Item::Prototype(prototype) => Some(&prototype.label),
        Item::Alias(name, _) => Some(name),
        _ => None,
    }
}

/// Gives own names that an earlier module has, too, new ones.
fn separate(trees: &mut [Module]) {
    let mut taken: HashSet<String> = HashSet::new();
    for (at, tree) in trees.iter_mut().enumerate() {
        let own: HashSet<String> =
            tree.items.iter().filter_map(inside).map(str::to_owned).collect();
        let names: HashMap<String, String> = own
            .iter()
            .filter(|name| taken.contains(*name))
            .map(|name| (name.clone(), format!("{name}__{at}")))
            .collect();
        if !names.is_empty() {
            tree.items.iter_mut().for_each(|item| rename_item(item, &names));
        }
        taken.extend(own);
        let outside = tree.items.iter().filter_map(|item| outside(item, at));
        taken.extend(outside.map(|(name, _)| name.to_owned()));
    }
}

type Names = HashMap<String, String>;

fn rename<N: AsRef<str> + for<'a> From<&'a str>>(name: &mut N, names: &Names) {
    if let Some(new) = names.get(AsRef::<str>::as_ref(name)) {
        *name = N::from(new);
    }
}

fn rename_item(item: &mut Item, names: &Names) {
    match item {
        Item::Variable(variable) => {
            rename(&mut variable.name, names);
            variable.init.iter_mut().for_each(|init| rename_init(init, names));
        }
        Item::Function(function) => rename_function(function, names),
        Item::Prototype(prototype) => rename(&mut prototype.label, names),
        Item::Alias(name, target) => {
            rename(name, names);
            rename(target, names);
        }
        _ => {}
    }
}

fn rename_init(init: &mut Init, names: &Names) {
    match init {
        Init::List(list) => list.iter_mut().for_each(|init| rename_init(init, names)),
        Init::Address { symbol, .. } => rename(symbol, names),
        Init::Number(_) => {}
    }
}

/// A name that the function declares itself hides the module's.
fn rename_function(function: &mut Function, names: &Names) {
    rename(&mut function.name, names);
    let mut own: HashSet<String> = HashSet::new();
    let params = function.params.iter().chain(&function.returns);
    own.extend(params.map(|param| param.name.clone()));
    let Some(body) = &mut function.body else { return };
    declared(body, &mut own);
    let visible: Names = names
        .iter()
        .filter(|(name, _)| !own.contains(*name))
        .map(|(name, new)| (name.clone(), new.clone()))
        .collect();
    rename_body(body, &visible);
}

/// The names that a body declares.
fn declared(body: &[Statement], own: &mut HashSet<String>) {
    for statement in body {
        match statement {
            Statement::Label(label)
            | Statement::BranchTargets { label, .. }
            | Statement::CallTargets { label, .. } => drop(own.insert(label.to_string())),
            Statement::Variable(variable) => drop(own.insert(variable.name.clone())),
            Statement::Prototype(prototype) => drop(own.insert(prototype.label.to_string())),
            Statement::Block(block) => declared(block, own),
            _ => {}
        }
    }
}

fn rename_body(body: &mut [Statement], names: &Names) {
    for statement in body {
        match statement {
            Statement::Block(block) => rename_body(block, names),
            Statement::Variable(variable) => {
                variable.init.iter_mut().for_each(|init| rename_init(init, names));
            }
            Statement::Instruction(instruction) => {
                instruction.operands.iter_mut().for_each(|operand| rename_in(operand, names));
            }
            Statement::CallTargets { targets, .. } => {
                targets.iter_mut().for_each(|target| rename(target, names));
            }
            _ => {}
        }
    }
}

fn rename_in(operand: &mut Operand, names: &Names) {
    match operand {
        Operand::Name(name) | Operand::Not(name) | Operand::NameOffset(name, _) => {
            rename(name, names);
        }
        Operand::Address { base, extra, .. } => {
            rename_in(base, names);
            extra.iter_mut().for_each(|operand| rename_in(operand, names));
        }
        Operand::Vector(list) | Operand::List(list) => {
            list.iter_mut().for_each(|operand| rename_in(operand, names));
        }
        Operand::Pair(first, second) => {
            rename_in(first, names);
            rename_in(second, names);
        }
        Operand::Number(_) => {}
    }
}

/// Numbers of files that a module takes.
fn shift_files_from(tree: &Module) -> u32 {
    let numbers = tree.items.iter().filter_map(|item| match item {
        Item::File { index, .. } => Some(*index),
        _ => None,
    });
    numbers.max().map_or(0, |highest| highest + 1)
}

/// Moves a module's numbers of files behind those of earlier modules.
fn shift_item(item: &mut Item, by: u32) {
    match item {
        Item::File { index, .. } => *index += by,
        Item::Function(function) => function.body.iter_mut().for_each(|body| shift(body, by)),
        _ => {}
    }
}

fn shift(body: &mut [Statement], by: u32) {
    for statement in body {
        match statement {
            Statement::Loc { file, inlined_at, .. } => {
                *file += by;
                inlined_at.iter_mut().for_each(|at| at.file += by);
            }
            Statement::Block(block) => shift(block, by),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::parse;

    fn module(body: &str) -> Module {
        parse(&format!(".version 7.0\n.target sm_70\n.address_size 64\n{body}")).unwrap()
    }

    fn linked(bodies: &[&str]) -> Result<String, LinkError> {
        let named = |(at, body): (usize, &&str)| (format!("m{at}"), module(body));
        link(bodies.iter().enumerate().map(named).collect()).map(|tree| tree.to_string())
    }

    #[test]
    fn a_declaration_finds_its_definition() {
        let text = linked(&[
            ".extern .func f;\n.extern .global .u32 x;\n.visible .entry k() { call f; ret; }",
            ".visible .func f { ret; }\n.visible .global .u32 x = 3;",
        ])
        .unwrap();
        assert!(!text.contains(".extern") && text.contains(".visible .global"), "{text}");
        assert!(parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn own_names_stay_apart() {
        let own = ".global .u32 x = 3;\n.func f { .reg .b32 %r; ld.global.u32 %r, [x]; ret; }\n";
        let first = format!("{own}.visible .entry a() {{ call f; ret; }}");
        let second = format!("{own}.visible .entry b() {{ call f; ret; }}");
        let text = linked(&[&first, &second]).unwrap();
        assert!(text.contains("[x__1]") && text.contains("f__1"), "{text}");
        assert_eq!(text.matches("x = 3").count() + text.matches("x__1 = 3").count(), 2, "{text}");
    }

    #[test]
    fn a_name_that_a_function_declares_is_its_own() {
        let first = ".global .u32 x;\n.visible .entry a() { ret; }";
        let second = ".global .u32 x;\n.visible .entry b() { .reg .b32 x; mov.u32 x, 1; ret; }";
        let text = linked(&[first, second]).unwrap();
        assert!(text.contains("mov.u32 x, 1"), "{text}");
    }

    #[test]
    fn two_strong_definitions_are_an_error_and_weak_ones_give_way() {
        let strong = ".visible .func f { ret; }";
        let error = linked(&[strong, strong]).unwrap_err();
        let words = "multiple definition of `f` in `m1`, first defined in `m0`";
        assert_eq!(error.to_string(), words);
        for bodies in [[".weak .func f { exit; }", strong], [strong, ".weak .func f { exit; }"]] {
            let text = linked(&bodies).unwrap();
            assert!(text.contains("ret;") && !text.contains("exit;"), "{text}");
        }
        let text = linked(&[".weak .func f { exit; }", ".weak .func f { ret; }"]).unwrap();
        assert!(text.contains("exit;") && !text.contains("ret;"), "{text}");
    }

    #[test]
    fn of_common_variables_the_largest_stays() {
        let text = linked(&[".common .global .b8 x[4];", ".common .global .b8 x[16];"]).unwrap();
        assert!(text.contains("x[16]") && !text.contains("x[4]"), "{text}");
        let text = linked(&[".common .global .b8 x[16];", ".visible .global .b8 x[4];"]).unwrap();
        assert!(text.contains("x[4]") && !text.contains("x[16]"), "{text}");
    }

    #[test]
    fn what_nobody_defines_is_named_with_its_module() {
        let error = linked(&[".extern .func f;", ".extern .func vprintf;"]).unwrap_err();
        assert_eq!(error.to_string(), "undefined reference to `f` in `m0`");
        assert_eq!(link(Vec::new()), Err(LinkError::Nothing));
        let error = linked(&[".visible .func f { ret; }", ".extern .global .u32 f;"]).unwrap_err();
        assert!(matches!(error, LinkError::Mismatch { .. }), "{error}");
    }

    #[test]
    fn dynamic_shared_memory_is_declared_once_and_files_are_numbered_on() {
        let body = |kernel: &str, file: &str| {
            format!(
                ".file 1 \"{file}\"\n.extern .shared .align 16 .b8 room[];\n\
                 .visible .entry {kernel}() {{ .loc 1 7 0; ret; }}"
            )
        };
        let bodies = [body("a", "a.cu"), body("b", "b.cu")];
        let text = linked(&[&bodies[0].replace("0;", "0"), &bodies[1].replace("0;", "0")]).unwrap();
        assert_eq!(text.matches("room").count(), 1, "{text}");
        assert!(text.contains(".file 3 \"b.cu\"") && text.contains(".loc 3 7"), "{text}");
    }
}
