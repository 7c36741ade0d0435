//! Mbarriers: phases, counts of arrivals and bytes, waiting, other blocks, and what is wrong.

mod common;

use common::{Buffer, HEAD, device};
use emulator::fault::{MbarrierFault, WaitsOn};
use emulator::{Launch, LoadError, Trap, TrapKind};

/// A kernel with an mbarrier at `bar` (of shared memory, offset 0 and 8), its output's address in
/// `%rd0` and the thread in `%r0`.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
            .shared .align 8 .b64 bar[4]; .shared .align 8 .b8 cells[256];
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x;
            {body}
        END: ret; }}"
    )
}

fn run(
    body: &str,
    blocks: u32,
    threads: u32,
    cluster: [u32; 3],
    out: &Buffer<'_>,
) -> Result<(), Box<Trap>> {
    let text = kernel(body);
    let device = out.device();
    let module = device.load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let params = out.address.to_le_bytes();
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    let launch = Launch { grid, block, cluster, params: &params, ..Launch::new(&function) };
    device.launch(&launch).map(drop).map_err(Box::new)
}

/// The words that a block of threads leaves.
fn words(body: &str, threads: u32, count: usize) -> Vec<u32> {
    let device = device();
    let out = Buffer::new(&device, 4 * count);
    run(body, 1, threads, [0; 3], &out).unwrap_or_else(|trap| panic!("{body}: {trap}"));
    out.u32s()
}

fn trap(body: &str, threads: u32) -> Trap {
    let device = device();
    let out = Buffer::new(&device, 4096);
    *run(body, 1, threads, [0; 3], &out).expect_err(body)
}

/// Stores `%r2` at the thread's word.
const STORE: &str = "mad.wide.u32 %rd30, %r0, 4, %rd0; st.global.u32 [%rd30], %r2;";

/// Thread 0 makes an mbarrier for `count` arrivals.
fn init(count: u32) -> String {
    format!(
        "setp.ne.s32 %p7, %r0, 0; @%p7 bra MADE; mbarrier.init.shared::cta.b64 [bar], {count};
         fence.mbarrier_init.release.cluster; MADE: bar.sync 0;"
    )
}

#[test]
fn one_thread_walks_through_phases() {
    // Bits of %r2: what each test says, the newest lowest.
    let test = |what: &str| {
        format!("{what} selp.u32 %r3, 1, 0, %p1; shl.b32 %r2, %r2, 1; or.b32 %r2, %r2, %r3;")
    };
    let parity =
        |p: u32| test(&format!("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], {p};"));
    let body = format!(
        "mov.u32 %r2, 0; mbarrier.init.shared.b64 [bar], 2;
         {before} {early}
         mbarrier.arrive.shared.b64 %rd1, [bar]; {one}
         mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [bar]; {two} {state1} {state2}
         mbarrier.arrive.shared.b64 %rd3, [bar], 2; {three} {again}
         mbarrier.pending_count.b64 %r5, %rd1; mbarrier.pending_count.b64 %r6, %rd2; mbarrier.pending_count.b64 %r7, %rd3;
         mad.lo.s32 %r5, %r5, 100, %r6; mad.lo.s32 %r5, %r5, 100, %r7; st.global.u32 [%rd0+4], %r5; {STORE}",
        before = parity(0),
        // The phase before the first counts as over.
        early = parity(1),
        one = parity(0),
        two = parity(0),
        state1 = test("mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;"),
        state2 = test("mbarrier.try_wait.shared.b64 %p1, [bar], %rd2;"),
        three = parity(1),
        again = parity(0),
    );
    assert_eq!(words(&body, 1, 2), [0b0101_1110, 20102]);
}

#[test]
fn threads_wait_for_all_arrivals() {
    // Every thread adds to a cell, arrives, waits, and reads the sum.
    for wait in [
        "mbarrier.arrive.shared::cta.b64 %rd1, [bar]; SPIN: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1; @!%p1 bra SPIN;",
        "mbarrier.arrive.shared::cta.b64 %rd1, [bar]; SPIN: mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [bar], %rd1; @!%p1 bra SPIN;",
        "mbarrier.arrive.shared::cta.b64 _, [bar]; SPIN: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [bar], 0, 1000; @!%p1 bra SPIN;",
        "mov.u64 %rd2, bar; cvta.shared.u64 %rd2, %rd2; mbarrier.arrive.b64 %rd1, [%rd2];
         SPIN: mbarrier.test_wait.parity.b64 %p1, [%rd2], 0; @!%p1 bra SPIN;",
    ] {
        let body = format!(
            "st.shared.u32 [cells], 0; {} atom.shared.add.u32 %r3, [cells], %r0; {wait} ld.shared.u32 %r2, [cells]; {STORE}",
            init(200)
        );
        assert_eq!(words(&body, 200, 200), vec![(0..200).sum(); 200], "{wait}");
    }
}

