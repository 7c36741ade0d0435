//! The check of accesses that a GPU would let pass: each is found, and each correct twin is silent.
#![allow(clippy::result_large_err)]

mod common;

use common::{Buffer, HEAD};
use emulator::exec::watch::Checks;
use emulator::fault::{Access, Space};
use emulator::{Device, Launch, Profile, Stats, Trap, TrapKind};
use std::sync::Arc;

fn with(checks: Checks) -> Arc<Device> {
    Device::new(Profile { worker_threads: 1, checks, ..Profile::hopper() })
}

fn checked() -> Arc<Device> {
    with(Checks { memory: true, ..Checks::NONE })
}

const MODULE: &str = ".const .align 4 .u32 table[4] = {1, 2, 3, 4};
.global .align 4 .u32 first[4];
.global .align 4 .u32 second[4];
.func fill(.param .b64 at) {
    .reg .b64 %rd<2>; .local .align 8 .b8 mine[24];
    ld.param.b64 %rd1, [at]; st.local.b32 [mine+20], 1; st.b32 [%rd1], 5; ret; }
";

/// A kernel of one body with two shared and two local variables; `%rd0` is a buffer of 1024 bytes,
/// `%r0` the thread, `%rd2` the thread times four.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}{MODULE}.visible .entry k(.param .u64 k_at) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
            .shared .align 4 .b8 left[100];
            .shared .align 16 .b8 right[64];
            .local .align 4 .b8 here[40];
            .local .align 8 .b8 there[16];
            ld.param.b64 %rd0, [k_at];
            mov.u32 %r0, %tid.x;
            mul.wide.u32 %rd2, %r0, 4;
            mov.b64 %rd3, left; mov.b64 %rd4, right; mov.b64 %rd5, here; mov.b64 %rd6, there;
            {body}
            ret; }}"
    )
}

fn launch(device: &Device, body: &str, grid: u32, threads: u32) -> Result<Stats, Trap> {
    let module = device.load(&kernel(body)).unwrap_or_else(|error| panic!("{error}: {body}"));
    let function = module.function("k").unwrap();
    let at = Buffer::new(device, 1024);
    device.launch(&Launch {
        grid: [grid, 1, 1],
        block: [threads, 1, 1],
        params: &at.address.to_le_bytes(),
        ..Launch::new(&function)
    })
}

#[track_caller]
fn blamed(body: &str) -> TrapKind {
    launch(&checked(), body, 1, 32).expect_err(body).kind
}

#[track_caller]
fn assert_silent(body: &str) {
    if let Err(trap) = launch(&checked(), body, 2, 64) {
        panic!("{body}\n{trap}");
    }
}

