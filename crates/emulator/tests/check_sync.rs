//! The check of barriers and masks, and what is said of threads that wait.
#![allow(clippy::result_large_err)]

mod common;

use common::{Buffer, HEAD};
use emulator::fault::{BarrierFault, WaitsOn};
use emulator::{Checks, Device, Launch, Profile, Schedule, Stats, Trap, TrapKind};

/// So much that blocks which only spin have all had their turn.
const FUEL: u64 = 2_000_000;

fn profile() -> Profile {
    let checks = Checks { sync: true, ..Checks::NONE };
    Profile { worker_threads: 1, fuel: Some(FUEL), checks, ..Profile::hopper() }
}

/// Runs a body, in which `%r0` is the thread, `%r1` the block and `%rd0` a buffer of zeros.
fn run(profile: Profile, body: &str, (grid, block): (u32, u32)) -> Result<Stats, Trap> {
    let text = format!(
        "{HEAD}.file 1 \"src/kernel.rs\"
        .visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
            ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
            {body}
            END: ret; }}"
    );
    let device = Device::new(profile);
    let module = device.load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let out = Buffer::of_u32(&device, &[0; 64]);
    let params = out.address.to_le_bytes();
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    device.launch(&Launch { grid, block, params: &params, ..Launch::new(&function) })
}

#[track_caller]
fn trap(body: &str, shape: (u32, u32)) -> Trap {
    run(profile(), body, shape).expect_err(body)
}

#[track_caller]
fn silent(body: &str, shape: (u32, u32)) {
    for schedule in [Schedule::Window, Schedule::Reversed, Schedule::Random(3)] {
        if let Err(trap) = run(Profile { schedule, ..profile() }, body, shape) {
            panic!("{schedule}: {body}: {trap}");
        }
    }
}

/// What Rust 1.96 makes of `if c { … }; sync_threads(); if c { … }` with its pass JumpThreading.
const COPIED: &str = "setp.ge.u32 %p1, %r0, 16;
    @%p1 bra ELSE;
    .loc 1 20 5
    bar.sync 0; bra END;
    ELSE:
    .loc 1 21 5
    bar.sync 0;";

#[test]
fn a_barrier_that_a_compiler_has_copied_is_reported_where_rules_are_strict() {
    let found = trap(COPIED, (1, 64));
    assert!(matches!(found.kind, TrapKind::DivergentBarrier { barrier: 0, .. }), "{found}");
    let text = found.to_string();
    assert!(text.contains("at src/kernel.rs:2"), "{text}");
    assert!(text.contains("other threads of the warp wait at PTX line"), "{text}");
    // A GPU lets it pass, and so does the emulator without the check.
    assert!(run(Profile { checks: Checks::NONE, ..profile() }, COPIED, (1, 64)).is_ok());
    silent("setp.ge.u32 %p1, %r0, 16; @%p1 add.u32 %r2, %r0, 1; bar.sync 0;", (1, 64));
    // Warps may come to a barrier at different places, and lanes too where it is not aligned.
    silent(&COPIED.replace("%r0, 16", "%r0, 32"), (1, 64));
    silent(&COPIED.replace("bar.sync 0", "barrier.sync 0"), (1, 64));
}

#[test]
fn wrong_barriers_are_reported_with_the_rule() {
    let why = |body: &str, threads: u32| match trap(body, (1, threads)).kind {
        TrapKind::InvalidBarrier { why, .. } => why,
        other => panic!("{body}: {other:?}"),
    };
    assert_eq!(why("bar.sync 16;", 32), BarrierFault::Number);
    assert_eq!(why("bar.sync 0, 33;", 64), BarrierFault::Count);
    assert_eq!(why("mov.u32 %r2, 0; bar.sync 0, %r2;", 64), BarrierFault::Count);
    assert_eq!(why("bar.sync %r0;", 32), BarrierFault::Uneven);
    let mixed =
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra ELSE; bar.sync 1, 64; bra END; ELSE: bar.sync 1{};";
    let counts = [(", 96", Some(64), Some(96)), ("", Some(64), None)];
    for (count, one, other) in counts {
        match why(&mixed.replace("{}", count), 64) {
            BarrierFault::Mixed { other: found } => assert!([one, other].contains(&found)),
            other => panic!("{other:?}"),
        }
    }
    silent(&mixed.replace("{}", ", 64"), (2, 64));
    let text = trap("bar.sync 0, 33;", (1, 64)).to_string();
    assert!(text.starts_with("barrier 0 with 33 threads is not valid in kernel `k`"), "{text}");
    assert!(text.ends_with("the number of threads has to be a multiple of 32 above 0"), "{text}");
}

#[test]
fn a_lane_outside_its_mask_is_reported_and_one_that_has_ended_is_not_waited_for() {
    let found = trap("bar.warp.sync 0x7fffffff;", (1, 32));
    assert_eq!(found.kind, TrapKind::InvalidMask { lane: 31, mask: 0x7fff_ffff });
    assert_eq!(found.thread, [31, 0, 0]);
    silent("setp.ge.u32 %p1, %r0, 20; @%p1 bra END; bar.warp.sync -1;", (1, 32));
    silent("setp.ge.u32 %p1, %r0, 20; @%p1 bra END; bar.warp.sync 0xfffff;", (1, 32));
}