#[test]
fn many_phases_alternate() {
    // Two warps pass a number back and forth through two mbarriers, 50 times.
    let body = format!(
        "setp.ne.s32 %p7, %r0, 0; @%p7 bra MADE;
         mbarrier.init.shared.b64 [bar], 32; mbarrier.init.shared.b64 [bar+8], 32; st.shared.u32 [cells], 0; MADE: bar.sync 0;
         mov.u32 %r3, 0; setp.ge.u32 %p6, %r0, 32; @%p6 bra SECOND;
         FIRST: ld.shared.u32 %r2, [cells]; bar.warp.sync -1; add.s32 %r2, %r2, 1; st.shared.u32 [cells], %r2; bar.warp.sync -1;
         mbarrier.arrive.shared.b64 _, [bar]; and.b32 %r4, %r3, 1;
         WAIT1: mbarrier.try_wait.parity.shared.b64 %p1, [bar+8], %r4; @!%p1 bra WAIT1;
         add.s32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 50; @%p2 bra FIRST; bra DONE;
         SECOND: and.b32 %r4, %r3, 1; WAIT2: mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r4; @!%p1 bra WAIT2;
         ld.shared.u32 %r2, [cells]; bar.warp.sync -1; mul.lo.s32 %r2, %r2, 3; st.shared.u32 [cells], %r2; bar.warp.sync -1;
         mbarrier.arrive.shared.b64 _, [bar+8];
         add.s32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 50; @%p2 bra SECOND;
         DONE: bar.sync 0; ld.shared.u32 %r2, [cells]; {STORE}"
    );
    let expected = (0..50).fold(0u32, |value, _| (value + 1).wrapping_mul(3));
    assert_eq!(words(&body, 64, 64), [expected; 64]);
}

#[test]
fn a_phase_lasts_until_its_bytes_have_come() {
    let test = "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r3, 1, 0, %p1; shl.b32 %r2, %r2, 1; or.b32 %r2, %r2, %r3;";
    let body = format!(
        "mov.u32 %r2, 0; mbarrier.init.shared.b64 [bar], 1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32; {test}
         mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 40; {test}
         mbarrier.complete_tx.shared::cta.b64 [bar], 8; {test} {STORE}"
    );
    assert_eq!(words(&body, 1, 1), [0b001]);
}

#[test]
fn drops_count_for_all_later_phases() {
    // Of 3 arrivals, one is dropped in the first phase; the second then takes two.
    let test = |p: u32| {
        format!(
            "mbarrier.test_wait.parity.shared.b64 %p1, [bar], {p}; selp.u32 %r3, 1, 0, %p1; shl.b32 %r2, %r2, 1; or.b32 %r2, %r2, %r3;"
        )
    };
    let body = format!(
        "mov.u32 %r2, 0; mbarrier.init.shared.b64 [bar], 3; mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd1, [bar], 2; {}
         mbarrier.arrive_drop.shared.b64 %rd1, [bar]; {}
         mbarrier.arrive.shared.b64 %rd1, [bar]; {} mbarrier.arrive.shared.b64 %rd1, [bar]; {}
         mbarrier.arrive_drop.expect_tx.shared.b64 %rd1, [bar], 8; mbarrier.complete_tx.shared.b64 [bar], 8; {}
         mbarrier.arrive.shared.b64 %rd1, [bar]; {} mbarrier.arrive.shared.b64 %rd1, [bar]; {} {STORE}",
        test(0),
        test(0),
        test(1),
        test(1),
        test(0),
        test(0),
        test(1),
    );
    assert_eq!(words(&body, 1, 1), [0b010_1011]);
}

#[test]
fn blocks_arrive_at_each_others_mbarriers() {
    let device = device();
    let out = Buffer::new(&device, 4 * 128);
    // Each block gives 4 words to the next, and tells it by two arrivals of its 32 threads.
    let body = format!(
        "{} mov.u32 %r1, %cluster_ctarank; barrier.cluster.arrive; barrier.cluster.wait;
         add.s32 %r3, %r1, 1; and.b32 %r3, %r3, 3; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r3;
         mov.u32 %r5, cells; mapa.shared::cluster.u32 %r5, %r5, %r3; mad.lo.s32 %r5, %r0, 4, %r5; mad.lo.s32 %r6, %r1, 100, %r0;
         st.shared::cluster.u32 [%r5], %r6;
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r4], 4;
         mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r4], 4;
         SPIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0; @!%p1 bra SPIN;
         mov.u32 %r7, cells; mad.lo.s32 %r7, %r0, 4, %r7; ld.shared.u32 %r2, [%r7]; mad.lo.s32 %r0, %r1, 32, %r0; {STORE}
         barrier.cluster.arrive; barrier.cluster.wait;",
        init(64)
    );
    run(&body, 4, 32, [4, 1, 1], &out).unwrap_or_else(|trap| panic!("{trap}"));
    let expected: Vec<u32> = (0..128).map(|i| (i / 32 + 3) % 4 * 100 + i % 32).collect();
    assert_eq!(out.u32s(), expected);
}

