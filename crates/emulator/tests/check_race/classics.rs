//! What programs build of atomics and fences: locks, barriers of the grid, scans, sums by the last
//! block.

use super::Pattern;

const FENCE: &str = "fence.acq_rel.gpu;";

/// The last block to finish sums what all have left. Word 0 counts blocks.
const LAST_BLOCK: Pattern = Pattern {
    body: "setp.ne.u32 %p1, %r0, 0;
        @!%p1 add.u32 %r5, %r1, 1; mad.wide.u32 %rd3, %r1, 4, %rd0; @!%p1 st.global.b32 [%rd3+128], %r5;
        @%p1 bra MEET;
        {0}
        {1} %r6, [%rd0], 1;
        {2}
        st.shared.b32 [word], %r6;
        MEET: {3}
        ld.shared.b32 %r6, [word]; sub.u32 %r7, %r4, 1; setp.ne.u32 %p2, %r6, %r7; @%p2 bra END;
        setp.ge.u32 %p3, %r0, %r4; @%p3 bra END;
        mad.wide.u32 %rd3, %r0, 4, %rd0; ld.global.b32 %r8, [%rd3+128];
        red.global.add.u32 [%rd0+64], %r8;",
    shape: (20, 64),
    words: 64,
};

#[test]
fn the_last_block_may_read_what_all_have_left() {
    let (add, barrier) = ("atom.global.add.u32", "bar.sync 0;");
    for parts in [
        [FENCE, add, FENCE, barrier],
        ["membar.gl;", "atom.relaxed.gpu.global.add.u32", "membar.gl;", barrier],
        ["", "atom.acq_rel.gpu.global.add.u32", "", barrier],
        [FENCE, "atom.acquire.sys.global.add.u32", "", barrier],
    ] {
        assert_eq!(LAST_BLOCK.silent(&parts)[16], 210);
    }
    for parts in [
        ["", add, FENCE, barrier],
        [FENCE, add, "", barrier],
        [FENCE, add, FENCE, ""],
        ["fence.acq_rel.cta;", add, FENCE, barrier],
        [FENCE, add, "fence.acq_rel.cta;", barrier],
        [FENCE, "atom.relaxed.cta.global.add.u32", FENCE, barrier],
        // What the compiler leaves of an update with an order, where it drops orders.
        ["", "atom.global.add.u32", "", barrier],
        ["", "atom.release.gpu.global.add.u32", "", barrier],
        ["", "atom.acquire.gpu.global.add.u32", "", barrier],
    ] {
        LAST_BLOCK.racy(&parts);
    }
}

/// Each reader has a fence of its own after the barrier, and none follows the atomic in its thread.
/// The fences of `fence.sc` are totally ordered, and the reader's cannot be before the writer's:
/// the atomic that was observed would then be after its observation. Other fences have no such
/// order.
#[test]
fn a_sequentially_consistent_fence_of_each_reader_orders_it() {
    let (add, after) = ("atom.global.add.u32", "bar.sync 0; membar.gl;");
    for parts in [
        ["membar.gl;", add, "", after],
        ["fence.sc.gpu;", "atom.relaxed.gpu.global.add.u32", "", after],
        ["fence.sc.sys;", add, "", "bar.sync 0; fence.sc.gpu;"],
        ["membar.gl; fence.acq_rel.gpu;", add, "", "bar.sync 0; bar.sync 0; membar.gl;"],
    ] {
        assert_eq!(LAST_BLOCK.silent(&parts)[16], 210);
    }
    for parts in [
        ["membar.gl;", add, "", "bar.sync 0;"],
        ["membar.gl;", add, "", "bar.sync 0; fence.acq_rel.gpu;"],
        ["membar.gl;", add, "", "bar.sync 0; membar.cta;"],
        ["membar.gl;", add, "", "membar.gl;"],
        [FENCE, add, "", after],
        ["membar.cta;", add, "", after],
        ["", add, "", after],
        ["membar.gl;", "atom.relaxed.cta.global.add.u32", "", after],
    ] {
        LAST_BLOCK.racy(&parts);
    }
}

