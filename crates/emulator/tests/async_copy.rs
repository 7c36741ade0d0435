//! Asynchronous copies: of threads (`cp.async`), and bulk copies with mbarriers and groups.
//!
//! Copies are performed as late as they may be: each test of a wait has a twin that forgets it, and
//! finds the bytes that were there before.

mod common;

use common::{Buffer, HEAD, device};
use emulator::fault::{ClusterFault, CopyFault};
use emulator::{Launch, LoadError, Trap, TrapKind};

/// A kernel with input `%rd1`, output `%rd0`, the thread in `%r0` and the block's rank in `%r1`.
/// `cells` is filled with 0xee, and `bar` is an mbarrier for one arrival.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_out, .param .u64 k_in) {{
            .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<4>;
            .shared .align 128 .b8 cells[1024]; .shared .align 8 .b64 bar[4];
            ld.param.b64 %rd0, [k_out]; ld.param.b64 %rd1, [k_in];
            mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;
            mov.u32 %r28, cells; mov.u32 %r29, 0;
            FILL: add.s32 %r27, %r28, %r29; st.shared.u32 [%r27], 0xeeeeeeee; add.s32 %r29, %r29, 4;
            setp.lt.u32 %p7, %r29, 1024; @%p7 bra FILL;
            setp.ne.s32 %p7, %r0, 0; @%p7 bra MADE; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
            MADE: fence.proxy.async; bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
            {body}
        END: barrier.cluster.arrive; barrier.cluster.wait; ret; }}"
    )
}

const OLD: u32 = 0xeeee_eeee;

struct Outcome {
    out: Vec<u32>,
    input: Vec<u32>,
}

fn run(body: &str, blocks: u32, threads: u32, count: usize) -> Result<Outcome, Box<Trap>> {
    let device = device();
    let (out, input) = (Buffer::new(&device, 4 * count), Buffer::of_u32(&device, &input()));
    let text = kernel(body);
    let module = device.load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let params: Vec<u8> =
        [out.address, input.address].iter().flat_map(|p| p.to_le_bytes()).collect();
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    let launch = Launch { grid, block, cluster: grid, params: &params, ..Launch::new(&function) };
    device.launch(&launch).map_err(Box::new)?;
    Ok(Outcome { out: out.u32s(), input: input.u32s() })
}

fn input() -> Vec<u32> {
    (0..256).map(|i| 1000 + i).collect()
}

fn words(body: &str, blocks: u32, threads: u32, count: usize) -> Vec<u32> {
    run(body, blocks, threads, count).unwrap_or_else(|trap| panic!("{body}: {trap}")).out
}

fn trap(body: &str, blocks: u32) -> TrapKind {
    match run(body, blocks, 1, 256) {
        Err(trap) => trap.kind,
        Ok(_) => panic!("{body}"),
    }
}

/// Stores the four words of `cells` from `16 * thread` on.
const STORE4: &str = "mad.lo.s32 %r20, %r0, 16, %r28; mad.wide.u32 %rd20, %r0, 16, %rd0;
    ld.shared.v4.u32 {%r21, %r22, %r23, %r24}, [%r20]; st.global.v4.u32 [%rd20], {%r21, %r22, %r23, %r24};";
/// Target and source of a thread's 16 bytes.
const MINE: &str = "mad.lo.s32 %r2, %r0, 16, %r28; mad.wide.u32 %rd2, %r0, 16, %rd1;";

// ---- copies of threads

#[test]
fn copies_of_threads_have_three_sizes() {
    for (what, expected) in [
        ("cp.async.cg.shared.global [%r2], [%rd2], 16;", [0, 1, 2, 3].map(Some)),
        ("cp.async.ca.shared::cta.global.L2::128B [%r2], [%rd2], 16;", [0, 1, 2, 3].map(Some)),
        ("cp.async.ca.shared.global [%r2+8], [%rd2], 8;", [None, None, Some(0), Some(1)]),
        ("cp.async.ca.shared.global [%r2+4], [%rd2+8], 4;", [None, Some(2), None, None]),
    ] {
        let body = format!("{MINE}{what} cp.async.wait_all; {STORE4}");
        let expected: Vec<u32> = (0..8)
            .flat_map(|thread| {
                expected.map(|word| word.map_or(OLD, |word| 1000 + 4 * thread + word))
            })
            .collect();
        assert_eq!(words(&body, 1, 8, 32), expected, "{what}");
    }
}

