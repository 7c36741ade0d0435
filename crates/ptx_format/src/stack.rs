//! How much stack a thread of a PTX module needs.
//!
//! The driver knows it where every call has a name and no function calls itself. Elsewhere it takes the
//! context's limit (1 KiB at first), and a thread that needs more reads and writes what is not its own.

use std::collections::HashMap;
use std::str::Lines;

/// What a call through an address may need: formatting a float takes about half of it.
const INDIRECT_BYTES: usize = 4 << 10;
/// What a function needs beside its local memory, for registers that it keeps and spills: the assembler
/// takes 192 bytes for the standard library's sort.
const FRAME_BYTES: usize = 256;
/// How deep functions that call themselves may go: a stable sort of random numbers stays below it up to
/// some hundred thousand of them.
const LEVELS: usize = 16;

/// The bytes of stack that a thread of this module may need, or 0 where the driver knows it.
#[must_use]
pub fn needed(ptx: &str) -> usize {
    let functions = read(ptx);
    let mut walk = Walk { functions: &functions, found: HashMap::new(), open: Vec::new() };
    let entries: Vec<_> = functions.iter().filter(|(_, function)| function.is_entry).collect();
    let needs = entries.into_iter().map(|(name, _)| walk.visit(name).need);
    needs.filter(|need| need.is_unknown).map(|need| need.bytes).max().unwrap_or(0)
}

/// A function of the text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Function<'a> {
    is_entry: bool,
    local_bytes: usize,
    /// Those that it calls by name.
    calls: Vec<&'a str>,
    calls_addresses: bool,
}

/// The functions with a body, by name.
fn read(ptx: &str) -> HashMap<&str, Function<'_>> {
    let mut functions = HashMap::new();
    let mut lines = ptx.lines();
    while let Some(line) = lines.next() {
        let line = code(line);
        let entry = line.split_once(".entry ").map(|(_, rest)| (true, rest));
        let header = entry.or_else(|| line.split_once(".func").map(|(_, rest)| (false, rest)));
        let Some((is_entry, rest)) = header.filter(|_| !line.ends_with(';')) else {
            continue;
        };
        if let Some(body) = body(&mut lines) {
            functions.insert(name(rest), Function { is_entry, ..body });
        }
    }
    functions
}

fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim()
}

/// The name behind a function's result: ` (.param .b64 result) name(`.
fn name(header: &str) -> &str {
    let header = header.trim_start();
    let rest = match header.strip_prefix('(') {
        Some(result) => result.split_once(')').map_or(result, |(_, rest)| rest),
        None => header,
    };
    rest.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or_default()
}

/// Reads on to the end of a function; nothing if it is a declaration.
fn body<'a>(lines: &mut Lines<'a>) -> Option<Function<'a>> {
    let mut function = Function::default();
    let mut depth = 0;
    for line in lines.map(code) {
        if depth == 0 && line.ends_with(';') {
            return None;
        }
        let braces = |brace: u8| line.bytes().filter(|byte| *byte == brace).count();
        depth += braces(b'{');
        depth -= braces(b'}').min(depth);
        match callee(line) {
            Some(address) if address.starts_with('%') => function.calls_addresses = true,
            Some(name) => function.calls.push(name),
            None => function.local_bytes += local_bytes(line),
        }
        if depth == 0 && line.ends_with('}') {
            return Some(function);
        }
    }
    None
}

/// What a `call` calls: a name, or a register.
fn callee(line: &str) -> Option<&str> {
    let line = match line.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace)?.1.trim_start(),
        None => line,
    };
    let rest = line.strip_prefix("call.uni").or_else(|| line.strip_prefix("call"))?.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start_matches([',', ' ', '\t']),
        None => rest,
    };
    rest.split([',', ';']).next().map(str::trim)
}

/// The size in `.local .align 8 .b8 name[size];`.
fn local_bytes(line: &str) -> usize {
    let declared = line.strip_prefix(".local ").and_then(|rest| rest.rsplit_once('['));
    declared.and_then(|(_, size)| size.split(']').next()?.trim().parse().ok()).unwrap_or(0)
}

/// What a call of a function needs, with all that it calls.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    bytes: usize,
    /// Whether only the limit says how much there is.
    is_unknown: bool,
}

/// A function that was visited: the least number, in the order of visits, that a call leads back to, and
/// what is known of its need.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    lowest: usize,
    is_open: bool,
    need: Need,
}