/// All blocks meet, then each reads what another wrote.
const GRID_BARRIER: Pattern = Pattern {
    body: "add.u32 %r5, %r3, 3; st.global.b32 [%rd1+64], %r5;
        {0}
        setp.ne.u32 %p1, %r0, 0; @%p1 bra MEET;
        {1}
        atom.relaxed.gpu.global.add.u32 %r6, [%rd0], 1;
        SPIN: ld.relaxed.gpu.global.b32 %r6, [%rd0]; setp.lt.u32 %p2, %r6, %r4; @%p2 bra SPIN;
        {2}
        MEET: {3}
        mul.lo.u32 %r7, %r2, %r4; sub.u32 %r7, %r7, 1; sub.u32 %r7, %r7, %r3;
        mad.wide.u32 %rd3, %r7, 4, %rd0; ld.global.b32 %r8, [%rd3+64];
        st.global.b32 [%rd1+4096], %r8;",
    shape: (5, 96),
    words: 2048,
};

#[test]
fn a_barrier_of_the_grid_needs_all_its_parts() {
    let barrier = "bar.sync 0;";
    let right = [barrier, FENCE, FENCE, barrier];
    let found = GRID_BARRIER.silent(&right);
    assert_eq!(found[1024..1026], [482, 481]);
    for part in 0..4 {
        let mut parts = right;
        parts[part] = "";
        GRID_BARRIER.racy(&parts);
    }
    GRID_BARRIER.racy(&[barrier, "membar.cta;", FENCE, barrier]);
    GRID_BARRIER.racy(&[barrier, FENCE, "membar.cta;", barrier]);
}

/// Scan with decoupled look-back (Merrill, Garland, 2016), a warp a tile. Word 0 is the ticket;
/// flags from byte 256 on, sums of tiles from 1024, prefixes from 2048, results from 4096.
const LOOK_BACK: Pattern = Pattern {
    body: "setp.ne.u32 %p1, %r0, 0; @%p1 bra MEET;
        atom.relaxed.gpu.global.add.u32 %r5, [%rd0], 1; st.shared.b32 [word], %r5;
        MEET: bar.sync 0; ld.shared.b32 %r10, [word];
        mad.lo.u32 %r11, %r10, 32, %r0; add.u32 %r11, %r11, 1;
        redux.sync.add.u32 %r12, %r11, -1;
        mad.wide.u32 %rd5, %r10, 4, %rd0;
        @%p1 bra DONE;
        st.global.b32 [%rd5+1024], %r12;
        {0}
        st.relaxed.gpu.global.b32 [%rd5+256], 1;
        mov.u32 %r13, 0; mov.b64 %rd6, %rd5;
        LOOK: setp.eq.u64 %p2, %rd6, %rd0; @%p2 bra SUMMED;
        add.s64 %rd6, %rd6, -4;
        SPIN: ld.relaxed.gpu.global.b32 %r14, [%rd6+256]; setp.eq.u32 %p3, %r14, 0; @%p3 bra SPIN;
        {1}
        setp.eq.u32 %p4, %r14, 2; @%p4 bra PREFIX;
        ld.global.b32 %r15, [%rd6+1024]; add.u32 %r13, %r13, %r15; bra LOOK;
        PREFIX: ld.global.b32 %r15, [%rd6+2048]; add.u32 %r13, %r13, %r15;
        SUMMED: add.u32 %r16, %r13, %r12; st.global.b32 [%rd5+2048], %r16;
        {2}
        st.shared.b32 [tile], %r13;
        DONE: bar.sync 0; ld.shared.b32 %r17, [tile]; mad.lo.u32 %r18, %r10, 32, %r0;
        mad.wide.u32 %rd7, %r18, 4, %rd0; st.global.b32 [%rd7+4096], %r17;",
    shape: (40, 32),
    words: 1024 + 40 * 32,
};

