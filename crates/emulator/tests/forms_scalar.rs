//! Forms that compilers other than rustc write: 128 bits, vectors of atomics, pairs of halves, the
//! stack, functions with registers as parameters, video instructions.

mod common;

use common::eval::{check1, check2, check3};
use common::{Buffer, HEAD, device, launch};
use emulator::{LoadError, TrapKind};

/// Runs a body of one block and returns the 64-bit words that it left in `out`.
fn run(threads: u32, words: usize, body: &str) -> Vec<u64> {
    run_module(threads, words, "", body)
}

fn run_module(threads: u32, words: usize, before: &str, body: &str) -> Vec<u64> {
    let device = device();
    let out = Buffer::of_u64(&device, &vec![0; words]);
    let text = kernel(before, body);
    launch(&device, &text, "k", [1; 3], [threads, 1, 1], &[out.address])
        .unwrap_or_else(|trap| panic!("{trap}"));
    out.u64s()
}

fn kernel(before: &str, body: &str) -> String {
    format!(
        "{HEAD}{before}
        .visible .entry k(.param .u64 k_out) {{
            .reg .b64 out, mine, a, b, c, d; .reg .b32 t, x, y, z, w; .reg .b128 q, r, s;
            .reg .f32 f, g, h, e; .reg .b16 i, j; .reg .pred p, p2;
            ld.param.u64 out, [k_out];
            mov.u32 t, %tid.x;
            mad.wide.u32 mine, t, 8, out;
            {body}
            ret;
        }}"
    )
}

#[track_caller]
fn refused(body: &str) -> LoadError {
    device().load(&kernel("", body)).err().unwrap_or_else(|| panic!("`{body}` was loaded"))
}

// ---- 128 bits

#[test]
fn registers_of_128_bits_are_packed_copied_and_taken_apart() {
    let body = "mov.u64 a, 0x1122334455667788; mov.u64 b, 0x99aabbccddeeff00;
        mov.b128 q, {a, b}; mov.b128 r, q; mov.b128 {c, d}, r;
        st.global.u64 [out], c; st.global.u64 [out+8], d;";
    assert_eq!(run(1, 2, body), [0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00]);
}

#[test]
fn ranges_of_registers_of_128_bits_do_not_overlap() {
    let body = ".reg .b128 %q<3>; mov.b128 %q0, {1, 2}; mov.b128 %q1, {3, 4}; mov.b128 %q2, {5, 6};
        st.global.b128 [out], %q0; st.global.b128 [out+16], %q1; st.global.b128 [out+32], %q2;
        ld.global.b128 %q0, [out+16]; st.global.b128 [out+48], %q0;";
    assert_eq!(run(1, 8, body), [1, 2, 3, 4, 5, 6, 3, 4]);
}

#[test]
fn accesses_of_128_bits_need_that_alignment() {
    let device = device();
    let out = Buffer::new(&device, 64);
    let text = kernel("", "ld.global.b128 q, [out+8];");
    let trap = launch(&device, &text, "k", [1; 3], [1; 3], &[out.address]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Misaligned { bytes: 16, .. }), "{trap}");
    let text = kernel("", "ld.relaxed.gpu.global.b128 q, [out+56];");
    let trap = launch(&device, &text, "k", [1; 3], [1; 3], &[out.address]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Misaligned { bytes: 16, .. }), "{trap}");
}

#[test]
fn exchange_and_compare_of_128_bits_are_one_step() {
    let body = "L: ld.relaxed.gpu.global.b128 q, [out]; mov.b128 {a, b}, q;
        add.u64 c, a, 1; sub.u64 d, b, 1; mov.b128 r, {c, d};
        atom.acq_rel.gpu.global.cas.b128 s, [out], q, r;
        mov.b128 {c, d}, s; setp.ne.u64 p, c, a; @p bra L; setp.ne.u64 p, b, d; @p bra L;
        cvt.u64.u32 a, t; mov.b128 q, {a, a}; atom.global.exch.b128 r, [out+16], q;
        mov.b128 {a, b}, r; red.global.add.u64 [out+32], a;";
    let found = run(96, 5, body);
    assert_eq!(found[..2], [96, 96u64.wrapping_neg()]);
    assert_eq!(found[2], found[3]);
    // Each thread put its number there and took another's, so all but the last are in the sum.
    assert_eq!(found[4] + found[2], 95 * 96 / 2);
}

