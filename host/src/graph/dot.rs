//! Graphs as pictures, in Graphviz's language.

use std::fmt::Write;

use super::operation::Operation;
use super::replay::Node;

/// All nodes, and an arrow from each to those that come directly after it.
pub(super) fn write(nodes: &[Node], before: &[Vec<usize>]) -> String {
    let mut text = String::from("digraph {\n    node [shape=box];\n");
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !node.is_removed()) {
        let (name, what) = (escaped(&node.info.name), escaped(&describe(&node.work)));
        // Writing to a string does not fail.
        let _ = writeln!(text, "    n{at} [label=\"{name}\\n{what}\"];");
    }
    for (at, before) in before.iter().enumerate() {
        for earlier in before {
            let _ = writeln!(text, "    n{earlier} -> n{at};");
        }
    }
    text + "}\n"
}

fn describe(work: &Operation) -> String {
    match work {
        Operation::Nothing => "nothing".to_owned(),
        Operation::Kernel(kernel) => {
            let ((x, y, z), (a, b, c)) = (kernel.config.grid, kernel.config.block);
            format!("{} of {x}×{y}×{z} blocks of {a}×{b}×{c}", kernel.kernel.name)
        }
        Operation::Copy(copy) => format!("copies {} bytes", copy.to.bytes()),
        Operation::Fill(fill) => format!("fills {} bytes", fill.to.bytes()),
        Operation::Host(_) => "calls the host".to_owned(),
        Operation::Foreign(work) => format!("{} nodes of others", work.len()),
        Operation::Child(child) => format!("a graph of {} nodes", child.len()),
    }
}

/// Text within quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
