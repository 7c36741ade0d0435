//! The check of uninitialised values: each use is found, and each correct twin is silent.
#![allow(clippy::result_large_err)]

mod common;

use common::{HEAD, launch};
use emulator::exec::watch::Checks;
use emulator::fault::{Space, Use};
use emulator::{Device, Profile, Trap, TrapKind};
use std::sync::Arc;

fn checked() -> Arc<Device> {
    let checks = Checks { init: true, ..Checks::NONE };
    Device::new(Profile { worker_threads: 1, checks, ..Profile::hopper() })
}

/// A kernel of one body; `%rd0` is an input of 4096 bytes, `%rd1` an output of as many, `%r0` the
/// thread, and `%rd2` the thread times four.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_in, .param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<24>; .reg .b64 %rd<16>; .reg .f32 %f<8>;
            .shared .align 16 .b8 tile[1024];
            .local .align 16 .b8 own[64];
            ld.param.b64 %rd0, [k_in];
            ld.param.b64 %rd1, [k_out];
            mov.u32 %r0, %tid.x;
            mul.wide.u32 %rd2, %r0, 4;
            {body}
            ret; }}"
    )
}

/// Runs a body with an input whose bytes are written where `written` says so.
fn run_on(written: impl Fn(u64) -> bool, body: &str, threads: u32) -> Result<Vec<u32>, Trap> {
    let device = checked();
    let (input, output) = (memory(&device), memory(&device));
    for at in (0..4096).filter(|at| written(*at)) {
        device.memory().write(input + at, &[at as u8]).unwrap();
    }
    launch(&device, &kernel(body), "k", [1; 3], [threads, 1, 1], &[input, output])?;
    let mut bytes = vec![0; 4096];
    device.memory().read(output, &mut bytes).unwrap();
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

fn memory(device: &Device) -> u64 {
    device.memory().alloc(4096).unwrap()
}

/// What a body, run by a warp on an input that was never written, is blamed for.
#[track_caller]
fn blamed(body: &str) -> (Use, Space, u64, u32) {
    let trap = run_on(|_| false, body, 32).expect_err(body);
    match trap.kind {
        TrapKind::Uninitialised { used, space, address, bytes, .. } => {
            (used, space, address, bytes)
        }
        other => panic!("{body}: {other:?}"),
    }
}

#[track_caller]
fn assert_silent(body: &str) {
    if let Err(trap) = run_on(|_| false, body, 32) {
        panic!("{body}\n{trap}");
    }
}

/// Asserts that a body is blamed on an input that was never written, and not on one that was.
#[track_caller]
fn assert_used(body: &str, how: Use) {
    let (used, space, ..) = blamed(body);
    assert_eq!((used, space), (how, Space::Global), "{body}");
    if let Err(trap) = run_on(|_| true, body, 32) {
        panic!("{body}\n{trap}");
    }
}

const LOAD: &str = "add.s64 %rd3, %rd0, %rd2; ld.global.b32 %r1, [%rd3];";
const STORE: &str = "add.s64 %rd4, %rd1, %rd2; st.global.b32 [%rd4], %r9;";

#[test]
fn a_branch_on_a_value_that_nothing_wrote() {
    assert_used(&format!("{LOAD} setp.lt.u32 %p1, %r1, 7; @%p1 bra L; L:"), Use::Branch);
    assert_used(&format!("{LOAD} setp.ne.s32 %p1, %r1, 0; @!%p1 ret;"), Use::Branch);
    assert_used(
        &format!(
            "{LOAD} and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; not.pred %p2, %p1; @%p2 exit;"
        ),
        Use::Branch,
    );
    assert_used(
        &format!(
            "T: .branchtargets A, B; {LOAD} and.b32 %r2, %r1, 0; add.s32 %r3, %r1, %r2; and.b32 %r3, %r3, 1; brx.idx %r3, T; A: B:"
        ),
        Use::Branch,
    );
}

#[test]
fn an_address_made_of_a_value_that_nothing_wrote() {
    assert_used(
        &format!(
            "{LOAD} and.b32 %r2, %r1, 60; cvt.u64.u32 %rd5, %r2; add.s64 %rd5, %rd1, %rd5; st.global.b32 [%rd5], 1;"
        ),
        Use::Address,
    );
    assert_used(
        &format!(
            "{LOAD} and.b32 %r2, %r1, 60; mov.b32 %r3, tile; add.s32 %r3, %r3, %r2; ld.shared.b32 %r4, [%r3];"
        ),
        Use::Address,
    );
    assert_used(
        &format!("{LOAD} bfe.u32 %r2, %r1, 3, 2; shl.b32 %r2, %r2, 2; mul.wide.u32 %rd5, %r2, 4; add.s64 %rd5, %rd1, %rd5; atom.global.add.u32 %r3, [%rd5], 0;")
            .replace("atom.global.add.u32 %r3, [%rd5], 0;", "st.global.b32 [%rd5], 0;"),
        Use::Address,
    );
}

#[test]
fn an_operand_of_an_atomic_and_the_cell_itself() {
    let cell = "st.global.b32 [%rd1], 0;";
    assert_used(&format!("{cell} {LOAD} red.global.add.u32 [%rd1], %r1;"), Use::Atomic);
    assert_used(&format!("{cell} {LOAD} atom.global.cas.b32 %r2, [%rd1], 0, %r1;"), Use::Atomic);
    assert_used("atom.global.add.u32 %r2, [%rd0], 1;", Use::Atomic);
    assert_used("atom.global.cas.b32 %r2, [%rd0+8], 1, 2;", Use::Atomic);
    let (used, space, address, _) = blamed("atom.shared.add.u32 %r2, [tile+8], 1;");
    assert_eq!((used, space, address), (Use::Atomic, Space::Shared, 8));
    assert_silent("st.shared.b32 [tile+8], 0; bar.sync 0; atom.shared.add.u32 %r2, [tile+8], 1;");
    // What was there is only handed on by an exchange.
    assert_silent(&format!("atom.global.exch.b32 %r9, [%rd0], 1; {STORE}"));
    assert_used(
        "atom.global.exch.b32 %r2, [%rd0], 1; setp.eq.s32 %p1, %r2, 5; @%p1 ret;",
        Use::Branch,
    );
}

#[test]
fn a_computed_value_that_is_stored() {
    for compute in [
        "add.s32 %r9, %r1, 1;",
        "mul.lo.s32 %r9, %r1, %r1;",
        "mov.b32 %f1, %r1; add.rn.f32 %f1, %f1, 0f3F800000; mov.b32 %r9, %f1;",
        "cvt.rn.f32.u32 %f1, %r1; mov.b32 %r9, %f1;",
        "popc.b32 %r9, %r1;",
        "setp.lt.s32 %p1, %r1, 3; selp.b32 %r9, 1, 2, %p1;",
        "max.u32 %r9, %r1, 4;",
        "add.s32 %r2, %r1, 1; shl.b32 %r9, %r2, 4;",
        "shl.b32 %r9, %r1, 1;",
        "shr.u32 %r9, %r1, 1;",
        "shr.s32 %r9, %r1, 31;",
        "shf.l.wrap.b32 %r9, %r1, %r1, 7;",
        "shl.b32 %r9, %r1, 8; shl.b32 %r9, %r0, %r9;",
        "and.b32 %r9, %r1, 6;",
        "and.b32 %r9, %r1, %r1;",
        "xor.b32 %r9, %r1, 8;",
        "xor.b32 %r9, %r1, %r0; xor.b32 %r9, %r9, 255;",
        "not.b32 %r9, %r1;",
        "bfe.u32 %r9, %r1, 4, 8;",
        "bfi.b32 %r9, %r1, %r0, 4, 8;",
        "lop3.b32 %r9, %r1, %r0, 255, 0x96;",
        "lop3.b32 %r9, %r1, %r1, 0, 0xc0;",
        "div.u32 %r2, %r0, %r1; mov.b32 %r9, %r2;",
    ] {
        assert_used(&format!("{LOAD} or.b32 %r1, %r1, 1; {compute} {STORE}"), Use::Stored);
    }
}

#[test]
fn copies_of_any_kind_are_silent() {
    for copy in [
        "mov.b32 %r9, %r1;",
        "mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};",
        "prmt.b32 %r9, %r1, 0, 0x4321;",
        "shl.b32 %r9, %r1, 8;",
        "cvt.u64.u32 %rd5, %r1; cvt.u32.u64 %r9, %rd5;",
        "mov.b64 %rd5, {%r1, %r0}; shr.u64 %rd5, %rd5, 8; cvt.u32.u64 %r9, %rd5;",
        "shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;",
        "setp.lt.u32 %p1, %r0, 3; selp.b32 %r9, %r1, %r0, %p1;",
        "shf.l.wrap.b32 %r9, %r1, %r0, 16;",
        "bfi.b32 %r9, %r1, %r0, 8, 8;",
        "lop3.b32 %r9, %r1, %r0, 255, 0xe4;",
        "and.b32 %r9, %r1, 0xff00ff; or.b32 %r9, %r9, 0xff00;",
        "xor.b32 %r9, %r1, 0;",
        "shr.u32 %r9, %r1, 16;",
        "bfe.u32 %r9, %r1, 8, 16;",
        "st.local.b32 [own+4], %r1; ld.local.b32 %r9, [own+4];",
        "mad.lo.s32 %r2, %r0, 4, 0; mov.b32 %r3, tile; add.s32 %r2, %r2, %r3; st.shared.b32 [%r2], %r1; ld.shared.b32 %r9, [%r2];",
    ] {
        assert_silent(&format!("{LOAD} {copy} {STORE}"));
    }
}

#[test]
fn what_was_copied_is_still_known_to_mean_nothing() {
    let branch = "setp.eq.s32 %p1, %r9, 0; @%p1 ret;";
    for copy in [
        "mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};",
        "cvt.u64.u32 %rd5, %r1; cvt.u32.u64 %r9, %rd5;",
        "mov.b64 %rd5, {%r0, %r1}; mov.b64 {_, %r9}, %rd5;",
        "shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;",
        "cvt.s32.s8 %r9, %r1; and.b32 %r9, %r9, 0x80000000;",
        "vote.sync.ballot.b32 %r9, %p0, -1; setp.lt.s32 %p2, %r1, 4; vote.sync.ballot.b32 %r9, %p2, -1;",
        "redux.sync.add.s32 %r9, %r1, -1;",
        "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call.uni (out), same, (in); ld.param.b32 %r9, [out]; }",
        "{ .param .b32 a; .param .b32 in; .param .b32 out; st.param.b32 [a], %r0; st.param.b32 [in], %r1; call.uni (out), second, (a, in); ld.param.b32 %r9, [out]; }",
        "st.global.b32 [%rd1+16], %r1; ld.global.b32 %r9, [%rd1+16];",
    ] {
        let body = format!("{LOAD} {copy} {branch}");
        let same = ".func (.param .b32 o) same(.param .b32 i) { .reg .b32 %r<2>; ld.param.b32 %r1, [i]; st.param.b32 [o], %r1; ret; }\n\
            .func (.param .b32 o) second(.param .b32 x, .param .b32 i) { .reg .b32 %r<2>; ld.param.b32 %r1, [i]; st.param.b32 [o], %r1; ret; }\n";
        let text = kernel(&body).replace(".visible", &format!("{same}.visible"));
        for written in [false, true] {
            let device = checked();
            let (input, output) = (memory(&device), memory(&device));
            if written {
                device.memory().fill8(input, 1, 4096).unwrap();
            }
            let result = launch(&device, &text, "k", [1; 3], [32, 1, 1], &[input, output]);
            match (written, result) {
                (true, Ok(_)) => {}
                (false, Err(trap)) => assert!(
                    matches!(trap.kind, TrapKind::Uninitialised { used: Use::Branch, .. }),
                    "{copy}: {trap}"
                ),
                (_, other) => panic!("{copy}, written: {written}: {other:?}"),
            }
        }
    }
}

#[test]
fn shared_memory_is_fresh_in_each_block_and_local_memory_in_each_call() {
    let (used, space, address, bytes) =
        blamed("ld.shared.b32 %r1, [tile+100]; setp.eq.s32 %p1, %r1, 0; @%p1 ret;");
    assert_eq!((used, space, address, bytes), (Use::Branch, Space::Shared, 100, 4));
    let (used, space, address, _) =
        blamed("ld.local.b32 %r1, [own+8]; setp.eq.s32 %p1, %r1, 0; @%p1 ret;");
    assert_eq!((used, space, address), (Use::Branch, Space::Local, 8));
    assert_silent(
        "st.local.b32 [own+8], 4; ld.local.b32 %r1, [own+8]; setp.eq.s32 %p1, %r1, 0; @%p1 ret;",
    );
    // The second block does not see what the first wrote, nor a call what another left.
    let device = checked();
    let text = kernel(
        "mov.u32 %r5, %ctaid.x; setp.ne.u32 %p1, %r5, 0; @%p1 bra L; st.shared.b32 [tile], 1; L:
         ld.shared.b32 %r1, [tile]; setp.eq.s32 %p2, %r1, 1; @%p2 ret;",
    );
    let at = memory(&device);
    let trap = launch(&device, &text, "k", [2, 1, 1], [32, 1, 1], &[at, at]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Uninitialised { space: Space::Shared, .. }), "{trap}");
    assert_eq!(trap.block, [1, 0, 0]);
    let leaf =
        ".func leaf(.param .b32 first) { .reg .pred %p<3>; .reg .b32 %r<4>; .local .b8 own[16];
        ld.param.b32 %r1, [first]; setp.ne.s32 %p1, %r1, 0; @!%p1 bra L; st.local.b32 [own+4], 1; L:
        ld.local.b32 %r2, [own+4]; setp.ne.s32 %p2, %r2, 0; @%p2 ret; ret; }\n";
    let call =
        |value: u32| format!("{{ .param .b32 a; st.param.b32 [a], {value}; call.uni leaf, (a); }}");
    for (second, silent) in [(1, true), (0, false)] {
        let text = kernel(&format!("{} {}", call(1), call(second)));
        let text = text.replace(".visible", &format!("{leaf}.visible"));
        let result = launch(&device, &text, "k", [1; 3], [32, 1, 1], &[at, at]);
        assert_eq!(result.is_ok(), silent, "{result:?}");
    }
}

