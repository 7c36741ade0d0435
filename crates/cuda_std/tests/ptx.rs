//! What the device library compiles to.

mod compiled;

use cuda_builder::NvvmArch;
use std::sync::LazyLock;

/// The PTX of the basic kernels.
static PTX: LazyLock<String> = LazyLock::new(|| compiled::ptx("basics", NvvmArch::Compute90a));

fn kernel(name: &str) -> Vec<&'static str> {
    compiled::kernel(&PTX, name)
}

fn count(name: &str, instruction: &str) -> usize {
    kernel(name).iter().filter(|line| line.contains(instruction)).count()
}

/// Whether a line reads or writes memory without saying which.
fn is_generic(line: &str) -> bool {
    let instruction = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
    let mut parts = instruction.trim_end_matches(';').split('.');
    let accesses = matches!(parts.next(), Some("ld" | "st" | "atom" | "red"));
    accesses && !parts.any(|part| matches!(part, "global" | "shared" | "param"))
}

#[test]
fn slices_are_global_memory_and_arrays_are_shared_memory() {
    let kernels = [
        "saxpy",
        "vector_sums",
        "brighten",
        "two_arrays",
        "one_place",
        "generic",
        "dynamic",
        "histogram",
        "slices",
    ];
    for name in kernels {
        let generic: Vec<_> = kernel(name).into_iter().filter(|line| is_generic(line)).collect();
        assert!(generic.is_empty(), "{name}: {generic:#?}");
    }
    assert!(is_generic("@%p1 ld.b32 \t%r1, [%rd1];") && is_generic("atom.acq_rel.gpu.add.u32 a;"));
}

/// The emulator expects all threads of a block at the barriers of these kernels.
#[test]
fn kernels_with_the_token_of_a_block_say_so() {
    let ptx = compiled::whole_ptx("shared", NvvmArch::Compute90a);
    let (mut with, mut without) = (0, 0);
    for part in cuda_builder::parts(&ptx).expect("the PTX has parts") {
        let text = part.text(&ptx);
        let comment = |what: &str, kernel: &str| {
            let begin = format!("// ferrowarp.{what} {kernel}");
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(&begin));
            lines.find(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::to_owned)
        };
        for kernel in &part.kernels {
            let signature = comment("signature", kernel).expect("every kernel has a signature");
            let takes_token = signature.contains(" block:");
            assert_eq!(comment("block", kernel).is_some(), takes_token, "{kernel}:{signature}");
            *(if takes_token { &mut with } else { &mut without }) += 1;
        }
    }
    assert!(with > 5 && without > 0, "{with} with a token, {without} without");
}

#[test]
fn what_the_hardware_gives_is_in_the_signature() {
    let ptx = compiled::whole_ptx("shared", NvvmArch::Compute90a);
    let hardware = |kernel: &str| -> Vec<String> {
        let begin = format!("// ferrowarp.signature {kernel} ");
        let line = ptx.lines().find_map(|line| line.strip_prefix(&begin)).expect(kernel);
        let words = line.split('|').nth(1).unwrap().split('=').next().unwrap().split_whitespace();
        let without_name = |word: &str| match word.strip_prefix("shared:") {
            Some(_) => word.rsplit_once(':').unwrap().0.to_owned(),
            None => word.to_owned(),
        };
        words.map(without_name).collect()
    };
    assert_eq!(hardware("plane"), ["index:0", "block:8:4:2"]);
    assert_eq!(hardware("mirrored_f64"), ["index:1", "block:64:1:1", "shared:512:8"]);
    // 16 rows of 17 values.
    assert_eq!(hardware("transpose"), ["index:2", "block:16:16:1", "shared:1088:4"]);
}

#[test]
fn an_element_wise_kernel_costs_what_it_must() {
    assert_eq!(count("saxpy", "setp"), 2, "one comparison for each slice");
    assert_eq!(count("saxpy", "fma.rn.f32"), 1);
    assert_eq!((count("saxpy", "ld.global.b32"), count("saxpy", "st.global.b32")), (2, 1));
    assert_eq!(count("saxpy", "mul.wide.u32"), 1, "the index is 64 bits wide");
    assert_eq!(count("saxpy", "panic_bounds_check"), 1);
}

#[test]
fn a_panic_is_out_of_line_and_formats_nothing() {
    let calls = kernel("saxpy").iter().filter(|line| line.starts_with("call.uni")).count();
    assert_eq!(calls, 1, "the panic");
    assert!(!PTX.contains(".callprototype"), "the host formats what these kernels panic with");
}

#[test]
fn four_values_are_one_load() {
    assert!(count("vector_sums", "ld.global.v4.b32") >= 1);
}

