//! What contracts and views compile to: bounds, constants, and loops without checks.

use ferrowarp::module::Image;

static IMAGES: &[Image] = ferrowarp::include_kernels!("contracts.rs");

/// The lines of a kernel, header included, without line numbers and comments.
fn kernel(name: &str) -> Vec<&'static str> {
    let start = format!(".visible .entry {name}(");
    let code = IMAGES[0].ptx().lines().map(str::trim);
    let mut lines = code.skip_while(|line| *line != start);
    assert!(lines.next().is_some(), "no kernel `{name}`");
    let is_code = |line: &&str| {
        let other = ["//", ".loc", ".pragma", "$L__tmp"];
        !line.is_empty() && !other.iter().any(|start| line.starts_with(start))
    };
    lines.take_while(|line| *line != "}").filter(is_code).collect()
}

fn has(name: &str, text: &str) -> bool {
    kernel(name).iter().any(|line| line.contains(text))
}

/// What an instruction does: `ld.global.b32`.
fn opcode(line: &str) -> &str {
    line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or(line)
}

/// The opcodes, sorted, of the innermost loop with the most `fma`: from a label to the branch back to it.
fn hottest_loop(name: &str) -> Vec<&'static str> {
    let lines = kernel(name);
    let mut hottest = Vec::new();
    for (end, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("bra")) {
        let target = line.split_whitespace().last().unwrap_or_default().replace(';', ":");
        let Some(start) = lines[..end].iter().rposition(|line| **line == target) else { continue };
        let body: Vec<_> = lines[start + 1..=end].iter().map(|line| opcode(line)).collect();
        if fused(&body) > fused(&hottest) {
            hottest = body;
        }
    }
    hottest.sort_unstable();
    hottest
}

fn fused(opcodes: &[&str]) -> usize {
    opcodes.iter().filter(|opcode| opcode.starts_with("fma")).count()
}

#[test]
fn contracts_become_launch_bounds() {
    for (name, bound) in [
        ("line", ".reqntid 192, 1, 1"),
        ("line", ".minnctapersm 2"),
        ("plane", ".reqntid 32, 8, 1"),
        ("body", ".reqntid 4, 2, 3"),
        ("bounded", ".maxntid 128"),
        ("bounded", ".maxnreg 32"),
        ("clusters", ".reqnctapercluster 2, 2, 1"),
        ("combine_i32_Largest_4", ".reqntid 32, 1, 1"),
        ("combine_i32_Add_2_3", ".reqntid 40, 1, 1"),
        ("reverse_f64_32", ".reqntid 32, 1, 1"),
    ] {
        assert!(kernel(name).contains(&bound), "{bound} of {name}");
    }
    assert!(!has("axpy_f32", ".reqntid") && !has("axpy_f32", ".maxntid"));
}

#[test]
fn a_fixed_block_is_a_constant() {
    for name in ["line", "plane", "body", "fixed_volume"] {
        assert!(!has(name, "%ntid"), "{name} reads the block's extents");
    }
    assert!(has("volume", "%ntid"), "the launch chooses this one's");
    // The thread's place is below 256, so the table of 256 needs no check.
    assert!(!has("plane", "panic"));
}

#[test]
fn vectors_are_one_access() {
    for (name, load, store) in [
        ("vectors_u8x2", "ld.global.v2.b8", "st.global.v2.b8"),
        ("vectors_f32x2", "ld.global.v2.b32", "st.global.v2.b32"),
        ("vectors_f32x4", "ld.global.v4.b32", "st.global.v4.b32"),
        ("vectors_f64x2", "ld.global.v2.b64", "st.global.v2.b64"),
        ("axpy_vectors", "ld.global.v4.b32", "st.global.v4.b32"),
    ] {
        assert!(has(name, load) && has(name, store), "{name}: {load}, {store}");
    }
    // LLVM packs two halves into a word before it stores them; since the version of Rust 1.99 also where it loads them.
    for access in ["ld", "st"] {
        let is_one = |bits| has("vectors_u16x2", &format!("{access}.global.{bits}"));
        assert!(is_one("b32") || is_one("v2.b16"), "{access}");
    }
}

#[test]
fn safe_views_have_the_loop_of_pointers() {
    let pointers = hottest_loop("naive_pointers");
    assert!(fused(&pointers) >= 1, "{pointers:?}");
    assert_eq!(pointers.iter().filter(|opcode| opcode.starts_with("setp")).count(), 1);
    assert_eq!(hottest_loop("naive_views"), pointers);
    let per_step = |opcodes: &[&str]| {
        let checks = opcodes.iter().filter(|opcode| opcode.starts_with("setp")).count();
        checks as f64 / fused(opcodes) as f64
    };
    let checked = hottest_loop("naive_checked");
    assert!(per_step(&checked) > 2.0 * per_step(&pointers), "what views save: {checked:?}");
}

#[test]
fn safe_tiles_have_the_loop_of_pointers() {
    /// The opcodes between the two barriers of a step.
    fn between_barriers(name: &str) -> Vec<&'static str> {
        let lines = kernel(name);
        let is_barrier = |line: &&&str| line.starts_with("bar.sync");
        assert_eq!(lines.iter().filter(is_barrier).count(), 2, "{name}");
        let barriers = lines.split(|line| line.starts_with("bar.sync"));
        let mut step: Vec<_> =
            barriers.map(|part| part.iter().map(|line| opcode(line))).nth(1).unwrap().collect();
        step.sort_unstable();
        step
    }
    let pointers = between_barriers("tiled_pointers");
    assert_eq!(fused(&pointers), 32);
    assert_eq!(between_barriers("tiled_views"), pointers);
}

#[test]
fn nothing_goes_through_local_memory() {
    let names = ["naive_views", "tiled_views", "vectors_f32x4", "axpy_vectors", "chunks", "sums"];
    for name in names {
        assert!(!has(name, ".local"), "{name}");
    }
}