#[test]
fn a_report_says_what_was_read_where_and_used_where() {
    let body = "\n.loc 1 10 1\nadd.s64 %rd3, %rd0, %rd2; ld.global.v2.b32 {%r1, %r2}, [%rd3+8];
        \n.loc 1 20 1\nsetp.eq.s32 %p1, %r2, 0; @%p1 ret;";
    let text = kernel(body).replace(".visible", ".file 1 \"src/kernel.rs\"\n.visible");
    let device = checked();
    let (input, output) = (memory(&device), memory(&device));
    device.memory().fill8(input, 0, 13).unwrap();
    let trap = launch(&device, &text, "k", [1; 3], [1, 1, 1], &[input, output]).unwrap_err();
    let said = trap.to_string();
    assert_eq!(
        said,
        format!(
            "uninitialised value decides a branch in kernel `k`, block (0,0,0), thread (0,0,0), \
             at src/kernel.rs:20: 3 bytes of global memory from {:#x}, 13 bytes into the 4096-byte \
             allocation at {input:#x}, read at src/kernel.rs:10, hold nothing that was written since \
             the allocation was made",
            input + 13
        )
    );
    let trap = run_on(|_| true, "ld.shared.b32 %r1, [tile+4]; st.global.b32 [%rd1], %r1; neg.s32 %r1, %r1; st.global.b32 [%rd1], %r1;", 1).unwrap_err();
    let said = trap.to_string();
    assert!(said.contains("used in a computation whose result is stored"), "{said}");
    assert!(
        said.contains("4 bytes of shared memory from 0x4 in `tile`, read at PTX line"),
        "{said}"
    );
}