#[test]
fn constants_of_128_bits_and_vectors_of_256_are_refused() {
    refused("mov.b128 q, 5;");
    let error = refused("ld.global.v2.b128 {q, r}, [out];");
    assert!(error.to_string().contains("sm_100"), "{error}");
    refused("ld.global.v8.b32 {x, y, z, w, x, y, z, w}, [out];");
    refused("mov.b128 {a, b, c}, q;");
}

// ---- atomics

#[test]
fn vectors_of_atomics_update_each_element_and_return_what_was_there() {
    let body = "mov.f32 f, 0f3F800000; mov.f32 g, 0f40000000;
        atom.global.add.v2.f32 {g, f}, [out], {f, g};
        red.relaxed.gpu.global.add.v4.f32 [out+16], {0f3F800000, 0f3F800000, 0f3F800000, 0f40400000};
        setp.eq.u32 p, t, 0;
        mov.b32 x, 0x3c004000; mov.b32 y, 0xbc000000;
        red.global.min.noftz.v2.f16x2 [out+32], {x, y};
        mov.b32 {i, j}, x; red.global.max.noftz.v4.bf16 [out+40], {i, j, i, j};";
    let found = run(4, 6, body);
    assert_eq!(found[0], 4f32.to_bits() as u64 | u64::from(8f32.to_bits()) << 32);
    let four = u64::from(4f32.to_bits());
    assert_eq!(found[2..4], [four | four << 32, four | u64::from(12f32.to_bits()) << 32]);
    assert_eq!(found[4], 0xbc00_0000_0000_0000);
    assert_eq!(found[5], 0x3c00_4000_3c00_4000);
}

#[test]
fn a_vector_of_atomics_is_aligned_as_a_whole() {
    let device = device();
    let out = Buffer::of_u64(&device, &[0; 8]);
    let body = "red.global.add.v2.f32 [out+4], {0f3F800000, 0f3F800000};";
    let trap = launch(&device, &kernel("", body), "k", [1; 3], [1; 3], &[out.address]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Misaligned { bytes: 8, .. }), "{trap}");
}

#[test]
fn cache_policies_are_taken_and_change_nothing() {
    let body = "createpolicy.fractional.L2::evict_first.b64 a, 0f3F000000;
        createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 b;
        createpolicy.range.global.L2::evict_last.b64 b, [out], 16, 64;
        mov.u32 x, 7;
        st.global.L1::no_allocate.L2::cache_hint.u32 [out], x, a;
        ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v2.u32 {y, z}, [out], a;
        atom.global.add.L2::cache_hint.u32 w, [out], y, a;
        red.global.add.L2::cache_hint.u32 [out], 1, b;
        applypriority.global.L2::evict_normal [out], 128; discard.global.L2 [out+128], 128;
        prefetch.global.L2::evict_last [out]; prefetch.param.tensormap [k_out];
        ld.global.b32 x, [out].unified, a; ld.mmio.relaxed.sys.global.u32 y, [out];
        st.mmio.relaxed.sys.global.u32 [out+4], y;";
    let body = body.replace("ld.global.b32 x, [out].unified, a", "ld.global.b32 x, [out].unified");
    assert_eq!(run(1, 1, &body), [15 | 15 << 32]);
    refused("ld.global.L2::cache_hint.u32 x, [out];");
    refused("ld.global.u32 x, [out], a;");
}

