//! The panic handler, in which nothing may panic, since such a panic could not be reported. In a build with checks the compiler puts panics
//! there all the same, where an address is null or a sum overflows, and the handler would call itself. That is more
//! code than the handler, and `ptxas` 13.0 crashes at it.

use super::symbols::named;
use crate::ptx::graph::{Graph, reach, read};
use crate::ptx::line_edits::{Edits, call};
use ptx_format::functions::scan;
use ptx_format::panic::{FORMAT, REPORT};

/// The text with a trap in place of each panic of the handler.
pub(in crate::ptx) fn apply(text: &str) -> String {
    let functions = scan(text);
    let Some(report) = named(&functions, REPORT) else { return text.to_owned() };
    let graph = read(text, &functions);
    let lines: Vec<&str> = text.lines().collect();
    let roots = functions.iter().map(|own| own.name).filter(|name| graph[name].is_root);
    let elsewhere = reach(&graph, roots, report, |_| true);
    let format = named(&functions, FORMAT).unwrap_or_default();
    let handler = reach(&graph, [report], format, |_| false);
    let is_its_own = |name: &&str| *name != format && !elsewhere.contains(name);
    let own = handler.into_iter().filter(|name| *name == report || is_its_own(name));
    let mut edits = Edits::default();
    for (line, callee) in own.flat_map(|name| &graph[name].calls) {
        if panics(&graph, &lines, callee, report) {
            let whole = call(&lines, *line);
            edits.replaced.insert(*whole.start(), "\ttrap;\n".to_owned());
            edits.removed.extend(whole.skip(1));
        }
    }
    edits.apply(&lines)
}

/// Whether a function does nothing but panic.
fn panics(graph: &Graph<'_>, lines: &[&str], function: &str, report: &str) -> bool {
    let Some(node) = graph.get(function) else { return false };
    let header = lines[node.lines.clone()].iter().take_while(|line| !line.starts_with('{'));
    header.copied().any(|line| line.trim() == ".noreturn")
        && reach(graph, [function], "", |_| false).contains(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module whose kernel panics. `checked` is what the handler calls, with and without a return.
    const TEXT: &str = "\
.visible .entry first()
{
\t{ // callseq 0, 0
\tcall.uni bounds, (param0);
\t} // callseq 0
\tcall.uni checked;
}
.func checked()
{
\t{ // callseq 1, 0
\tcall.uni bounds, (param0);
\t} // callseq 1
\tret;
}
.func own()
{
\t{ // callseq 2, 0
\t.param .b64 param0;
\tcall.uni bounds, (param0);
\t} // callseq 2
\tret;
}
.func bounds(
\t.param .b64 bounds_param_0
)
.noreturn
{
\t{ // callseq 3, 0
\tcall.uni _R5panic6device6report, (param0);
\t} // callseq 3
}
.func _R5panic6device6report(
\t.param .b64 report_param_0
)
.noreturn
{
\tcall.uni checked;
\tcall.uni own;
\t{ // callseq 4, 0
\t.param .b64 param0;
\tcall.uni bounds, (param0);
\t} // callseq 4
\t{ // callseq 5, 0
\tcall.uni _R22ferrowarp_panic_format, (param0);
\t} // callseq 5
\tcall.uni ferrowarp_panic_exit;
}
.func _R22ferrowarp_panic_format(
\t.param .b64 format_param_0
)
{
\t{ // callseq 6, 0
\tcall.uni bounds, (param0);
\t} // callseq 6
\tret;
}
.visible .func ferrowarp_panic_exit()
.noreturn
{
\texit;
}
";

    #[test]
    fn what_only_the_handler_calls_traps_in_place_of_a_panic() {
        let bounds = |number| {
            format!(
                "{{ // callseq {number}, 0\n\t.param .b64 param0;\n\tcall.uni bounds, (param0);\n\t}} // callseq {number}"
            )
        };
        let expected = TEXT.replace(&bounds(2), "trap;").replace(&bounds(4), "trap;");
        assert_eq!(expected.matches("\ttrap;\n").count(), 2);
        assert_eq!(apply(TEXT), expected);
        assert_eq!(apply(&expected), expected);
    }

    #[test]
    fn a_text_without_the_handler_stays() {
        let text = TEXT.replace("5panic6device6report", "5panic6device4none");
        assert_eq!(apply(&text), text);
    }
}