#[test]
fn a_structure_with_padding_is_copied_and_used() {
    // u8, three bytes of padding, u32: as words, as pairs of words, as one of 64 bits.
    let written = |at: u64| !matches!(at % 8, 1..4);
    let body = "mul.wide.u32 %rd3, %r0, 8; add.s64 %rd4, %rd0, %rd3; add.s64 %rd5, %rd1, %rd3;
        ld.global.v2.b32 {%r1, %r2}, [%rd4]; st.global.v2.b32 [%rd5], {%r1, %r2};
        ld.global.b64 %rd6, [%rd5]; st.global.b64 [%rd5+1024], %rd6;
        ld.global.u8 %h1, [%rd5+1024]; setp.eq.s16 %p1, %h1, 3; @%p1 ret;
        and.b32 %r3, %r1, 255; setp.lt.u32 %p1, %r3, 9; @%p1 ret;
        cvt.u32.u8 %r3, %r1; add.s32 %r3, %r3, %r2; st.global.b32 [%rd5+2048], %r3;
        shr.u64 %rd7, %rd6, 32; cvt.u32.u64 %r4, %rd7; setp.eq.s32 %p1, %r4, %r2; @!%p1 ret;
        prmt.b32 %r5, %r1, 0, 0x4440; add.s32 %r5, %r5, 1; st.global.b32 [%rd5+3072], %r5;";
    run_on(written, body, 32).unwrap();
    // The padding itself decides.
    let body = "ld.global.b32 %r1, [%rd0]; setp.eq.s32 %p1, %r1, 0; @%p1 ret;";
    let trap = run_on(written, body, 1).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Uninitialised { bytes: 3, .. }), "{trap}");
    // A known byte that differs decides a test of equality.
    run_on(written, "ld.global.b32 %r1, [%rd0+8]; setp.eq.s32 %p1, %r1, 3; @%p1 ret;", 1).unwrap();
}

