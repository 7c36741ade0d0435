//! What `cuda_std::panic` leaves to the builder, since only the whole PTX shows it.
//!
//! 1. Before a call that never returns because it panics stands a call of `ferrowarp_panic_in`
//!    with the names of the kernels that can be there. It is on the cold path: it costs the rest
//!    nothing.
//! 2. `ferrowarp_formatters` becomes the table of the formatting functions whose types are known:
//!    the host formats their values.
//! 3. Where all are known, the function that formats by `core::fmt` is emptied, and so is
//!    everything that only it reached. Kernels would otherwise reserve the registers of that code.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use super::formatters;
use super::functions::{Function, scan};
use super::graph::{Graph, Node, reach, read};

/// The function that takes the names of kernels.
const ENTER: &str = "18ferrowarp_panic_in";
/// The panic handler's work.
const REPORT: &str = "5panic6device6report";
/// The function that formats by `core::fmt`.
const FORMAT: &str = "22ferrowarp_panic_format";
/// The table.
const TABLE: &str = "ferrowarp_formatters";
/// Functions and tags that the table has room for, and the zero that ends it.
const ROOM: usize = 256;
/// Bytes of names that the record has room for.
const NAMES_BYTES: usize = 256;

/// Applies all three, to a text in which something can panic.
pub(super) fn apply(text: &str) -> String {
    let functions = scan(text);
    let named = |part: &str| functions.iter().map(|f| f.name).find(|name| name.contains(part));
    let (Some(enter), Some(report)) = (named(ENTER), named(REPORT)) else {
        return text.to_owned();
    };
    let graph = read(text, &functions);
    let Some(table) = graph.get(TABLE) else { return text.to_owned() };
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = Edits::default();
    let mut before = format!("{}\n", declaration(&lines, &graph[enter]));
    names(&lines, &functions, &graph, (enter, report), &mut edits, &mut before);
    before.push_str(&table_text(&lines, &graph));
    edits.replaced.insert(table.lines.start, before);
    if let Some(format) = named(FORMAT) {
        empty(&functions, &graph, format, &mut edits);
    }
    edits.apply(&lines)
}

/// Changes, by line.
#[derive(Default)]
struct Edits {
    replaced: BTreeMap<usize, String>,
    inserted: BTreeMap<usize, String>,
    removed: HashSet<usize>,
}

