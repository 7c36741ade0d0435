//! Clusters: their registers, barrier and distributed shared memory; cooperative launches.

mod common;

use common::{Buffer, HEAD, device};
use emulator::fault::{ClusterFault, WaitsOn};
use emulator::{Device, Launch, Profile, Trap, TrapKind};

/// A kernel with its output's address in `%rd0`, the thread in `%r0` and the block's rank in `%r1`.
fn kernel(directives: &str, body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {directives} {{
            .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<4>;
            .shared .align 16 .b8 cells[1024];
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x;
            mov.u32 %r1, %cluster_ctarank;
            {body}
        END: ret; }}"
    )
}

struct Shape {
    grid: [u32; 3],
    block: u32,
    cluster: [u32; 3],
}

fn run_on(device: &Device, text: &str, shape: &Shape, out: u64) -> Result<(), Box<Trap>> {
    let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let params = out.to_le_bytes();
    let (grid, cluster) = (shape.grid, shape.cluster);
    let block = [shape.block, 1, 1];
    let launch = Launch { grid, block, cluster, params: &params, ..Launch::new(&function) };
    device.launch(&launch).map(drop).map_err(Box::new)
}

/// What a kernel leaves in its output of `words` words.
fn words(body: &str, shape: &Shape, words: usize) -> Vec<u32> {
    let device = device();
    let out = Buffer::new(&device, 4 * words);
    run_on(&device, &kernel("", body), shape, out.address).unwrap_or_else(|trap| panic!("{trap}"));
    out.u32s()
}

fn trap(body: &str, shape: &Shape) -> Trap {
    let device = device();
    let out = Buffer::new(&device, 4096);
    *run_on(&device, &kernel("", body), shape, out.address).expect_err(body)
}

fn row(blocks: u32, cluster: u32, block: u32) -> Shape {
    let cluster = if cluster == 0 { [0; 3] } else { [cluster, 1, 1] };
    Shape { grid: [blocks, 1, 1], block, cluster }
}

/// Stores `%r2` at the word that the linear block and the thread number.
const STORE: &str = "
    mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ntid.x; mad.lo.s32 %r30, %r30, %r31, %r0;
    mad.wide.u32 %rd30, %r30, 4, %rd0; st.global.u32 [%rd30], %r2;";

const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

#[test]
fn registers_say_where_a_block_is_in_its_cluster() {
    // Block (x, y) of a 4 x 2 grid in clusters of 2 x 2: nine numbers for each.
    let registers = [
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.y",
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_ctarank",
        "%cluster_nctarank",
    ];
    let stores: String = registers
        .iter()
        .enumerate()
        .map(|(index, name)| {
            format!("mov.u32 %r2, {name}; st.global.u32 [%rd1+{}], %r2;", 4 * index)
        })
        .collect();
    let body = format!(
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mad.lo.s32 %r3, %r4, 4, %r3;
         mad.wide.u32 %rd1, %r3, 40, %rd0; {stores}
         mov.pred %p1, %is_explicit_cluster; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%rd1+36], %r2;"
    );
    let shape = Shape { grid: [4, 2, 1], block: 1, cluster: [2, 2, 1] };
    let expected: Vec<u32> = (0..8u32)
        .flat_map(|block| {
            let (x, y) = (block % 4, block / 4);
            [x / 2, y / 2, 2, 1, x % 2, y % 2, 2, x % 2 + 2 * (y % 2), 4, 1]
        })
        .collect();
    assert_eq!(words(&body, &shape, 80), expected);
    let shape = Shape { cluster: [0; 3], ..shape };
    let expected: Vec<u32> =
        (0..8u32).flat_map(|block| [block % 4, block / 4, 4, 2, 0, 0, 1, 0, 1, 0]).collect();
    assert_eq!(words(&body, &shape, 80), expected);
}