#[test]
fn bytes_written_apart_are_used_apart_and_together() {
    assert_silent(
        "st.shared.b8 [tile], 1; st.shared.b8 [tile+1], 2; ld.shared.b32 %r1, [tile];
         and.b32 %r2, %r1, 0xffff; add.s32 %r2, %r2, 1; st.global.b32 [%rd1], %r2;
         setp.eq.s32 %p1, %r2, 514; @%p1 ret;
         st.shared.b16 [tile+2], 7; ld.shared.b32 %r1, [tile]; add.s32 %r1, %r1, 1; st.global.b32 [%rd1], %r1;",
    );
    // A field of bits in a word that nothing wrote.
    assert_silent(
        "ld.local.b32 %r1, [own]; and.b32 %r1, %r1, 0xfffffff8; or.b32 %r1, %r1, 5; st.local.b32 [own], %r1;
         ld.local.b32 %r2, [own]; and.b32 %r2, %r2, 7; st.global.b32 [%rd1], %r2; setp.eq.s32 %p1, %r2, 5; @!%p1 ret;",
    );
    let (used, space, address, bytes) = blamed(
        "st.shared.b8 [tile], 1; ld.shared.b32 %r1, [tile]; add.s32 %r2, %r1, 1; st.global.b32 [%rd1], %r2;",
    );
    assert_eq!((used, space, address, bytes), (Use::Stored, Space::Shared, 1, 3));
}