#[test]
fn fences_of_all_kinds_load() {
    run(
        1,
        1,
        "fence.proxy.alias; fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;
        fence.proxy.tensormap::generic.release.gpu; membar.proxy.alias;
        fence.proxy.tensormap::generic.acquire.sys [out], 128; fence.acquire.gpu; fence.release.cta;",
    );
}

// ---- pairs of halves

#[test]
fn pairs_are_compared_to_two_predicates() {
    // 2 and 1, against 2 and 2; then a NaN.
    let body = |compare: &str| {
        format!(
            "setp.{compare}.f16x2 pd|pe, a32, b32; selp.b32 d32, 1, 0, pd; @pe or.b32 d32, d32, 2;"
        )
    };
    check2(&body("lt"), &[(0x3c00_4000, 0x4000_4000, 2), (0x7e00_4000, 0x4000_4200, 1)]);
    check2(&body("geu"), &[(0x3c00_4000, 0x4000_4000, 1), (0x7e00_4000, 0x4000_4200, 2)]);
    let body =
        "setp.eq.and.bf16x2 pd|pe, a32, b32, pc; selp.b32 d32, 1, 0, pd; @pe or.b32 d32, d32, 2;";
    check3(body, &[(0x3f80_4000, 0x3f80_4000, 1, 3), (0x3f80_4000, 0x3f80_4000, 0, 0)]);
    let body = "setp.eq.ftz.f16x2 pd|pe, a32, b32; selp.b32 d32, 1, 0, pd; @pe or.b32 d32, d32, 2;";
    check2(body, &[(0x0001_8001, 0, 3), (0x0400_0001, 0, 1)]);
}

#[test]
fn comparisons_of_halves_become_numbers() {
    check2("set.gt.f16x2.f16x2 d32, a32, b32;", &[(0x4000_3c00, 0x3c00_3c00, 0x3c00_0000)]);
    check2("set.gt.u32.bf16x2 d32, a32, b32;", &[(0x4000_3f80, 0x3f80_3f80, 0xffff_0000)]);
    check2("set.le.bf16x2.bf16x2 d32, a32, b32;", &[(0x4000_3f80, 0x3f80_3f80, 0x3f80)]);
    check2("set.lt.f16.f16 d16, a16, b16;", &[(0x3c00, 0x4000, 0x3c00), (0x4000, 0x3c00, 0)]);
    check2("set.lt.u16.bf16 d16, a16, b16;", &[(0x3f80, 0x4000, 0xffff), (0x4000, 0x3f80, 0)]);
    check2("set.nan.u32.f16 d32, a16, b16;", &[(0x7e00, 0, 0xffff_ffff), (0x3c00, 0, 0)]);
    check3("set.eq.xor.u32.f16x2 d32, a32, b32, pc;", &[(0x4000_3c00, 0x3c00, 1, 0xffff_0000)]);
}

#[test]
fn conversions_that_stay_finite() {
    let max = |bits: u32| u64::from(bits);
    check1(
        "cvt.rn.satfinite.f16.f32 d16, a32;",
        &[
            (max(1e9f32.to_bits()), 0x7bff),
            (max(f32::NEG_INFINITY.to_bits()), 0xfbff),
            (max(f32::NAN.to_bits()), 0x7fff),
            (max(1.5f32.to_bits()), 0x3e00),
        ],
    );
    check2(
        "cvt.rn.relu.satfinite.bf16x2.f32 d32, a32, b32;",
        &[(max(f32::INFINITY.to_bits()), max((-2f32).to_bits()), 0x7f7f_0000)],
    );
    check1(
        "cvt.rna.satfinite.tf32.f32 d32, a32;",
        &[
            (max(f32::INFINITY.to_bits()), 0x7f7f_e000),
            (max(f32::MAX.to_bits()), 0x7f7f_e000),
            (max(1f32.to_bits()), max(1f32.to_bits())),
        ],
    );
}

