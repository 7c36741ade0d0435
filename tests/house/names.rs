//! Names that users of other stacks look for: each is a name, or an alias (`#[doc(alias = "…")]`), that the search of the
//! documentation finds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of rust-cuda, cuda-oxide, cudarc, CUB and Thrust.
const NAMES: &[&str] = &[
    // memory
    "DeviceArray",
    "DeviceVec",
    "DeviceBox",
    "DeviceBuffer",
    "UnifiedBox",
    "UnifiedBuffer",
    "HostAllocator",
    "UnifiedAllocator",
    "PooledBuffer",
    "acquire",
    "Aligned",
    "is_aligned_to",
    "MemoryVisibility",
    "detect",
    "is_wsl2",
    "HostRef",
    "HostRefMut",
    "global",
    "out_of_core",
    // launches and kernels
    "for_num_elems",
    "block_size",
    "from_ptx",
    "get_function",
    "DeviceOperation",
    "then",
    "zip",
    "join_all",
    "Functor",
    "get_unchecked_mut",
    "SharedArray",
    "UNINIT",
    "DynamicSharedArray",
    "offset",
    "DisjointSlice",
    // running
    "send",
    "recv",
    "flush_to_device",
    "RingMessage",
    "K2K",
    "Telemetry",
    "HotModule",
    "compare",
    "optimize",
];

/// Every name that follows `pub fn`, `pub struct` and so on, and every alias, in a folder's Rust files.
fn found(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            text.lines().for_each(|line| names_of(line, names));
        }
    }
}

fn names_of(line: &str, names: &mut BTreeSet<String>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (_, rest) in
        line.match_indices("alias = \"").map(|(at, found)| line.split_at(at + found.len()))
    {
        names.extend(rest.split('"').next().map(str::to_owned));
    }
    let words: Vec<&str> =
        line.split(|c: char| !is_name(c)).filter(|word| !word.is_empty()).collect();
    let kinds = ["fn", "struct", "union", "trait", "enum", "type", "const", "mod"];
    for pair in words.windows(2).filter(|pair| kinds.contains(&pair[0])) {
        names.insert(pair[1].to_owned());
    }
}

#[test]
fn names_that_users_look_for_are_found_by_the_documentations_search() {
    let (root, mut names) = (Path::new(env!("CARGO_MANIFEST_DIR")), BTreeSet::new());
    for folder in
        ["host/src", "kernels-gpu/src", "crates/cuda_std/src", "crates/cuda_std_macros/src"]
    {
        found(&root.join(folder), &mut names);
    }
    let missing: Vec<_> = NAMES.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "neither a name nor an alias: {missing:?}");
}
