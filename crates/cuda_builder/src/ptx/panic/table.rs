//! What `cuda_std::panic` leaves to the builder, since only the whole PTX shows it.
//!
//! 1. `ferrowarp_known` becomes the table of what the panic handler asks about addresses: for a place in the
//!    source, which kernels can be there; for a template, its length and how many values it has; for a
//!    formatting function, the type whose values the host formats.
//! 2. Where the types of all values are known, the function that formats by `core::fmt` is emptied, and so is
//!    everything that only it reached. Kernels would otherwise reserve the registers of that code.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;

use super::formatters;
use super::symbols::named;
use super::templates;
use crate::ptx::graph::{Graph, Node, reach, read};
use crate::ptx::line_edits::{Edits, call};
use ptx_format::functions::{Function, code, scan};
use ptx_format::panic::{FORMAT, REPORT};

/// The table.
const TABLE: &str = "ferrowarp_known";
/// What begins the names of the compiler's constants.
const CONSTANT: &str = "anon_$_";
/// What stands behind a place in the source, before the names of the kernels that can be there.
const KERNELS: &str = "// ferrowarp.kernels";

/// Applies both, to a text in which something can panic.
pub(in crate::ptx) fn apply(text: &str) -> String {
    let functions = scan(text);
    let (Some(first), Some(_)) = (functions.first(), named(&functions, REPORT)) else {
        return text.to_owned();
    };
    let graph = read(text, &functions);
    let Some(table) = graph.get(TABLE) else { return text.to_owned() };
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = Edits::default();
    let dead = named(&functions, FORMAT)
        .map(|format| empty(&functions, &graph, &lines, format, &mut edits))
        .unwrap_or_default();
    let live: Vec<_> = functions.iter().filter(|own| !dead.contains(own.name)).collect();
    let mut known = Known::default();
    known.formatters(&lines, &graph);
    known.templates(&lines, &mut edits);
    known.places(&lines, &live, &graph, &mut edits);
    edits.removed.insert(table.lines.start);
    edits.inserted.insert(graph[first.name].lines.start, known.text());
    edits.apply(&lines)
}

// ---- the table

/// The table, and what must stand before it.
#[derive(Default)]
struct Known {
    before: String,
    /// An address and a word each.
    entries: Vec<String>,
}

impl Known {
    fn add(&mut self, address: &str, word: u64) {
        self.entries.push(format!("{address}, {word}"));
    }

    /// The declarations and the definition. The last entry stands for what is not known.
    fn text(mut self) -> String {
        self.add(&u64::MAX.to_string(), 0);
        let (words, values) = (2 * self.entries.len(), self.entries.join(", "));
        format!("{}.visible .global .align 8 .u64 {TABLE}[{words}] = {{{values}}};\n", self.before)
    }

    fn formatters(&mut self, lines: &[&str], graph: &Graph<'_>) {
        let known = graph.iter().filter(|(_, node)| node.is_function);
        let known = known.filter_map(|(name, node)| Some((*name, formatters::tag(name)?, node)));
        let known: BTreeMap<_, _> = known.map(|(name, tag, node)| (name, (tag, node))).collect();
        for (name, (tag, node)) in known {
            let _infallible = writeln!(self.before, "{}", declaration(lines, node));
            self.add(name, tag);
        }
    }

    /// The templates; behind each comes its text for the driver, and a zero. Counts have no formatting function.
    fn templates(&mut self, lines: &[&str], edits: &mut Edits) {
        let mut has_counts = false;
        for (number, line) in lines.iter().enumerate() {
            let Some((name, values)) = constant(line, ".b8") else { continue };
            let Some(template) = bytes(&values).and_then(|bytes| templates::read(&bytes)) else {
                continue;
            };
            let all = values.iter().map(|value| (*value).to_owned());
            let all: Vec<_> =
                all.chain(template.text.iter().map(|byte| byte.to_string())).collect();
            let (head, _) = line.split_once('[').unwrap_or_default();
            let (len, bytes) = (all.len() + 1, all.join(", "));
            edits.replaced.insert(number, format!("{head}[{len}] = {{{bytes}}};\n"));
            self.add(
                &format!("generic({name})"),
                template.values as u64 | (values.len() as u64) << 32,
            );
            has_counts |= template.has_counts;
        }
        if has_counts {
            self.add("0", u64::from(b'#') | 2 << 24);
        }
    }