#[test]
fn a_choice_that_leaves_out_what_nothing_wrote_is_silent() {
    assert_silent(&format!(
        "{LOAD} setp.lt.u32 %p1, %r0, 64; selp.b32 %r9, %r0, %r1, %p1; add.s32 %r9, %r9, 1; {STORE}"
    ));
    assert_silent(&format!("{LOAD} and.b32 %r9, %r1, 0; add.s32 %r9, %r9, 1; {STORE}"));
    assert_silent(
        &format!("{LOAD} setp.lt.u32 %p1, %r1, 3; and.pred %p2, %p1, 0; @%p2 ret;")
            .replace("and.pred %p2, %p1, 0", "setp.ne.u32 %p3, %r0, %r0; and.pred %p2, %p1, %p3"),
    );
    assert_used(
        &format!(
            "{LOAD} setp.lt.u32 %p1, %r1, 3; setp.eq.u32 %p3, %r0, %r0; and.pred %p2, %p1, %p3; @%p2 ret;"
        ),
        Use::Branch,
    );
    assert_used(
        &format!("{LOAD} setp.lt.u32 %p1, %r1, 3; mov.b32 %r9, 1; @%p1 mov.b32 %r9, 2; {STORE}"),
        Use::Stored,
    );
}

#[test]
fn a_tree_over_lanes_of_which_some_have_nothing() {
    // Only the first 20 words are written; the others' sums are thrown away.
    let written = |at: u64| at < 80;
    let step = |by: u32| {
        format!(
            "shfl.sync.down.b32 %r2|%p1, %r1, {by}, 31, -1; add.s32 %r3, %r0, {by}; setp.lt.u32 %p2, %r3, 20; add.s32 %r4, %r1, %r2; selp.b32 %r1, %r4, %r1, %p2;"
        )
    };
    let tree: String = [16, 8, 4, 2, 1].map(step).concat();
    let end = "setp.ne.u32 %p3, %r0, 0; @%p3 ret; st.global.b32 [%rd1], %r1;";
    run_on(written, &format!("{LOAD} {tree} {end}"), 32).unwrap();
    // Without the choice, the sum takes in what nothing wrote.
    let wrong = tree.replace("selp.b32 %r1, %r4, %r1, %p2;", "mov.b32 %r1, %r4;");
    let trap = run_on(written, &format!("{LOAD} {wrong} {end}"), 32).unwrap_err();
    assert!(
        matches!(trap.kind, TrapKind::Uninitialised { used: Use::Stored, .. })
            && trap.thread == [0; 3],
        "{trap}"
    );
}