#[test]
fn what_is_not_given_becomes_zero() {
    // Thread t gives 4 t bytes.
    let body = format!(
        "{MINE} shl.b32 %r3, %r0, 2; cp.async.cg.shared.global [%r2], [%rd2], 16, %r3; cp.async.wait_all; {STORE4}"
    );
    let expected: Vec<u32> = (0..5)
        .flat_map(|thread| {
            (0..4).map(move |word| if word < thread { 1000 + 4 * thread + word } else { 0 })
        })
        .collect();
    assert_eq!(words(&body, 1, 5, 20), expected);
    // An ignored source is not even looked at.
    let body = format!(
        "{MINE} setp.eq.s32 %p1, %r0, 1; @%p1 mov.u64 %rd2, 16; cp.async.ca.shared.global [%r2], [%rd2], 4, %p1; cp.async.wait_all; {STORE4}"
    );
    let found = words(&body, 1, 2, 8);
    assert_eq!((found[0], found[4], found[5]), (1000, 0, OLD));
}

#[test]
fn groups_are_done_in_order_and_only_when_waited_for() {
    // Three groups of one copy; after each wait the first words of all three are looked at.
    let look = |index: u32| {
        format!(
            "ld.shared.u32 %r3, [cells]; ld.shared.u32 %r4, [cells+16]; ld.shared.u32 %r5, [cells+32];
             st.global.u32 [%rd0+{}], %r3; st.global.u32 [%rd0+{}], %r4; st.global.u32 [%rd0+{}], %r5;",
            12 * index,
            12 * index + 4,
            12 * index + 8
        )
    };
    let body = format!(
        "cp.async.cg.shared.global [%r28], [%rd1], 16; cp.async.commit_group;
         cp.async.cg.shared.global [%r28+16], [%rd1+16], 16; cp.async.commit_group;
         cp.async.cg.shared.global [%r28+32], [%rd1+32], 16; {}
         cp.async.wait_group 1; {} cp.async.wait_group 0; {} cp.async.wait_all; {}",
        look(0),
        look(1),
        look(2),
        look(3)
    );
    let expected = [OLD, OLD, OLD, 1000, OLD, OLD, 1000, 1004, OLD, 1000, 1004, 1008];
    assert_eq!(words(&body, 1, 1, 12), expected);
}

#[test]
fn a_forgotten_wait_shows() {
    let body = format!(
        "{MINE} cp.async.cg.shared.global [%r2], [%rd2], 16; cp.async.commit_group; bar.sync 0; {STORE4}"
    );
    assert_eq!(words(&body, 1, 32, 128), [OLD; 128]);
}

#[test]
fn mbarriers_learn_of_copies_of_threads() {
    // 32 threads copy; one other warp waits for the mbarrier and reads.
    for (count, how) in [(32, ".noinc"), (1, "")] {
        let own = if how.is_empty() {
            "setp.eq.s32 %p2, %r0, 31; @%p2 mbarrier.arrive.shared.b64 _, [bar+8];"
        } else {
            ""
        };
        let body = format!(
            "setp.eq.s32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar+8], {count}; bar.sync 0;
             setp.ge.u32 %p1, %r0, 32; @%p1 bra READ; {MINE}
             cp.async.ca.shared.global [%r2], [%rd2], 16; cp.async.mbarrier.arrive{how}.shared::cta.b64 [bar+8]; {own} bra END;
             READ: mbarrier.try_wait.parity.shared.b64 %p3, [bar+8], 0; @!%p3 bra READ; sub.s32 %r0, %r0, 32; {STORE4}"
        );
        assert_eq!(words(&body, 1, 64, 128), input()[..128], "{how}");
    }
}