#[test]
fn a_scan_by_look_back_needs_each_of_its_fences() {
    let publish = "fence.acq_rel.gpu; st.relaxed.gpu.global.b32 [%rd5+256], 2;";
    let scanned = |found: &[u32]| {
        let prefix = |tile: u32| (0..tile * 32).map(|i| i + 1).sum::<u32>();
        (0..40).all(|tile| found[1024 + 32 * tile as usize] == prefix(tile))
    };
    assert!(scanned(&LOOK_BACK.silent(&[FENCE, FENCE, publish])));
    // With acquire and release in place of fences.
    let body =
        LOOK_BACK.body.replace("ld.relaxed.gpu.global.b32 %r14", "ld.acquire.gpu.global.b32 %r14");
    let body: &'static str = Box::leak(body.into_boxed_str());
    let acquiring = Pattern { body, ..LOOK_BACK };
    let release = "st.release.gpu.global.b32 [%rd5+256], 2;";
    assert!(scanned(&acquiring.silent(&[FENCE, "", release])));
    // Where nobody publishes a prefix, all is read from the sums.
    assert!(scanned(&LOOK_BACK.silent(&[FENCE, FENCE, ""])));
    let unfenced = "st.relaxed.gpu.global.b32 [%rd5+256], 2;";
    LOOK_BACK.racy(&[FENCE, FENCE, unfenced]);
    LOOK_BACK.racy(&[FENCE, "", publish]);
    LOOK_BACK.racy(&["", FENCE, ""]);
    LOOK_BACK.racy(&[FENCE, FENCE, "fence.acq_rel.cta; st.relaxed.gpu.global.b32 [%rd5+256], 2;"]);
    LOOK_BACK.racy(&[FENCE, "fence.acq_rel.cta;", publish]);
}

/// One thread of each block adds to a plain counter under a lock.
const LOCK: Pattern = Pattern {
    body: "setp.ne.u32 %p1, %r0, 0; @%p1 bra END; mov.u32 %r9, 0;
        AGAIN: {0}
        ld.global.b32 %r6, [%rd0+128]; add.u32 %r6, %r6, 1; st.global.b32 [%rd0+128], %r6;
        {1}
        add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 4; @%p3 bra AGAIN;",
    shape: (8, 32),
    words: 64,
};

const TAKE: &str =
    "atom.relaxed.gpu.global.cas.b32 %r5, [%rd0], 0, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra AGAIN;";

#[test]
fn a_spin_lock_has_to_acquire_and_to_release() {
    let taken = format!("{TAKE} {FENCE}");
    let give = "st.relaxed.gpu.global.b32 [%rd0], 0;";
    let given = format!("{FENCE} {give}");
    let exchanged = format!("{FENCE} atom.global.exch.b32 %r7, [%rd0], 0;");
    let acquired = TAKE.replace("relaxed", "acquire");
    assert_eq!(LOCK.silent(&[&taken, &given])[32], 32);
    LOCK.silent(&[&taken, &exchanged]);
    LOCK.silent(&[&acquired, "st.release.gpu.global.b32 [%rd0], 0;"]);
    LOCK.racy(&[&taken, give]);
    LOCK.racy(&[&acquired, "atom.global.exch.b32 %r7, [%rd0], 0;"]);
    LOCK.racy(&[TAKE, &given]);
    LOCK.racy(&["", ""]);
}

#[test]
fn a_ticket_lock_has_to_acquire_and_to_release() {
    let take = |load: &str| {
        format!(
            "atom.relaxed.gpu.global.add.u32 %r5, [%rd0], 1;
            WAIT: {load}.gpu.global.b32 %r7, [%rd0+4]; setp.ne.u32 %p2, %r7, %r5; @%p2 bra WAIT;"
        )
    };
    let give = "add.u32 %r7, %r5, 1; st.release.gpu.global.b32 [%rd0+4], %r7;";
    let found = LOCK.silent(&[&take("ld.acquire"), give]);
    assert_eq!((found[32], found[0], found[1]), (32, 32, 32));
    LOCK.racy(&[&take("ld.relaxed"), give]);
    LOCK.racy(&[&take("ld.acquire"), &give.replace("release", "relaxed")]);
}

/// All lanes of a warp take the same lock, one after the other.
#[test]
fn lanes_of_a_warp_under_one_lock() {
    let lanes = Pattern {
        body: "mov.u32 %r8, 0;
            AGAIN: atom.{0}.gpu.global.cas.b32 %r5, [%rd0], 0, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra AGAIN;
            ld.global.b32 %r6, [%rd0+128]; add.u32 %r6, %r6, 1; st.global.b32 [%rd0+128], %r6;
            st.{1}.gpu.global.b32 [%rd0], 0;",
        shape: (2, 32),
        words: 64,
    };
    assert_eq!(lanes.silent(&["acquire", "release"])[32], 64);
    lanes.racy(&["relaxed", "release"]);
    lanes.racy(&["acquire", "relaxed"]);
}
