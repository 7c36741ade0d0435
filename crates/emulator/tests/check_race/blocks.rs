//! Between blocks: flags, scopes, release and acquire.

use super::Pattern;
use emulator::fault::{Kinship, RacePlace};
use emulator::isa::Scope;

/// Block 0 leaves data and sets a flag; block 1 waits for it. Word 0 is the flag, data from word
/// 32.
const MESSAGE: Pattern = Pattern {
    body: "setp.ne.u32 %p1, %r1, 0; @%p1 bra READER;
        add.u32 %r5, %r0, 40; mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.b32 [%rd3+128], %r5;
        {0}
        setp.ne.u32 %p2, %r0, 0; @%p2 bra END;
        {1}
        bra END;
        READER: setp.ne.u32 %p2, %r0, 0; @%p2 bra READ;
        SPIN: {2} setp.eq.u32 %p3, %r6, 0; @%p3 bra SPIN;
        {3}
        READ: {4}
        mad.wide.u32 %rd3, %r0, 4, %rd0; ld.global.b32 %r7, [%rd3+128];
        st.global.b32 [%rd3+1024], %r7;",
    shape: (2, 64),
    words: 512,
};

const BARRIER: &str = "bar.sync 0;";
const RELEASE: &str = "st.release.gpu.global.b32 [%rd0], 1;";
const ACQUIRE: &str = "ld.acquire.gpu.global.b32 %r6, [%rd0];";
const RELAXED_STORE: &str = "st.relaxed.gpu.global.b32 [%rd0], 1;";
const RELAXED_LOAD: &str = "ld.relaxed.gpu.global.b32 %r6, [%rd0];";
const FENCE: &str = "fence.acq_rel.gpu;";

fn check_message(parts: [&str; 5]) {
    let found = MESSAGE.silent(&parts);
    assert_eq!(found[256..258], [40, 41]);
}

#[test]
fn a_release_that_is_acquired_orders_blocks() {
    check_message([BARRIER, RELEASE, ACQUIRE, "", BARRIER]);
    check_message([
        BARRIER,
        "atom.release.gpu.global.exch.b32 %r5, [%rd0], 1;",
        ACQUIRE,
        "",
        BARRIER,
    ]);
    check_message([BARRIER, "red.release.gpu.global.add.u32 [%rd0], 1;", ACQUIRE, "", BARRIER]);
    check_message([
        BARRIER,
        RELEASE,
        "atom.acquire.gpu.global.add.u32 %r6, [%rd0], 0;",
        "",
        BARRIER,
    ]);
    check_message([
        BARRIER,
        RELEASE,
        "atom.acq_rel.sys.global.or.b32 %r6, [%rd0], 0;",
        "",
        BARRIER,
    ]);
}

#[test]
fn fences_around_strong_accesses_are_release_and_acquire() {
    for fence in [FENCE, "membar.gl;", "membar.sys;", "fence.sc.gpu;", "fence.acq_rel.sys;"] {
        let store = format!("{fence} st.volatile.global.b32 [%rd0], 1;");
        check_message([BARRIER, &store, "ld.volatile.global.b32 %r6, [%rd0];", fence, BARRIER]);
    }
    let add = format!("{FENCE} red.global.add.u32 [%rd0], 1;");
    check_message([BARRIER, &add, RELAXED_LOAD, FENCE, BARRIER]);
    check_message([BARRIER, RELEASE, RELAXED_LOAD, FENCE, BARRIER]);
}

