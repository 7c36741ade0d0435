//! The strict rule of block barriers: every thread of a block reaches each of them, at one
//! instruction. It holds for kernels that carry the mark of cuda_std's `Block`, and for all where
//! the check is told so.
#![allow(clippy::result_large_err)]

mod common;

use common::{HEAD, launch};
use emulator::device::block_marks;
use emulator::ptx;
use emulator::{Checks, Device, Profile, Schedule, Stats, Trap, TrapKind};

const MARK: &str = "// ferrowarp.block k\n";
const SYNC: Checks = Checks { sync: true, ..Checks::NONE };
const STRICT: Checks = Checks { strict: true, ..SYNC };
const SHAPE: [u32; 3] = [96, 1, 1];

/// A kernel around a body, in which `%r0` is the thread; `panic` ends a thread as a panic does.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.file 1 \"src/kernel.rs\"
        .visible .func ferrowarp_panic_exit() {{ exit; }}
        .visible .entry k() {{
            .reg .pred %p<8>; .reg .b32 %r<16>;
            mov.u32 %r0, %tid.x;
            {body}
            END:
            .loc 1 90 1
            ret; }}"
    )
}

fn run(text: &str, checks: Checks, schedule: Schedule) -> Result<Stats, Trap> {
    let profile =
        Profile { worker_threads: 1, fuel: Some(1 << 20), checks, schedule, ..Profile::hopper() };
    launch(&Device::new(profile), text, "k", [2, 1, 1], SHAPE, &[])
}

const SCHEDULES: [Schedule; 3] = [Schedule::Window, Schedule::Reversed, Schedule::Random(3)];

#[track_caller]
fn silent(text: &str, checks: Checks) {
    for schedule in SCHEDULES {
        if let Err(trap) = run(text, checks, schedule) {
            panic!("{schedule}: {trap}\n{text}");
        }
    }
}

/// What a body is blamed for in each schedule, where it is marked or the check is strict; and that
/// it is silent where neither is so.
#[track_caller]
fn blamed(body: &str) -> Trap {
    let text = kernel(body);
    let marked = format!("{HEAD}{MARK}{}", text.strip_prefix(HEAD).unwrap());
    silent(&text, SYNC);
    silent(&marked, Checks::NONE);
    silent(&marked.replace("block k", "block other"), SYNC);
    let found = |text: &str, checks| {
        let all = SCHEDULES.map(|schedule| run(text, checks, schedule).expect_err(text));
        all.into_iter().next().unwrap()
    };
    let trap = found(&marked, SYNC);
    assert_eq!(found(&text, STRICT).kind.to_string(), trap.kind.to_string());
    trap
}

/// Both rules are kept, whatever the check is told.
#[track_caller]
fn kept(body: &str) {
    silent(&kernel(body), STRICT);
    silent(&format!("{}\n{MARK}", kernel(body)), SYNC);
}

/// What Rust makes of `let Some(o) = out.get_mut(index) else { return };` before `block.sync`.
const EARLY: &str = "setp.ge.u32 %p1, %r0, {};
    @%p1 bra END;
    .loc 1 20 5
    bar.sync 0;";

