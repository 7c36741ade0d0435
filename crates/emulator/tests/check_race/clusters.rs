//! Between the blocks of a cluster.

use super::{HEAD, SCHEDULES, device, run};
use emulator::fault::{Kinship, RacePlace};
use emulator::{Trap, TrapKind};

/// Each block writes into the shared memory of the next of its cluster, which reads it.
fn text(meet: &str, before_end: &str) -> String {
    format!(
        "{HEAD}.shared .align 4 .b32 word;
        .visible .entry k(.param .u64 k_out) .explicitcluster .reqnctapercluster 4, 1, 1 {{
            .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
            ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
            barrier.cluster.arrive; barrier.cluster.wait;
            setp.ne.u32 %p1, %r0, 0;
            mov.u32 %r2, %cluster_ctarank; add.u32 %r3, %r2, 1; and.b32 %r3, %r3, 3;
            mov.u32 %r4, word; mapa.shared::cluster.u32 %r5, %r4, %r3;
            cvt.u64.u32 %rd3, %r5;
            @!%p1 st.shared::cluster.b32 [%rd3], %r1;
            {meet}
            setp.ne.u32 %p2, %r0, 32;
            @!%p2 ld.shared.b32 %r6, [word]; mad.wide.u32 %rd1, %r1, 4, %rd0;
            @!%p2 st.global.b32 [%rd1], %r6;
            {before_end}
            ret; }}"
    )
}

#[test]
fn the_barrier_of_a_cluster_orders_its_blocks() {
    let right = text("barrier.cluster.arrive; barrier.cluster.wait;", "");
    for schedule in SCHEDULES {
        let found = run(&device(schedule, 1), &right, (8, 64), 8).unwrap();
        assert_eq!(found, [3, 0, 1, 2, 7, 4, 5, 6]);
    }
    // A barrier of each block, or one of the cluster that releases nothing, is not enough.
    for wrong in ["bar.sync 0;", "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"] {
        let wrong = text(wrong, "barrier.cluster.arrive; barrier.cluster.wait;");
        for schedule in SCHEDULES {
            match run(&device(schedule, 1), &wrong, (8, 64), 8) {
                Err(Trap { kind: TrapKind::Race(race), .. }) => {
                    assert_eq!(race.kinship, Kinship::Grid, "{race}");
                    assert!(matches!(race.place, RacePlace::Shared { .. }));
                }
                other => panic!("{schedule}: {other:?}"),
            }
        }
    }
}