    /// The places in the source, each with the kernels that reach a function which names it. Where functions
    /// of different kernels name one, each gets a place of its own.
    fn places<'a>(
        &mut self,
        lines: &[&'a str],
        functions: &[&Function<'a>],
        graph: &Graph<'a>,
        edits: &mut Edits,
    ) {
        let places = lines.iter().enumerate();
        let places: HashMap<&str, usize> =
            places.filter_map(|(number, line)| Some((place(line)?, number))).collect();
        for (line, users) in users(functions, graph, &places) {
            let place = place(lines[line]).unwrap_or_default();
            for (number, (kernels, functions)) in users.into_iter().enumerate() {
                let name =
                    if number == 0 { place.to_owned() } else { format!("{place}_in_{number}") };
                let own = with_name(code(lines[line]), place, &name);
                let own = format!("{own} {KERNELS} {kernels}\n");
                if number == 0 {
                    edits.replaced.insert(line, own);
                } else {
                    self.before.push_str(&own);
                    functions.iter().for_each(|own| rename(edits, lines, own, place, &name));
                }
                self.add(&format!("generic({name})"), 0);
            }
        }
    }
}

/// For each line of a place, the functions that name it, by the names of the kernels that reach them.
fn users<'a, 'b>(
    functions: &[&'b Function<'a>],
    graph: &Graph<'a>,
    places: &HashMap<&str, usize>,
) -> BTreeMap<usize, BTreeMap<String, Vec<&'b Function<'a>>>> {
    let entries = functions.iter().filter(|f| f.is_entry).map(|f| f.name);
    let reached: Vec<_> =
        entries.map(|entry| (entry, reach(graph, [entry], "", |_| true))).collect();
    let mut found: BTreeMap<usize, BTreeMap<String, Vec<_>>> = BTreeMap::new();
    for &function in functions {
        let named: BTreeSet<_> =
            graph[function.name].mentions.iter().filter_map(|name| places.get(name)).collect();
        let here = reached.iter().filter(|(_, all)| all.contains(function.name));
        let here = here.map(|(entry, _)| *entry).collect::<Vec<_>>().join(" ");
        for line in named {
            found.entry(*line).or_default().entry(here.clone()).or_default().push(function);
        }
    }
    found
}

/// The name and the values of a constant of the compiler's own whose elements have that type.
fn constant<'a>(line: &'a str, element: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (head, values) = code(line).strip_prefix(".global")?.split_once("= {")?;
    let mut words = head.split_whitespace().rev();
    let (name, len) = words.next()?.strip_suffix(']')?.split_once('[')?;
    if words.next()? != element || !name.starts_with(CONSTANT) {
        return None;
    }
    let mut values: Vec<&str> = values.split('}').next()?.split(", ").collect();
    // What is left out at the end is zero.
    values.resize(len.parse().ok()?, "0");
    Some((name, values))
}

fn bytes(values: &[&str]) -> Option<Vec<u8>> {
    values.iter().map(|value| value.parse().ok()).collect()
}

/// The name of a constant that is a place in the source, or looks like one: the address and the length of a text,
/// a line and a column.
fn place(line: &str) -> Option<&str> {
    let (name, values) = constant(line, ".u64")?;
    let &[file, len, at] = &values[..] else { return None };
    let (len, at): (u64, u64) = (len.parse().ok()?, at.parse().ok()?);
    let is_place = file.starts_with("generic(") && len > 0 && at as u32 > 0 && at >> 32 > 0;
    is_place.then_some(name)
}

/// Gives a name another one in a function's body.
fn rename(edits: &mut Edits, lines: &[&str], function: &Function<'_>, name: &str, other: &str) {
    for number in function.body.clone().filter(|number| lines[*number].contains(name)) {
        let line = edits.replaced.get(&number).map_or(lines[number], |line| line.trim_end());
        let renamed = with_name(line, name, other) + "\n";
        edits.replaced.insert(number, renamed);
    }
}

