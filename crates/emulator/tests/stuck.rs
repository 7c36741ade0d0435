//! Launches that never end: each kind is reported, and what only seems to be one runs to its end.
#![allow(clippy::result_large_err)]

mod common;

use common::{Buffer, HEAD};
use emulator::fault::{Waits, WaitsOn};
use emulator::{Checks, Device, Launch, Nobody, Outside, Profile, Schedule, Stats, Trap, TrapKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SCHEDULES: [Schedule; 3] = [Schedule::Window, Schedule::Reversed, Schedule::Random(3)];
/// Far more than a hang needs to be found.
const FUEL: u64 = 400_000_000;

fn profile(schedule: Schedule, worker_threads: usize) -> Profile {
    Profile { worker_threads, schedule, fuel: Some(FUEL), ..Profile::hopper() }
}

/// A kernel with a body in which `%r0` is the thread, `%r1` the block, and `%rd0` the parameter.
fn text(body: &str) -> String {
    format!(
        "{HEAD}.file 1 \"src/kernel.rs\"
        .func (.reg .b32 %got) look(.reg .b64 %at) {{ ld.relaxed.gpu.b32 %got, [%at]; ret; }}
        .visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
            .shared .align 8 .b64 ready; .shared .align 4 .b32 word;
            ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
            {body}
            END: ret; }}"
    )
}

fn run_on(
    device: &Device,
    body: &str,
    (grid, block): (u32, u32),
    address: u64,
    outside: Option<&dyn Outside>,
) -> Result<Stats, Trap> {
    let text = text(body);
    let module = device.load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let (grid, block, params) = ([grid, 1, 1], [block, 1, 1], address.to_le_bytes());
    device.launch(&Launch { grid, block, params: &params, outside, ..Launch::new(&function) })
}

/// Runs a body over a buffer of zeros, with nobody outside.
fn run(profile: Profile, body: &str, shape: (u32, u32)) -> Result<Stats, Trap> {
    let device = Device::new(profile);
    let out = Buffer::of_u32(&device, &[0; 64]);
    run_on(&device, body, shape, out.address, Some(&Nobody))
}

#[track_caller]
fn waits(found: Result<Stats, Trap>, what: &str) -> (Waits, String) {
    let trap = found.expect_err(what);
    let text = trap.to_string();
    match trap.kind {
        TrapKind::Deadlock { waiting } if waiting.endless => (waiting, text),
        _ => panic!("{what}: {text}"),
    }
}

/// Reported under every schedule, on one CPU thread and on two, with all threads in the report that
/// have not ended.
#[track_caller]
fn stuck(body: &str, shape: (u32, u32), threads: usize) {
    for schedule in SCHEDULES {
        for workers in [1, 2] {
            let what = format!("{schedule}, {workers} CPU threads: {body}");
            let (waiting, text) = waits(run(profile(schedule, workers), body, shape), &what);
            assert_eq!(waiting.len(), threads, "{what}: {text}");
        }
    }
}

/// Runs to its end under every schedule, on one CPU thread and on two.
#[track_caller]
fn ends(body: &str, shape: (u32, u32)) {
    for schedule in SCHEDULES {
        for workers in [1, 2] {
            if let Err(trap) = run(profile(schedule, workers), body, shape) {
                panic!("{schedule}, {workers} CPU threads: {body}: {trap}");
            }
        }
    }
}

/// Neither ends nor is reported: the fuel ends it.
#[track_caller]
fn undecided(body: &str, shape: (u32, u32)) {
    let profile = Profile { fuel: Some(3_000_000), ..profile(Schedule::Window, 1) };
    let trap = run(profile, body, shape).expect_err(body);
    assert!(matches!(trap.kind, TrapKind::Fuel { .. }), "{body}: {trap}");
}

/// Lane 0 of each warp, or all, wait for the word at 8 to change.
const POLL: &str =
    "SPIN: ld.relaxed.gpu.global.b32 %r2, [%rd0+8]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;";

// ---- hangs

#[test]
fn a_flag_that_nobody_sets() {
    stuck(POLL, (5, 64), 320);
    stuck(&POLL.replace("ld.relaxed.gpu", "ld.volatile"), (3, 32), 96);
    stuck(&POLL.replace("ld.relaxed.gpu", "ld"), (3, 33), 99);
    stuck(&POLL.replace("ld.relaxed.gpu", "ld.acquire.sys"), (1, 1), 1);
}