#[test]
fn packed_conversions_clamp() {
    check2(
        "cvt.pack.sat.u16.s32 d32, a32, b32;",
        &[(70000, (-5i32) as u32 as u64, 0xffff_0000), (1, 2, 0x0001_0002)],
    );
    check2(
        "cvt.pack.sat.s16.s32 d32, a32, b32;",
        &[(70000, (-70000i32) as u32 as u64, 0x7fff_8000)],
    );
    check3("cvt.pack.sat.u8.s32.b32 d32, a32, b32, c32;", &[(300, 7, 0xaabb_ccdd, 0xccdd_ff07)]);
    check3(
        "cvt.pack.sat.s8.s32.b32 d32, a32, b32, c32;",
        &[((-300i32) as u32 as u64, 127, 0x1_2233, 0x2233_807f)],
    );
    check3(
        "cvt.pack.sat.s4.s32.b32 d32, a32, b32, c32;",
        &[(9, (-9i32) as u32 as u64, 0x11, 0x1178)],
    );
    check3("cvt.pack.sat.u2.s32.b32 d32, a32, b32, c32;", &[(9, 2, 0xf, 0xfe)]);
}

#[test]
fn a_function_of_three_words_gives_a_predicate_too() {
    let body = "lop3.or.b32 d32|pd, a32, b32, c32, 0x80, pa; selp.b32 e32, 1, 0, pd; shl.b32 d32, d32, 1; or.b32 d32, d32, e32;";
    check3(body, &[(0b110, 0b111, 0b010, 0b101), (0b101, 0b010, 7, 1), (0b100, 0b010, 7, 0)]);
    check3(
        "lop3.and.b32 _|pd, a32, b32, c32, 0x80, pb;",
        &[(1, 1, 1, 1), (2, 2, 2, 0), (1, 3, 0, 0)],
    );
}

#[test]
fn pairs_of_integers_below_zero_become_zero() {
    check2("min.relu.s16x2 d32, a32, b32;", &[(0x0005_fffb, 0x0003_0007, 0x0003_0000)]);
    check2("max.s16x2.relu d32, a32, b32;", &[(0x0005_fffb, 0x0003_fff9, 0x0005_0000)]);
    check2("min.s32.relu d32, a32, b32;", &[(5, 0xffff_ffff, 0), (5, 3, 3)]);
    check2("max.relu.s16x2 d32, a32, b32;", &[(0x0005_fffb, 0x0003_fff9, 0x0005_0000)]);
}

// ---- video

#[test]
fn scalar_video_instructions() {
    check2("vadd.s32.u32.s32.sat d32, a32.b3, b32.h0;", &[(0xff00_0000, 0xfffe, 253)]);
    check2("vsub.u32.u32.u32.sat d32, a32, b32;", &[(3, 5, 0), (5, 3, 2)]);
    check3("vabsdiff.u32.s32.s32.add d32, a32.b0, b32.b1, c32;", &[(0x80, 0x7f00, 10, 265)]);
    check3(
        "vmin.s32.s32.s32 d32.b1, a32, b32, c32;",
        &[(0xffff_ffff, 4, 0x1111_1111, 0x1111_ff11)],
    );
    check3("vmax.u32.u32.u32.sat d32.h1, a32, b32, c32;", &[(70000, 4, 0x1111_2222, 0xffff_2222)]);
    check2("vshl.u32.u32.u32.wrap d32, a32, b32;", &[(3, 33, 6)]);
    check2("vshr.u32.u32.u32.clamp d32, a32, b32;", &[(0x8000_0000, 31, 1), (0x8000_0000, 99, 0)]);
    check2("vshr.s32.s32.u32.clamp d32, a32, b32;", &[(0x8000_0000, 99, 0xffff_ffff)]);
    check3("vset.s32.u32.lt.add d32, a32.b0, b32.b0, c32;", &[(0xff, 0xff, 7, 8), (1, 1, 7, 7)]);
    check3("vmad.s32.s32.u32 d32, a32.b0, b32.b1, c32;", &[(0xff, 0x0300, 10, 7)]);
    check3(
        "vmad.u32.u32.u32.sat.shr7 d32, a32, b32, c32;",
        &[(1 << 20, 1 << 20, 0, 0xffff_ffff), (256, 2, 128, 5)],
    );
    check3("vmad.s32.s32.s32 d32, -a32, b32, c32;", &[(3, 4, 20, 8)]);
    check3("vmad.u32.u32.u32 d32, -a32, -b32, c32;", &[(3, 4, 5, 17)]);
    check3("vmad.u32.u32.u32 d32, a32, b32, -c32;", &[(3, 4, 5, 7)]);
    check3("vmad.u32.u32.u32.po d32, a32, b32, c32;", &[(3, 4, 5, 18)]);
}

