//! Each counter on a kernel whose right value is known by arithmetic.

mod common;

use common::{Buffer, HEAD};
use emulator::counters::{Class, Counters, InstructionCounts, MemoryCounts};
use emulator::fault::{Access, Space};
use emulator::{Device, Profile};
use std::sync::Arc;

/// A device that counts.
fn counting(worker_threads: usize) -> Arc<Device> {
    let device = Device::new(Profile { worker_threads, ..Profile::hopper() });
    device.count(true);
    device
}

/// A kernel with `%r1` the thread, `%rd1` a buffer of zeros, `%rd2` the thread times `scale` behind
/// it, and `%r2` the same behind the start of the shared array.
fn kernel(scale: u64, body: &str) -> String {
    format!(
        "{HEAD}.shared .align 128 .b8 tile[32768];
.const .align 4 .b32 table[64];
.visible .entry k(.param .u64 buffer)
{{
    .local .align 16 .b8 own[128];
    .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .b16 %h<4>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, {scale};
    add.s64 %rd2, %rd1, %rd3;
    mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, {scale}, %r2;
{body}
    ret;
}}
"
    )
}

struct Run {
    counters: Counters,
    warp_instructions: u64,
    lane_instructions: u64,
}

/// Runs a kernel of that text on one CPU thread.
fn run(text: &str, blocks: u32, threads: u32) -> Run {
    run_on(&counting(1), text, blocks, threads)
}

fn run_on(device: &Device, text: &str, blocks: u32, threads: u32) -> Run {
    let buffer = Buffer::of(device, &[0; 1 << 16]);
    let params = [buffer.address];
    let stats =
        common::launch(device, text, "k", [blocks, 1, 1], [threads, 1, 1], &params).unwrap();
    let (warp_instructions, lane_instructions) = (stats.warp_instructions, stats.lane_instructions);
    let counters = stats.counters.expect("the device counts");
    assert_eq!(counters.totals.instructions, warp_instructions);
    assert_eq!(counters.totals.lanes, lane_instructions);
    Run { counters, warp_instructions, lane_instructions }
}

impl Run {
    /// The only instruction that is spelled so.
    fn own(&self, spelling: &str) -> &InstructionCounts {
        let mut all = self.counters.instructions.iter().filter(|own| own.spelling == spelling);
        let first = all.next().unwrap_or_else(|| panic!("no {spelling} was executed"));
        assert!(all.next().is_none(), "{spelling} stands twice");
        first
    }

    fn memory(&self, space: Space, access: Access) -> &MemoryCounts {
        self.counters.totals.memory(space, access).unwrap_or_else(|| panic!("no {space:?}"))
    }
}

fn sectors(own: &MemoryCounts) -> (u64, u64, u64, u64) {
    (own.requests, own.sectors, own.ideal_sectors, own.lines)
}

fn wavefronts(own: &MemoryCounts) -> (u64, u64, u64) {
    (own.requests, own.wavefronts, own.conflicts())
}

#[test]
fn nothing_is_counted_unless_asked() {
    let device = common::device();
    let buffer = Buffer::new(&device, 64);
    let launch = |text: &str| {
        common::launch(&device, text, "k", [1; 3], [32, 1, 1], &[buffer.address]).unwrap()
    };
    let text = kernel(4, "");
    assert_eq!(launch(&text).counters, None);
    device.count(true);
    assert!(launch(&text).counters.is_some());
    device.count(false);
    assert_eq!(launch(&text).counters, None);
}

#[test]
fn strided_loads_take_a_sector_each_from_a_stride_of_eight_on() {
    for stride in [1, 2, 4, 8, 32] {
        let run = run(&kernel(4 * stride, "ld.global.f32 %r3, [%rd2];"), 1, 32);
        let own = run.memory(Space::Global, Access::Load);
        assert_eq!(sectors(own), (1, (4 * stride).min(32), 4, stride.min(32)), "stride {stride}");
        assert_eq!((own.lanes, own.bytes), (32, 128));
        assert_eq!(own.moved_bytes(), 32 * own.sectors);
    }
}

#[test]
fn a_misaligned_start_takes_one_sector_more() {
    let run = run(&kernel(4, "ld.global.f32 %r3, [%rd2+4];"), 1, 32);
    assert_eq!(sectors(run.memory(Space::Global, Access::Load)), (1, 5, 4, 2));
}