#[test]
fn a_kernel_may_require_its_cluster() {
    let device = device();
    let out = Buffer::new(&device, 4 * 8);
    let body = format!("mov.u32 %r2, %cluster_nctarank; {STORE}");
    let text = kernel(".explicitcluster .reqnctapercluster 4, 1, 1", &body);
    run_on(&device, &text, &row(8, 0, 1), out.address).unwrap();
    assert_eq!(out.u32s(), [4; 8]);
    let function = device.load(&text).unwrap().function("k").unwrap();
    assert_eq!((function.required_cluster, function.explicit_cluster), (Some([4, 1, 1]), true));
    let limited = device.load(&kernel(".maxclusterrank 8", "")).unwrap().function("k").unwrap();
    assert_eq!((limited.required_cluster, limited.max_cluster_rank), (None, Some(8)));
    let other = run_on(&device, &text, &row(8, 2, 1), out.address).unwrap_err().kind;
    let (launch, kernel) = ([2, 1, 1], [4, 1, 1]);
    assert_eq!(other, TrapKind::Cluster(ClusterFault::OtherShape { launch, kernel }));
    let odd = run_on(&device, &text, &row(6, 0, 1), out.address).unwrap_err().kind;
    let (grid, cluster) = ([6, 1, 1], [4, 1, 1]);
    assert_eq!(odd, TrapKind::Cluster(ClusterFault::Shape { grid, cluster }));
}

/// Each block writes 1000 + rank, and reads its right neighbour's word, in four ways.
#[test]
fn blocks_read_each_others_shared_memory() {
    let head = "add.s32 %r3, %r1, 1000; st.shared.u32 [cells+4], %r3;";
    let right = "add.s32 %r4, %r1, 1; mov.u32 %r5, %cluster_nctarank; rem.u32 %r4, %r4, %r5;";
    let expected: Vec<u32> = (0..8).map(|block| 1000 + (block % 4 + 1) % 4).collect();
    for read in [
        "mov.u32 %r6, cells; mapa.shared::cluster.u32 %r6, %r6, %r4; ld.shared::cluster.u32 %r2, [%r6+4];",
        "mov.u64 %rd1, cells; mapa.shared::cluster.u64 %rd1, %rd1, %r4; ld.shared::cluster.u32 %r2, [%rd1+4];",
        "mov.u64 %rd1, cells; cvta.shared.u64 %rd1, %rd1; mapa.u64 %rd1, %rd1, %r4; ld.u32 %r2, [%rd1+4];",
        "mov.u64 %rd1, cells; mapa.shared::cluster.u64 %rd1, %rd1, %r4; cvta.shared::cluster.u64 %rd1, %rd1;
         cvta.to.shared::cluster.u64 %rd1, %rd1; ld.relaxed.cluster.shared::cluster.u32 %r2, [%rd1+4];",
    ] {
        let body = format!("{head}{SYNC}{right}{read}{SYNC}{STORE}");
        assert_eq!(words(&body, &row(8, 4, 1), 8), expected, "{read}");
    }
}

#[test]
fn addresses_tell_their_block() {
    let body = format!(
        "mov.u32 %r3, cells; mapa.shared::cluster.u32 %r4, %r3, 1; getctarank.shared::cluster.u32 %r5, %r4;
         getctarank.shared::cluster.u32 %r6, %r3;
         mov.u64 %rd1, cells; cvta.shared.u64 %rd1, %rd1; mapa.u64 %rd2, %rd1, 1; getctarank.u64 %r7, %rd2;
         isspacep.shared::cluster %p1, %rd2; isspacep.shared::cta %p2, %rd2; isspacep.shared %p3, %rd1;
         isspacep.shared::cluster %p4, %rd0;
         selp.u32 %r8, 1000, 0, %p1; selp.u32 %r9, 100, 0, %p2; selp.u32 %r10, 10000, 0, %p3; selp.u32 %r11, 7, 0, %p4;
         add.s32 %r2, %r8, %r9; add.s32 %r2, %r2, %r10; add.s32 %r2, %r2, %r11;
         mad.lo.s32 %r2, %r5, 1, %r2; mad.lo.s32 %r2, %r6, 10, %r2; mad.lo.s32 %r2, %r7, 50, %r2; {STORE}"
    );
    // Rank 1 in %r5 (1) and %r7 (50), the own rank in %r6 (10 for block 1).
    assert_eq!(words(&body, &row(2, 2, 1), 2), [11_051, 11_061]);
}