#[test]
fn video_instructions_side_by_side() {
    check3(
        "vadd4.u32.u32.u32.sat d32, a32, b32, c32;",
        &[(0xff80_0102, 0x0180_0304, 0, 0xffff_0406)],
    );
    check3("vsub2.s32.s32.s32 d32, a32, b32, c32;", &[(0x0001_0005, 0x0002_0003, 0, 0xffff_0002)]);
    check3("vavrg4.u32.u32.u32 d32, a32, b32, c32;", &[(0x0103_05ff, 0x0204_06ff, 0, 0x0204_06ff)]);
    check3("vavrg2.s32.s32.s32 d32, a32, b32, c32;", &[(0xffff_0003, 0xfffe_0004, 0, 0xfffe_0004)]);
    check3(
        "vabsdiff4.u32.u32.u32.add d32, a32, b32, c32;",
        &[(0x0102_03ff, 0x0201_0500, 10, 10 + 1 + 1 + 2 + 255)],
    );
    check3(
        "vmax4.s32.s32.s32 d32.b20, a32, b32, c32;",
        &[(0x7f80_00ff, 0x0001_0001, 0x1122_3344, 0x1101_3301)],
    );
    check3(
        "vmin2.u32.u32.u32 d32.h1, a32.h01, b32.h23, c32;",
        &[(0x0001_0002, 0x0003_0004, 0x9999_9999, 0x0002_9999)],
    );
    check3("vset4.u32.u32.ge.add d32, a32, b32, c32;", &[(0x0102_0304, 0x0101_0404, 5, 8)]);
    check3("vset2.s32.s32.lt d32, a32, b32, c32;", &[(0xffff_0001, 0x0000_0000, 0, 0x0001_0000)]);
}

#[test]
fn selectors_that_do_not_exist_are_refused() {
    refused("vadd.u32.u32.u32 x, y.b4, z;");
    refused("vadd4.u32.u32.u32 x, y.b321, z, w;");
    refused("vadd2.u32.u32.u32 x, y.h40, z, w;");
    refused("vadd.u32.u32.u32.add x, y, z;");
    refused("vadd.u32.u32.u32 x, -y, z;");
    refused("vmad.u32.u32.u32.po x, -y, z, w;");
    refused("add.u32 x, -y, z;");
}

// ---- the stack

#[test]
fn memory_on_the_stack_is_each_threads_own_and_grows() {
    // Thread t takes t words and fills them, then 8 bytes more, aligned to 64.
    let body = "mul.wide.u32 a, t, 4; alloca.u64 b, a, 4;
        mov.u32 x, 0; mov.u64 c, b;
        L: setp.ge.u32 p, x, t; @p bra M; st.local.u32 [c], x; add.u64 c, c, 4; add.u32 x, x, 1; bra L;
        M: alloca.u64 d, 8, 64; st.local.u64 [d], 99; and.b64 a, d, 63;
        mov.u32 x, 0; mov.u64 c, b; mov.u32 z, 0;
        N: setp.ge.u32 p, x, t; @p bra O; ld.local.u32 y, [c]; add.u32 z, z, y; add.u64 c, c, 4; add.u32 x, x, 1; bra N;
        O: cvt.u64.u32 c, z; add.u64 a, a, c; st.global.u64 [mine], a;";
    let expected: Vec<u64> = (0..32).map(|t| if t == 0 { 0 } else { t * (t - 1) / 2 }).collect();
    assert_eq!(run(32, 32, body), expected);
}

