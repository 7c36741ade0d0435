//! Planted faults: each is seen, and says where it is.

mod common;

use common::{Buffer, HEAD, device, launch};
use emulator::fault::{Access, Space, WaitsOn};
use emulator::{Device, LoadError, Profile, Trap, TrapKind};

fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x;
            {body}
            ret; }}"
    )
}

/// The trap of a body, run by `threads` threads on a buffer of 256 bytes.
fn trap(body: &str, threads: u32) -> Trap {
    let device = device();
    let out = Buffer::new(&device, 256);
    launch(&device, &kernel(body), "k", [2, 1, 1], [threads, 1, 1], &[out.address]).expect_err(body)
}

#[test]
fn a_store_one_past_the_end_names_the_thread() {
    let body = ".file 1 \"src/kernel.rs\"\n";
    let text = kernel("mad.wide.u32 %rd1, %r0, 4, %rd0;\n.loc 1 12 5\nst.global.b32 [%rd1], %r0;");
    let text = text.replace(".visible", &format!("{body}.visible"));
    let device = device();
    let out = Buffer::new(&device, 256);
    let trap = launch(&device, &text, "k", [1, 1, 1], [96, 1, 1], &[out.address]).unwrap_err();
    assert_eq!(trap.thread, [64, 0, 0]);
    assert_eq!((trap.kernel.as_str(), trap.block), ("k", [0, 0, 0]));
    let source = trap.source.clone().unwrap();
    assert_eq!((source.file.as_str(), source.line), ("src/kernel.rs", 12));
    match trap.kind {
        TrapKind::OutOfBounds { access, space, address, bytes, nearest } => {
            assert_eq!((access, space, bytes), (Access::Store, Space::Global, 4));
            assert_eq!(address, out.address + 256);
            assert_eq!(nearest.unwrap().base, out.address);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn accesses_outside_any_space_are_caught() {
    for (body, space) in [
        ("ld.global.b32 %r1, [%rd0+256];", Space::Global),
        ("ld.global.b64 %rd1, [%rd0+256];", Space::Global),
        ("mov.b64 %rd1, 0; st.global.b32 [%rd1], %r0;", Space::Global),
        ("ld.b32 %r1, [%rd0+-4];", Space::Global),
        ("atom.global.add.u32 %r1, [%rd0+256], 1;", Space::Global),
        (".shared .align 4 .b8 x[64]; ld.shared.b32 %r1, [x+64];", Space::Shared),
        (
            ".shared .align 4 .b8 x[64]; mov.b64 %rd1, x; cvta.shared.u64 %rd1, %rd1; st.b32 [%rd1+64], %r0;",
            Space::Shared,
        ),
        (".local .align 4 .b8 x[64]; st.local.b32 [x+64], %r0;", Space::Local),
        (
            ".local .align 4 .b8 x[64]; mov.b64 %rd1, x; cvta.local.u64 %rd1, %rd1; ld.b32 %r1, [%rd1+64];",
            Space::Local,
        ),
    ] {
        match trap(body, 32).kind {
            TrapKind::OutOfBounds { space: found, .. } => assert_eq!(found, space, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn an_access_that_straddles_the_end_is_caught() {
    let device = device();
    let out = Buffer::new(&device, 260);
    let text = kernel("ld.global.b64 %rd1, [%rd0+256];");
    let trap = launch(&device, &text, "k", [1, 1, 1], [1, 1, 1], &[out.address]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::OutOfBounds { bytes: 8, .. }), "{trap}");
}

#[test]
fn misaligned_accesses_are_caught() {
    for body in [
        "ld.global.b32 %r1, [%rd0+2];",
        "st.global.b64 [%rd0+4], %rd0;",
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd0+8];",
        "atom.global.add.u32 %r1, [%rd0+1], 1;",
        ".shared .align 8 .b8 x[64]; st.shared.b32 [x+3], %r0;",
    ] {
        assert!(matches!(trap(body, 32).kind, TrapKind::Misaligned { .. }), "{body}");
    }
}

#[test]
fn trap_and_breakpoint_stop_the_grid() {
    let body = "setp.eq.s32 %p1, %r0, 37; @%p1 trap;";
    let found = trap(body, 64);
    assert_eq!((found.thread, found.kind), ([37, 0, 0], TrapKind::Trap));
    assert_eq!(trap("brkpt;", 1).kind, TrapKind::Breakpoint);
}

#[test]
fn who_waits_in_a_deadlock_is_told() {
    let body = "shr.u32 %r1, %r0, 5; setp.eq.s32 %p1, %r1, 0; @%p1 bra A; bar.sync 2, 64; bra END; A: bar.sync 1, 64; END:";
    match trap(body, 64).kind {
        TrapKind::Deadlock { waiting } => {
            assert_eq!(waiting.len(), 64);
            assert_eq!((waiting[0].thread, waiting[0].on), ([0, 0, 0], WaitsOn::Barrier(1)));
            assert_eq!((waiting[63].thread, waiting[63].on), ([63, 0, 0], WaitsOn::Barrier(2)));
        }
        other => panic!("{other:?}"),
    }
    // Lane 0 waits for all lanes at another shuffle than they do.
    let body =
        "setp.eq.s32 %p1, %r0, 0; @%p1 bra A; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bra END;
        A: shfl.sync.idx.b32 %r2, %r0, 0, 31, -1; END:";
    match trap(body, 32).kind {
        TrapKind::Deadlock { waiting } => assert_eq!(waiting[0].on, WaitsOn::Lanes(u32::MAX)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_masks_barriers_calls_and_branches_are_caught() {
    let body = "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0x1;";
    assert_eq!(trap(body, 32).kind, TrapKind::InvalidMask { lane: 1, mask: 1 });
    assert!(matches!(trap("bar.sync 16;", 32).kind, TrapKind::InvalidBarrier { barrier: 16, .. }));
    assert!(matches!(
        trap("bar.sync 0, 33;", 32).kind,
        TrapKind::InvalidBarrier { threads: 33, .. }
    ));
    let body = "P: .callprototype _ (); mov.b64 %rd1, 64; call %rd1, (), P;";
    assert_eq!(trap(body, 1).kind, TrapKind::InvalidCall { address: 64 });
    let body = "T: .branchtargets A; brx.idx %r0, T; A:";
    assert_eq!(trap(body, 2).kind, TrapKind::InvalidBranch { index: 1, targets: 1 });
    // An address of device memory used as one of shared memory.
    let found = trap("cvta.to.shared.u64 %rd1, %rd0; ld.shared.b32 %r1, [%rd1];", 1).kind;
    assert!(matches!(found, TrapKind::WrongSpace { space: Space::Shared, .. }));
}

#[test]
fn endless_recursion_and_endless_loops_end() {
    let device = device();
    let text = format!(
        "{HEAD}.func f() {{ .local .b8 x[64]; call.uni f, (); ret; }}
        .visible .entry k() {{ call.uni f, (); ret; }}"
    );
    let trap = launch(&device, &text, "k", [1, 1, 1], [32, 1, 1], &[]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::StackOverflow { .. }), "{trap}");
    let device =
        Device::new(Profile { worker_threads: 2, fuel: Some(100_000), ..Profile::hopper() });
    let text = kernel("LOOP: bra LOOP;");
    let trap = launch(&device, &text, "k", [4, 1, 1], [32, 1, 1], &[0]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Fuel { instructions: 100_000, .. }), "{trap}");
}

fn load_error(text: &str) -> LoadError {
    match device().load(text) {
        Ok(_) => panic!("loaded: {text}"),
        Err(error) => error,
    }
}

#[test]
fn unknown_instructions_are_named_even_in_functions_never_called() {
    let text =
        format!("{HEAD}.func never() {{\n.reg .b32 %r<2>;\nadd.frob.s32 %r0, %r1, %r1;\nret; }}");
    let error = load_error(&text);
    assert_eq!(
        error,
        LoadError::UnknownInstruction { instruction: "add.frob.s32".into(), line: 6 }
    );
    for (body, spelled) in [
        ("tex.2d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [%rd0, {%r1, %r1}];", "tex.2d.v4.f32.s32"),
        ("add.ftz.s32 %r1, %r1, %r1;", "add.ftz.s32"),
        ("setp.lt.ftz.f64 %p1, %rd1, %rd1;", "setp.lt.ftz.f64"),
        ("mul.s32 %r1, %r1, %r1;", "mul.s32"),
        ("ld.global.b32.relaxed %r1, [%rd0];", "ld.global.b32.relaxed"),
        ("mov.u32 %r1, %envreg32;", "%envreg32"),
    ] {
        match load_error(&kernel(body)) {
            LoadError::UnknownInstruction { instruction, .. }
            | LoadError::Unsupported { instruction, .. } => assert_eq!(instruction, spelled),
            other => panic!("{body}: {other}"),
        }
    }
}

#[test]
fn operands_are_checked_when_loading() {
    for body in [
        "add.s32 %rd1, %r1, %r1;",
        "add.s32 %r1, %r1;",
        "add.s32 %r1, %r1, %p1;",
        "mov.b64 %rd1, {%r1, %r2, %r3};",
        "ld.global.v2.b32 %r1, [%rd0];",
        "st.param.b32 [k_out], %r1;",
        "ld.param.b64 %rd1, [k_out+4];",
        "add.f32 %r1, %r1, 1;",
        "@%r1 ret;",
    ] {
        assert!(matches!(load_error(&kernel(body)), LoadError::Invalid { .. }), "{body}");
    }
    for body in
        ["bra NOWHERE;", "add.s32 %r1, %q1, %r1;", "call.uni absent, ();", "mov.b64 %rd1, absent;"]
    {
        assert!(matches!(load_error(&kernel(body)), LoadError::Unresolved { .. }), "{body}");
    }
}

#[test]
fn texts_for_others_are_refused() {
    assert_eq!(load_error(" \n\0"), LoadError::Empty);
    let newer = ".version 99.0\n.target sm_90a\n.address_size 64\n";
    assert!(matches!(load_error(newer), LoadError::UnsupportedVersion { found: (99, 0), .. }));
    for target in ["sm_100", "sm_100a", "sm_80a", "bogus"] {
        let text = format!(".version 8.6\n.target {target}\n.address_size 64\n");
        assert!(matches!(load_error(&text), LoadError::UnsupportedTarget { .. }), "{target}");
    }
    for target in ["sm_50", "sm_80", "sm_90", "sm_90a"] {
        assert!(
            device().load(&format!(".version 8.6\n.target {target}\n.address_size 64\n")).is_ok()
        );
    }
    assert!(matches!(load_error("rubbish"), LoadError::Parse(_)));
}

#[test]
fn sizes_past_all_limits_are_refused_when_loading() {
    for module in [
        ".global .align 1 .b8 x[99999999999999];\n",
        ".shared .align 4 .b8 x[300000];\n.func f() { .reg .b64 %rd<2>; mov.b64 %rd1, x; ret; }\n",
        ".func f() { .local .b8 x[99999999]; ret; }\n",
        ".func f(.param .b8 x[99999999]) { ret; }\n",
        ".visible .entry f(.param .b8 x[99999]) { ret; }\n",
        ".func f() { .reg .b32 %r<99999999>; ret; }\n",
    ] {
        let error = load_error(&format!("{HEAD}{module}"));
        assert!(matches!(error, LoadError::Invalid { .. }), "{module}: {error}");
    }
}

#[test]
fn a_fault_in_a_library_names_the_line_of_its_user() {
    let files = ".file 1 \"src/kernel.rs\"\n.file 2 \"/rustc/abc/library/core/src/ptr.rs\"\n";
    let place = |locs: &str| {
        let text = kernel(&format!("{locs}\nst.global.b32 [%rd0+256], %r0;\n"));
        let text = text.replace(".visible", &format!("{files}.visible"));
        let device = device();
        let out = Buffer::new(&device, 256);
        let trap = launch(&device, &text, "k", [1, 1, 1], [1, 1, 1], &[out.address]).unwrap_err();
        let source = trap.source.unwrap();
        (source.file, source.line)
    };
    let own = |line| ("src/kernel.rs".to_owned(), line);
    assert_eq!(place("\n.loc 1 7 1\n.loc 2 90 5, function_name $info, inlined_at 1 20 9"), own(20));
    assert_eq!(place("\n.loc 1 7 1\n.loc 2 90 5"), own(7));
    assert_eq!(place("\n.loc 1 7 1\n.loc 1 0 5"), own(7));
    assert_eq!(place("\n.loc 2 90 5").1, 90);
}