#[test]
fn stores_and_atomics_reach_other_blocks() {
    // Every thread of every block adds its number to a cell of block 0, and stores to one of block
    // 1.
    let body = format!(
        "st.shared.u32 [cells], 0; st.shared.u32 [cells+8], 0; {SYNC}
         mov.u32 %r3, cells; mapa.shared::cluster.u32 %r4, %r3, 0; mapa.shared::cluster.u32 %r5, %r3, 1;
         mad.lo.s32 %r6, %r1, 32, %r0;
         red.relaxed.cluster.shared::cluster.add.u32 [%r4], %r6;
         atom.relaxed.cluster.shared::cluster.max.u32 %r7, [%r4+8], %r6;
         mad.lo.s32 %r8, %r6, 4, %r5; st.shared::cluster.u32 [%r8+16], %r6;
         {SYNC}
         ld.shared.u32 %r2, [cells];
         setp.eq.s32 %p1, %r1, 1; mad.lo.s32 %r9, %r0, 4, %r3; @%p1 ld.shared.u32 %r2, [%r9+16+128];
         setp.eq.s32 %p2, %r1, 2; @%p2 ld.shared.u32 %r2, [cells+8];
         setp.eq.s32 %p3, %r0, 1; setp.eq.and.s32 %p3, %r1, 0, %p3; @%p3 ld.shared.u32 %r2, [cells+8];
         {STORE}"
    )
    .replace("[%r9+16+128]", "[%r9+144]");
    let found = words(&body, &row(3, 3, 32), 96);
    let sum = (0..96).sum::<u32>();
    let mut expected = vec![sum; 32];
    expected[1] = 95;
    expected.extend(32..64);
    expected.extend([0; 32]);
    assert_eq!(found, expected);
}

/// 16 blocks, each with the sum of its 64 threads; block 0 gathers.
#[test]
fn a_sum_over_a_large_cluster() {
    let body = format!(
        "st.shared.u32 [cells], 0; bar.sync 0;
         mov.u32 %r3, %ctaid.x; mad.lo.s32 %r4, %r3, 64, %r0;
         atom.shared.add.u32 %r5, [cells], %r4; {SYNC}
         setp.ne.s32 %p1, %r1, 0; setp.ne.or.s32 %p1, %r0, 0, %p1; mov.u32 %r2, 0; @%p1 bra DONE;
         mov.u32 %r6, 0; mov.u32 %r7, cells;
         LOOP: mapa.shared::cluster.u32 %r8, %r7, %r6; ld.shared::cluster.u32 %r9, [%r8]; add.s32 %r2, %r2, %r9;
         add.s32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 16; @%p2 bra LOOP;
         DONE: {SYNC} {STORE}"
    );
    let found = words(&body, &row(32, 16, 64), 32 * 64);
    assert_eq!(found[0], (0..1024).sum());
    assert_eq!(found[16 * 64], (1024..2048).sum());
}

#[test]
fn arrival_and_wait_may_be_apart_and_many_phases_follow() {
    // In each of 20 phases a block passes what it has to the right, arriving early.
    let body = format!(
        "mov.u32 %r2, %r1; mov.u32 %r3, 0; mov.u32 %r4, cells; add.s32 %r5, %r1, 1; rem.u32 %r5, %r5, 4;
         mapa.shared::cluster.u32 %r4, %r4, %r5; {SYNC}
         LOOP: and.b32 %r6, %r3, 1; mad.lo.s32 %r7, %r6, 4, %r4; st.shared::cluster.u32 [%r7], %r2;
         barrier.cluster.arrive.release; add.s32 %r3, %r3, 1; barrier.cluster.wait.acquire;
         mov.u32 %r8, cells; mad.lo.s32 %r8, %r6, 4, %r8; ld.shared.u32 %r2, [%r8]; add.s32 %r2, %r2, 10;
         setp.lt.u32 %p1, %r3, 20; @%p1 bra LOOP; {SYNC} {STORE}"
    );
    let expected: Vec<u32> = (0..4).map(|rank| 200 + rank).collect();
    assert_eq!(words(&body, &row(4, 4, 1), 4), expected);
}