#[test]
fn what_is_not_given_is_not_read() {
    // The memory at %rd0 ends 4 bytes behind the source.
    let copy = |given: u32| {
        let body = format!(
            "mov.u32 %r2, {given}; cp.async.cg.shared.global [%r28], [%rd0+16], 16, %r2; cp.async.wait_all;"
        );
        run(&body, 1, 1, 5)
    };
    assert!(copy(4).is_ok());
    assert!(matches!(copy(5).err().unwrap().kind, TrapKind::OutOfBounds { .. }));
}

#[test]
fn copies_of_threads_are_checked() {
    let late = trap("cp.async.cg.shared.global [%r28], [%rd1+1012], 16;", 1);
    assert!(matches!(late, TrapKind::Misaligned { .. }), "{late}");
    let outside = trap("cp.async.cg.shared.global [%r28], [%rd1+1024], 16;", 1);
    assert!(matches!(outside, TrapKind::OutOfBounds { .. }), "{outside}");
    let given = trap("mov.u32 %r2, 17; cp.async.cg.shared.global [%r28], [%rd1], 16, %r2;", 1);
    assert_eq!(given, TrapKind::Copy(CopyFault::Given { given: 17, bytes: 16 }));
    for body in [
        "cp.async.cg.shared.global [%r28], [%rd1], 8;",
        "cp.async.ca.shared.global [%r28], [%rd1], 12;",
    ] {
        assert!(matches!(device().load(&kernel(body)).err().unwrap(), LoadError::Invalid { .. }));
    }
}

// ---- bulk copies

/// Thread 0 expects bytes at `bar`.
fn expect(bytes: u32) -> String {
    format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};")
}

const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra WAIT;";

#[test]
fn a_bulk_copy_is_there_after_its_mbarrier() {
    for space in ["cluster", "cta"] {
        let copy = format!(
            "setp.ne.s32 %p2, %r0, 0; @%p2 bra AFTER; {} cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes [%r28], [%rd1], 256, [bar]; AFTER:",
            expect(256)
        );
        assert_eq!(words(&format!("{copy}{WAIT}{STORE4}"), 1, 16, 64), input()[..64], "{space}");
        assert_eq!(words(&format!("{copy} bar.sync 0; {STORE4}"), 1, 16, 64), [OLD; 64], "{space}");
    }
}

#[test]
fn a_multicast_reaches_the_blocks_of_its_mask() {
    // Block 1 copies for blocks 0, 1 and 3; block 2 has nothing to wait for.
    let body = format!(
        "setp.eq.s32 %p3, %r1, 2; @%p3 bra LOOK; {}
         barrier.cluster.arrive; barrier.cluster.wait; bra ISSUE;
         LOOK: barrier.cluster.arrive; barrier.cluster.wait; bra STORE;
         ISSUE: setp.ne.s32 %p2, %r1, 1; @%p2 bra WAIT; mov.u16 %h1, 11;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r28], [%rd1], 16, [bar], %h1;
         {WAIT} STORE: mov.u32 %r0, %r1; mov.u32 %r20, %r28; mad.wide.u32 %rd20, %r0, 16, %rd0;
         ld.shared.v4.u32 {{%r21, %r22, %r23, %r24}}, [%r20]; st.global.v4.u32 [%rd20], {{%r21, %r22, %r23, %r24}};",
        expect(16)
    );
    let own = [1000, 1001, 1002, 1003];
    assert_eq!(words(&body, 4, 1, 16), [own, own, [OLD; 4], own].concat());
}

#[test]
fn shared_memory_is_copied_between_blocks() {
    // Each block sends its rank, 4 times, to the next.
    let body = format!(
        "mul.lo.s32 %r2, %r1, 7; st.shared.v4.u32 [cells+64], {{%r2, %r2, %r2, %r1}}; fence.proxy.async.shared::cta; {}
         barrier.cluster.arrive; barrier.cluster.wait;
         add.s32 %r3, %r1, 1; rem.u32 %r3, %r3, 3; mov.u32 %r4, bar;
         mapa.shared::cluster.u32 %r5, %r28, %r3; mapa.shared::cluster.u32 %r6, %r4, %r3;
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r28+64], 16, [%r6];
         {WAIT} mov.u32 %r0, %r1; mad.wide.u32 %rd20, %r0, 16, %rd0;
         ld.shared.v4.u32 {{%r21, %r22, %r23, %r24}}, [cells]; st.global.v4.u32 [%rd20], {{%r21, %r22, %r23, %r24}};",
        expect(16)
    );
    assert_eq!(words(&body, 3, 1, 12), [14, 14, 14, 2, 0, 0, 0, 0, 7, 7, 7, 1]);
}