#[test]
fn a_deadlock_is_a_table_of_who_waits_where() {
    let body = "setp.ge.u32 %p1, %r0, 32; @%p1 bra ELSE;
        .loc 1 30 5
        bar.sync 1, 64; bra END;
        ELSE:
        .loc 1 31 5
        bar.sync {}, 64;";
    let found = trap(&body.replace("{}", "2"), (1, 64));
    let text = found.to_string();
    assert!(text.starts_with("deadlock of 64 threads in kernel `k`"), "{text}");
    for row in [
        "\n  32 threads of block (0,0,0) at src/kernel.rs:30 wait for barrier 1: thread (0,0,0) to (31,0,0)",
        "\n  32 threads of block (0,0,0) at src/kernel.rs:31 wait for barrier 2: thread (32,0,0) to (63,0,0)",
    ] {
        assert!(text.contains(row), "{text}");
    }
    silent(&body.replace("{}", "1"), (1, 64));
    // Lanes of a warp wait for each other at two shuffles.
    let body =
        "setp.eq.s32 %p1, %r0, 0; @%p1 bra A; shfl.sync.idx.b32 %r1, %r0, 0, 31, {}; bra END;
        A: shfl.sync.idx.b32 %r2, %r0, 0, 31, [];";
    let text = trap(&body.replace("{}", "-1").replace("[]", "-1"), (1, 32)).to_string();
    assert!(text.contains("31 threads of block (0,0,0) at PTX line"), "{text}");
    assert!(text.contains("wait for the lanes of mask 0xffffffff"), "{text}");
    silent(&body.replace("{}", "0xfffffffe").replace("[]", "1"), (1, 32));
}

#[test]
fn threads_that_have_ended_are_missed_where_a_barrier_counts() {
    let body = "setp.ge.u32 %p1, %r0, 32; @%p1 bra END; bar.sync 0{};";
    match trap(&body.replace("{}", ", 64"), (1, 64)).kind {
        TrapKind::Deadlock { waiting } => {
            assert_eq!(waiting.len(), 32);
            assert_eq!(waiting[0].on, WaitsOn::Barrier(0));
        }
        other => panic!("{other:?}"),
    }
    silent(&body.replace("{}", ", 32"), (2, 64));
    silent(&body.replace("{}", ""), (2, 64));
}

/// Lanes leave a loop that has a barrier in it before the others of their warp do.
#[test]
fn a_barrier_that_lanes_have_left_out_is_reported() {
    let body = "mov.u32 %r2, 0;
        LOOP: bar.sync 0; add.u32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, 3; @%p1 bra LOOP;
        setp.ge.u32 %p2, %r0, {}; @%p2 bra END; bar.sync 0;";
    let found = trap(&body.replace("{}", "40"), (1, 64));
    assert_eq!(found.kind, TrapKind::IncompleteBarrier { barrier: 0, ended: 0xffff_ff00 });
    assert!(found.to_string().contains("have ended without this one"), "{found}");
    silent(&body.replace("{}", "64"), (1, 64));
    // Whole warps may end, and lanes that never took part.
    silent(&body.replace("{}", "32"), (1, 64));
    silent("setp.ge.u32 %p1, %r0, 40; @%p1 bra END; bar.sync 0; bar.sync 0;", (1, 64));
}

/// All blocks wait for a flag that nobody sets.
#[test]
fn when_fuel_ends_it_is_told_who_spins_where() {
    let body = "SPIN:
        .loc 1 50 9
        {}.global.b32 %r2, [%rd0+8]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;";
    for (load, strong) in [("ld.relaxed.gpu", true), ("ld.volatile", true), ("ld", false)] {
        let found = trap(&body.replace("{}", load), (4, 32));
        let text = found.to_string();
        let TrapKind::Fuel { instructions: FUEL, waiting } = found.kind else { panic!("{text}") };
        let spins =
            |own: &WaitsOn| matches!(own, WaitsOn::Change { strong: own, .. } if *own == strong);
        assert!(waiting.len() == 128 && waiting.iter().all(|own| spins(&own.on)), "{text}");
        assert!(
            text.contains(
                "128 threads of 4 blocks, (0,0,0) to (3,0,0) at src/kernel.rs:50 read 0x"
            )
        );
        assert_eq!(text.contains("need not see what another thread stores"), !strong, "{text}");
    }
    // A lock that is never given back.
    let lock = "AGAIN: atom.acquire.gpu.global.cas.b32 %r2, [%rd0], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra AGAIN;";
    let found = trap(lock, (2, 32));
    assert!(found.to_string().contains("again and again"), "{found}");
    // Who only counts does not spin.
    let text =
        trap("LOOP: add.u32 %r2, %r2, 1; st.global.b32 [%rd0], %r2; bra LOOP;", (1, 1)).to_string();
    assert!(text.contains("run: thread (0,0,0)"), "{text}");
}

/// Block 0 waits for a later one, which cannot begin.
#[test]
fn blocks_that_have_to_be_resident_together_are_told_of() {
    let body = "setp.ne.u32 %p1, %r1, 0; @%p1 bra SET;
        SPIN: ld.relaxed.gpu.global.b32 %r2, [%rd0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN; bra END;
        SET: st.relaxed.gpu.global.b32 [%rd0], 1;";
    let sequential = Profile { schedule: Schedule::Sequential, fuel: None, ..profile() };
    let found = run(sequential, body, (5, 32)).unwrap_err();
    let text = found.to_string();
    let TrapKind::Deadlock { waiting } = found.kind else { panic!("{text}") };
    assert_eq!((waiting.len(), waiting.absent), (32, Some((4, 1))));
    assert!(text.contains("4 blocks have not begun, since no more than 1 run at a time"), "{text}");
    silent(body, (5, 32));
}