#[test]
fn what_was_freed_on_the_stack_is_used_again() {
    let body = "stacksave.u64 a; alloca.u64 b, 1000, 8; stackrestore.u64 a; alloca.u64 c, 1000, 8;
        sub.u64 d, b, c; st.global.u64 [out], d;
        mov.u32 x, 0;
        L: stacksave.u64 a; alloca.u64 b, 100000; st.local.u32 [b+99996], x; stackrestore.u64 a;
        add.u32 x, x, 1; setp.lt.u32 p, x, 100; @p bra L;";
    assert_eq!(run(1, 1, body), [0]);
}

#[test]
fn a_stack_that_grows_too_far_is_a_fault() {
    let device = device();
    let text = kernel("", "L: alloca.u64 b, 65536; bra L;");
    let trap = launch(&device, &text, "k", [1; 3], [1; 3], &[0]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::StackOverflow { .. }), "{trap}");
}

#[test]
fn frames_of_calls_lie_behind_what_each_thread_has_on_the_stack() {
    // Odd threads put something on the stack and call the same function as even ones.
    let before = ".func (.param .b32 r) f(.param .b64 p) {
        .local .b8 own[64]; .reg .b64 a; .reg .b32 x;
        ld.param.u64 a, [p]; st.local.u32 [own], 7; ld.local.u32 x, [a]; st.param.b32 [r], x; ret; }";
    let body = ".local .b8 first[8]; mov.u64 a, first; st.local.u32 [a], 5;
        and.b32 x, t, 1; setp.eq.u32 p, x, 0; @p bra L;
        alloca.u64 a, 32; st.local.u32 [a], 6;
        L: { .param .b64 q; .param .b32 r; st.param.b64 [q], a; call (r), f, (q); ld.param.b32 y, [r]; }
        cvt.u64.u32 b, y; st.global.u64 [mine], b;";
    let expected: Vec<u64> = (0..32).map(|t| 5 + t % 2).collect();
    assert_eq!(run_module(32, 32, before, body), expected);
}

// ---- parameters in registers

#[test]
fn functions_take_and_return_registers() {
    let before = ".func (.reg .u64 r) f(.reg .u64 x, .reg .f32 y, .reg .u16 z, .reg .b128 w) {
        .reg .u64 a, b; .reg .u32 c; .reg .pred p;
        cvt.rzi.u64.f32 a, y; add.u64 r, x, a; cvt.u64.u16 a, z; add.u64 r, r, a;
        mov.b128 {a, b}, w; mad.lo.u64 r, b, 1000, r;
        setp.gt.u64 p, r, 50000; @p ret; add.u64 r, r, a; }
        .func g(.reg .u64 at) { st.global.u64 [at], 77; ret; }";
    let body = "mov.u64 a, 1; mov.f32 f, 0f41200000; mov.u16 i, 300; mov.b128 q, {5, 7};
        call (b), f, (a, f, i, q); st.global.u64 [out], b;
        mov.b128 q, {5, 70}; call (b), f, (2, f, 300, q); st.global.u64 [out+8], b;
        add.u64 c, out, 16; call g, (c);";
    let found = run_module(1, 3, before, body);
    assert_eq!(found, [1 + 10 + 300 + 7000 + 5, 2 + 10 + 300 + 70000, 77]);
}

#[test]
fn registers_pass_through_pointers_to_functions() {
    let before = ".func (.reg .u32 r) plus(.reg .u32 x) { add.u32 r, x, 1; ret; }
        .func (.reg .u32 r) times(.reg .u32 x) { mul.lo.u32 r, x, 10; ret; }";
    let body = "and.b32 x, t, 1; setp.eq.u32 p, x, 0; mov.u64 a, plus; mov.u64 b, times; selp.b64 a, a, b, p;
        proto: .callprototype (.reg .u32 _) _ (.reg .u32 _);
        call (y), a, (t), proto; cvt.u64.u32 b, y; st.global.u64 [mine], b;";
    let expected: Vec<u64> = (0..32).map(|t| if t % 2 == 0 { t + 1 } else { t * 10 }).collect();
    assert_eq!(run_module(32, 32, before, body), expected);
}

