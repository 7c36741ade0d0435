//! Copies of threads (`cp.async`), which are under way until their thread has waited.

use super::Pattern;
use emulator::fault::{Access, Kinship};

/// Each thread copies its word to shared memory, and another reads it. The source is at byte 4096.
const STAGE: Pattern = Pattern {
    body: "cvt.u32.u64 %r5, %rd2; cp.async.ca.shared.global [%r5], [%rd1+4096], 4;
        {0}
        xor.b32 %r6, %r0, {1}; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
        ld.shared.b32 %r7, [%rd3]; st.global.b32 [%rd1], %r7;",
    shape: (2, 64),
    words: 2048,
};

const COMMIT: &str = "cp.async.commit_group;";
const ALL: &str = "cp.async.wait_all;";

#[test]
fn a_copy_that_is_waited_for_and_met_after_a_barrier_is_ordered() {
    for order in [
        format!("{ALL} bar.sync 0;"),
        format!("{COMMIT} cp.async.wait_group 0; bar.sync 0;"),
        format!("bar.sync 0; {ALL} bar.sync 0;"),
    ] {
        STAGE.silent(&[&order, "32"]);
    }
    // A thread needs no barrier for what it copied itself, nor a warp one of the block.
    STAGE.silent(&[ALL, "0"]);
    STAGE.silent(&["cp.async.wait_all; bar.warp.sync -1;", "1"]);
}

#[test]
fn a_target_that_is_read_before_the_wait_is_a_race() {
    // Without a barrier, the other thread may read before the copy is asked for, which is a race
    // too.
    assert_eq!(STAGE.racy(&["", "32"]).kinship, Kinship::Block);
    assert_eq!(STAGE.racy(&["", "0"]).kinship, Kinship::Copy);
    for order in ["bar.sync 0;", "cp.async.commit_group; bar.sync 0;"] {
        for partner in ["0", "32"] {
            let race = STAGE.racy(&[order, partner]);
            assert_eq!(
                (race.kinship, race.first.access),
                (Kinship::Copy, Access::Store),
                "{race:?}"
            );
            assert!(race.cause().contains("cp.async.wait_group"), "{}", race.cause());
        }
    }
    // The group that is waited for is not the last one.
    let race = STAGE.racy(&["cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;", "32"]);
    assert_eq!(race.kinship, Kinship::Copy);
    // The wait helps the thread itself; the barrier has to follow it.
    assert_eq!(STAGE.racy(&[ALL, "32"]).kinship, Kinship::Block);
    STAGE.racy(&["bar.sync 0; cp.async.wait_all;", "32"]);
}

/// Something is done to what a copy uses while it is under way.
const MEANWHILE: Pattern = Pattern {
    body: "cvt.u32.u64 %r5, %rd2; cp.async.ca.shared.global [%r5], [%rd1+4096], 4;
        {0}
        cp.async.wait_all; bar.sync 0;
        {1}
        ld.shared.b32 %r7, [%rd2]; st.global.b32 [%rd1], %r7;",
    shape: (2, 64),
    words: 2048,
};

#[test]
fn a_source_or_target_that_is_written_meanwhile_is_a_race() {
    for write in [
        "st.global.b32 [%rd1+4096], 7;",
        "st.shared.b32 [%rd2], 7;",
        "bar.sync 0; xor.b32 %r6, %r3, 1; mad.wide.u32 %rd3, %r6, 4, %rd0; st.global.b32 [%rd3+4096], 7; bar.sync 0;",
        "atom.global.add.u32 %r8, [%rd1+4096], 1;",
        "cp.async.ca.shared.global [%r5], [%rd1+4096], 4;",
    ] {
        assert_eq!(MEANWHILE.racy(&[write, ""]).kinship, Kinship::Copy, "{write}");
        if !write.starts_with("cp") {
            MEANWHILE.silent(&["", write]);
        }
    }
    MEANWHILE.silent(&["ld.global.b32 %r8, [%rd1+4096];", ""]);
    MEANWHILE.silent(&["st.global.b32 [%rd1+2048], 7; st.shared.b32 [%rd2+4096], 7;", ""]);
}

/// Two stages: the next is under way while one is used.
const PIPELINE: Pattern = Pattern {
    body: "mov.b64 %rd4, tile; cvt.u32.u64 %r5, %rd4; shl.b32 %r6, %r0, 4; add.u32 %r5, %r5, %r6;
        mad.wide.u32 %rd5, %r0, 16, %rd0;
        cp.async.cg.shared.global [%r5], [%rd5+1024], 16; cp.async.commit_group;
        mov.u32 %r10, 0; mov.u32 %r11, 0;
        LOOP: xor.b32 %r12, %r10, {0}; and.b32 %r12, %r12, 1; shl.b32 %r12, %r12, 10; add.u32 %r12, %r12, %r5;
        cp.async.cg.shared.global [%r12], [%rd5+1024], 16; cp.async.commit_group;
        cp.async.wait_group {1}; bar.sync 0;
        and.b32 %r13, %r10, 1; shl.b32 %r13, %r13, 10; xor.b32 %r14, %r6, 512; add.u32 %r13, %r13, %r14;
        cvt.u64.u32 %rd6, %r13; mov.b64 %rd4, tile; add.u64 %rd4, %rd4, %rd6;
        ld.shared.b32 %r15, [%rd4]; add.u32 %r11, %r11, %r15;
        {2}
        add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 5; @%p1 bra LOOP;
        cp.async.wait_all;
        st.global.b32 [%rd1], %r11;",
    shape: (1, 64),
    words: 1024,
};

#[test]
fn a_pipeline_of_two_stages_needs_its_waits_and_barriers() {
    PIPELINE.silent(&["1", "1", "bar.sync 0;"]);
    // A stage that is still used is filled.
    PIPELINE.racy(&["0", "1", "bar.sync 0;"]);
    // The wait lets the newest group be open, and one more.
    PIPELINE.racy(&["1", "2", "bar.sync 0;"]);
    // Without the second barrier a stage is filled that another warp still reads.
    PIPELINE.racy(&["1", "1", ""]);
}

/// The copies signal an mbarrier, which the readers test.
const SIGNALLED: Pattern = Pattern {
    body:
        "setp.ne.u32 %p1, %r0, 0; mov.b64 %rd4, tile; cvt.u32.u64 %r9, %rd4; add.u32 %r9, %r9, 4096;
        @!%p1 mbarrier.init.shared::cta.b64 [%r9], 64;
        bar.sync 0;
        cvt.u32.u64 %r5, %rd2; cp.async.ca.shared.global [%r5], [%rd1+4096], 4;
        {0}
        {1}
        xor.b32 %r6, %r0, 32; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
        ld.shared.b32 %r7, [%rd3]; st.global.b32 [%rd1], %r7;",
    shape: (2, 64),
    words: 2048,
};

#[test]
fn an_mbarrier_that_the_copies_signal_orders_them() {
    let arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r9];";
    let test = "WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r9], 0; @!%p3 bra WAIT;";
    SIGNALLED.silent(&[arrive, test]);
    // Arrivals that do not wait for the copies, and no test at all.
    let early = SIGNALLED.racy(&["mbarrier.arrive.shared::cta.b64 %rd9, [%r9];", test]);
    assert_eq!(early.kinship, Kinship::Copy);
    SIGNALLED.racy(&[arrive, ""]);
    assert_eq!(SIGNALLED.racy(&[&format!("{arrive} bar.sync 0;"), ""]).kinship, Kinship::Copy);
}