#[test]
fn vectors_take_their_bytes() {
    let text = kernel(8, "ld.global.v2.f32 {%r3,%r4}, [%rd2]; st.global.v2.f32 [%rd2], {%r3,%r4};");
    let pairs = run(&text, 1, 32);
    assert_eq!(sectors(pairs.memory(Space::Global, Access::Load)), (1, 8, 8, 2));
    assert_eq!(sectors(pairs.memory(Space::Global, Access::Store)), (1, 8, 8, 2));
    let fours = run(&kernel(16, "ld.global.v4.f32 {%r3,%r4,%r5,%r6}, [%rd2];"), 1, 32);
    assert_eq!(sectors(fours.memory(Space::Global, Access::Load)), (1, 16, 16, 4));
}

#[test]
fn bytes_and_broadcasts_share_a_sector() {
    let bytes = run(&kernel(1, "ld.global.u8 %h1, [%rd2];"), 1, 32);
    assert_eq!(sectors(bytes.memory(Space::Global, Access::Load)), (1, 1, 1, 1));
    let same = run(&kernel(4, "ld.global.u32 %r3, [%rd1];"), 1, 32);
    let own = same.memory(Space::Global, Access::Load);
    assert_eq!((sectors(own), own.bytes), ((1, 1, 1, 1), 128));
}

#[test]
fn banks_serve_each_phase_of_wide_accesses() {
    let four = ("ld.shared.f32 %r3, [%r2];", "st.shared.f32 [%r2], %r1;", 4);
    let eight = ("ld.shared.f64 %rd4, [%r2];", "st.shared.f64 [%r2], %rd1;", 8);
    let sixteen = (
        "ld.shared.v4.f32 {%r3,%r4,%r5,%r6}, [%r2];",
        "st.shared.v4.f32 [%r2], {%r1,%r1,%r1,%r1};",
        16,
    );
    // Stride in elements, then the passes of 4, 8 and 16 bytes; the last without conflicts.
    for (stride, passes) in [(1, [1, 2, 4]), (2, [2, 4, 8]), (32, [32, 32, 32]), (33, [1, 2, 4])] {
        for ((load, store, bytes), passes) in [four, eight, sixteen].into_iter().zip(passes) {
            let run = run(&kernel(bytes * stride, &format!("{store}\n{load}")), 1, 32);
            let expected = (1, passes, passes - bytes / 4);
            for access in [Access::Load, Access::Store] {
                let own = run.memory(Space::Shared, access);
                assert_eq!(wavefronts(own), expected, "{bytes} bytes, stride {stride}");
            }
        }
    }
}

#[test]
fn a_broadcast_is_free() {
    let load = |body: &str| run(&kernel(4, &format!("mov.u32 %r4, tile;\n{body}")), 1, 32);
    let one = load("ld.shared.u32 %r3, [%r4];");
    assert_eq!(wavefronts(one.memory(Space::Shared, Access::Load)), (1, 1, 0));
    let two = load("ld.shared.u64 %rd4, [%r4];");
    assert_eq!(wavefronts(two.memory(Space::Shared, Access::Load)), (1, 1, 0));
    let four = load("ld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r4];");
    assert_eq!(wavefronts(four.memory(Space::Shared, Access::Load)), (1, 2, 0));
    let bytes = run(&kernel(1, "ld.shared.u8 %h1, [%r2];"), 1, 32);
    assert_eq!(wavefronts(bytes.memory(Space::Shared, Access::Load)), (1, 1, 0));
}

#[test]
fn generic_addresses_count_for_the_space_that_they_lie_in() {
    let body = "mov.u64 %rd5, tile; cvta.shared.u64 %rd5, %rd5; mul.wide.u32 %rd6, %r1, 8;
        add.s64 %rd5, %rd5, %rd6; st.u32 [%rd5], %r1; ld.u32 %r3, [%rd2];";
    let run = run(&kernel(4, body), 1, 32);
    assert_eq!(wavefronts(run.memory(Space::Shared, Access::Store)), (1, 2, 1));
    assert_eq!(sectors(run.memory(Space::Global, Access::Load)), (1, 4, 4, 1));
}