#[test]
fn bulk_groups_read_first_and_write_last() {
    // The source is changed after a wait of some kind, and the target read after it.
    let body = |wait: &str| {
        format!(
            "st.shared.u32 [cells], 5; fence.proxy.async.shared::cta;
             cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r28], 16; cp.async.bulk.commit_group; {wait}
             ld.volatile.global.u32 %r3, [%rd0]; st.shared.u32 [cells], 6; st.global.u32 [%rd0+16], %r3;"
        )
    };
    let untouched = 0xcdcd_cdcd;
    for (wait, seen, copied) in [
        ("", untouched, 6),
        ("cp.async.bulk.wait_group.read 0;", untouched, 5),
        ("cp.async.bulk.wait_group 0;", 5, 5),
        ("cp.async.bulk.wait_group 1;", untouched, 6),
    ] {
        let found = words(&body(wait), 1, 1, 8);
        assert_eq!((found[4], found[0], found[1]), (seen, copied, OLD), "{wait}");
    }
}

#[test]
fn device_memory_is_updated_by_ranges() {
    let one = |op: &str, old: u32, new: u32| {
        let body = format!(
            "mov.u32 %r2, {new}; mov.u32 %r3, {old}; st.shared.v4.u32 [cells], {{%r2, %r2, %r2, %r2}};
             st.global.v4.u32 [%rd0], {{%r3, %r3, %r3, %r3}};
             cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%rd0], [%r28], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        );
        let found = words(&body, 1, 1, 4);
        assert_eq!(found[0..2], found[2..4], "{op}");
        found[0]
    };
    let f = |value: f32| value.to_bits();
    assert_eq!(one("add.u32", 5, 7), 12);
    assert_eq!(one("add.s32", 5, u32::MAX), 4);
    assert_eq!(one("add.u64", u32::MAX, 1), 0);
    assert_eq!(one("add.f32", f(1.5), f(2.25)), f(3.75));
    assert_eq!(one("add.noftz.f16", 0x3c00_4000, 0x3c00_3c00), 0x4000_4200);
    assert_eq!(one("add.noftz.bf16", 0x3f80_4000, 0x3f80_3f80), 0x4000_4040);
    assert_eq!(one("min.s32", 5, u32::MAX), u32::MAX);
    assert_eq!(one("min.u32", 5, u32::MAX), 5);
    assert_eq!(one("max.f16", 0x3c00_bc00, 0x4000_3c00), 0x4000_3c00);
    assert_eq!(one("min.bf16", 0x3f80_4000, 0xbf80_4040), 0xbf80_4000);
    assert_eq!(one("inc.u32", 5, 5), 0);
    assert_eq!(one("dec.u32", 0, 9), 9);
    assert_eq!(one("and.b32", 12, 10), 8);
    assert_eq!(one("or.b32", 12, 10), 14);
    assert_eq!(one("xor.b64", 12, 10), 6);
}