/// A line in which a name has become another one.
fn with_name(line: &str, name: &str, other: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(name) {
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        let is_whole = !before.ends_with(is_name) && !behind.starts_with(is_name);
        out.push_str(before);
        out.push_str(if is_whole { other } else { name });
        rest = behind;
    }
    out + rest
}

/// A function's header as a declaration.
fn declaration(lines: &[&str], node: &Node<'_>) -> String {
    let header = &lines[node.lines.clone()];
    let end = header.iter().position(|line| line.trim_start().starts_with('{'));
    let header = header[..end.unwrap_or(0)].iter().map(|line| code(line));
    format!("{};", header.collect::<Vec<_>>().join("\n"))
}

// ---- what is not needed

/// Empties `format` and all that only it needs, where nothing needs `format`. Returns what was emptied.
fn empty<'a>(
    functions: &[Function<'a>],
    graph: &Graph<'a>,
    lines: &[&str],
    format: &str,
    edits: &mut Edits,
) -> HashSet<&'a str> {
    let roots = || functions.iter().map(|f| f.name).filter(|name| graph[name].is_root);
    let is_known = |name: &str| formatters::tag(name).is_some();
    // The table names all known ones; they count as used where something else calls them.
    let live = reach(graph, roots(), format, |name| !is_known(name));
    let needs = |name: &&str| formatters::is_any(name) && !is_known(name);
    if live.iter().any(needs) {
        return HashSet::new();
    }
    let calls = |name: &&&str| **name != format && graph[*name].calls_addresses;
    let live = match live.iter().find(calls) {
        Some(_) => reach(graph, roots(), format, |_| true),
        None => live,
    };
    let is_dead = |f: &&Function<'_>| f.name == format || !live.contains(f.name);
    let dead: Vec<_> = functions.iter().filter(|f| !f.is_entry).filter(is_dead).collect();
    for function in &dead {
        let body = function.body.clone();
        edits.replaced.insert(body.start, "{\n\ttrap;\n}\n".to_owned());
        edits.removed.extend(body.skip(1));
    }
    let calls = functions.iter().flat_map(|function| &graph[function.name].calls);
    for (line, _) in calls.filter(|(_, callee)| *callee == format) {
        edits.removed.extend(call(lines, *line));
    }
    dead.iter().map(|function| function.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USIZE: &str = "_RNvXsi_NtNtNtCs608T3D0IEsA_4core3fmt3num3impjNtB9_7Display3fmt";

    /// A module whose kernels `first` and `second` panic, the second through `helper` too, and whose
    /// message has a value that `value` formats.
    fn module(value: &str) -> String {
        format!(
            "\
.visible .global .align 8 .u64 ferrowarp_known[2] = {{18446744073709551615, 0}};
.global .align 1 .b8 anon_$_5_$_0[5] = {{97, 46, 114, 115}};
.global .align 8 .u64 anon_$_5_$_1[3] = {{generic(anon_$_5_$_0), 4, 12884901890}};
.global .align 8 .u64 anon_$_5_$_11[3] = {{generic(anon_$_5_$_0), 4, 12884901899}};
.global .align 1 .b8 anon_$_5_$_2[5] = {{2, 97, 32, 192}};
.visible .entry first(
)
{{
\tmov.b64 \t%rd1, anon_$_5_$_1;
\tcall.uni bounds, (param0);
}}
.visible .entry second(
)
{{
\tmov.b64 \t%rd1, anon_$_5_$_1;
\tcall.uni helper;
}}
.func helper()
{{
\tmov.b64 \t%rd1, anon_$_5_$_11;
\tcall.uni bounds, (param0);
\tret;
}}
.func bounds(
\t.param .b64 bounds_param_0
)
.noreturn
{{
\tmov.b64 %rd1, {value};
\tmov.b64 %rd1, anon_$_5_$_2;
\tcall.uni _R5panic6device6report, (param0);
}}
.func _R5panic6device6report(
\t.param .b64 report_param_0
)
.noreturn
{{
\tmov.b64 %rd2, ferrowarp_known;
\t{{ // callseq 3, 0
\tcall.uni _R22ferrowarp_panic_format, (param0);
\t}} // callseq 3
\texit;
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

    /// The body of a function of a text.
    fn body<'a>(text: &'a str, name: &str) -> &'a str {
        let (_, rest) = text.split_once(&format!("{name}(\n")).expect(name);
        rest.split("\n}\n").next().expect("it ends")
    }

    #[test]
    fn a_place_has_the_kernels_that_can_be_there() {
        let text = apply(&module(USIZE));
        let table = "ferrowarp_known[12] = {";
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
        assert!(at("anon_$_5_$_11[3]") < at(table) && at(table) < at(".entry first"), "{text}");
        assert_eq!(text.matches(" ferrowarp_known[").count(), 1);
        for (place, column, kernel) in [
            ("anon_$_5_$_1", 12884901890u64, "first"),
            ("anon_$_5_$_1_in_1", 12884901890, "second"),
            ("anon_$_5_$_11", 12884901899, "second"),
        ] {
            let line = format!(
                ".u64 {place}[3] = {{generic(anon_$_5_$_0), 4, {column}}}; // ferrowarp.kernels {kernel}\n"
            );
            assert!(at(&line) < at(&format!(", generic({place}), 0, ")), "{text}");
        }
    }

    #[test]
    fn a_place_in_code_of_two_kernels_becomes_two() {
        let text = apply(&module(USIZE));
        assert_eq!(text.matches("anon_$_5_$_1_in_1[3] = ").count(), 1, "{text}");
        assert!(body(&text, ".entry first").contains("%rd1, anon_$_5_$_1;\n"), "{text}");
        assert!(body(&text, ".entry second").contains("\tmov.b64 \t%rd1, anon_$_5_$_1_in_1;\n"));
        assert_eq!(text.matches("anon_$_5_$_11;\n").count(), 1, "{text}");
    }

    #[test]
    fn a_template_is_known_by_its_values_and_has_a_text_for_the_driver() {
        let text = apply(&module(USIZE));
        let known = format!(", generic(anon_$_5_$_2), {}, ", 1 | 5u64 << 32);
        assert!(text.contains(&known), "{text}");
        let bytes = "anon_$_5_$_2[10] = {2, 97, 32, 192, 0, 97, 32, 123, 125};\n";
        assert!(text.contains(bytes), "{text}");
        assert!(!text.contains("generic(anon_$_5_$_0), 0"), "a file's name is no template: {text}");
    }

    #[test]
    fn where_all_is_known_nothing_is_formatted_on_the_device() {
        let text = apply(&module(USIZE));
        let tag = u64::from(b'j') | 8 << 24;
        assert!(text.contains(&format!("{{{USIZE}, {tag}, ")), "{text}");
        assert!(text.contains(", 18446744073709551615, 0};"), "{text}");
        assert!(!text.contains("prototype_0") && !text.contains("body;"), "{text}");
        assert!(text.contains(".func write()\n{\n\ttrap;\n}"), "{text}");
        let report = body(&text, "_R5panic6device6report");
        assert!(report.ends_with("ferrowarp_known;\n\texit;"), "{text}");
    }

    #[test]
    fn a_value_of_an_own_type_keeps_the_formatting_code() {
        let text = apply(&module("_RNvXCs1_4mineNtB2_5PointNtNtCs2_4core3fmt5Debug3fmt"));
        assert!(text.contains("prototype_0") && text.contains("body;"), "{text}");
        assert!(text.contains("{generic(anon_$_5_$_2), "), "{text}");
    }

    #[test]
    fn text_without_panics_is_unchanged() {
        let text = ".visible .entry gemm()\n{\n\tret;\n}\n";
        assert_eq!(apply(text), text);
    }

    #[test]
    fn a_name_within_another_one_stays() {
        assert_eq!(with_name("a_$_1, a_$_11, a_$_1;", "a_$_1", "b"), "b, a_$_11, b;");
    }
}