#[test]
fn misuse_is_named() {
    let fault = |body: &str| match trap(body, 1).kind {
        TrapKind::Mbarrier { offset, fault } => (offset, fault),
        other => panic!("{body}: {other}"),
    };
    use MbarrierFault::*;
    assert_eq!(fault("mbarrier.arrive.shared.b64 _, [bar+8];"), (8, NotInitialised));
    assert_eq!(fault("mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;"), (0, NotInitialised));
    assert_eq!(fault("mbarrier.init.shared.b64 [bar], 0;"), (0, Count { count: 0 }));
    assert_eq!(fault("mbarrier.init.shared.b64 [bar], 1048576;"), (0, Count { count: 1 << 20 }));
    let made = "mbarrier.init.shared.b64 [bar], 2;";
    let more = |body: &str| fault(&format!("{made}{body}")).1;
    assert_eq!(more("mbarrier.arrive.shared.b64 _, [bar], 3;"), TooMany { count: 3, pending: 2 });
    assert_eq!(more("mbarrier.arrive.noComplete.shared.b64 %rd1, [bar], 2;"), Completes);
    assert_eq!(
        more("mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];"),
        NotInitialised
    );
    assert_eq!(
        more(
            "mbarrier.expect_tx.shared.b64 [bar], 1048575; mbarrier.expect_tx.shared.b64 [bar], 1;"
        ),
        Bytes { bytes: 1 << 20 }
    );
    assert!(matches!(
        trap("mov.u64 %rd1, 64; mbarrier.init.b64 [%rd1], 1;", 1).kind,
        TrapKind::WrongSpace { .. }
    ));
    assert!(matches!(
        trap("mbarrier.init.shared.b64 [bar+4], 1;", 1).kind,
        TrapKind::Misaligned { .. }
    ));
}

#[test]
fn an_mbarrier_is_not_made_again_while_threads_wait() {
    let body = format!(
        "{} setp.lt.u32 %p1, %r0, 32; @%p1 bra WAIT; mbarrier.init.shared.b64 [bar], 2; bra END;
         WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;",
        init(2)
    );
    let found = trap(&body, 64).kind;
    assert_eq!(found, TrapKind::Mbarrier { offset: 0, fault: MbarrierFault::Waited });
}

#[test]
fn a_phase_that_never_ends_is_a_deadlock_with_a_table() {
    for wait in ["try_wait", "test_wait"] {
        let body = format!(
            "{} setp.eq.s32 %p1, %r0, 63; @%p1 bra END; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
             SPIN: mbarrier.{wait}.parity.shared.b64 %p1, [bar], 0; @!%p1 bra SPIN;",
            init(64)
        );
        let trap = trap(&body, 64);
        let TrapKind::Deadlock { waiting } = &trap.kind else { panic!("{trap}") };
        assert_eq!(waiting.len(), 63);
        let on = WaitsOn::Phase { rank: 0, offset: 0, parity: false, pending: 1, bytes: 63 * 16 };
        assert_eq!((waiting[5].thread, waiting[5].on), ([5, 0, 0], on));
        let text = trap.to_string();
        assert!(text.contains("1 arrivals and 1008 bytes are missing"), "{text}");
    }
}

#[test]
fn a_thread_may_give_up() {
    let body = format!(
        "mbarrier.init.shared.b64 [bar], 1; mov.u32 %r2, 0;
         SPIN: add.s32 %r2, %r2, 1; setp.eq.s32 %p2, %r2, 100; @%p2 bra OUT;
         mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0, 20; @!%p1 bra SPIN; OUT: {STORE}"
    );
    assert_eq!(words(&body, 1, 1), [100]);
}

#[test]
fn a_thread_that_waits_does_not_hold_up_one_that_spins_on_memory() {
    // Warp 0 waits for an mbarrier that warp 1 completes once warp 2 has set a flag, slowly.
    let body = format!(
        "st.shared.u32 [cells], 0; {} setp.lt.u32 %p1, %r0, 32; @%p1 bra WAIT; setp.lt.u32 %p1, %r0, 64; @%p1 bra FLAG;
         mov.u32 %r3, 0; SLOW: add.s32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 100000; @%p2 bra SLOW;
         st.volatile.shared.u32 [cells], 1; bra END;
         FLAG: ld.volatile.shared.u32 %r3, [cells]; setp.eq.s32 %p2, %r3, 0; @%p2 bra FLAG;
         mbarrier.arrive.shared.b64 _, [bar]; bra END;
         WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT; mov.u32 %r2, 5; {STORE}",
        init(32)
    );
    assert_eq!(words(&body, 96, 32), [5; 32]);
}

#[test]
fn forms_that_are_not_are_refused() {
    for body in [
        "mbarrier.arrive.shared::cluster.b64 %rd1, [bar];",
        "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0, 5;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar];",
    ] {
        let error = device().load(&kernel(body)).err().unwrap();
        assert!(matches!(error, LoadError::Invalid { .. }), "{body}: {error}");
    }
    for body in [
        "mbarrier.init.shared::cluster.b64 [bar], 1;",
        "mbarrier.test_wait.shared::cluster.b64 %p1, [bar], %rd1;",
        "mbarrier.arrive.noComplete.shared::cluster.b64 _, [bar], 1;",
    ] {
        let error = device().load(&kernel(body)).err().unwrap();
        assert!(matches!(error, LoadError::UnknownInstruction { .. }), "{body}: {error}");
    }
}