#[test]
fn each_piece_of_a_message_is_needed() {
    let fenced = format!("{FENCE} {RELAXED_STORE}");
    for (what, parts) in [
        ("the barrier before the flag", ["", RELEASE, ACQUIRE, "", BARRIER]),
        ("the release", [BARRIER, RELAXED_STORE, ACQUIRE, "", BARRIER]),
        ("the acquire", [BARRIER, RELEASE, RELAXED_LOAD, "", BARRIER]),
        ("the barrier after the flag", [BARRIER, RELEASE, ACQUIRE, "", ""]),
        ("the fence of the reader", [BARRIER, &fenced, RELAXED_LOAD, "", BARRIER]),
        (
            "a fence behind the flag",
            [
                BARRIER,
                "st.relaxed.gpu.global.b32 [%rd0], 1; fence.acq_rel.gpu;",
                ACQUIRE,
                "",
                BARRIER,
            ],
        ),
        (
            "a fence before the spin",
            [
                BARRIER,
                RELEASE,
                "fence.acq_rel.gpu; ld.relaxed.gpu.global.b32 %r6, [%rd0];",
                "",
                BARRIER,
            ],
        ),
    ] {
        let race = MESSAGE.racy(&parts);
        assert_eq!(race.kinship, Kinship::Grid, "{what}: {race}");
        assert!((race.first.strength, race.second.strength) == (None, None), "{what}: {race}");
        match race.place {
            RacePlace::Global { allocation: Some(allocation), .. } => {
                assert_eq!(allocation.bytes, 2048, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_scope_of_the_block_does_nothing_for_another_block() {
    // The accesses of the flag itself race.
    for parts in [
        [BARRIER, "st.release.cta.global.b32 [%rd0], 1;", ACQUIRE, "", BARRIER],
        [BARRIER, RELEASE, "ld.acquire.cta.global.b32 %r6, [%rd0];", "", BARRIER],
        [BARRIER, "atom.release.cta.global.add.u32 %r5, [%rd0], 1;", ACQUIRE, "", BARRIER],
        [BARRIER, RELEASE, "atom.acquire.cta.global.add.u32 %r6, [%rd0], 0;", "", BARRIER],
    ] {
        let race = MESSAGE.racy(&parts);
        let scopes = [race.first.strength, race.second.strength];
        assert!(scopes.contains(&Some(Scope::Block)) && scopes.contains(&Some(Scope::Device)));
        assert!(race.cause().contains("the scope of one of them is its block"), "{}", race.cause());
    }
    // The data race where only a fence is too narrow.
    let narrow = format!("fence.acq_rel.cta; {RELAXED_STORE}");
    for parts in [
        [BARRIER, &narrow, ACQUIRE, "", BARRIER],
        [BARRIER, RELEASE, RELAXED_LOAD, "membar.cta;", BARRIER],
    ] {
        let race = MESSAGE.racy(&parts);
        assert_eq!((race.first.strength, race.second.strength), (None, None), "{race}");
    }
}

#[test]
fn inside_a_block_its_own_scope_is_enough() {
    let inside = Pattern {
        body: "setp.ge.u32 %p1, %r0, 32; @%p1 bra READER;
            setp.ne.u32 %p2, %r0, 0; @%p2 bra END;
            st.shared.b32 [tile], 5; {0} bra END;
            READER: setp.ne.u32 %p2, %r0, 32; @%p2 bra END;
            SPIN: {1} setp.eq.u32 %p3, %r6, 0; @%p3 bra SPIN;
            ld.shared.b32 %r7, [tile]; st.global.b32 [%rd0+64], %r7;",
        shape: (1, 64),
        words: 32,
    };
    let right = ["st.release.cta.global.b32 [%rd0], 1;", "ld.acquire.cta.global.b32 %r6, [%rd0];"];
    assert_eq!(inside.silent(&right)[16], 5);
    inside.silent(&[RELEASE, right[1]]);
    let fenced = "fence.acq_rel.cta; st.relaxed.cta.global.b32 [%rd0], 1;";
    inside.silent(&[fenced, "ld.relaxed.cta.global.b32 %r6, [%rd0]; fence.acq_rel.cta;"]);
    let race = inside.racy(&["st.relaxed.cta.global.b32 [%rd0], 1;", right[1]]);
    assert_eq!(race.kinship, Kinship::Block);
}

/// Block 1 passes on what it saw of block 0, without having released itself.
#[test]
fn an_update_continues_a_release_and_a_store_does_not() {
    let relay = Pattern {
        body: "setp.ne.u32 %p9, %r0, 0; @%p9 bra END;
            setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST; setp.eq.u32 %p1, %r1, 1; @%p1 bra SECOND;
            SPIN2: ld.relaxed.gpu.global.b32 %r6, [%rd0]; setp.ne.u32 %p3, %r6, 2; @%p3 bra SPIN2;
            ld.acquire.gpu.global.b32 %r6, [%rd0];
            ld.global.b32 %r7, [%rd0+128]; st.global.b32 [%rd0+256], %r7; bra END;
            FIRST: st.global.b32 [%rd0+128], 77; st.release.gpu.global.b32 [%rd0], 1; bra END;
            SECOND: ld.relaxed.gpu.global.b32 %r6, [%rd0]; setp.ne.u32 %p3, %r6, 1; @%p3 bra SECOND;
            {0}",
        shape: (3, 32),
        words: 128,
    };
    assert_eq!(relay.silent(&["atom.relaxed.gpu.global.add.u32 %r8, [%rd0], 1;"])[64], 77);
    relay.silent(&["red.relaxed.gpu.global.max.u32 [%rd0], 2;"]);
    relay.silent(&["fence.acq_rel.gpu; st.relaxed.gpu.global.b32 [%rd0], 2;"]);
    let race = relay.racy(&["st.relaxed.gpu.global.b32 [%rd0], 2;"]);
    assert_eq!((race.first.block, race.second.block), ([0; 3], [2, 0, 0]));
}

#[test]
fn a_weak_flag_is_a_race_itself() {
    let race =
        MESSAGE.racy(&[BARRIER, "fence.sc.gpu; st.global.b32 [%rd0], 1;", ACQUIRE, "", BARRIER]);
    assert!(race.first.strength.is_some() != race.second.strength.is_some());
    let race =
        MESSAGE.racy(&[BARRIER, RELEASE, "ld.global.b32 %r6, [%rd0]; fence.sc.gpu;", "", BARRIER]);
    assert_eq!(race.kinship, Kinship::Grid);
    assert!(race.cause().contains("one of them is a plain access"), "{}", race.cause());
}

#[test]
fn blocks_that_store_to_one_place_have_to_store_the_same() {
    let all = Pattern { body: "st.global.b32 [%rd0], {0};", shape: (4, 1), words: 1 };
    all.silent(&["6"]);
    let race = all.racy(&["%r1"]);
    assert_eq!((race.kinship, race.bytes), (Kinship::Grid, 4));
    let counts = Pattern { body: "{0}.global.add.u32 [%rd0], 1;", shape: (64, 64), words: 1 };
    assert_eq!(counts.silent(&["red"]), [4096]);
    assert_eq!(counts.silent(&["red.relaxed.sys"]), [4096]);
    let race = counts.racy(&["red.relaxed.cta"]);
    assert!(race.cause().contains("the scope of one of them"), "{}", race.cause());
}

/// A compare-and-swap loop as compilers write it, with a weak first load.
#[test]
fn the_weak_load_of_a_compare_and_swap_loop_is_no_race() {
    let swap = Pattern {
        body: "ld.global.b32 %r5, [%rd0];
            {0}
            LOOP: mov.b32 %r6, %r5; mad.lo.u32 %r7, %r6, 3, 1;
            atom.relaxed.gpu.global.cas.b32 %r5, [%rd0], %r6, %r7;
            setp.ne.u32 %p1, %r5, %r6; @%p1 bra LOOP;",
        shape: (4, 64),
        words: 512,
    };
    let mut expected = 0u32;
    (0..256).for_each(|_| expected = expected.wrapping_mul(3).wrapping_add(1));
    assert_eq!(swap.silent(&[""])[0], expected);
    // Another weak load is one.
    swap.racy(&["ld.global.b32 %r9, [%rd0]; st.global.b32 [%rd1+16], %r9;"]);
}