#[test]
fn a_variable_of_shared_memory_ends_where_it_was_declared_to_end() {
    for (body, name, access, past) in [
        ("st.shared.b32 [left+100], %r0;", "left", Access::Store, 0),
        ("ld.shared.b32 %r1, [left+104];", "left", Access::Load, 4),
        ("ld.shared.b64 %rd7, [right+64];", "right", Access::Load, 0),
        ("add.s64 %rd7, %rd3, 100; ld.shared.b8 %r1, [%rd7];", "left", Access::Load, 0),
        ("add.s64 %rd7, %rd4, 64; atom.shared.add.u32 %r1, [%rd7], 1;", "right", Access::Atomic, 0),
        ("cvta.shared.u64 %rd7, %rd3; st.b32 [%rd7+100], %r0;", "left", Access::Store, 0),
        ("mad.wide.u32 %rd7, %r0, 4, %rd3; st.shared.b32 [%rd7], %r0;", "left", Access::Store, 0),
        ("mad.wide.u32 %rd7, %r0, 4, %rd4; st.shared.b32 [%rd7], %r0;", "right", Access::Store, 0),
    ] {
        match blamed(body) {
            TrapKind::OutOfVariable {
                access: found, space, address, variable, nearest, ..
            } => {
                assert_eq!(
                    (found, space, variable.as_str()),
                    (access, Space::Shared, name),
                    "{body}"
                );
                assert_eq!(address - nearest.base - nearest.bytes, past, "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    // Before the start lies the end of another.
    match blamed("ld.shared.b32 %r1, [%rd4+-4];") {
        TrapKind::OutOfVariable { variable, .. } => assert_eq!(variable, "right"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_of_a_variable_of_shared_memory_may_be_used() {
    assert_silent(
        "st.shared.b32 [left], 1; st.shared.b32 [left+96], 1; st.shared.v4.b32 [right+48], {%r0, %r0, %r0, %r0};",
    );
    assert_silent(
        "setp.ge.u32 %p1, %r0, 25; @%p1 ret; add.s64 %rd7, %rd3, %rd2; st.shared.b32 [%rd7], %r0;",
    );
    assert_silent(
        "cvta.shared.u64 %rd7, %rd4; st.b32 [%rd7+60], %r0; atom.shared.add.u32 %r1, [right], 1;",
    );
    // Some lanes in one variable, some in the other.
    assert_silent(
        "setp.lt.u32 %p1, %r0, 7; selp.b64 %rd7, %rd3, %rd4, %p1; st.shared.b32 [%rd7+12], %r0;",
    );
}

#[test]
fn without_the_check_variables_lie_side_by_side() {
    let device = common::device();
    launch(&device, "st.shared.b32 [left+100], %r0; st.local.b32 [here+40], %r0;", 1, 32).unwrap();
    let found = launch(&device, "st.shared.b32 [left+176], %r0;", 1, 1).unwrap_err();
    assert!(matches!(found.kind, TrapKind::OutOfBounds { space: Space::Shared, .. }), "{found}");
}

#[test]
fn red_zones_are_not_counted_as_the_kernels_memory() {
    let body = "mov.u32 %r1, %total_smem_size; st.global.b32 [%rd0], %r1;";
    let size = |device: &Device| {
        let module = device.load(&kernel(body)).unwrap();
        let function = module.function("k").unwrap();
        let at = Buffer::new(device, 64);
        let params = at.address.to_le_bytes();
        let launch = Launch { dynamic_shared_bytes: 32, params: &params, ..Launch::new(&function) };
        device.launch(&launch).unwrap();
        (function.static_shared_bytes, function.local_bytes, at.u32s()[0])
    };
    assert_eq!(size(&checked()), size(&common::device()));
}

#[test]
fn dynamic_shared_memory_begins_behind_a_red_zone_and_keeps_its_alignment() {
    let text = format!(
        "{HEAD}.extern .shared .align 128 .b8 heap[]; .visible .entry k(.param .u64 k_at) {{
            .reg .b64 %rd<4>; .reg .b32 %r<4>; .shared .align 4 .b8 own[8];
            ld.param.b64 %rd1, [k_at]; mov.b64 %rd2, heap; and.b64 %rd3, %rd2, 127; st.global.b64 [%rd1], %rd3;
            st.shared.b32 [own+4], 1; st.shared.b32 [heap], 1; st.shared.b32 [heap+60], 1; BODY ret; }}"
    );
    let run = |body: &str| {
        let device = checked();
        let module = device.load(&text.replace("BODY", body)).unwrap();
        let function = module.function("k").unwrap();
        let at = Buffer::new(&device, 64);
        let params = at.address.to_le_bytes();
        let launch = Launch { dynamic_shared_bytes: 64, params: &params, ..Launch::new(&function) };
        device.launch(&launch).map(|_| at.u64s()[0])
    };
    assert_eq!(run(""), Ok(0));
    let before = run("st.shared.b32 [heap+-4], 1;").unwrap_err().kind;
    assert!(matches!(before, TrapKind::OutOfVariable { .. }), "{before:?}");
    let past = run("st.shared.b32 [heap+64], 1;").unwrap_err().kind;
    assert!(matches!(past, TrapKind::OutOfBounds { space: Space::Shared, .. }), "{past:?}");
}

#[test]
fn a_variable_of_local_memory_ends_where_it_was_declared_to_end() {
    for (body, name) in [
        ("st.local.b32 [here+40], %r0;", "here"),
        ("and.b64 %rd7, %rd2, 60; add.s64 %rd7, %rd5, %rd7; ld.local.b32 %r1, [%rd7];", "here"),
        ("cvta.local.u64 %rd7, %rd6; st.b32 [%rd7+16], %r0;", "there"),
        ("ld.local.b32 %r1, [%rd6+-4];", "there"),
    ] {
        match blamed(body) {
            TrapKind::OutOfVariable { space: Space::Local, variable, .. } => {
                assert_eq!(variable, name, "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    assert_silent(
        "st.local.b32 [here], 1; st.local.b32 [here+36], 1; ld.local.v2.b32 {%r1, %r2}, [there+8];",
    );
    // A pointer to the caller's variable, and the function's own.
    assert_silent(
        "{ .param .b64 a; cvta.local.u64 %rd7, %rd5; add.s64 %rd7, %rd7, 36; st.param.b64 [a], %rd7; call.uni fill, (a); } ld.local.b32 %r1, [here+36]; setp.eq.s32 %p1, %r1, 5; @%p1 ret; trap;",
    );
}

#[test]
fn a_report_names_the_variable() {
    let text = launch(&checked(), "ld.shared.b32 %r1, [left+104];", 1, 1).unwrap_err().to_string();
    assert!(
        text.starts_with("out-of-bounds load of 4 bytes at 0x68 of shared memory in kernel `k`")
            && text.ends_with(": 4 bytes past the end of the 100-byte variable `left` at 0x0"),
        "{text}"
    );
}

#[test]
fn data_read_as_read_only_is_not_written_in_the_same_launch() {
    let read = "ld.global.nc.b32 %r1, [%rd0+16];";
    for write in [
        "st.global.b32 [%rd0+16], %r0;",
        "st.global.b8 [%rd0+19], %r0;",
        "st.global.v4.b32 [%rd0+16], {%r0, %r0, %r0, %r0};",
        "red.global.add.u32 [%rd0+16], 1;",
        "st.b64 [%rd0+16], %rd0;",
    ] {
        for (body, second) in [
            (format!("{read} bar.sync 0; {write}"), false),
            (format!("{write} bar.sync 0; {read}"), true),
        ] {
            match blamed(&body) {
                TrapKind::ReadOnlyWritten { access, other, .. } => {
                    assert_eq!(access == Access::Load, second, "{body}");
                    assert!(other.is_some(), "{body}");
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }
    // Other bytes may be written, and what is read otherwise.
    assert_silent(
        "ld.global.nc.b32 %r1, [%rd0+16]; st.global.b32 [%rd0+20], 1; st.global.b32 [%rd0+12], 1;",
    );
    assert_silent(
        "ld.global.b32 %r1, [%rd0+16]; bar.sync 0; st.global.b32 [%rd0+16], 1; ld.global.nc.b32 %r1, [%rd0+64];",
    );
    assert_silent("ld.global.nc.b8 %r1, [%rd0+16]; st.global.b8 [%rd0+17], 1;");
}

#[test]
fn a_report_of_written_read_only_data_names_both_threads() {
    // The first block reads what a thread of the second writes.
    let body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra W;
        add.s64 %rd7, %rd0, %rd2; ld.global.nc.b32 %r2, [%rd7]; ret;
        W: setp.ne.u32 %p2, %r0, 3; @%p2 ret; st.global.b32 [%rd0+20], %r0;";
    let trap = launch(&checked(), body, 2, 32).unwrap_err();
    assert_eq!((trap.block, trap.thread), ([1, 0, 0], [3, 0, 0]));
    let text = trap.to_string();
    assert!(text.contains("of data that the same launch reads as read-only"), "{text}");
    assert!(text.contains("read by block (0,0,0), thread ("), "{text}");
    assert!(text.contains("20 bytes into the 1024-byte allocation"), "{text}");
    // Launch by launch the same is fine.
    let device = checked();
    launch(&device, "ld.global.nc.b32 %r1, [%rd0]; st.global.b32 [%rd0+4], 1;", 1, 1).unwrap();
    launch(&device, "ld.global.nc.b32 %r1, [%rd0+4]; st.global.b32 [%rd0], 1;", 1, 1).unwrap();
}

#[test]
fn constants_are_not_written() {
    for body in [
        "mov.b64 %rd7, table; cvta.const.u64 %rd7, %rd7; st.b32 [%rd7+8], %r0;",
        "mov.b64 %rd7, table; st.global.b32 [%rd7+8], %r0;",
        "mov.b64 %rd7, table; atom.global.add.u32 %r1, [%rd7], 1;",
    ] {
        match blamed(body) {
            TrapKind::ConstantWritten { variable, .. } => assert_eq!(variable, "table"),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert_silent(
        "ld.const.b32 %r1, [table+12]; mov.b64 %rd7, table; cvta.const.u64 %rd7, %rd7; ld.b32 %r2, [%rd7]; st.global.b32 [first], %r2;",
    );
}

#[test]
fn variables_of_a_module_lie_apart() {
    match blamed("mov.b64 %rd7, first; st.global.b32 [%rd7+16], %r0;") {
        TrapKind::OutOfBounds { nearest, .. } => assert_eq!(nearest.unwrap().bytes, 16),
        other => panic!("{other:?}"),
    }
    assert_silent(
        "mov.b64 %rd7, first; st.global.b32 [%rd7+12], 1; mov.b64 %rd7, second; st.global.b32 [%rd7], 1;",
    );
}

#[test]
#[cfg_attr(
    windows,
    ignore = "allocations may lie so low that a pointer looks like an offset in shared memory"
)]
fn pointers_of_another_space_are_told() {
    for (body, space) in [
        ("cvta.to.shared.u64 %rd7, %rd0; ld.shared.b32 %r1, [%rd7];", Space::Shared),
        ("ld.shared.b32 %r1, [%rd0];", Space::Shared),
        ("cvta.to.local.u64 %rd7, %rd0; st.local.b32 [%rd7], %r1;", Space::Local),
        ("cvta.shared.u64 %rd7, %rd3; ld.global.b32 %r1, [%rd7];", Space::Global),
        (
            "cvta.local.u64 %rd7, %rd5; cvta.to.global.u64 %rd7, %rd7; ld.global.b32 %r1, [%rd7];",
            Space::Global,
        ),
    ] {
        match blamed(body) {
            TrapKind::WrongSpace { space: found, .. } => assert_eq!(found, space, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert_silent(
        "cvta.shared.u64 %rd7, %rd3; cvta.to.shared.u64 %rd7, %rd7; st.shared.b32 [%rd7], 1;
         cvta.local.u64 %rd7, %rd5; cvta.to.local.u64 %rd7, %rd7; st.local.b32 [%rd7], 1;
         cvta.global.u64 %rd7, %rd0; cvta.to.global.u64 %rd7, %rd7; st.global.b32 [%rd7], 1;",
    );
}

#[test]
fn a_pointer_to_local_memory_is_of_no_use_to_another_thread() {
    let share = "cvta.local.u64 %rd7, %rd5; st.b32 [%rd7], %r0;
        setp.ne.u32 %p1, %r0, 0; @%p1 bra N; st.shared.b64 [right], %rd7; N: bar.sync 0; ld.shared.b64 %rd8, [right];";
    let other = launch(&checked(), &format!("{share} ld.b32 %r1, [%rd8];"), 1, 32).unwrap_err();
    assert!(matches!(other.kind, TrapKind::ForeignLocal { owner: 0, .. }), "{other}");
    assert_eq!(other.thread, [1, 0, 0]);
    let to = "cvta.to.local.u64 %rd8, %rd8; ld.local.b32 %r1, [%rd8];";
    let other = launch(&checked(), &format!("{share} {to}"), 1, 32).unwrap_err();
    assert!(matches!(other.kind, TrapKind::ForeignLocal { owner: 0, .. }), "{other}");
    // Its owner may use it, in every block.
    assert_silent(&format!("{share} @%p1 ret; ld.b32 %r1, [%rd8]; st.b32 [%rd8+36], %r1; {to}"));
}

#[test]
fn use_after_free_and_a_null_pointer_are_told_apart() {
    let device = checked();
    let freed = device.memory().alloc(512).unwrap();
    device.memory().free(freed).unwrap();
    let text = kernel("ld.global.b32 %r1, [%rd0+8];");
    let run =
        |at| common::launch(&device, &text, "k", [1; 3], [1; 3], &[at]).unwrap_err().to_string();
    assert!(
        run(freed).ends_with(&format!("8 bytes into the 512-byte freed allocation at {freed:#x}"))
    );
    assert!(run(0).ends_with("a null pointer"));
}