#[test]
fn a_ragged_edge_read_in_vectors_is_silent_where_it_is_left_out() {
    let written = |at: u64| at < 4 * 102;
    let body = |limit: u32| {
        format!(
        "mul.wide.u32 %rd3, %r0, 16; add.s64 %rd4, %rd0, %rd3; ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd4];
         shl.b32 %r5, %r0, 2; mov.b32 %r9, 0;
         setp.lt.u32 %p1, %r5, {limit}; @!%p1 bra END; add.s32 %r9, %r9, %r1; add.s32 %r5, %r5, 1;
         setp.lt.u32 %p1, %r5, {limit}; @!%p1 bra END; add.s32 %r9, %r9, %r2; add.s32 %r5, %r5, 1;
         setp.lt.u32 %p1, %r5, {limit}; @!%p1 bra END; add.s32 %r9, %r9, %r3; add.s32 %r5, %r5, 1;
         setp.lt.u32 %p1, %r5, {limit}; @!%p1 bra END; add.s32 %r9, %r9, %r4;
         END: {STORE}"
    )
    };
    run_on(written, &body(102), 32).unwrap();
    let trap = run_on(written, &body(103), 32).unwrap_err();
    assert_eq!(trap.thread, [25, 0, 0]);
}

#[test]
fn the_host_and_earlier_launches_write() {
    let device = checked();
    let (a, b) = (memory(&device), memory(&device));
    let read = kernel(&format!("{LOAD} add.s32 %r9, %r1, 1; {STORE}"));
    let run = |text: &str, from, to| launch(&device, text, "k", [1; 3], [32, 1, 1], &[from, to]);
    assert!(run(&read, a, b).is_err());
    device.memory().fill32(a, 3, 32).unwrap();
    run(&read, a, b).unwrap();
    // What a kernel wrote, another may read; and what the host copied is as good as its source.
    let c = memory(&device);
    run(&read, b, c).unwrap();
    device.memory().copy(a + 1024, c, 128).unwrap();
    run(&read, a + 1024, b).unwrap();
    device.memory().copy(a + 1024, c + 64, 128).unwrap();
    assert!(run(&read, a + 1024, b).is_err());
    // Freed and allocated anew, it holds nothing; host memory always does.
    device.memory().free(a).unwrap();
    let fresh = memory(&device);
    assert!(run(&read, fresh, b).is_err());
    run(&read, device.memory().alloc_host(4096).unwrap(), b).unwrap();
}

