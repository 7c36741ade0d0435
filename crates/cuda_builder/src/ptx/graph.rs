//! Which functions and variables of a PTX text name which others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ptx_format::functions::{Function, code};

/// A function or a variable, and what it names.
#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    /// The lines of a function's header and body; the line of a variable.
    pub lines: Range<usize>,
    /// Whether it is a function with a body.
    pub is_function: bool,
    /// Whether it is where work starts, or can be called from elsewhere.
    pub is_root: bool,
    /// Whether it calls through addresses.
    pub calls_addresses: bool,
    /// The functions that it calls by name, with the lines of the calls.
    pub calls: Vec<(usize, &'a str)>,
    /// What else it names.
    pub mentions: Vec<&'a str>,
}

/// All functions with bodies and variables with values, by name.
pub(super) type Graph<'a> = HashMap<&'a str, Node<'a>>;

/// Reads the graph of a text.
pub(super) fn read<'a>(text: &'a str, functions: &[Function<'a>]) -> Graph<'a> {
    let lines: Vec<&str> = text.lines().collect();
    let mut graph: Graph<'a> = HashMap::new();
    for function in functions {
        graph.insert(function.name, function_node(&lines, function));
    }
    for (number, line) in lines.iter().enumerate() {
        if let Some((name, value)) = variable(line) {
            let mentions = words(value).collect();
            graph.insert(name, Node { lines: number..number + 1, mentions, ..Node::default() });
        }
    }
    graph
}

fn function_node<'a>(lines: &[&'a str], function: &Function<'a>) -> Node<'a> {
    let body = &function.body;
    let is_header = |line: &&str| line.contains(function.name) && line.contains(".func");
    let is_header = |line: &&str| is_header(line) || line.contains(".entry");
    let start = (0..body.start).rev().find(|at| is_header(&lines[*at])).unwrap_or(body.start);
    let mut node = Node {
        lines: start..body.end,
        is_function: true,
        is_root: function.is_entry || lines[start].starts_with(".visible"),
        ..Node::default()
    };
    for number in body.clone() {
        let line = code(lines[number]);
        match callee(line) {
            Some(name) if name.starts_with('%') => node.calls_addresses = true,
            Some(name) => node.calls.push((number, name)),
            None => node.mentions.extend(words(line)),
        }
    }
    node
}

/// What a `call` calls: a name, or a register.
fn callee(line: &str) -> Option<&str> {
    let line = line.rsplit_once("@%").map_or(line, |(_, guarded)| guarded);
    let rest = line.get(line.find("call")?..)?;
    let rest = rest.strip_prefix("call.uni").or_else(|| rest.strip_prefix("call"))?.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start_matches([',', ' ', '\t']),
        None => rest,
    };
    rest.split([',', ';']).next().map(str::trim)
}

/// The name and the value of a variable at module level that has one.
fn variable(line: &str) -> Option<(&str, &str)> {
    let line = code(line);
    let rest = line.strip_prefix(".visible").unwrap_or(line).trim_start();
    if !rest.starts_with(".global") && !rest.starts_with(".const") {
        return None;
    }
    let (header, value) = rest.split_once('=').unwrap_or((rest, ""));
    let name = header.split_whitespace().next_back()?;
    Some((name.split(['[', ';']).next()?, value))
}

/// The words of a line that could be names.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    line.split(move |c| !is_name(c)).filter(|word| word.len() > 1)
}

/// Everything that is named from `roots` on. `follow` says whether to go on from a node that is only
/// named, not called.
pub(super) fn reach<'a>(
    graph: &Graph<'a>,
    roots: impl IntoIterator<Item = &'a str>,
    stop: &str,
    follow: impl Fn(&str) -> bool,
) -> HashSet<&'a str> {
    let mut seen: HashSet<&'a str> = HashSet::new();
    let mut rest: Vec<&'a str> = roots.into_iter().collect();
    while let Some(name) = rest.pop() {
        let Some(node) = graph.get(name) else { continue };
        if !seen.insert(name) || name == stop {
            continue;
        }
        rest.extend(node.calls.iter().map(|(_, callee)| *callee));
        rest.extend(node.mentions.iter().filter(|word| follow(word)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_format::functions::scan;

    #[test]
    fn calls_and_mentions_are_told_apart() {
        let text = "\
.func never
()
.noreturn;
.global .align 8 .u64 table[1] = {never};
.visible .entry first(
.param .u64 p
)
{
mov.b64 %rd1, table;
call.uni (retval0), helper, (param0);
@%p1 call.uni never;
call (retval0), %rd1, (param0), prototype_3;
}
.func never
()
.noreturn
{
trap;
}
";
        let graph = read(text, &scan(text));
        let first = &graph["first"];
        assert_eq!(first.calls, [(9, "helper"), (10, "never")]);
        assert!(first.is_root && first.calls_addresses && first.mentions.contains(&"table"));
        assert!(!graph["never"].is_root);
        assert_eq!(graph["never"].lines, 13..19);
        assert_eq!(graph["table"].mentions, ["never"]);
        let reached = reach(&graph, ["first"], "", |_| true);
        assert!(reached.contains("table") && reached.contains("never"));
        let reached = reach(&graph, ["table"], "", |_| false);
        assert_eq!(reached, HashSet::from(["table"]));
    }
}