// ---- spaces, special registers, what is not there

#[test]
fn constants_are_told_from_global_memory() {
    let before = ".const .u32 table[2] = {1, 2}; .global .u32 cell;";
    let body = ".reg .pred pc, pg, ps; .shared .u32 own;
        cvta.const.u64 a, table; cvta.global.u64 b, cell; cvta.param.u64 c, k_out; cvta.shared.u64 d, own;
        isspacep.const pc, a; isspacep.global pg, a; selp.u32 x, 1, 0, pc; @pg or.b32 x, x, 2;
        isspacep.const pc, b; isspacep.global pg, b; @pc or.b32 x, x, 4; @pg or.b32 x, x, 8;
        isspacep.const pc, c; isspacep.global pg, c; @pc or.b32 x, x, 16; @pg or.b32 x, x, 32;
        isspacep.const pc, d; isspacep.global pg, d; @pc or.b32 x, x, 64; @pg or.b32 x, x, 128;
        add.u64 a, a, 8; isspacep.const ps, a; @ps or.b32 x, x, 256;
        cvt.u64.u32 a, x; st.global.u64 [out], a;";
    assert_eq!(run_module(1, 1, before, body), [1 | 8 | 32]);
}

#[test]
fn special_registers_that_hold_nothing_can_be_read() {
    let body = "mov.u32 x, %envreg3; mov.u32 y, %pm7; or.b32 x, x, y; mov.u64 a, %pm0_64;
        mov.u32 y, %reserved_smem_offset_begin; or.b32 x, x, y; mov.u32 y, %reserved_smem_offset_1;
        or.b32 x, x, y; mov.u64 b, %current_graph_exec; or.b64 a, a, b; cvt.u64.u32 b, x; or.b64 a, a, b;
        mov.u32 y, %aggr_smem_size; mov.u32 z, %total_smem_size; sub.u32 y, y, z;
        cvt.u64.u32 b, y; or.b64 a, a, b; st.global.u64 [out], a;";
    let device = device();
    let out = Buffer::of_u64(&device, &[7]);
    launch(&device, &kernel("", body), "k", [1; 3], [1; 3], &[out.address]).unwrap();
    assert_eq!(out.u64s(), [0]);
    refused("mov.u32 x, %pm8;");
    refused("mov.u32 x, %envreg32;");
    refused("mov.u32 x, %reserved_smem_offset_2;");
}

#[test]
fn what_is_not_supported_says_why() {
    let why = |body: &str| match refused(body) {
        LoadError::Unsupported { why, .. } => why,
        error => panic!("{body}: {error}"),
    };
    assert!(why("tex.2d.v4.f32.f32 {f, g, h, e}, [a, {f, g}];").contains("textures"));
    assert!(why("suld.b.1d.b32.trap x, [a, {y}];").contains("surfaces"));
    assert!(why("add.rn.f32x2 a, b, c;").contains("sm_100"));
    assert!(why("ld.global.v8.b32 {x, y, z, w, x, y, z, w}, [out];").contains("sm_100"));
    assert!(why("redux.sync.min.f32 f, g, -1;").contains("sm_100a"));
    assert!(why("multimem.ld_reduce.global.add.u32 x, [out];").contains("multicast"));
    assert!(why("vote.all.pred p, p2;").contains(".sync"));
    let text = format!("{HEAD}.global .texref image; {}", kernel("", "").replace(HEAD, ""));
    let error = device().load(&text).err().unwrap();
    assert!(error.to_string().contains("textures"), "{error}");
}