#[test]
fn a_branch_diverges_where_some_lanes_take_it() {
    for taken in [0, 1, 5, 31, 32] {
        let body = format!(
            "setp.lt.u32 %p1, %r1, {taken};
             @%p1 bra $then;
             add.u32 %r3, %r1, 1;
             bra.uni $end;
            $then:
             sub.u32 %r3, %r1, 1;
            $end:
             xor.b32 %r4, %r3, %r1;"
        );
        let run = run(&kernel(4, &body), 1, 32);
        let branch = &run.own("bra").counts;
        assert_eq!((branch.instructions, branch.branches), (1, 1));
        assert_eq!((branch.lanes, branch.active_lanes), (taken, 32), "{taken} lanes");
        assert_eq!(branch.divergent_branches, u64::from(taken % 32 != 0), "{taken} lanes");
        let lanes = |spelling: &str| {
            let all = &run.counters.instructions;
            all.iter().find(|own| own.spelling == spelling).map_or(0, |own| own.counts.lanes)
        };
        assert_eq!((lanes("add.u32"), lanes("sub.u32"), lanes("xor.b32")), (32 - taken, taken, 32));
    }
}

#[test]
fn a_loop_executes_its_body_once_a_turn() {
    // The lanes leave after 1, 2, … 8 turns, four lanes each.
    let body = "and.b32 %r4, %r1, 7; mov.u32 %r3, 0;
        $loop: add.u32 %r5, %r3, %r1; add.s32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r4;
        @%p1 bra $loop;";
    let run = run(&kernel(4, body), 1, 32);
    let own = &run.own("add.u32").counts;
    assert_eq!((own.instructions, own.lanes), (8, 4 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8)));
    assert_eq!(own.lanes_per_instruction(), 18.0);
    let branch = &run.own("bra").counts;
    assert_eq!((branch.branches, branch.divergent_branches), (8, 7));
}

#[test]
fn a_table_of_branches_diverges_where_indices_differ() {
    let body = |shift: u32| {
        format!(
            "shr.u32 %r4, %r1, {shift};
            $list: .branchtargets $a, $b;
            brx.idx %r4, $list;
            $a: bra.uni $b;
            $b:"
        )
    };
    let parted = run(&kernel(4, &body(4)), 1, 32);
    assert_eq!(parted.own("brx.idx").counts.divergent_branches, 1);
    let together = run(&kernel(4, &body(5)), 1, 32);
    assert_eq!(together.own("brx.idx").counts.divergent_branches, 0);
}

#[test]
fn a_guard_turns_lanes_off() {
    let body = "setp.lt.u32 %p1, %r1, 3; setp.lt.u32 %p2, %r1, 0;
        @%p1 add.u32 %r3, %r1, 1; @%p2 sub.u32 %r3, %r1, 1;";
    let run = run(&kernel(4, body), 1, 32);
    let own = &run.own("add.u32").counts;
    assert_eq!((own.instructions, own.lanes, own.active_lanes), (1, 3, 32));
    let none = &run.own("sub.u32").counts;
    assert_eq!((none.instructions, none.lanes, none.active_lanes), (1, 0, 32));
}

#[test]
fn atomics_to_one_address_take_turns() {
    let body = "atom.global.add.u32 %r3, [%rd1], %r1; red.global.add.u32 [%rd2], %r1;
        mov.u32 %r4, tile; atom.shared.add.u32 %r5, [%r4], 2;";
    let run = run(&kernel(4, body), 1, 32);
    let own = &run.own("atom.global.add.u32").counts.memory[0];
    assert_eq!((own.colliding_lanes, own.worst_conflict, own.sectors), (31, 32, 32));
    let own = &run.own("red.global.add.u32").counts.memory[0];
    assert_eq!((own.colliding_lanes, own.worst_conflict, own.sectors), (0, 1, 4));
    let own = run.memory(Space::Shared, Access::Atomic);
    assert_eq!((wavefronts(own), own.worst_conflict), ((1, 32, 31), 32));
    // Adding one where nobody asks what was there: the lanes of an address are counted, and added
    // at once.
    let counted = self::run(&kernel(4, "red.shared.add.u32 [tile], 1;"), 1, 32);
    let own = counted.memory(Space::Shared, Access::Atomic);
    assert_eq!((wavefronts(own), own.worst_conflict), ((1, 1, 0), 32));
    let asked = "mov.u32 %r4, tile; atom.shared.add.u32 %r5, [%r4], 1; add.u32 %r6, %r5, 1;";
    let asked = self::run(&kernel(4, asked), 1, 32);
    assert_eq!(wavefronts(asked.memory(Space::Shared, Access::Atomic)), (1, 32, 31));
    let apart = self::run(&kernel(4, "atom.shared.add.u32 %r5, [%r2], 1;"), 1, 32);
    let own = apart.memory(Space::Shared, Access::Atomic);
    assert_eq!((wavefronts(own), own.worst_conflict), ((1, 1, 0), 1));
}