impl Edits {
    fn apply(&self, lines: &[&str]) -> String {
        let mut out = String::new();
        for (number, line) in lines.iter().enumerate() {
            match self.replaced.get(&number) {
                Some(other) => out.push_str(other),
                None if self.removed.contains(&number) => {}
                None => {
                    out.push_str(self.inserted.get(&number).map_or("", String::as_str));
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        out
    }
}

// ---- names

/// Writes the calls of `enter`, and the texts that they pass.
fn names<'a>(
    lines: &[&str],
    functions: &[Function<'a>],
    graph: &Graph<'a>,
    (enter, report): (&str, &str),
    edits: &mut Edits,
    texts: &mut String,
) {
    let entries: Vec<_> = functions.iter().filter(|f| f.is_entry).map(|f| f.name).collect();
    let reached: Vec<_> =
        entries.iter().map(|entry| (*entry, reach(graph, [*entry], "", |_| true))).collect();
    let panics = callers(graph, report);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for function in functions {
        let node = &graph[function.name];
        let here = reached.iter().filter(|(_, all)| all.contains(function.name));
        let here = here.map(|(entry, _)| *entry).collect::<Vec<_>>().join(" ");
        if node.is_noreturn || here.is_empty() || here.len() > NAMES_BYTES {
            continue;
        }
        for (line, callee) in &node.calls {
            let ends = graph.get(callee).is_some_and(|node| node.is_noreturn);
            if ends && panics.contains(callee) {
                let next = known.len();
                let number = *known.entry(here.clone()).or_insert(next);
                let at = (0..*line).rev().find(|at| lines[*at].trim_start().starts_with('{'));
                edits.inserted.insert(at.unwrap_or(*line), call(enter, number, here.len()));
            }
        }
    }
    for (names, number) in known {
        let bytes: Vec<_> = names.bytes().map(|byte| byte.to_string()).collect();
        let (len, bytes) = (bytes.len(), bytes.join(", "));
        let _ =
            writeln!(texts, ".global .align 1 .b8 ferrowarp_names_{number}[{len}] = {{{bytes}}};");
    }
}

fn call(enter: &str, number: usize, len: usize) -> String {
    format!(
        "\t{{ // names\n\t.reg .b64 %fw;\n\t.param .b64 names;\n\t.param .b64 len;\n\
         \tmov.b64 %fw, ferrowarp_names_{number};\n\tcvta.global.u64 %fw, %fw;\n\
         \tst.param.b64 [names], %fw;\n\tst.param.b64 [len], {len};\n\
         \tcall.uni {enter}, (names, len);\n\t}} // names\n"
    )
}

/// The functions from which calls by name lead to `to`, itself among them.
fn callers<'a>(graph: &Graph<'a>, to: &str) -> HashSet<&'a str> {
    let mut found: HashSet<&str> = HashSet::new();
    loop {
        let before = found.len();
        for (name, node) in graph {
            let leads = |callee: &str| callee == to || found.contains(callee);
            if *name == to || node.calls.iter().any(|(_, callee)| leads(callee)) {
                found.insert(name);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

// ---- the table

fn table_text(lines: &[&str], graph: &Graph<'_>) -> String {
    let mut known: Vec<_> = graph
        .iter()
        .filter(|(_, node)| node.is_function)
        .filter_map(|(name, node)| Some((*name, formatters::tag(name)?, node)))
        .collect();
    known.sort_by_key(|(name, ..)| *name);
    known.truncate(ROOM / 2 - 1);
    let mut text = String::new();
    for (.., node) in &known {
        text.push_str(&declaration(lines, node));
        text.push('\n');
    }
    let mut values: Vec<_> = known.iter().map(|(name, tag, _)| format!("{name}, {tag}")).collect();
    values.push("0".to_owned());
    let values = values.join(", ");
    let _ = writeln!(text, ".visible .global .align 8 .u64 {TABLE}[{ROOM}] = {{{values}}};");
    text
}

/// A function's header as a declaration.
fn declaration(lines: &[&str], node: &Node<'_>) -> String {
    let header = &lines[node.lines.clone()];
    let end = header.iter().position(|line| line.trim_start().starts_with('{'));
    let header = header[..end.unwrap_or(0)].iter().map(|line| super::functions::code(line));
    format!("{};", header.collect::<Vec<_>>().join("\n"))
}

// ---- what is not needed

/// Empties `format` and all that only it needs, where nothing needs `format`.
fn empty<'a>(functions: &[Function<'a>], graph: &Graph<'a>, format: &str, edits: &mut Edits) {
    let roots = || functions.iter().map(|f| f.name).filter(|name| graph[name].is_root);
    let is_known = |name: &str| formatters::tag(name).is_some();
    // The table names all known ones; they count as used where something else calls them.
    let live = reach(graph, roots(), format, |name| !is_known(name));
    let needs = |name: &&str| formatters::is_any(name) && !is_known(name);
    if live.iter().any(needs) {
        return;
    }
    let calls = |name: &&&str| **name != format && graph[*name].calls_addresses;
    let live = match live.iter().find(calls) {
        Some(_) => reach(graph, roots(), format, |_| true),
        None => live,
    };
    for function in functions.iter().filter(|f| !f.is_entry) {
        if function.name == format || !live.contains(function.name) {
            let body = function.body.clone();
            let end = if function.name == format { "ret" } else { "trap" };
            edits.replaced.insert(body.start, format!("{{\n\t{end};\n}}\n"));
            edits.removed.extend(body.skip(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USIZE: &str = "_RNvXsi_NtNtNtCsgMd4vzsDXWs_4core3fmt3num3impjNtB9_7Display3fmt";

    /// A module whose kernels `first` and `second` panic, the second through `helper` too, and whose
    /// message has a value that `value` formats.
    fn module(value: &str) -> String {
        format!(
            "\
.visible .global .align 8 .b8 ferrowarp_formatters[2048];
.visible .entry first(
)
{{
\t{{ // callseq 0, 0
\t.param .b64 param0;
\tcall.uni bounds, (param0);
\t}} // callseq 0
}}
.visible .entry second(
)
{{
\tcall.uni helper;
}}
.func helper()
{{
\t{{ // callseq 1, 0
\tcall.uni bounds, (param0);
\t}}
\tret;
}}
.func bounds(
\t.param .b64 bounds_param_0
)
.noreturn
{{
\tmov.b64 %rd1, {value};
\tcall.uni _R5panic6device6report, (param0);
}}
.func _R5panic6device6report(
\t.param .b64 report_param_0
)
.noreturn
{{
\tmov.b64 %rd1, _R18ferrowarp_panic_in;
\tcall.uni _R22ferrowarp_panic_format, (param0);
\tmov.b64 %rd2, ferrowarp_formatters;
}}
.func _R18ferrowarp_panic_in(
\t.param .b64 in_param_0
)
{{
\tret;
}}
.func _R22ferrowarp_panic_format(
\t.param .b64 format_param_0
)
{{
\tcall.uni write;
\tret;
}}
.func write()
{{
\tcall (retval0), %rd1, (param0), prototype_0;
\tret;
}}
.func  (.param .b32 func_retval0) {value}(
\t.param .b64 {value}_param_0
)
{{
\tbody;
\tret;
}}
"
        )
    }

    #[test]
    fn a_panic_is_told_which_kernels_can_be_there() {
        let text = apply(&module(USIZE));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
        let names: Vec<_> = "first".bytes().map(|byte| byte.to_string()).collect();
        assert!(text.contains(&format!("[5] = {{{}}};", names.join(", "))), "{text}");
        assert!(at("call.uni _R18ferrowarp_panic_in, (names, len);") < at("// callseq 0, 0"));
        assert_eq!(text.matches("call.uni _R18ferrowarp_panic_in").count(), 2);
        let names: Vec<_> = "second".bytes().map(|byte| byte.to_string()).collect();
        assert!(text.contains(&names.join(", ")), "{text}");
    }

    #[test]
    fn where_all_is_known_nothing_is_formatted_on_the_device() {
        let text = apply(&module(USIZE));
        let tag = u64::from(b'j') | 8 << 24;
        assert!(text.contains(&format!("ferrowarp_formatters[256] = {{{USIZE}, {tag}, 0}};")));
        assert!(!text.contains("prototype_0") && !text.contains("body;"), "{text}");
        assert!(text.contains(".func write()\n{\n\ttrap;\n}"), "{text}");
        let format = "_R22ferrowarp_panic_format(\n\t.param .b64 format_param_0\n)\n{\n\tret;\n}";
        assert!(text.contains(format), "{text}");
    }

    #[test]
    fn a_value_of_an_own_type_keeps_the_formatting_code() {
        let text = apply(&module("_RNvXCs1_4mineNtB2_5PointNtNtCs2_4core3fmt5Debug3fmt"));
        assert!(text.contains("prototype_0") && text.contains("body;"), "{text}");
        assert!(text.contains("ferrowarp_formatters[256] = {0};"), "{text}");
    }

    #[test]
    fn text_without_panics_is_unchanged() {
        let text = ".visible .entry gemm()\n{\n\tret;\n}\n";
        assert_eq!(apply(text), text);
    }
}