#[test]
fn the_report_says_who_reads_what_and_who_waits_where() {
    let body = "setp.ge.u32 %p1, %r0, 32; @%p1 bra WAIT;
        SPIN:
        .loc 1 50 9
        ld.relaxed.gpu.global.b32 %r2, [%rd0+8]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;
        WAIT:
        .loc 1 60 9
        bar.sync 3;";
    let device = Device::new(profile(Schedule::Window, 1));
    let out = Buffer::of_u32(&device, &[0; 64]);
    let found = run_on(&device, body, (2, 128), out.address, Some(&Nobody));
    let (waiting, text) = waits(found, body);
    let address = out.address + 8;
    assert_eq!(waiting[0].on, WaitsOn::Change { address, strong: true });
    assert!(text.starts_with("deadlock of 256 threads in kernel `k`, block (0,0,0)"), "{text}");
    for part in [
        format!(
            "64 threads of 2 blocks, (0,0,0) to (1,0,0) at src/kernel.rs:50 read {address:#x} again"
        ),
        "192 threads of 2 blocks, (0,0,0) to (1,0,0) at src/kernel.rs:60 wait for barrier 3".into(),
        "look for the thread that should have stored there".into(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
}

/// Block 0 ends without its state, or waits; the others look back for it, two words in turn.
#[test]
fn a_look_back_at_a_state_that_is_missing() {
    let body = "setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
        setp.ge.u32 %p1, %r0, 32; @%p1 bra WAIT;
        SPIN: ld.relaxed.gpu.global.b32 %r2, [%rd0+8]; ld.relaxed.gpu.global.b32 %r3, [%rd0+12];
        or.b32 %r2, %r2, %r3; setp.eq.u32 %p1, %r2, 0;
        vote.sync.any.pred %p2, %p1, -1; @%p2 bra SPIN;
        WAIT: bar.sync 0;";
    stuck(body, (6, 64), 5 * 64);
}

#[test]
fn some_poll_and_the_others_wait_at_barriers() {
    let head = "setp.ge.u32 %p1, %r0, 32; @%p1 bra WAIT;";
    stuck(&format!("{head} {POLL} WAIT: bar.sync 0;"), (2, 96), 192);
    // One lane polls, and the others of its warp wait for it.
    let lanes = format!("setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT; {POLL} WAIT: bar.warp.sync -1;");
    stuck(&lanes, (2, 32), 64);
    let lanes = format!("{head} setp.ne.u32 %p1, %r0, 5; @%p1 bra WAIT; {POLL} WAIT: bar.sync 0;");
    stuck(&lanes, (1, 64), 64);
}

#[test]
fn some_poll_and_the_others_wait_at_an_mbarrier() {
    let body = format!(
        "setp.ne.u32 %p1, %r0, 0; @%p1 bra BEGUN; mbarrier.init.shared.b64 [ready], 1; BEGUN: bar.sync 0;
        setp.ge.u32 %p1, %r0, 32; @%p1 bra WAIT; {POLL}
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [ready], 0; @!%p2 bra WAIT;"
    );
    stuck(&body, (2, 64), 128);
    let (waiting, text) = waits(run(profile(Schedule::Window, 1), &body, (1, 64)), &body);
    let phase = |own: &WaitsOn| matches!(own, WaitsOn::Phase { pending: 1, .. });
    assert_eq!(waiting.iter().filter(|own| phase(&own.on)).count(), 32, "{text}");
}

#[test]
fn locks_that_are_never_given_back() {
    let cas = "AGAIN: atom.acquire.gpu.global.cas.b32 %r2, [%rd0], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra AGAIN;";
    stuck(cas, (2, 32), 63);
    stuck(&cas.replace("cas.b32 %r2, [%rd0], 0, 1", "exch.b32 %r2, [%rd0], 1"), (2, 1), 1);
    let ticket = "atom.global.add.u32 %r3, [%rd0], 1;
        AGAIN: ld.acquire.gpu.global.b32 %r2, [%rd0+4]; nanosleep.u32 100;
        setp.ne.u32 %p1, %r2, %r3; @%p1 bra AGAIN;";
    stuck(ticket, (4, 1), 3);
}

/// A block ends before it has come to a barrier of the grid.
#[test]
fn a_grid_barrier_that_a_block_leaves_out() {
    let body = "setp.eq.u32 %p1, %r1, 2; @%p1 bra END; setp.ne.u32 %p1, %r0, 0; @%p1 bra MEET;
        atom.add.release.gpu.global.u32 %r2, [%rd0], 1;
        SPIN: ld.acquire.gpu.global.b32 %r2, [%rd0]; setp.ne.u32 %p1, %r2, 4; @%p1 bra SPIN;
        MEET: bar.sync 0;";
    stuck(body, (4, 64), 3 * 64);
}

#[test]
fn loops_of_every_shape() {
    // By a call.
    stuck(
        "SPIN: call.uni (%r2), look, (%rd0); setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;",
        (2, 32),
        64,
    );
    // With a pause that grows to its limit.
    let pause = "mov.u32 %r3, 1; SPIN: ld.volatile.global.b32 %r2, [%rd0]; nanosleep.u32 %r3;
        shl.b32 %r3, %r3, 1; min.u32 %r3, %r3, 1024; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;";
    stuck(pause, (2, 32), 64);
    // In shared memory, with a store that puts there what is there.
    let shared = "st.shared.b32 [word], 0; bar.sync 0;
        SPIN: ld.volatile.shared.b32 %r2, [word]; st.global.b32 [%rd0+16], 0;
        setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;";
    stuck(shared, (2, 1), 2);
    // A lane in each of two loops.
    let two = "setp.eq.u32 %p1, %r0, 0; @%p1 bra TWO; ONE: ld.volatile.global.b32 %r2, [%rd0];
        setp.eq.u32 %p1, %r2, 0; @%p1 bra ONE; bra END;
        TWO: ld.volatile.global.b32 %r2, [%rd0+4]; ld.volatile.global.b32 %r3, [%rd0+8];
        setp.eq.u32 %p1, %r2, 0; @%p1 bra TWO;";
    stuck(two, (1, 2), 2);
    // A long round, of no power of two.
    let round = "mov.u32 %r3, 0; SPIN: add.u32 %r3, %r3, 1; rem.u32 %r3, %r3, 37;
        ld.volatile.global.b32 %r2, [%rd0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra SPIN;";
    stuck(round, (2, 32), 64);
    // Nothing at all.
    let (waiting, text) = waits(run(profile(Schedule::Window, 1), "LOOP: bra LOOP;", (1, 32)), "");
    assert_eq!(waiting[0].on, WaitsOn::Nothing, "{text}");
}

#[test]
fn with_all_checks_on_a_hang_is_reported_the_same_way() {
    let profile = Profile { checks: Checks::ALL, ..profile(Schedule::Window, 2) };
    let body = format!("setp.ge.u32 %p1, %r0, 32; @%p1 bra WAIT; {POLL} WAIT: bar.sync 0;");
    assert_eq!(waits(run(profile, &body, (3, 64)), &body).0.len(), 192);
}

#[test]
fn blocks_that_cannot_begin_are_told_of() {
    let body = format!(
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra SET; {POLL} bra END;
        SET: st.relaxed.gpu.global.b32 [%rd0+8], 1;"
    );
    let (waiting, text) = waits(run(profile(Schedule::Sequential, 1), &body, (5, 32)), &body);
    assert_eq!((waiting.len(), waiting.absent), (32, Some((4, 1))), "{text}");
    ends(&body, (5, 32));
}

// ---- no hangs

#[test]
fn whoever_counts_or_reads_the_time_comes_to_an_end() {
    let counted = "mov.u32 %r3, 0; SPIN: ld.volatile.global.b32 %r2, [%rd0]; add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 100000; @%p1 bra SPIN;";
    ends(counted, (3, 32));
    ends(&counted.replace("add.u32", "nanosleep.u32 20; add.u32"), (1, 1));
    let clock =
        "mov.u64 %rd1, %clock64; SPIN: ld.volatile.global.b32 %r2, [%rd0]; mov.u64 %rd2, %clock64;
        sub.u64 %rd2, %rd2, %rd1; setp.lt.u64 %p1, %rd2, 500000; @%p1 bra SPIN;";
    ends(clock, (2, 32));
    let timer = "mov.u64 %rd1, %globaltimer; SPIN: mov.u64 %rd2, %globaltimer;
        sub.u64 %rd2, %rd2, %rd1; setp.lt.u64 %p1, %rd2, 200000000; @%p1 bra SPIN;";
    ends(timer, (2, 32));
    // Only one lane of one warp counts, and sets the others free.
    let one = format!(
        "or.b32 %r3, %r0, %r1; setp.ne.u32 %p1, %r3, 0; @%p1 bra SPIN;
        COUNT: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 400000; @%p1 bra COUNT;
        st.relaxed.gpu.global.b32 [%rd0+8], 1; bra END; {POLL}"
    );
    ends(&one, (4, 64));
}

/// The count lies in memory: shared, or of the device, by stores or by atomics.
#[test]
fn whoever_changes_memory_comes_to_an_end() {
    let store = format!(
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN; st.shared.b32 [word], 0;
        COUNT: ld.shared.b32 %r3, [word]; add.u32 %r3, %r3, 1; st.shared.b32 [word], %r3;
        setp.lt.u32 %p1, %r3, 200000; @%p1 bra COUNT;
        st.relaxed.gpu.global.b32 [%rd0+8], 1; bra END; {POLL}"
    );
    ends(&store, (3, 1));
    let atomic =
        "COUNT: atom.global.add.u32 %r2, [%rd0], 1; setp.lt.u32 %p1, %r2, 100000; @%p1 bra COUNT;";
    ends(atomic, (3, 1));
    // Two blocks throw a ball to each other.
    let ball =
        "SPIN: ld.acquire.gpu.global.b32 %r2, [%rd0]; setp.ge.u32 %p1, %r2, 40; @%p1 bra END;
        and.b32 %r3, %r2, 1; setp.ne.u32 %p1, %r3, %r1; @%p1 bra SPIN;
        add.u32 %r2, %r2, 1; st.release.gpu.global.b32 [%rd0], %r2; bra SPIN;";
    ends(ball, (2, 1));
}

/// The host writes to memory that a kernel polls, after a while.
#[test]
fn a_kernel_that_polls_the_hosts_memory_is_left_alone() {
    let body = POLL.replace("ld.relaxed.gpu", "ld.relaxed.sys");
    let managed = |device: &Device| device.memory().alloc_shared(64).unwrap();
    let pinned = |device: &Device| device.memory().alloc_host(64).unwrap();
    for memory in [managed, pinned] {
        let device = Device::new(profile(Schedule::Window, 2));
        let address = memory(&device);
        device.memory().fill8(address, 0, 64).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                device.memory().fill32(address + 8, 1, 1).unwrap();
            });
            run_on(&device, &body, (3, 32), address, Some(&Nobody)).unwrap();
        });
    }
}