#[test]
fn barriers_are_counted_where_warps_arrive() {
    let run = run(&kernel(4, "bar.sync 0; bar.sync 1; bar.sync 0;"), 5, 128);
    assert_eq!(run.counters.totals.barriers, 5 * 3 * 4);
    assert_eq!(run.counters.barriers_opened, 5 * 3);
    let class = run.counters.classes.iter().find(|own| own.class == Class::Barrier).unwrap();
    assert_eq!((class.instructions, class.lanes), (60, 60 * 32));
}

#[test]
fn local_memory_of_neighbours_lies_side_by_side() {
    let run = run(&kernel(4, "st.local.u32 [own], %r1; ld.local.u64 %rd4, [own+8];"), 1, 32);
    assert_eq!(sectors(run.memory(Space::Local, Access::Store)), (1, 4, 4, 1));
    assert_eq!(sectors(run.memory(Space::Local, Access::Load)), (1, 8, 8, 2));
}

#[test]
fn constants_take_a_pass_for_each_word() {
    let body = "ld.const.u32 %r3, [table+4]; mov.u64 %rd5, table; add.s64 %rd5, %rd5, %rd3;
        ld.const.u32 %r4, [%rd5];";
    let run = run(&kernel(4, body), 1, 32);
    let own = run.memory(Space::Const, Access::Load);
    assert_eq!((own.requests, own.wavefronts, own.ideal_wavefronts), (2, 1 + 32, 2));
}

#[test]
fn a_partial_warp_counts_its_lanes() {
    let run = run(&kernel(4, "ld.global.u32 %r3, [%rd2];"), 3, 40);
    let own = run.own("ld.global.u32");
    assert_eq!((own.counts.instructions, own.counts.lanes), (3 * 2, 3 * 40));
    assert_eq!(sectors(&own.counts.memory[0]), (6, 3 * (4 + 1), 3 * (4 + 1), 6));
    // Six more of each warp: four to begin with, the move and the sum of the shared address, and
    // the end.
    assert_eq!((run.warp_instructions, run.lane_instructions), (6 * 8, 3 * 40 * 8));
}

#[test]
fn work_is_counted_by_type() {
    let body = "ld.global.f32 %r3, [%rd2]; fma.rn.f32 %r4, %r3, %r3, %r3; add.rn.f32 %r4, %r4, %r3;
        mov.b64 %rd4, 0; mul.rn.f64 %rd5, %rd4, %rd4; fma.rn.f16x2 %r5, %r3, %r3, %r3;
        st.global.f32 [%rd2], %r4;";
    let run = run(&kernel(4, body), 1, 32);
    let totals = &run.counters.totals;
    assert_eq!(totals.float32_operations, 32 * 3);
    assert_eq!(totals.float64_operations, 32);
    assert_eq!(totals.half_operations, 32 * 4);
    assert_eq!(totals.tensor_operations, 0);
    assert_eq!(totals.arithmetic_intensity(), Some(32.0 * 8.0 / 256.0));
    assert_eq!(self::run(&kernel(4, ""), 1, 32).counters.totals.arithmetic_intensity(), None);
}

#[test]
fn all_cpu_threads_count_together() {
    let body = "ld.global.u32 %r3, [%rd2]; and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0;
        @%p1 atom.global.add.u32 %r5, [%rd1], 1; bar.sync 0;";
    let (one, four) = (counting(1), counting(4));
    let one = run_on(&one, &kernel(4, body), 200, 96).counters;
    let four = run_on(&four, &kernel(4, body), 200, 96).counters;
    assert_eq!(one.totals, four.totals);
    assert_eq!(one.classes, four.classes);
    assert_eq!(one.barriers_opened, four.barriers_opened);
    assert_eq!(one.totals.memory(Space::Global, Access::Atomic).unwrap().lanes, 200 * 48);
}