#[test]
fn module_variables_and_parameters_are_written() {
    let device = checked();
    let text = kernel(
        "ld.global.b32 %r1, [counter]; add.s32 %r1, %r1, 1; st.global.b32 [%rd1], %r1;
         ld.const.b32 %r2, [table+4]; setp.eq.s32 %p1, %r2, 0; @%p1 ret; atom.global.add.u32 %r3, [counter], 1;",
    );
    let text = text.replace(
        ".visible",
        ".global .align 4 .u32 counter;\n.const .align 4 .u32 table[4] = {1, 2, 3};\n.visible",
    );
    let at = memory(&device);
    launch(&device, &text, "k", [1; 3], [32, 1, 1], &[at, at]).unwrap();
}

#[test]
fn masks_and_barriers() {
    let mask = format!("{LOAD} or.b32 %r2, %r1, -1; ");
    assert_silent(&format!("{mask} bar.warp.sync %r2;"));
    assert_used(
        &format!("{LOAD} min.u32 %r2, %r1, 0; add.s32 %r2, %r2, -1; bar.warp.sync %r2;"),
        Use::Mask,
    );
    assert_used(&format!("{LOAD} min.u32 %r2, %r1, 0; barrier.sync %r2;"), Use::Mask);
}

#[test]
fn lanes_that_come_apart_to_a_shuffle_take_along_what_is_known() {
    let body = |then: &str| {
        format!(
        "{LOAD} setp.lt.u32 %p1, %r0, 16; @%p1 bra A; mov.b32 %r1, 7; bra B; A: mov.b32 %r1, 5; B:
         ld.global.b32 %r6, [%rd3+1024]; {then}
         @%p1 bra C; nanosleep.u32 1; C: shfl.sync.down.b32 %r9, %r1, 1, 31, -1;
         shfl.sync.idx.b32 %r8, %r6, 3, 31, -1; {STORE} setp.eq.s32 %p2, %r8, 3;"
    )
    };
    assert_silent(&body(""));
    assert_silent(&body("mov.b32 %r6, 0;"));
    assert_used(&format!("{} @%p2 ret;", body("")), Use::Branch);
}

#[test]
fn without_the_check_nothing_is_said() {
    let device = common::device();
    let (a, b) = (memory(&device), memory(&device));
    let text = kernel(&format!("{LOAD} add.s32 %r9, %r1, 1; {STORE}"));
    launch(&device, &text, "k", [1; 3], [32, 1, 1], &[a, b]).unwrap();
}