#[test]
fn other_blocks_are_updated_and_stored_to() {
    // Block 0 gathers: a range from each block by addition, a word by red.async, two by st.async.
    let body = format!(
        "mov.u32 %r2, 0; st.shared.v4.u32 [cells], {{%r2, %r2, %r2, %r2}}; st.shared.v4.u32 [cells+16], {{%r2, %r2, %r2, %r2}};
         add.s32 %r3, %r1, 1; st.shared.v4.u32 [cells+64], {{%r3, %r3, %r1, %r1}}; fence.proxy.async;
         setp.ne.s32 %p2, %r1, 0; @%p2 bra GO; {} GO: barrier.cluster.arrive; barrier.cluster.wait;
         mov.u32 %r4, bar; mov.u32 %r9, 0; mapa.shared::cluster.u32 %r5, %r28, %r9; mapa.shared::cluster.u32 %r6, %r4, %r9;
         cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r5], [%r28+64], 16, [%r6];
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.u32 [%r5+16], %r3, [%r6];
         mad.lo.s32 %r7, %r1, 8, %r5; mul.lo.s32 %r8, %r3, 10;
         st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r7+32], {{%r3, %r8}}, [%r6];
         @%p2 bra END; {WAIT} mov.u32 %r10, 0;
         EACH: mad.lo.s32 %r11, %r10, 4, %r28; ld.shared.u32 %r12, [%r11]; mad.wide.u32 %rd5, %r10, 4, %rd0; st.global.u32 [%rd5], %r12;
         add.s32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 14; @%p3 bra EACH;",
        expect(3 * (16 + 4 + 8))
    );
    assert_eq!(words(&body, 3, 1, 14), [6, 6, 3, 3, 3, 0, 0, 0, 1, 10, 2, 20, 3, 30]);
}

#[test]
fn a_hint_checks_and_moves_nothing() {
    let body = "cp.async.bulk.prefetch.L2.global [%rd1], 256; st.global.u32 [%rd0], 1;";
    let outcome = run(body, 1, 1, 1).unwrap();
    assert_eq!((outcome.out[0], outcome.input), (1, input()));
    let outside = trap("cp.async.bulk.prefetch.L2.global [%rd1+1024], 16;", 1);
    assert!(matches!(outside, TrapKind::OutOfBounds { .. }), "{outside}");
}

#[test]
fn bulk_copies_are_checked() {
    let load = |to: &str, from: &str, bytes: u32| {
        let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
        trap(&format!("{copy} [{to}], [{from}], {bytes}, [bar];"), 1)
    };
    let align = |kind: TrapKind| matches!(kind, TrapKind::Copy(CopyFault::Align { align: 16, .. }));
    assert!(align(load("%r28+8", "%rd1", 16)));
    assert!(align(load("%r28", "%rd1+4", 16)));
    assert_eq!(load("%r28", "%rd1", 24), TrapKind::Copy(CopyFault::Size { bytes: 24 }));
    assert!(matches!(load("%r28", "%rd1+1008", 32), TrapKind::OutOfBounds { bytes: 32, .. }));
    assert!(matches!(load("%r28+1024", "%rd1", 256), TrapKind::OutOfBounds { bytes: 256, .. }));
    let absent = trap(
        "mov.u32 %r2, bar; add.s32 %r3, %r28, 0x5000000;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [bar];",
        2,
    );
    assert_eq!(absent, TrapKind::Cluster(ClusterFault::Rank { rank: 4, blocks: 2 }));
}

#[test]
fn an_endless_wait_for_bytes_is_a_deadlock() {
    let body = format!(
        "{} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r28], [%rd1], 16, [bar]; {WAIT}",
        expect(32)
    );
    let kind = trap(&body, 1);
    assert!(matches!(kind, TrapKind::Deadlock { .. }), "{kind}");
    assert!(kind.cause().unwrap().contains("0 arrivals and 16 bytes are missing"), "{kind}");
}

#[test]
fn register_counts_are_checked_when_loading() {
    let load =
        |count: u32| device().load(&kernel(&format!("setmaxnreg.inc.sync.aligned.u32 {count};")));
    assert!(load(232).is_ok() && load(24).is_ok());
    for count in [20, 23, 100, 264] {
        assert!(matches!(load(count).err().unwrap(), LoadError::Invalid { .. }), "{count}");
    }
    assert!(
        device().load(&kernel("griddepcontrol.wait; griddepcontrol.launch_dependents;")).is_ok()
    );
    let multimem = device().load(&kernel("multimem.ld_reduce.global.add.u32 %r2, [%rd1];"));
    assert!(matches!(multimem.err().unwrap(), LoadError::Unsupported { .. }));
}