#[test]
fn requests_are_kept_for_pictures() {
    // The stride grows with the turns: 4, 8, … 64 bytes. Only the first row of lanes, side by side,
    // has its end in one sector more.
    let body = "mov.u32 %r3, 4;
        $loop: mul.wide.u32 %rd4, %r1, %r3; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r4, [%rd5+4];
        shl.b32 %r3, %r3, 1; setp.le.u32 %p1, %r3, 64; @%p1 bra $loop;";
    let run = run(&kernel(4, body), 1, 32);
    let samples = &run.own("ld.global.u32").samples;
    let costs: Vec<(u64, u64)> = samples.iter().map(|own| (own.cost, own.ideal)).collect();
    assert_eq!(costs, [(5, 4), (8, 4), (16, 4), (32, 4)], "the first three, and the worst");
    let first: Vec<_> = (0..32).map(|lane| Some(4 + 4 * lane)).collect();
    assert_eq!((samples[0].lanes.as_slice(), samples[0].bytes), (first.as_slice(), 4));
    let half = "setp.lt.u32 %p1, %r1, 2; @%p1 st.shared.u32 [%r2+128], %r1;";
    let run = self::run(&kernel(4, half), 1, 64);
    let own = &run.own("st.shared.u32").samples;
    assert_eq!(own.len(), 1, "the second warp makes no request");
    assert_eq!(own[0].lanes[..3], [Some(128), Some(132), None]);
    assert_eq!((own[0].block, own[0].warp, own[0].space), (0, 0, Space::Shared));
}

#[test]
fn occupancy_is_limited_by_what_runs_out_first() {
    let occupancy = |text: &str, threads| run(text, 1, threads).counters.occupancy;
    // 32 KiB of shared memory and 1 KiB of the system's: six blocks fit in 228 KiB.
    let own = occupancy(&kernel(4, ""), 256);
    assert_eq!((own.by_threads, own.by_shared, own.by_slots), (8, 6, 32));
    assert_eq!((own.blocks, own.warps, own.max_warps), (6, 48, 64));
    assert_eq!(own.fraction(), 0.75);
    let small = format!("{HEAD}.visible .entry k(.param .u64 b) {{ ret; }}");
    let own = occupancy(&small, 32);
    assert_eq!((own.blocks, own.warps), (32, 32), "32 blocks of one warp");
    let own = occupancy(&small, 1024);
    assert_eq!((own.blocks, own.warps), (2, 64));
}

#[test]
fn lines_of_the_source_have_their_sums() {
    let text = format!(
        r#"{HEAD}.visible .entry k(.param .u64 b)
{{
    .reg .b32 %r<4>;
    .loc 1 10 5
    mov.u32 %r1, %tid.x;
    add.u32 %r1, %r1, 1;
    .loc 1 11 5
    add.u32 %r1, %r1, 1;
    .loc 1 10 9
    add.u32 %r1, %r1, 1;
    .loc 1 12 1
    ret;
}}
.file 1 "kernels/src/own.rs"
"#
    );
    let run = run(&text, 2, 32);
    let lines = run.counters.by_line();
    let seen: Vec<_> = lines
        .iter()
        .map(|own| (own.source.unwrap().line, own.counts.instructions, own.instructions.len()))
        .collect();
    assert_eq!(seen, [(10, 6, 3), (11, 2, 1), (12, 2, 1)]);
    let ptx = run.counters.by_ptx_line();
    assert_eq!(ptx.values().map(|own| own.instructions).sum::<u64>(), 10);
    assert_eq!(ptx.len(), 5);
}

#[test]
fn a_librarys_function_counts_for_the_lines_that_call_it() {
    let text = format!(
        r#"{HEAD}.func helper()
{{
    .reg .b32 %r<2>;
    .loc 2 100 1
    mov.u32 %r1, %laneid;
    call.uni deeper, ();
    .loc 2 101 1
    ret;
}}
.func deeper()
{{
    .reg .b32 %r<2>;
    .loc 2 200 1
    add.u32 %r1, %r1, 1;
    ret;
}}
.visible .entry k(.param .u64 b)
{{
    .reg .pred %p<2>; .reg .b32 %r<4>;
    .loc 1 10 5
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 8;
    call.uni helper, ();
    .loc 1 20 5
    @%p1 call helper, ();
    .loc 1 21 1
    ret;
}}
.file 1 "kernels/src/own.rs"
.file 2 "/rustc/0/library/core/src/option.rs"
"#
    );
    let text = text.replacen(".func helper()", ".func deeper();\n.func helper()", 1);
    let run = run(&text, 1, 32);
    let lines = run.counters.by_line();
    let seen: Vec<_> = lines
        .iter()
        .map(|own| (own.source.unwrap().line, own.counts.instructions, own.counts.lanes))
        .collect();
    // Each call brings five instructions of the library: three of one function, two of the other.
    assert_eq!(seen, [(10, 3 + 5, 8 * 32), (20, 1 + 5, 8 * 6), (21, 1, 32)]);
}
