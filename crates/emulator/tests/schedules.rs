//! Schedules: what they change, and what they do not.

mod common;

use common::{Buffer, HEAD, launch};
use emulator::{Device, Profile, Schedule};
use std::sync::Arc;

fn device(schedule: Schedule) -> Arc<Device> {
    Device::new(Profile { worker_threads: 1, schedule, ..Profile::hopper() })
}

/// Each block writes down the how-manieth it is, and so does each warp of a block.
fn orders(schedule: Schedule) -> (Vec<u32>, Vec<u32>) {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p_count, .param .u64 p_blocks, .param .u64 p_warps) {{
            .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
            .shared .align 4 .b32 turn;
            ld.param.b64 %rd0, [p_count]; ld.param.b64 %rd1, [p_blocks]; ld.param.b64 %rd2, [p_warps];
            mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
            setp.ne.u32 %p0, %r0, 0;
            @%p0 bra SYNC;
            st.shared.b32 [turn], 0;
            atom.global.add.u32 %r2, [%rd0], 1;
            mad.wide.u32 %rd3, %r1, 4, %rd1;
            st.global.b32 [%rd3], %r2;
        SYNC: bar.sync 0;
            and.b32 %r3, %r0, 31;
            setp.ne.u32 %p0, %r3, 0;
            @%p0 bra END;
            atom.shared.add.u32 %r4, [turn], 1;
            shr.u32 %r5, %r0, 5;
            mad.lo.u32 %r5, %r1, 4, %r5;
            mad.wide.u32 %rd4, %r5, 4, %rd2;
            st.global.b32 [%rd4], %r4;
        END: ret; }}"
    );
    let device = device(schedule);
    let count = Buffer::of_u32(&device, &[0]);
    let (blocks, warps) = (Buffer::new(&device, 4 * 20), Buffer::new(&device, 4 * 80));
    let params = [count.address, blocks.address, warps.address];
    launch(&device, &text, "k", [20, 1, 1], [128, 1, 1], &params).unwrap();
    (blocks.u32s(), warps.u32s())
}

#[test]
fn blocks_and_warps_run_in_the_order_of_the_schedule() {
    let forward: Vec<u32> = (0..20).collect();
    for schedule in [Schedule::Sequential, Schedule::Window] {
        let (blocks, warps) = orders(schedule);
        assert_eq!(blocks, forward, "{schedule}");
        assert!(warps.chunks(4).all(|block| block == [0, 1, 2, 3]), "{schedule}: {warps:?}");
    }
    let (blocks, warps) = orders(Schedule::Reversed);
    assert!(blocks.iter().rev().eq(&forward), "{blocks:?}");
    assert!(warps.chunks(4).all(|block| block == [3, 2, 1, 0]), "{warps:?}");
}

#[test]
fn a_seed_gives_one_order_and_another_seed_another() {
    let first = orders(Schedule::Random(1));
    assert_eq!(first, orders(Schedule::Random(1)));
    let others: Vec<_> = (2..6).map(|seed| orders(Schedule::Random(seed))).collect();
    assert!(others.iter().all(|other| other.0 != first.0));
    assert!(others.iter().any(|other| other.1 != first.1));
    for (blocks, warps) in others {
        let mut blocks = blocks;
        blocks.sort_unstable();
        assert_eq!(blocks, (0..20).collect::<Vec<_>>());
        for block in warps.chunks(4) {
            let mut block = block.to_vec();
            block.sort_unstable();
            assert_eq!(block, [0, 1, 2, 3]);
        }
    }
}

/// A sum of floats by atomics depends on the order of the blocks; a sum of integers does not.
#[test]
fn a_sum_by_atomics_shows_its_dependence_on_the_order() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p_sum) {{
            .reg .b32 %r<8>; .reg .b64 %rd<2>;
            ld.param.b64 %rd0, [p_sum];
            mov.u32 %r0, %ctaid.x;
            atom.global.add.u32 %r1, [%rd0+4], %r0;
            add.u32 %r0, %r0, 1;
            cvt.rn.f32.u32 %r2, %r0;
            rcp.rn.f32 %r2, %r2;
            atom.global.add.f32 %r3, [%rd0], %r2;
            ret; }}"
    );
    let sums = |schedule| {
        let device = device(schedule);
        let sum = Buffer::of_u32(&device, &[0, 0]);
        launch(&device, &text, "k", [1000, 1, 1], [1, 1, 1], &[sum.address]).unwrap();
        <[u32; 2]>::try_from(sum.u32s()).unwrap()
    };
    let window = sums(Schedule::Window);
    let all: Vec<[u32; 2]> = (0..8).map(|seed| sums(Schedule::Random(seed))).collect();
    assert!(all.iter().all(|[_, integers]| *integers == 999 * 1000 / 2));
    assert!(all.iter().any(|[floats, _]| *floats != window[0]), "{window:x?} {all:x?}");
    assert!(sums(Schedule::Reversed)[0] != window[0]);
    // The harmonic sum all the same, to the precision of f32.
    let exact: f64 = (1..=1000).map(|i| 1.0 / f64::from(i)).sum();
    for [floats, _] in all {
        assert!((f64::from(f32::from_bits(floats)) - exact).abs() < 1e-4);
    }
}

/// Block 0 waits for the last block.
#[test]
fn a_window_grows_where_blocks_wait_for_later_ones() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p_flag) {{
            .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<2>;
            ld.param.b64 %rd0, [p_flag];
            mov.u32 %r0, %ctaid.x;
            setp.eq.u32 %p0, %r0, 19;
            @%p0 bra LAST;
        SPIN: ld.relaxed.gpu.global.b32 %r1, [%rd0];
            setp.eq.u32 %p1, %r1, 0;
            @%p1 bra SPIN;
            ret;
        LAST: st.relaxed.gpu.global.b32 [%rd0], 1;
            ret; }}"
    );
    for schedule in [Schedule::Window, Schedule::Random(5), Schedule::Reversed] {
        let device = device(schedule);
        let flag = Buffer::of_u32(&device, &[0]);
        launch(&device, &text, "k", [20, 1, 1], [32, 1, 1], &[flag.address]).unwrap();
    }
}