#[test]
fn values_keep_their_layout() {
    let lines = kernel("by_value");
    let params: Vec<_> = lines.iter().filter(|line| line.starts_with(".param")).collect();
    let expected = [
        ".param .u8 by_value_param_0,",
        ".param .u8 by_value_param_1,",
        ".param .align 4 .b8 by_value_param_2[12],",
        ".param .align 16 .b8 by_value_param_3[16],",
        ".param .align 16 .b8 by_value_param_4[16],",
        ".param .align 4 .b8 by_value_param_5[12],",
        ".param .u64 .ptr .align 1 by_value_param_6",
    ];
    assert_eq!(params.into_iter().copied().collect::<Vec<_>>(), expected);
}

#[test]
fn values_without_a_size_are_no_parameters() {
    let params = |name: &str| {
        // Those of the entry; calls in its body have parameters too.
        let header = kernel(name).into_iter().take_while(|line| !line.starts_with([')', '{']));
        let lines = header.filter(|line| line.starts_with(".param"));
        let sized = lines.map(|line| line.split_whitespace().nth(1).unwrap().to_owned());
        sized.collect::<Vec<_>>()
    };
    assert_eq!(params("mapped_Twice"), [".u64"; 4]);
    assert_eq!(params("mapped_Plus").len(), 5);
    assert_eq!(params("nothing_between"), [".u8", ".u32", ".u64"]);
    assert!(PTX.lines().any(|line| line.starts_with(".visible .entry nothing_at_all()")));
}

#[test]
fn each_place_is_one_array() {
    let arrays = |name: &str| {
        let names =
            kernel(name).into_iter().filter(|line| line.contains("mov.u64")).filter_map(|line| {
                line.split_whitespace().find(|word| word.starts_with("shared_array_"))
            });
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    assert_eq!(arrays("two_arrays").len(), 2);
    assert_eq!(arrays("one_place").len(), 1);
    for name in [arrays("two_arrays"), arrays("one_place")].concat() {
        let name = name.trim_end_matches(';');
        let declaration = format!(".shared .align 16 .b8 {name}[256];");
        assert_eq!(PTX.matches(&declaration).count(), 1, "{declaration}");
    }
}

#[test]
fn generic_arrays_are_one_for_each_type() {
    assert_eq!(count("generic", "7storage"), 2);
    let storage = PTX.split(".func").filter(|f| f.contains("7storage") && f.contains("numbered["));
    let sizes: Vec<_> = storage.map(|f| (f.contains("[256]"), f.contains("[512]"))).collect();
    assert!(sizes.contains(&(true, false)) && sizes.contains(&(false, true)), "{sizes:?}");
}

#[test]
fn shared_counters_are_atomic() {
    assert_eq!(count("histogram", "atom.shared.add.u32"), 1);
    assert_eq!(count("histogram", "atom.global.add.u32"), 1);
    assert_eq!(count("histogram", "bar.sync"), 3);
    assert_eq!(count("histogram", "\tst.shared"), 0, "a plain store would race");
}

#[test]
fn atomics_say_order_and_scope() {
    let expected = [
        "atom.acq_rel.gpu.add.u32",
        "atom.relaxed.cta.add.f64",
        "fence.sc.sys",
        "atom.acq_rel.sys.exch.b64",
        "atom.acquire.sys.max.s32",
        "atom.release.cta.xor.b32",
        "fence.acq_rel.gpu",
    ];
    for instruction in expected {
        assert!(count("scoped", instruction) >= 1, "{instruction}");
    }
    let expected = [
        "atom.relaxed.gpu.global.add.f32",
        "atom.global.add.u32",
        "atom.release.gpu.global.min.s32",
        "atom.acq_rel.gpu.global.add.s32",
        "atom.acq_rel.gpu.global.or.b64",
        "atom.acq_rel.sys.global.cas.b64",
        "ld.acquire.sys.global.b32",
        "st.release.sys.global.b32",
    ];
    for instruction in expected {
        assert_eq!(count("slices", instruction), 1, "{instruction}");
    }
}

#[test]
fn collectives_stand_once() {
    let expected = [
        ("shuffles", "shfl.sync", 12),
        ("votes", "vote.sync", 4),
        ("votes", "match.any.sync", 2),
        ("votes", "match.all.sync", 2),
        ("votes", "bar.warp.sync", 1),
        ("reductions", "redux.sync", 9),
        ("barriers", "bar.red", 3),
        ("barriers", "membar", 3),
        ("barriers", "nanosleep", 1),
    ];
    for (name, instruction, times) in expected {
        assert_eq!(count(name, instruction), times, "{instruction} in {name}");
    }
}
