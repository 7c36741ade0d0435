//! What the compiler makes of shared memory and of a block's collectives: accesses by the right instructions,
//! items in registers, and each barrier once.

use std::collections::{BTreeMap, BTreeSet};

use ferrowarp::module::Image;

static SHARED: &[Image] = ferrowarp::include_kernels!("shared.rs");
static BLOCK: &[Image] = ferrowarp::include_kernels!("block.rs");

/// The kernels of a module, by name: their lines from the header on.
fn kernels(images: &[Image]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut kernels = BTreeMap::new();
    let mut current = None;
    for line in images[0].ptx().lines() {
        if let Some((_, header)) = line.split_once(".entry ") {
            current = header.split('(').next();
        }
        if let Some(name) = current {
            kernels.entry(name).or_insert_with(Vec::new).push(line.trim());
        }
        if line == "}" {
            current = None;
        }
    }
    kernels
}

/// The opcode of a line's instruction, behind its guard.
fn opcode(line: &str) -> &str {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with('@'));
    words.next().unwrap_or_default().trim_end_matches(';')
}

/// Whether it loads or stores without saying in which memory.
fn is_generic(opcode: &str) -> bool {
    let mut parts = opcode.split('.');
    let is_access = matches!(parts.next(), Some("ld" | "st" | "atom" | "red"));
    let spaces = ["global", "shared", "shared::cta", "shared::cluster", "local", "param", "const"];
    is_access && !parts.any(|part| spaces.contains(&part))
}

/// The numbers of the files whose names contain `part`.
fn files(images: &[Image], part: &str) -> BTreeSet<&'static str> {
    let lines = images[0].ptx().lines().filter_map(|line| line.trim().strip_prefix(".file"));
    let named = lines.filter(|line| line.contains(part));
    named.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn every_access_says_its_memory() {
    let mut shared = 0;
    for images in [SHARED, BLOCK] {
        for (name, lines) in kernels(images) {
            for line in lines {
                assert!(!is_generic(opcode(line)), "{name}: {line}");
                shared += usize::from(opcode(line).starts_with("ld.shared"));
            }
        }
    }
    assert!(shared > 500, "{shared} loads of shared memory are few");
    assert!(is_generic("ld.b32") && is_generic("st.v2.f32") && is_generic("atom.add.u32"));
    assert!(!is_generic("ld.shared.b32") && !is_generic("ldmatrix.sync"));
}

#[test]
fn the_safe_forms_of_shared_memory_need_no_local_memory() {
    for (name, lines) in kernels(SHARED) {
        let local = lines.iter().find(|line| line.contains(".local"));
        assert!(local.is_none(), "{name}: {local:?}");
    }
}

/// A kernel here may index its own items by a loop's counter, and so have them in memory; the library does not.
#[test]
fn items_of_a_collective_stay_in_registers() {
    let library = files(BLOCK, "cuda_std/src/block/");
    assert!(library.len() > 5, "the module says where its lines come from: {library:?}");
    for (name, lines) in kernels(BLOCK) {
        let mut file = "";
        for line in lines {
            let place = line.strip_prefix(".loc").and_then(|rest| rest.split_whitespace().next());
            file = place.unwrap_or(file);
            let is_local = opcode(line).contains(".local");
            let stores = is_local && opcode(line).starts_with("st");
            assert!(!(stores && library.contains(file)), "{name}: {line}");
        }
    }
}

#[test]
fn each_barrier_stands_once() {
    let barriers = |lines: &[&str]| {
        let is_barrier = |line: &&&str| opcode(line).starts_with("bar");
        lines.iter().filter(is_barrier).count()
    };
    let block = kernels(BLOCK);
    // Reductions and scans of every size have the same steps.
    for (prefix, expected) in [("reduce_", 4), ("scan_", 5), ("numbers_", 8)] {
        let is_sized = |name: &str| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let named: Vec<_> = block.iter().filter(|(name, _)| is_sized(name)).collect();
        assert!(named.len() >= 3, "{prefix}");
        for (name, lines) in named {
            assert_eq!(barriers(lines), expected, "{name}");
        }
    }
}
