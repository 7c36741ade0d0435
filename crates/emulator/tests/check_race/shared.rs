//! Between the warps of a block.

use super::Pattern;
use emulator::fault::{Kinship, RacePlace};

const BARRIER: &str = "bar.sync 0;";

/// Each thread reads the word of a thread in another warp, and overwrites its own.
const EXCHANGE: Pattern = Pattern {
    body: "st.shared.b32 [%rd2], %r0;
        {0}
        xor.b32 %r6, %r0, 32; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
        ld.shared.b32 %r7, [%rd3];
        {1}
        st.shared.b32 [%rd2], %r7;
        {2}
        ld.shared.b32 %r8, [%rd3]; st.global.b32 [%rd1], %r8;",
    shape: (3, 128),
    words: 384,
};

#[test]
fn every_barrier_of_an_exchange_is_needed() {
    let found = EXCHANGE.silent(&[BARRIER; 3]);
    assert!(found.iter().enumerate().all(|(i, own)| *own == i as u32 % 128));
    for missing in 0..3 {
        let mut parts = [BARRIER; 3];
        parts[missing] = "bar.warp.sync -1;";
        let race = EXCHANGE.racy(&parts);
        assert_eq!(race.kinship, Kinship::Block, "{missing}: {race}");
        match race.place {
            RacePlace::Shared { variable: Some((name, _)), .. } => assert_eq!(name, "tile"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn barriers_in_all_their_spellings_order_a_block() {
    for barrier in [
        "bar.sync 3;",
        "barrier.sync 1;",
        "barrier.sync.aligned 0, 128;",
        "bar.cta.sync 0;",
        "bar.red.popc.u32 %r20, 2, %p3;",
    ] {
        EXCHANGE.silent(&[barrier; 3]);
    }
}

/// The tree of a textbook reduction.
const TREE: Pattern = Pattern {
    body: "st.shared.b32 [%rd2], %r3; bar.sync 0; shr.u32 %r5, %r2, 1;
        LOOP: setp.ge.u32 %p1, %r0, %r5; @%p1 bra SKIP;
        mad.wide.u32 %rd3, %r5, 4, %rd2; ld.shared.b32 %r6, [%rd3]; ld.shared.b32 %r7, [%rd2];
        add.u32 %r7, %r7, %r6; st.shared.b32 [%rd2], %r7;
        SKIP: {0} shr.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra LOOP;
        setp.ne.u32 %p3, %r0, 0; @%p3 bra END;
        ld.shared.b32 %r8, [tile]; mad.wide.u32 %rd4, %r1, 4, %rd0; st.global.b32 [%rd4], %r8;",
    shape: (4, 256),
    words: 4,
};

#[test]
fn a_tree_of_sums_needs_its_barrier_in_the_loop() {
    let sums = TREE.silent(&[BARRIER]);
    assert_eq!(sums[1], (256..512).sum::<u32>());
    TREE.racy(&[""]);
    TREE.racy(&["bar.warp.sync -1;"]);
}

/// The last six steps of the tree inside one warp.
#[test]
fn the_last_steps_of_a_tree_need_a_barrier_of_the_warp() {
    let last = Pattern {
        body: "st.shared.b32 [%rd2], %r0; bar.sync 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra END;
            mov.u32 %r5, 32;
            LOOP: mad.wide.u32 %rd3, %r5, 4, %rd2; ld.shared.b32 %r6, [%rd3]; ld.shared.b32 %r7, [%rd2];
            add.u32 %r7, %r7, %r6; {0}
            st.shared.b32 [%rd2], %r7; {1}
            shr.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra LOOP;
            setp.ne.u32 %p3, %r0, 0; @%p3 bra END; st.global.b32 [%rd0], %r7;",
        shape: (1, 64),
        words: 1,
    };
    let sync = "bar.warp.sync -1;";
    assert_eq!(last.silent(&[sync, sync])[0], (0..64).sum::<u32>());
    assert_eq!(last.racy(&["", sync]).kinship, Kinship::Warp);
    assert_eq!(last.racy(&[sync, ""]).kinship, Kinship::Warp);
}

/// Threads write the bytes of a word each their own, or one too far.
#[test]
fn bytes_of_a_word_are_told_apart() {
    let bytes = Pattern {
        body: "mov.b64 %rd3, tile; cvt.u64.u32 %rd4, %r0; add.u64 %rd3, %rd3, %rd4;
            cvt.u16.u32 %h1, %r0; st.shared.b8 [%rd3], %h1; ld.shared.u8 %h2, [%rd3{0}];
            cvt.u32.u16 %r5, %h2; st.global.b32 [%rd1], %r5;",
        shape: (2, 64),
        words: 128,
    };
    let found = bytes.silent(&[""]);
    assert!(found.iter().enumerate().all(|(i, own)| *own == i as u32 % 64));
    assert_eq!(bytes.racy(&["+1"]).kinship, Kinship::Warp);
    // Pairs of bytes overlap where the step is one.
    let halves = Pattern {
        body: "mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r0, {0}, %rd3;
            setp.ne.u32 %p1, %r0, 0; @%p1 bra NEXT; st.shared.b16 [tile+62], 3; bra END;
            NEXT: setp.ne.u32 %p2, %r0, 63; @%p2 bra END; cvt.u16.u32 %h2, %r0; st.shared.b8 [%rd3], %h2;",
        shape: (1, 64),
        words: 1,
    };
    halves.silent(&["2"]);
    halves.racy(&["1"]);
}

/// Producers fill a buffer for consumers, which hand it back: `full` and `empty` barriers.
const PIPELINE: Pattern = Pattern {
    body: "mov.u32 %r5, 0; mov.u32 %r9, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUMER;
        PRODUCER: {0}
        mad.lo.u32 %r6, %r5, 100, %r0; st.shared.b32 [%rd2], %r6;
        {1}
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra PRODUCER; bra END;
        CONSUMER: bar.arrive 2, 96;
        CONSUME: {2}
        and.b32 %r7, %r0, 31; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r7, 4, %rd3;
        ld.shared.b32 %r8, [%rd3]; add.u32 %r9, %r9, %r8;
        {3}
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra CONSUME;
        st.global.b32 [%rd1], %r9;",
    shape: (2, 96),
    words: 192,
};

#[test]
fn producers_and_consumers_meet_at_named_barriers() {
    let last = "setp.ge.u32 %p4, %r5, 3; @%p4 bra NOMORE; bar.arrive 2, 96; NOMORE:";
    let right = ["bar.sync 2, 96;", "bar.arrive 1, 96;", "bar.sync 1, 96;", last];
    let found = PIPELINE.silent(&right);
    assert_eq!(found[32..35], [600, 604, 608]);
    // The producer does not wait for an empty buffer: consumers hand it back too early.
    let early = "setp.ge.u32 %p4, %r5, 3; @%p4 bra NOMORE; bar.arrive 2, 96; NOMORE:
        ld.shared.b32 %r8, [%rd3];";
    let race = PIPELINE.racy(&[right[0], right[1], right[2], early]);
    assert_eq!(race.kinship, Kinship::Block);
    // The producer arrives before it has written.
    let body = PIPELINE.body.replace("st.shared.b32 [%rd2], %r6;", "");
    let body: &'static str = Box::leak(body.into_boxed_str());
    let swapped = Pattern { body, ..PIPELINE };
    swapped.racy(&[right[0], "bar.arrive 1, 96; st.shared.b32 [%rd2], %r6;", right[2], right[3]]);
}

/// A histogram in shared memory: zeroed, counted by atomics, read.
#[test]
fn a_histogram_needs_a_barrier_before_and_after() {
    let histogram = Pattern {
        body: "setp.ge.u32 %p1, %r0, 16; @%p1 bra COUNT; st.shared.b32 [%rd2], 0;
            COUNT: {0}
            and.b32 %r5, %r3, 15; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r5, 4, %rd3;
            {1}.shared.add.u32 {2}[%rd3], 1;
            {3}
            setp.ge.u32 %p1, %r0, 16; @%p1 bra END;
            ld.shared.b32 %r6, [%rd2]; red.global.add.u32 [%rd1], %r6;",
        shape: (2, 128),
        words: 144,
    };
    let found = histogram.silent(&[BARRIER, "atom", "%r7, ", BARRIER]);
    assert!(found[..16].iter().all(|count| *count == 8));
    histogram.silent(&[BARRIER, "red", "", BARRIER]);
    let race = histogram.racy(&["", "atom", "%r7, ", BARRIER]);
    assert!(race.first.strength.is_some() != race.second.strength.is_some());
    assert!(race.to_string().contains("atomic operation of device scope"), "{race}");
    histogram.racy(&[BARRIER, "red", "", ""]);
}

/// A stencil in place needs two barriers, one with two buffers only one.
#[test]
fn a_stencil_in_place_races_and_one_with_two_buffers_does_not() {
    let stencil = Pattern {
        body: "st.shared.b32 [%rd2], %r0; add.u32 %r5, %r0, 1; rem.u32 %r5, %r5, %r2;
            mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r5, 4, %rd3; bar.sync 0;
            ld.shared.b32 %r6, [%rd3]; ld.shared.b32 %r7, [%rd2]; add.u32 %r6, %r6, %r7;
            st.shared.b32 [%rd2+{0}], %r6; bar.sync 0; ld.shared.b32 %r8, [%rd3+{0}];
            st.global.b32 [%rd1], %r8;",
        shape: (1, 256),
        words: 256,
    };
    let found = stencil.silent(&["4096"]);
    assert_eq!(found[..3], [3, 5, 7]);
    stencil.racy(&["0"]);
}

/// Threads that have ended are left out of the barriers that follow.
#[test]
fn threads_that_have_ended_do_not_upset_the_order() {
    let guard = Pattern {
        body: "setp.ge.u32 %p1, %r0, 100; @%p1 bra END;
            st.shared.b32 [%rd2], %r0; {0} xor.b32 %r5, %r0, 33; min.u32 %r5, %r5, 99;
            mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r5, 4, %rd3;
            ld.shared.b32 %r6, [%rd3]; st.global.b32 [%rd1], %r6;",
        shape: (2, 128),
        words: 256,
    };
    assert_eq!(guard.silent(&[BARRIER])[..2], [33, 32]);
    guard.racy(&[""]);
}
