//! What is found after a thread has panicked: memory faults of others, and nothing that follows
//! from the panic.
#![allow(clippy::result_large_err)]

mod common;

use common::{Buffer, HEAD};
use emulator::{Checks, Device, Launch, Profile, Schedule, Trap, TrapKind};

/// Runs a body, in which `%r0` is the thread, `%r1` the block, `%rd0` a buffer of 64 words and
/// `%rd1` a freed one. Thread 0 of block 0 panics first.
fn run(body: &str, (grid, block): (u32, u32), schedule: Schedule) -> Result<(), Trap> {
    let text = format!(
        "{HEAD}.visible .func ferrowarp_panic_exit() {{ exit; }}
        .visible .entry k(.param .u64 k_out, .param .u64 k_freed) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
            .shared .align 4 .b8 tile[128];
            .shared .align 8 .b8 word[8];
            ld.param.b64 %rd0, [k_out]; ld.param.b64 %rd1, [k_freed];
            mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
            or.b32 %r2, %r0, %r1; setp.eq.u32 %p1, %r2, 0;
            @%p1 call ferrowarp_panic_exit;
            {body}
            END: ret; }}"
    );
    let fuel = Some(1 << 22);
    let checks = Checks::ALL;
    let device =
        Device::new(Profile { worker_threads: 1, fuel, checks, schedule, ..Profile::hopper() });
    let module = device.load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let out = Buffer::of_u32(&device, &[0; 64]);
    let freed = Buffer::of_u32(&device, &[0; 64]).address;
    device.memory().free(freed).unwrap();
    let params = [out.address, freed].map(u64::to_le_bytes).concat();
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    device.launch(&Launch { grid, block, params: &params, ..Launch::new(&function) }).map(drop)
}

const SCHEDULES: [Schedule; 3] = [Schedule::Sequential, Schedule::Window, Schedule::Random(5)];

#[track_caller]
fn found(body: &str, shape: (u32, u32)) -> TrapKind {
    SCHEDULES.map(|schedule| run(body, shape, schedule).expect_err(body).kind)[0].clone()
}

#[track_caller]
fn silent(body: &str, shape: (u32, u32)) {
    for schedule in SCHEDULES {
        if let Err(trap) = run(body, shape, schedule) {
            panic!("{schedule}: {trap}\n{body}");
        }
    }
}

#[test]
fn a_wild_access_after_the_panic_of_a_sibling_is_a_fault() {
    // The address comes from shared memory that the panicked thread should have written.
    let wild = "bar.sync 0; ld.shared.b64 %rd2, [word]; ld.global.b32 %r3, [%rd2];";
    assert!(matches!(found(wild, (1, 64)), TrapKind::OutOfBounds { address: 0, .. }));
    let past = "bar.sync 0; st.global.b32 [%rd0+256], 1;";
    assert!(matches!(found(past, (1, 64)), TrapKind::OutOfBounds { .. }));
    let freed = found("bar.sync 0; ld.global.b32 %r3, [%rd1];", (1, 64));
    assert!(freed.cause().unwrap().contains("freed"), "{freed}");
    // Between two variables of shared memory, which a GPU would let pass.
    let zone = "bar.sync 0; st.shared.b32 [tile+128], 1;";
    assert!(matches!(found(zone, (1, 64)), TrapKind::OutOfVariable { .. }));
    assert!(matches!(found("bar.sync 0; trap;", (1, 64)), TrapKind::Trap));
}

#[test]
fn what_follows_from_a_panic_is_silent_and_hides_no_later_fault() {
    for consequence in [
        // A value that the panicked thread did not write decides a branch.
        "bar.sync 0; ld.shared.b32 %r3, [word]; setp.eq.u32 %p2, %r3, 7; @%p2 bra END;",
        // A barrier that is left out because of it.
        "bar.sync 0; setp.ge.u32 %p2, %r0, 48; @%p2 bra END; bar.sync 0;",
        // Two threads in a place that the panicked one was to hand out.
        "st.shared.b32 [word], %r0;",
        // A barrier with a count waits for ever: its block ends, and others run on.
        "setp.ne.u32 %p2, %r1, 0; @%p2 bra OVER; bar.sync 1, 64; bra END; OVER:",
    ] {
        silent(consequence, (3, 64));
        let later = format!("{consequence} st.global.b32 [%rd0+256], 1;");
        let kind = found(&later, (3, 64));
        assert!(matches!(kind, TrapKind::OutOfBounds { .. }), "{consequence}: {kind}");
    }
}