/// A shuffle that reads a lane outside of its mask, or one that has ended, gives a value that means
/// nothing.
#[test]
fn a_lane_that_takes_no_part_in_a_shuffle_has_no_value() {
    let half = "mov.b32 %r1, %r0; setp.ge.u32 %p1, %r0, 16; @%p1 bra OVER;";
    let absent = |body: &str, threads| match run_on(|_| true, body, threads).expect_err(body).kind {
        TrapKind::AbsentLane { used, from, members, .. } => (used, from, members),
        other => panic!("{body}: {other:?}"),
    };
    let index =
        |from: u32| format!("{half} shfl.sync.idx.b32 %r9, %r1, {from}, 31, 0xffff; {STORE} OVER:");
    assert_eq!(absent(&index(20), 32), (Use::Stored, 20, 0xffff));
    assert_eq!(run_on(|_| true, &index(7), 32).unwrap()[3], 7);
    let text = run_on(|_| true, &index(20), 32).unwrap_err().to_string();
    for words in [
        "value of an absent lane used in a computation whose result is stored in kernel `k`",
        "read lane 20, but only the lanes 0x0000ffff took part in it",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let branch = format!(
        "{half} shfl.sync.down.b32 %r9, %r1, 8, 31, 0xffff; setp.eq.s32 %p2, %r9, 3; @%p2 ret; OVER:"
    );
    assert_eq!(absent(&branch, 32), (Use::Branch, 16, 0xffff));
    // Lanes that never began, or have ended, which the mask names all the same.
    let all = format!("shfl.sync.bfly.b32 %r9, %r0, 16, 31, -1; {STORE}");
    assert_eq!(absent(&all, 20), (Use::Stored, 20, 0xf_ffff));
    assert_eq!(
        absent(&format!("setp.ge.u32 %p1, %r0, 16; @%p1 ret; {all}"), 32),
        (Use::Stored, 16, 0xffff)
    );
    // A tree over half a warp reads past the mask, and throws away what it gets.
    let step =
        |by: u32| format!("shfl.sync.down.b32 %r2, %r1, {by}, 31, 0xffff; add.s32 %r1, %r1, %r2;");
    let tree: String = [8, 4, 2, 1].map(step).concat();
    let first = "setp.eq.u32 %p2, %r0, 0; @%p2 st.global.b32 [%rd1], %r1; OVER:";
    assert_eq!(run_on(|_| true, &format!("{half} {tree} {first}"), 32).unwrap()[0], 120);
    let clamped = tree.replace("31, 0xffff", "0x100f, 0xffff");
    run_on(|_| true, &format!("{half} {clamped} mov.b32 %r9, %r1; {STORE} OVER:"), 32).unwrap();
}

/// The target of an asynchronous copy is written when the copy is done, and not when it is asked
/// for.
#[test]
fn a_copy_that_is_not_waited_for_has_written_nothing() {
    let copy =
        "mov.u32 %r2, tile; shl.b32 %r3, %r0, 4; add.u32 %r2, %r2, %r3; cvt.u64.u32 %rd5, %r3;
        add.s64 %rd5, %rd0, %rd5; cp.async.cg.shared.global [%r2], [%rd5], 16;";
    let read =
        "mov.u32 %r4, tile; shl.b32 %r3, %r0, 4; add.u32 %r4, %r4, %r3; ld.shared.b32 %r9, [%r4];
        add.s32 %r9, %r9, 1;";
    let body = |wait: &str| format!("{copy} {wait} {read} {STORE}");
    for wait in ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"] {
        run_on(|_| true, &body(wait), 32).unwrap();
    }
    for wait in ["", "cp.async.commit_group;", "cp.async.commit_group; cp.async.wait_group 1;"] {
        match run_on(|_| true, &body(wait), 32).expect_err(wait).kind {
            TrapKind::Uninitialised {
                used: Use::Stored, space: Space::Shared, bytes: 4, ..
            } => {}
            other => panic!("{wait}: {other:?}"),
        }
    }
    // What the source lacks, the target lacks.
    let trap = run_on(|at| at >= 4, &body("cp.async.wait_all;"), 32).unwrap_err();
    assert_eq!(trap.thread, [0; 3]);
    // What is filled with zeros has a value, and the source is not looked at.
    let zeros = body("cp.async.wait_all;").replace("[%rd5], 16;", "[%rd5], 16, 0;");
    run_on(|_| false, &zeros, 32).unwrap();
}

/// A copy of what nothing wrote takes the meaning from an allocation that was written as a whole.
#[test]
fn an_allocation_that_was_written_completely_can_lose_its_meaning() {
    let device = checked();
    let (input, output) = (memory(&device), memory(&device));
    device.memory().fill8(output, 0, 4096).unwrap();
    let run = |body: &str| {
        launch(&device, &kernel(body), "k", [1; 3], [32, 1, 1], &[input, output]).map(drop)
    };
    let read = "add.s64 %rd4, %rd1, %rd2; ld.global.b32 %r9, [%rd4+{}]; setp.eq.s32 %p1, %r9, 1; @%p1 ret;";
    run(&read.replace("{}", "0")).unwrap();
    run(&format!("{LOAD} mov.b32 %r9, %r1; {STORE}")).unwrap();
    run(&read.replace("{}", "128")).unwrap();
    match run(&read.replace("{}", "0")).unwrap_err().kind {
        TrapKind::Uninitialised { used: Use::Branch, space: Space::Global, bytes: 4, .. } => {}
        other => panic!("{other:?}"),
    }
}
