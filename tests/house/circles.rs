//! Import circles: files of a crate that all need each other, directly or through others.
//!
//! A large circle is a room that can only be understood, tested or moved as a whole. The limits are what the crates
//! have today and a little more; a change that closes a large circle fails here, with the arrows of the circle.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::source::{Arrows, Module, Source, Sources, arrows, read};

/// How many files the largest circle of a crate may have: of these crates, and of all others.
const LIMITS: [(&str, usize); 3] =
    [("host", 12), ("crates/cuda_driver", 18), ("crates/emulator", 8)];
const LIMIT_OF_OTHERS: usize = 5;

/// The folders of the crates, from the workspace's root.
fn crates(root: &Path) -> Vec<String> {
    let in_crates = fs::read_dir(root.join("crates")).expect("the workspace has crates");
    let in_crates = in_crates.map(|entry| {
        let name = entry.expect("the folder can be read").file_name();
        format!("crates/{}", name.to_string_lossy())
    });
    let at_top = ["host", "kernels-gpu", "tools"].map(str::to_owned);
    let has_sources = |folder: &String| root.join(folder).join("src").is_dir();
    let mut all: Vec<_> = in_crates.chain(at_top).filter(has_sources).collect();
    all.sort();
    all
}

#[test]
fn circles_are_within_their_limits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut report = String::new();
    let mut crates_seen = 0;
    for folder in crates(root) {
        let own = LIMITS.iter().find(|(name, _)| *name == folder);
        let limit = own.map_or(LIMIT_OF_OTHERS, |(_, limit)| *limit);
        let sources = read(&root.join(&folder).join("src"));
        let arrows = arrows(&sources);
        crates_seen += 1;
        for circle in circles(&arrows).iter().filter(|circle| circle.len() > limit) {
            let size = circle.len();
            let _ = writeln!(report, "{folder}: a circle of {size} files; the limit is {limit}");
            describe(&mut report, circle, &arrows, &sources);
        }
    }
    assert!(crates_seen >= 8, "only {crates_seen} crates were found");
    assert!(report.is_empty(), "\n{report}");
}

/// Writes the circle's arrows, as files.
fn describe(report: &mut String, circle: &[Module], arrows: &Arrows, sources: &Sources) {
    for module in circle {
        for target in arrows[module].iter().filter(|target| circle.contains(target)) {
            let [from, to] = [module, target].map(|module| &sources[module].file);
            let _ = writeln!(report, "  {from} -> {to}");
        }
    }
}

/// The strongly connected components of more than one module, largest first (Tarjan, *Depth-first search and linear
/// graph algorithms*, 1972).
fn circles(arrows: &Arrows) -> Vec<Vec<Module>> {
    let mut search =
        Search { arrows, nodes: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for module in arrows.keys() {
        if !search.nodes.contains_key(module) {
            search.visit(module);
        }
    }
    let mut circles = search.found;
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

struct Search<'a> {
    arrows: &'a Arrows,
    nodes: BTreeMap<&'a Module, Node>,
    stack: Vec<&'a Module>,
    found: Vec<Vec<Module>>,
}

struct Node {
    index: usize,
    is_on_stack: bool,
}

impl<'a> Search<'a> {
    /// Visits all that `module` reaches; returns the lowest index on the stack that it reaches.
    fn visit(&mut self, module: &'a Module) -> usize {
        let index = self.nodes.len();
        self.nodes.insert(module, Node { index, is_on_stack: true });
        self.stack.push(module);
        let mut low = index;
        for target in &self.arrows[module] {
            let (target, _) = self.arrows.get_key_value(target).expect("an arrow leads to a file");
            match self.nodes.get(target) {
                None => low = low.min(self.visit(target)),
                Some(node) if node.is_on_stack => low = low.min(node.index),
                Some(_) => {}
            }
        }
        if low == index {
            self.close(module);
        }
        low
    }

    /// Takes the component whose first module is `first` from the stack.
    fn close(&mut self, first: &Module) {
        let start = self.stack.iter().rposition(|module| *module == first).expect("it was pushed");
        let mut circle: Vec<Module> = self.stack.drain(start..).cloned().collect();
        for module in &circle {
            if let Some(node) = self.nodes.get_mut(module) {
                node.is_on_stack = false;
            }
        }
        circle.sort();
        if circle.len() > 1 {
            self.found.push(circle);
        }
    }
}

/// The circles of a crate of these files.
fn of_files(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let module = |file: &str| -> Module {
        let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
    };
    let source = |&(file, text): &(&str, &str)| {
        (module(file), Source { file: file.to_owned(), text: text.to_owned() })
    };
    let sources: Sources = files.iter().map(source).collect();
    let circles = circles(&arrows(&sources));
    let names = |circle: Vec<Module>| circle.iter().map(|m| sources[m].file.clone()).collect();
    circles.into_iter().map(names).collect()
}

#[test]
fn a_planted_circle_is_found_through_reexports() {
    let files = [
        ("lib.rs", "mod a; mod b; mod room;"),
        ("a.rs", "use crate::room::Thing;"),
        ("b.rs", "fn f() { super::a::g() }"),
        ("room/mod.rs", "mod inner; pub use inner::Thing;"),
        ("room/inner.rs", "use crate::b; pub struct Thing;"),
    ];
    assert_eq!(of_files(&files), [["a.rs", "b.rs", "room/inner.rs"]]);
}

#[test]
fn trees_and_tests_make_no_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A;"),
        ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "use crate::A; pub struct B(A); // crate::c"),
        ("c.rs", "use crate::b::B;"),
    ];
    assert!(of_files(&files).is_empty());
}

#[test]
fn separate_circles_stay_separate_and_the_largest_is_first() {
    let files = [
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::a; use crate::c;"),
        ("c.rs", "use crate::d;"),
        ("d.rs", "use crate::e;"),
        ("e.rs", "use crate::c;"),
    ];
    let expected: [&[&str]; 2] = [&["c.rs", "d.rs", "e.rs"], &["a.rs", "b.rs"]];
    assert_eq!(of_files(&files), expected);
}
