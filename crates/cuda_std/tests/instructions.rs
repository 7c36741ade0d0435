//! Warps, small numbers, random numbers and hinted accesses are the instructions they should be.

mod compiled;

use cuda_builder::NvvmArch;
use std::sync::LazyLock;

static WARP: LazyLock<String> = LazyLock::new(|| compiled::ptx("warp", NvvmArch::Compute90a));
static NUMBERS: LazyLock<String> = LazyLock::new(|| compiled::ptx("numbers", NvvmArch::Compute90a));

fn count(ptx: &str, kernel: &str, instruction: &str) -> usize {
    let lines = compiled::kernel(ptx, kernel);
    lines.iter().filter(|line| line.contains(instruction)).count()
}

/// Each instruction stands so many times in each kernel.
fn counts(ptx: &str, expected: &[(&str, &[(&str, usize)])]) {
    for (kernel, instructions) in expected {
        for (instruction, times) in *instructions {
            assert_eq!(count(ptx, kernel, instruction), *times, "{instruction} in {kernel}");
        }
    }
}

/// Nothing is kept in the slow memory of a thread.
fn stays_in_registers(ptx: &str, kernels: &[&str]) {
    for kernel in kernels {
        assert_eq!(count(ptx, kernel, "ld.local"), 0, "{kernel}");
        assert_eq!(count(ptx, kernel, "st.local"), 0, "{kernel}");
    }
}

#[test]
fn a_warp_is_its_instructions() {
    counts(
        &WARP,
        &[
            ("one_redux", &[("redux.sync.add.s32", 1), ("shfl", 0)]),
            ("one_butterfly", &[("shfl.sync.bfly.b32", 5), ("redux", 0)]),
            ("turn_pixel", &[("shfl.sync.idx.b32", 1)]),
            ("turn_seven_bytes", &[("shfl.sync.idx.b32", 2)]),
            ("turn_u128", &[("shfl.sync.idx.b32", 4)]),
            ("turn_five_doubles", &[("shfl.sync.idx.b32", 10)]),
            ("separate_ways", &[("shfl.sync.bfly.b32", 3), ("shfl.sync.up.b32", 3)]),
            ("keep", &[("activemask", 1), ("atom.global.add.u32", 2), ("shfl.sync.idx.b32", 1)]),
            (
                "tiles_of_32",
                &[
                    ("elect.sync", 1),
                    ("match.all.sync.b32", 1),
                    ("match.all.sync.b64", 1),
                    ("vote.sync.uni", 2),
                    ("redux.sync.xor.b32", 3),
                    ("bar.warp.sync", 1),
                ],
            ),
        ],
    );
    let tiles = ["tiles_of_2", "tiles_of_4", "tiles_of_8", "tiles_of_16", "tiles_of_32"];
    stays_in_registers(&WARP, &tiles);
    stays_in_registers(&WARP, &["partitions", "turn_five_bytes", "turn_three_halves"]);
}

#[test]
fn an_older_gpu_gets_what_it_has() {
    let ptx = compiled::ptx("warp", NvvmArch::Compute75);
    assert_eq!(ptx.matches("redux.sync").count() + ptx.matches("elect.sync").count(), 0);
    assert_eq!(count(&ptx, "one_redux", "shfl.sync.bfly.b32"), 5);
}

#[test]
fn small_numbers_are_single_instructions() {
    let ternary = |format: &str| {
        ["add.rn", "sub.rn", "mul.rn", "fma.rn", "fma.rn.relu", "min", "max", "min.NaN", "max.NaN"]
            .map(|name| format!("{name}.{format} "))
    };
    for (kernel, format) in [
        ("ternary_f16", "f16"),
        ("ternary_bf16", "bf16"),
        ("pairs_f16", "f16x2"),
        ("pairs_bf16", "bf16x2"),
    ] {
        for instruction in ternary(format) {
            let is_nan = instruction.contains("NaN");
            let once = count(&NUMBERS, kernel, &instruction) >= 1;
            assert!(once || is_nan && format.ends_with("x2"), "{instruction} in {kernel}");
        }
    }
    counts(
        &NUMBERS,
        &[
            ("unary_f16", &[("cvt.f32.f16", 1), ("cvt.rzi.s32.f16", 1), ("neg.f16", 1)]),
            ("unary_bf16", &[("cvt.f32", 0), ("shl.b32", 1), ("abs.bf16", 1)]),
            ("approximate_f16", &[("ex2.approx.f16", 1), ("tanh.approx.f16", 1)]),
            ("pairs_approximate_bf16", &[("ex2.approx.ftz.bf16x2", 1), ("tanh.approx.bf16x2", 1)]),
            ("narrowing_directed", &[("cvt.rm.f16.f32", 1), ("cvt.rp.f16.f32", 1)]),
            ("halves_to_e4m3", &[("cvt.rn.satfinite.e4m3x2.f16x2", 1)]),
            ("halves_to_e5m2", &[("cvt.rn.satfinite.relu.e5m2x2.f16x2", 1)]),
            ("pairs_narrowing_bf16", &[("cvt.rn.bf16x2.f32", 2), ("cvt.rz.bf16x2.f32", 1)]),
        ],
    );
}

#[test]
fn hints_are_in_the_instructions() {
    counts(
        &NUMBERS,
        &[
            (
                "streaming_copy",
                &[
                    ("ld.global.nc.v2.b64", 1),
                    ("st.global.cs.v2.b64", 1),
                    ("isspacep", 0),
                    ("ld.b", 0),
                ],
            ),
            (
                "copies_of_f32",
                &[
                    ("ld.global.nc.L1::no_allocate.L2::256B.b32", 1),
                    ("ld.global.nc.L2::128B.b32", 1),
                    ("ld.global.lu.b32", 1),
                    ("st.global.L1::evict_last.b32", 1),
                    ("createpolicy", 3),
                    ("ld.global.L2::cache_hint.b32", 2),
                    ("st.global.L2::cache_hint.b32", 2),
                    ("ld.volatile.b32", 1),
                    ("st.volatile.b32", 1),
                    ("prefetch.global", 3),
                ],
            ),
            ("copies_of_u8", &[("ld.global.cg.u8", 1)]),
            ("copies_of_f16", &[("st.global.wt.b16", 1)]),
            ("vector_sums", &[("ld.global.b64", 1), ("ld.global.b8", 0)]),
            ("through_shared", &[("st.shared.b32", 1), ("st.global.cs", 0), ("prefetch", 0)]),
        ],
    );
}

#[test]
fn random_numbers_stay_in_registers() {
    stays_in_registers(&NUMBERS, &["one_normal", "philox_blocks", "draw_xoshiro_512_star_star"]);
    assert_eq!(count(&NUMBERS, "philox_blocks", "mul.wide.u32 product"), 20);
}