#[test]
fn threads_that_have_ended_are_not_waited_for() {
    let body = format!(
        "setp.ge.u32 %p1, %r0, 8; @%p1 exit; setp.eq.s32 %p1, %r1, 1; @%p1 bra END;
         mov.u32 %r2, 7; barrier.cluster.arrive; barrier.cluster.wait; {STORE}"
    );
    let found = words(&body, &row(2, 2, 64), 128);
    assert_eq!(found[..8], [7; 8]);
    assert_eq!(found[8], 0xcdcd_cdcd);
}

#[test]
fn lanes_of_a_warp_may_come_apart() {
    // Even lanes arrive and wait twice as early as odd ones.
    let body = format!(
        "and.b32 %r3, %r0, 1; setp.eq.s32 %p1, %r3, 0; @%p1 bra EVEN;
         mov.u32 %r2, 1; barrier.cluster.arrive; barrier.cluster.wait; bra JOIN;
         EVEN: mov.u32 %r2, 2; barrier.cluster.arrive; barrier.cluster.wait;
         JOIN: {STORE}"
    );
    let expected: Vec<u32> = (0..64).map(|thread| 2 - thread % 2).collect();
    assert_eq!(words(&body, &row(2, 2, 32), 64), expected);
}

#[test]
fn misuse_of_the_barrier_is_a_fault() {
    let cluster = |body: &str| match trap(body, &row(2, 2, 32)).kind {
        TrapKind::Cluster(fault) => fault,
        other => panic!("{other}"),
    };
    assert_eq!(
        cluster("barrier.cluster.arrive; barrier.cluster.arrive;"),
        ClusterFault::ArrivesTwice
    );
    assert_eq!(cluster("barrier.cluster.wait;"), ClusterFault::NotArrived);
    let split = "barrier.cluster.arrive; setp.lt.u32 %p1, %r0, 9; setp.eq.and.s32 %p1, %r1, 0, %p1; @%p1 bra LESS;
        barrier.cluster.wait.aligned; bra END; LESS: barrier.cluster.wait.aligned;";
    // With block 1 not yet there, both halves of the warp wait.
    assert!(matches!(cluster(split), ClusterFault::Divergent { .. }));
}

#[test]
fn a_wait_that_cannot_end_is_a_deadlock_with_a_table() {
    let body = "setp.eq.s32 %p1, %r1, 1; @%p1 bra OTHER;
        barrier.cluster.arrive; barrier.cluster.wait; bra END;
        OTHER: bar.sync 1, 64;";
    let trap = trap(body, &row(2, 2, 32));
    let TrapKind::Deadlock { waiting } = &trap.kind else { panic!("{trap}") };
    assert_eq!(waiting.len(), 64);
    assert_eq!((waiting[0].block, waiting[0].on), ([0, 0, 0], WaitsOn::Cluster));
    assert_eq!((waiting[32].block, waiting[32].on), ([1, 0, 0], WaitsOn::Barrier(1)));
    assert!(trap.to_string().contains("for the barrier of the cluster"), "{trap}");
}

#[test]
fn blocks_that_have_ended_or_not_begun_are_out_of_reach() {
    let cluster = |body: &str| match trap(body, &row(2, 2, 1)).kind {
        TrapKind::Cluster(fault) => fault,
        other => panic!("{other}"),
    };
    let early = "mov.u32 %r3, cells; mapa.shared::cluster.u32 %r3, %r3, 1; ld.shared::cluster.u32 %r2, [%r3];";
    assert_eq!(cluster(early), ClusterFault::PeerNotBegun { rank: 1 });
    let late = format!(
        "{SYNC} setp.eq.s32 %p1, %r1, 0; @%p1 bra END;
         mov.u32 %r4, 0; SPIN: add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 9999; @%p2 bra SPIN;
         mov.u32 %r3, cells; mapa.shared::cluster.u32 %r3, %r3, 0; ld.shared::cluster.u32 %r2, [%r3];"
    );
    assert_eq!(cluster(&late), ClusterFault::PeerEnded { rank: 0 });
    let absent = "mov.u32 %r3, cells; mapa.shared::cluster.u32 %r3, %r3, 2;";
    assert_eq!(cluster(absent), ClusterFault::Rank { rank: 2, blocks: 2 });
}

