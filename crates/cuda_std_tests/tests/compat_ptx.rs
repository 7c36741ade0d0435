//! What source for rust-cuda compiles to: orders and scopes of every atomic, memories of statics.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("compat.rs");

/// The lines of a kernel, without comments and labels.
fn kernel(name: &str) -> Vec<&'static str> {
    let start = format!(".visible .entry {name}(");
    let mut lines = IMAGES[0].ptx().lines().skip_while(|line| *line != start);
    assert!(lines.next().is_some(), "no kernel `{name}`");
    let body = lines.take_while(|line| *line != "}").map(str::trim);
    body.filter(|line| !line.starts_with("//") && !line.starts_with(".loc")).collect()
}

/// How often each atomic instruction stands in a kernel: `atom.relaxed.gpu.add.u32` and so on.
fn instructions(name: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let families = ["atom.", "fence.", "membar.", "ld.", "st."];
    for line in kernel(name) {
        let word = line.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
        let plain = word.contains(".param") || word.contains(".global") || word.contains(".local");
        if families.iter().any(|family| word.starts_with(family)) && !plain {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The instructions expected, by family.
#[derive(Default)]
struct Expected(BTreeMap<String, usize>);

impl Expected {
    fn add(&mut self, instruction: String, times: usize) {
        *self.0.entry(instruction).or_default() += times;
    }

    /// The read-modify-writes that both layers have, of one order; `swap` too.
    fn rmw(&mut self, order: &str) {
        for scope in SCOPES {
            let mut add =
                |what: &str, times| self.add(format!("atom.{order}.{scope}.{what}"), times);
            for op in ["and", "or", "xor"] {
                // u32, i32 and f32 share an instruction, and so do the wide ones.
                add(&format!("{op}.b32"), 3);
                add(&format!("{op}.b64"), 3);
            }
            for op in ["exch", "cas"] {
                add(&format!("{op}.b32"), 3);
                add(&format!("{op}.b64"), 3);
            }
            // A difference is the sum with the negated number; u64 and i64 add alike.
            for (ty, times) in [("u32", 2), ("s32", 2), ("u64", 4), ("f32", 2), ("f64", 2)] {
                add(&format!("add.{ty}"), times);
            }
            for op in ["min", "max"] {
                for ty in ["u32", "s32", "u64", "s64"] {
                    add(&format!("{op}.{ty}"), 1);
                }
            }
        }
    }
}

const SCOPES: [&str; 3] = ["gpu", "cta", "sys"];

#[test]
fn orders_and_scopes_of_mid_reach_the_instruction() {
    let mut expected = Expected::default();
    for order in ["relaxed", "acquire", "release", "acq_rel"] {
        expected.rmw(order);
    }
    for scope in SCOPES {
        for bits in ["b32", "b64"] {
            expected.add(format!("ld.acquire.{scope}.{bits}"), 1);
            expected.add(format!("st.release.{scope}.{bits}"), 2);
        }
        expected.add(format!("fence.acq_rel.{scope}"), 2);
        // One for each size, and one before each sequentially consistent store.
        expected.add(format!("fence.sc.{scope}"), 4);
    }
    assert_eq!(instructions("mid_calls"), expected.0);
}

#[test]
fn orders_and_scopes_of_intrinsics_reach_the_instruction() {
    let mut expected = Expected::default();
    // `volatile` is a second relaxed.
    for order in ["relaxed", "acquire", "release", "acq_rel", "relaxed"] {
        expected.rmw(order);
        for scope in SCOPES {
            for (ty, times) in [("u32", 2), ("s32", 2), ("u64", 4)] {
                expected.add(format!("atom.{order}.{scope}.add.{ty}"), times);
            }
        }
    }
    for scope in SCOPES {
        for bits in ["b32", "b64"] {
            expected.add(format!("ld.relaxed.{scope}.{bits}"), 1);
            expected.add(format!("st.relaxed.{scope}.{bits}"), 1);
            expected.add(format!("ld.acquire.{scope}.{bits}"), 1);
            expected.add(format!("st.release.{scope}.{bits}"), 1);
        }
        expected.add(format!("fence.acq_rel.{scope}"), 1);
        expected.add(format!("fence.sc.{scope}"), 1);
    }
    // Three scopes, whose volatile accesses are the same.
    for access in ["ld", "st"] {
        expected.add(format!("{access}.volatile.u32"), 3);
        expected.add(format!("{access}.volatile.b64"), 3);
    }
    for level in ["gl", "cta", "sys"] {
        expected.add(format!("membar.{level}"), 1);
    }
    assert_eq!(instructions("intrinsic_calls"), expected.0);
}

#[test]
fn typed_atomics_say_their_scope() {
    let expected = [
        ("float_sums", "atom.relaxed.gpu.add.f32"),
        ("float_sums", "atom.acq_rel.sys.add.f64"),
        ("float_sums", "atom.relaxed.cta.add.f32"),
        ("safe_cells", "atom.acq_rel.gpu.cas.b64"),
        ("tickets", "atom.relaxed.gpu.inc.u32"),
        ("tickets", "atom.relaxed.gpu.dec.u32"),
        ("half_sums", "atom.relaxed.gpu.add.noftz.f16"),
        ("half_sums", "atom.relaxed.gpu.add.noftz.f16x2"),
        ("half_sums", "atom.relaxed.sys.add.noftz.bf16"),
        ("half_sums", "atom.acq_rel.gpu.add.noftz.bf16x2"),
        ("wide", "atom.acq_rel.gpu.cas.b128"),
        ("wide", "atom.relaxed.gpu.exch.b128"),
        ("message", "atom.release.gpu.add.u32"),
        ("message", "ld.acquire.gpu.b32"),
        ("cluster_counts", "atom.acq_rel.cluster.add.u32"),
        ("cluster_counts", "ld.acquire.cluster.b32"),
        ("cluster_counts", "st.release.cluster.b32"),
    ];
    for (name, instruction) in expected {
        let words = kernel(name).into_iter().flat_map(str::split_whitespace);
        let found = words.filter(|word| *word == instruction).count();
        assert_eq!(found, 1, "{instruction} in {name}");
    }
}

/// Whether a line reads or writes memory without saying which.
fn is_generic(line: &str) -> bool {
    let instruction = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
    let mut parts = instruction.trim_end_matches(';').split('.');
    let accesses = matches!(parts.next(), Some("ld" | "st"));
    accesses && !parts.any(|part| matches!(part, "global" | "shared" | "param" | "const" | "local"))
}

#[test]
fn statics_lie_where_they_should() {
    let text = IMAGES[0].ptx();
    let declared = [
        ".shared .align 4 .b8 shared_static_compat_kernels_",
        ".visible .const .align 4 .b8 constant_static_compat_kernels_",
        ".visible .const .align 4 .b8 COMPAT_TABLE[128];",
        ".visible .global .align 4 .b8 COMPAT_TOTAL[4] = {5};",
        ".visible .func  (.param .b32 func_retval0) compat_twice(",
    ];
    for line in declared {
        assert!(text.contains(line), "{line}");
    }
    let count = |name: &str, word: &str| kernel(name).iter().filter(|l| l.contains(word)).count();
    assert_eq!(
        (count("gemm_tiled", "st.shared.b32"), count("gemm_tiled", "ld.shared.b32")),
        (2, 32)
    );
    assert_eq!(count("constants", "ld.const.b32"), 2);
    assert_eq!(
        count("reverse", "cvta.shared.u64"),
        1,
        "a function that is called gets a generic pointer"
    );
    for name in ["gemm_tiled", "reverse", "constants"] {
        let generic: Vec<_> = kernel(name).into_iter().filter(|line| is_generic(line)).collect();
        assert!(generic.is_empty(), "{name}: {generic:#?}");
    }
}

/// The PTX of kernels that allocate nothing.
static PLAIN: LazyLock<&str> = LazyLock::new(|| {
    static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("basics.rs");
    IMAGES[0].ptx()
});

#[test]
fn a_kernel_that_allocates_nothing_has_no_heap() {
    for name in ["malloc", "free", "memcmp"] {
        assert!(!PLAIN.contains(name), "{name}");
    }
    assert!(IMAGES[0].ptx().contains("malloc, (param0)"));
}