#[test]
fn a_thread_that_returns_before_a_barrier_of_its_block_is_reported() {
    let found = blamed(&EARLY.replace("{}", "90"));
    let TrapKind::EarlyExit { barrier: 0, threads: 6, first } = &found.kind else {
        panic!("{found}")
    };
    assert_eq!((first.thread, first.source.as_ref().unwrap().line), ([90, 0, 0], 90));
    let text = found.to_string();
    for words in [
        "early exit before barrier 0 in kernel `k`, block (0,0,0), thread (0,0,0), at src/kernel.rs:20: ",
        "6 threads of the block ended before the barrier, the first in block (0,0,0), thread (90,0,0), ",
        "at src/kernel.rs:90; every thread of a block has to reach each of its barriers",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Whole warps, one thread, every spelling without a count.
    blamed(&EARLY.replace("{}", "32"));
    blamed(&EARLY.replace("{}", "95"));
    for spelling in [
        "barrier.cta.sync.aligned 0",
        "barrier.cta.sync 0",
        "barrier.sync 0",
        "bar.red.popc.u32 %r2, 0, %p2",
        "barrier.cta.red.or.pred %p3, 0, %p2",
        "bar.sync 1",
    ] {
        let setp = "setp.ne.u32 %p2, %r0, 0;";
        blamed(&format!("{setp}{}", EARLY.replace("{}", "64").replace("bar.sync 0", spelling)));
    }
    kept(&EARLY.replace("{}", "96"));
}

#[test]
fn threads_that_leave_between_two_barriers_are_reported_and_after_the_last_are_not() {
    let body = "bar.sync 0; setp.ge.u32 %p1, %r0, 64; @%p1 bra END; bar.sync 0;";
    blamed(body);
    kept("bar.sync 0; setp.ge.u32 %p1, %r0, 70; @%p1 bra END; add.u32 %r1, %r0, 1;");
}

#[test]
fn the_two_arms_of_a_branch_are_no_barrier_of_the_block() {
    let body = "setp.ge.u32 %p1, %r0, 32;
        @%p1 bra ELSE;
        .loc 1 30 5
        bar.sync 0; bra END;
        ELSE:
        .loc 1 31 5
        bar.sync 0;";
    let found = blamed(body);
    let TrapKind::PairedBarriers { barrier: 0, other } = &found.kind else { panic!("{found}") };
    assert_eq!(other.thread, [32, 0, 0]);
    let text = found.to_string();
    assert!(text.contains("at src/kernel.rs:30: others of the block wait for it"), "{text}");
    assert!(text.contains("thread (32,0,0), at src/kernel.rs:31; all threads"), "{text}");
    // Lanes of a warp, where the instruction lets them come apart.
    blamed(&body.replace("%r0, 32", "%r0, 16").replace("bar.sync", "barrier.sync"));
    // A branch that the whole block takes is none.
    kept(&body.replace("%r0, 32", "%r0, 0"));
}

#[test]
fn loops_copies_and_barriers_with_a_count_are_silent() {
    kept(
        "mov.u32 %r2, 0;
        LOOP: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra LOOP;
        bar.sync 0; bar.sync 0; bar.red.popc.u32 %r3, 0, %p1;",
    );
    // Warps with tasks of their own: who produces has left before the others meet.
    kept(
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUME; bar.arrive 1, 96; bra END;
        CONSUME: bar.sync 1, 96; bar.sync 2, 64;",
    );
    kept(
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra ELSE; bar.sync 3, 96; bra END;
        ELSE: bar.sync 3, 96;",
    );
    // Barriers of the cluster.
    kept(
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        setp.ge.u32 %p1, %r0, 32; @%p1 bra END;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    );
}

/// A panicked thread is reported by the kernel itself, and what its block misses follows from it.
#[test]
fn a_thread_that_panicked_has_not_left_early() {
    let panic = "setp.eq.u32 %p1, %r0, 40; @%p1 call ferrowarp_panic_exit; ";
    kept(&format!("{panic} bar.sync 0; bar.sync 0;"));
    kept(&format!(
        "{panic} setp.lt.u32 %p2, %r0, 32; @%p2 bra ELSE; bar.sync 0; bra END; ELSE: bar.sync 0;"
    ));
}

/// Linking makes a text of what the texts declare; the marks go along as lines behind it.
#[test]
fn a_linked_kernel_keeps_its_mark() {
    let marked = format!("{}\n{MARK}", kernel(&EARLY.replace("{}", "32")));
    let other = format!("{HEAD}.visible .func other() {{ ret; }}");
    let trees = [("k", &marked), ("other", &other)]
        .map(|(name, text)| (name.to_owned(), ptx::parse(text).unwrap()));
    let linked = ptx::link(trees.to_vec()).unwrap().to_string();
    silent(&linked, SYNC);
    let linked = linked + &block_marks(&marked) + &block_marks(&other);
    let trap = run(&linked, SYNC, Schedule::Window).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::EarlyExit { .. }), "{trap}");
}
