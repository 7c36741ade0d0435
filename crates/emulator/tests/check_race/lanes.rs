//! Between the lanes of a warp.

use super::Pattern;
use emulator::fault::{Access, Kinship};

/// Each lane reads what its neighbour wrote.
const NEIGHBOUR: Pattern = Pattern {
    body: "add.u32 %r5, %r0, 7; st.shared.b32 [%rd2], %r5;
        {0}
        xor.b32 %r6, %r0, 1; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
        ld.shared.b32 %r7, [%rd3]; st.global.b32 [%rd1], %r7;",
    shape: (2, 32),
    words: 64,
};

#[test]
fn only_a_barrier_of_the_warp_orders_its_lanes() {
    let found = NEIGHBOUR.silent(&["bar.warp.sync -1;"]);
    assert!(found.iter().enumerate().all(|(i, own)| *own == ((i as u32 % 32) ^ 1) + 7));
    NEIGHBOUR.silent(&["bar.sync 0;"]);
    for order in [
        "",
        "shfl.sync.idx.b32 %r8, %r5, 0, 31, -1;",
        "setp.eq.u32 %p2, %r0, 0; vote.sync.any.pred %p1, %p2, -1;",
        "fence.acq_rel.gpu;",
    ] {
        let race = NEIGHBOUR.racy(&[order]);
        assert_eq!(race.kinship, Kinship::Warp, "{race}");
        assert_eq!((race.first.access, race.second.access), (Access::Store, Access::Load));
    }
}

/// Each half of the warp exchanges values under a mask of its own.
#[test]
fn a_barrier_of_some_lanes_orders_those() {
    let half = Pattern {
        body: "st.shared.b32 [%rd2], %r0;
            mov.u32 %r8, 0xffff; setp.ge.u32 %p1, %r0, 16; @%p1 mov.u32 %r8, 0xffff0000;
            bar.warp.sync %r8;
            xor.b32 %r6, %r0, {0}; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
            ld.shared.b32 %r7, [%rd3]; st.global.b32 [%rd1], %r7;",
        shape: (1, 32),
        words: 32,
    };
    let found = half.silent(&["15"]);
    assert!(found.iter().enumerate().all(|(i, own)| *own == i as u32 ^ 15));
    let race = half.racy(&["16"]);
    assert_eq!(race.kinship, Kinship::Warp);
}

/// In a divergent branch one side writes and the other reads, before and after they meet.
#[test]
fn paths_that_meet_again_are_ordered_by_the_barrier_where_they_meet() {
    let paths = Pattern {
        body: "setp.ge.u32 %p1, %r0, 16; @%p1 bra ELSE;
            st.shared.b32 [tile], 5; bra JOIN;
            ELSE: mov.u32 %r9, 3;
            {0}
            ld.shared.b32 %r9, [tile];
            JOIN: bar.warp.sync -1;
            ld.shared.b32 %r7, [tile]; st.global.b32 [%rd1], %r7;",
        shape: (1, 32),
        words: 32,
    };
    assert!(paths.silent(&["bra JOIN;"]).iter().all(|own| *own == 5));
    paths.racy(&[""]);
}

#[test]
fn lanes_of_one_store_on_one_place_have_to_store_the_same() {
    let same =
        Pattern { body: "mov.u32 %r5, {0}; st.{1}.b32 [{2}], %r5;", shape: (1, 32), words: 1 };
    for (space, place) in [("shared", "word"), ("global", "%rd0")] {
        same.silent(&["9", space, place]);
        let race = same.racy(&["%tid.x", space, place]);
        assert_eq!(race.kinship, Kinship::Instruction, "{race}");
        assert_eq!((race.second.thread, race.written), ([1, 0, 0], Some(1)));
    }
    // Pairs of lanes share a place.
    let pairs = Pattern {
        body: "shr.u32 %r5, %r0, 1; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r5, 4, %rd3;
            st.shared.b32 [%rd3], {0};",
        shape: (1, 32),
        words: 1,
    };
    pairs.silent(&["%r5"]);
    assert_eq!(pairs.racy(&["%r0"]).kinship, Kinship::Instruction);
}

/// A thread may read what it wrote itself, in any size.
#[test]
fn a_thread_does_not_race_with_itself() {
    let own = Pattern {
        body: "mad.wide.u32 %rd3, %r3, 16, %rd0;
            st.global.v4.b32 [%rd3], {%r0, %r1, %r2, %r3};
            ld.global.b32 %r5, [%rd3+4]; ld.global.b64 %rd4, [%rd3+8]; ld.global.u8 %r6, [%rd3+13];
            st.global.b16 [%rd3+14], 5; atom.global.add.u32 %r7, [%rd3+{0}], 1;
            ld.global.v2.b32 {%r8, %r9}, [%rd3];",
        shape: (2, 64),
        words: 4 * 130,
    };
    own.silent(&["12"]);
    own.racy(&["16"]);
}

/// Local memory is another for each thread, although its addresses are the same.
#[test]
fn local_memory_and_parameters_are_private() {
    let local = Pattern {
        body: ".local .align 4 .b8 mine[16];
            st.local.b32 [mine], %r3; mov.b64 %rd3, mine; cvta.local.u64 %rd3, %rd3;
            ld.b32 %r5, [%rd3]; st.b32 [%rd3+4], %r5; ld.local.b32 %r6, [mine+4];
            st.global.b32 [{0}], %r6;",
        shape: (2, 64),
        words: 128,
    };
    assert!(local.silent(&["%rd1"]).iter().enumerate().all(|(i, own)| *own == i as u32));
    local.racy(&["%rd0"]);
}