/// A program that copies to a flag while a kernel polls it, at once or after a while.
struct Copies {
    may_come: AtomicBool,
    happened: AtomicU64,
}

impl Outside for Copies {
    fn calm(&self) -> Option<u64> {
        let happened = self.happened.load(Ordering::SeqCst);
        (!self.may_come.load(Ordering::SeqCst)).then_some(happened)
    }
}

#[test]
fn a_kernel_that_waits_for_a_copy_or_another_kernel_is_left_alone() {
    let copies = Copies { may_come: AtomicBool::new(true), happened: AtomicU64::new(0) };
    let device: Arc<Device> = Device::new(profile(Schedule::Window, 2));
    let flag = Buffer::of_u32(&device, &[0; 4]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            let set = "st.relaxed.gpu.global.b32 [%rd0+8], 1;";
            run_on(&device, set, (1, 1), flag.address, None).unwrap();
            copies.happened.fetch_add(1, Ordering::SeqCst);
            copies.may_come.store(false, Ordering::SeqCst);
        });
        run_on(&device, POLL, (3, 32), flag.address, Some(&copies)).unwrap();
    });
    // Once nothing can come any more, it is stuck.
    let other = Buffer::of_u32(&device, &[0; 4]);
    let found = run_on(&device, POLL, (3, 32), other.address, Some(&copies));
    assert_eq!(waits(found, POLL).0.len(), 96);
}

// ---- what is not decided

#[test]
fn what_is_not_known_for_certain_is_not_reported() {
    // Nothing is known of what is outside.
    let device = Device::new(Profile { fuel: Some(3_000_000), ..profile(Schedule::Window, 1) });
    let flag = Buffer::of_u32(&device, &[0; 4]);
    let trap = run_on(&device, POLL, (2, 32), flag.address, None).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Fuel { .. }), "{trap}");
    // Two lanes turn a bit over, and back, in one instruction: others might see it in between.
    let turns = "LOOP: atom.global.xor.b32 %r2, [%rd0], 1; bra LOOP;";
    undecided(turns, (1, 2));
    // And so with two stores.
    undecided("LOOP: st.global.b32 [%rd0], %r0; st.global.b32 [%rd0], 0; bra LOOP;", (1, 2));
    // Which lanes run together may change.
    undecided("LOOP: activemask.b32 %r2; setp.ne.u32 %p1, %r2, 0; @%p1 bra LOOP;", (1, 32));
    undecided("LOOP: add.u64 %rd1, %rd1, 1; bra LOOP;", (1, 32));
}