/// Finds the groups of functions that call one another (Tarjan's method, SIAM J. Computing 1972), those
/// that are called first.
struct Walk<'a, 'f> {
    functions: &'f HashMap<&'a str, Function<'a>>,
    found: HashMap<&'a str, Visit>,
    open: Vec<&'a str>,
}

impl<'a> Walk<'a, '_> {
    fn visit(&mut self, name: &'a str) -> Visit {
        let number = self.found.len();
        let mut visit = Visit { lowest: number, is_open: true, need: Need::default() };
        self.found.insert(name, visit);
        self.open.push(name);
        for callee in self.functions.get(name).map_or(&[][..], |function| &function.calls) {
            let called = self.found.get(callee).copied().unwrap_or_else(|| self.visit(callee));
            if called.is_open {
                visit.lowest = visit.lowest.min(called.lowest);
            }
        }
        self.found.insert(name, visit);
        if visit.lowest == number {
            self.close(name);
        }
        self.found[name]
    }

    /// The functions from `first` on are a group.
    fn close(&mut self, first: &'a str) {
        let at = self.open.iter().rposition(|name| *name == first).unwrap_or(0);
        let group = self.open.split_off(at);
        let need = self.need(&group);
        for name in group {
            let visit = self.found.entry(name).or_default();
            (visit.is_open, visit.need) = (false, need);
        }
    }

    /// The group's own frames, and the most that is called from it.
    fn need(&self, group: &[&'a str]) -> Need {
        let members = || group.iter().filter_map(|name| self.functions.get(name));
        let calls = || members().flat_map(|function| &function.calls);
        let is_recursive = calls().any(|callee| group.contains(callee));
        let levels = if is_recursive { LEVELS } else { 1 };
        let own = members().map(|function| function.local_bytes + FRAME_BYTES).sum::<usize>();
        let is_indirect = members().any(|function| function.calls_addresses);
        let others = calls().filter(|callee| !group.contains(callee));
        let others = others.map(|callee| self.found[callee].need);
        let most = others.fold(Need::default(), |most, need| Need {
            bytes: most.bytes.max(need.bytes),
            is_unknown: most.is_unknown || need.is_unknown,
        });
        Need {
            bytes: levels * own + most.bytes.max(if is_indirect { INDIRECT_BYTES } else { 0 }),
            is_unknown: is_recursive || is_indirect || most.is_unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.func  (.param .b64 func_retval0) leaf
(
\t.param .b64 leaf_param_0
)
;
.visible .entry first(
\t.param .b64 first_param_0
)
{
\t.local .align 8 .b8 \t__local_depot0[1000];
\t{ // callseq 0, 0
\tcall.uni (retval0), leaf, (param0);
\t}
\t@%p1 call.uni leaf, (param0);
}
.func  (.param .b64 func_retval0) leaf(
\t.param .b64 leaf_param_0
)
{
\t.local .align 8 .b8 \t__local_depot1[24];
\tret;
}
";

    #[test]
    fn functions_are_read() {
        let functions = read(TEXT);
        let first = Function {
            is_entry: true,
            local_bytes: 1000,
            calls: vec!["leaf"; 2],
            calls_addresses: false,
        };
        assert_eq!((functions.len(), &functions["first"]), (2, &first));
        assert_eq!((functions["leaf"].local_bytes, functions["leaf"].is_entry), (24, false));
    }

    #[test]
    fn the_driver_knows_what_has_names_and_an_end() {
        assert_eq!(needed(TEXT), 0);
        assert_eq!(needed(""), 0);
    }

    #[test]
    fn recursion_is_counted_in_levels() {
        let own = TEXT.replace("\tret;", "\tcall.uni (retval0), leaf, (param0);\n\tret;");
        assert_eq!(needed(&own), 1256 + LEVELS * 280);
        let other = ".func other(\n)\n{\n\tcall.uni leaf, (param0);\n}\n";
        let both = TEXT.replace("\tret;", "\tcall.uni other, (param0);\n\tret;") + other;
        assert_eq!(needed(&both), 1256 + LEVELS * (280 + 256));
    }

    #[test]
    fn a_call_through_an_address_may_be_any() {
        let indirect = TEXT.replace("\tret;", "\tcall (retval0), %rd1, (param0), prototype_0;");
        assert_eq!(needed(&indirect), 1256 + 280 + INDIRECT_BYTES);
        let nobody_calls = ".func unused()\n{\n\tcall %rd1, (param0), prototype_0;\n}\n";
        assert_eq!(needed(&format!("{TEXT}{nobody_calls}")), 0);
    }
}