#[test]
fn bounds_hold_in_other_blocks() {
    let body = format!(
        "{SYNC} mov.u32 %r3, cells; mapa.shared::cluster.u32 %r3, %r3, 1; ld.shared::cluster.u32 %r2, [%r3+1024]; {SYNC}"
    );
    let trap = trap(&body, &row(2, 2, 1));
    assert!(matches!(trap.kind, TrapKind::OutOfBounds { .. }), "{trap}");
    assert!(
        trap.to_string().contains("0 bytes past the end of the 1024-byte shared memory"),
        "{trap}"
    );
}

// ---- cooperative launches

/// A barrier of the grid as the CUDA compiler writes it: the first block adds what makes the
/// count's highest bit flip once all others have added 1.
const GRID_SYNC: &str = "
    bar.sync 0;
    setp.ne.s32 %p1, %r0, 0; @%p1 bra WAITED;
    mov.u32 %r20, %envreg2; mov.u32 %r21, %envreg1; mov.b64 %rd20, {%r20, %r21};
    mov.u32 %r22, %nctaid.x; mov.u32 %r23, %ctaid.x; mov.u32 %r24, 1;
    setp.ne.s32 %p2, %r23, 0; @%p2 bra ADD; mov.u32 %r24, 0x80000001; sub.s32 %r24, %r24, %r22;
    ADD: atom.add.release.gpu.u32 %r25, [%rd20+4], %r24;
    POLL: ld.acquire.gpu.u32 %r26, [%rd20+4]; xor.b32 %r26, %r26, %r25; setp.ge.s32 %p3, %r26, 0; @%p3 bra POLL;
    WAITED: bar.sync 0;";

fn grid_sum(
    blocks: u32,
    workers: usize,
    cooperative: bool,
    fuel: u64,
) -> Result<Vec<u32>, Box<Trap>> {
    let device = Device::new(Profile {
        worker_threads: workers,
        fuel: Some(fuel),
        multiprocessors: 4,
        ..Profile::hopper()
    });
    let out = Buffer::new(&device, 4 * blocks as usize + 4);
    // Block b stores b + 1, then all read the word of the last block after them.
    let body = format!(
        "mov.u32 %r3, %ctaid.x; mad.wide.u32 %rd1, %r3, 4, %rd0; add.s32 %r4, %r3, 1;
         setp.eq.s32 %p4, %r0, 0; @%p4 st.global.u32 [%rd1], %r4; {GRID_SYNC}
         mov.u32 %r5, %nctaid.x; sub.s32 %r5, %r5, %r4; mad.wide.u32 %rd2, %r5, 4, %rd0; ld.volatile.global.u32 %r6, [%rd2];
         {} @%p4 st.global.u32 [%rd1], %r6;",
        GRID_SYNC.replace("WAITED", "WAITED2").replace("ADD:", "ADD2:").replace("bra ADD", "bra ADD2").replace("POLL", "POLL2")
    );
    let module = device.load(&kernel("", &body)).unwrap();
    let function = module.function("k").unwrap();
    let params = out.address.to_le_bytes();
    let (grid, block) = ([blocks, 1, 1], [64, 1, 1]);
    let launch = Launch { grid, block, params: &params, cooperative, ..Launch::new(&function) };
    device.launch(&launch).map_err(Box::new)?;
    Ok(out.u32s()[..blocks as usize].to_vec())
}

#[test]
fn the_blocks_of_a_cooperative_grid_wait_for_each_other() {
    for (blocks, workers) in [(1, 1), (33, 1), (600, 2)] {
        let expected: Vec<u32> = (1..=blocks).rev().collect();
        assert_eq!(grid_sum(blocks, workers, true, 1 << 34).unwrap(), expected);
    }
}

#[test]
fn a_grid_barrier_has_no_memory_without_a_cooperative_launch() {
    let trap = grid_sum(4, 1, false, 1 << 20).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::OutOfBounds { .. }), "{trap}");
}
