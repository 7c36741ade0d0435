//! Warps and blocks that share the work of copies.

use super::common::{Buffer, HEAD, device};
use super::packed;
use emulator::{ElementType, Launch, TensorMap};

/// Four stages of tiles, one warp that loads and two that add up; full and empty mbarriers.
#[test]
fn a_pipeline_with_specialised_warps() {
    let device = device();
    let values: Vec<u32> = (0..64 * 40).map(|i| i * 7 + 1).collect();
    let tensor = Buffer::of_u32(&device, &values);
    let map =
        TensorMap { address: tensor.address, ..packed(ElementType::U32, &[64, 40], &[64, 1]) };
    let out = Buffer::new(&device, 4 * 64);
    let text = format!(
        "{HEAD}.visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out, .param .align 4 .b8 k_at[32]) {{
            .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>, map;
            .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 full[4]; .shared .align 8 .b64 empty[4];
            mov.b64 map, k_map; cvta.param.u64 map, map; ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x;
            mov.u32 %r1, full; mov.u32 %r2, empty; mov.u32 %r3, tile;
            setp.ne.s32 %p1, %r0, 0; @%p1 bra MADE; mov.u32 %r4, 0;
            MAKE: mad.lo.s32 %r5, %r4, 8, %r1; mad.lo.s32 %r6, %r4, 8, %r2; mbarrier.init.shared.b64 [%r5], 1; mbarrier.init.shared.b64 [%r6], 2;
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 4; @%p2 bra MAKE; fence.mbarrier_init.release.cluster;
            MADE: bar.sync 0; mov.u32 %r4, 0; mov.u32 %r10, 0; setp.ge.u32 %p3, %r0, 32; @%p3 bra CONSUME;
            elect.sync _|%p4, -1; @!%p4 bra OUT;
            PRODUCE: and.b32 %r7, %r4, 3; shr.u32 %r8, %r4, 2; and.b32 %r8, %r8, 1; xor.b32 %r8, %r8, 1;
            mad.lo.s32 %r5, %r7, 8, %r1; mad.lo.s32 %r6, %r7, 8, %r2; mad.lo.s32 %r9, %r7, 256, %r3;
            FREE: mbarrier.try_wait.parity.shared.b64 %p5, [%r6], %r8; @!%p5 bra FREE;
            mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 256;
            cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [map, {{0, %r4}}], [%r5];
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 40; @%p2 bra PRODUCE; bra OUT;
            CONSUME: sub.s32 %r11, %r0, 32;
            TAKE: and.b32 %r7, %r4, 3; shr.u32 %r8, %r4, 2; and.b32 %r8, %r8, 1;
            mad.lo.s32 %r5, %r7, 8, %r1; mad.lo.s32 %r6, %r7, 8, %r2; mad.lo.s32 %r9, %r7, 256, %r3;
            HAVE: mbarrier.try_wait.parity.shared.b64 %p5, [%r5], %r8; @!%p5 bra HAVE;
            mad.lo.s32 %r12, %r11, 4, %r9; ld.shared.u32 %r13, [%r12]; mad.lo.s32 %r10, %r10, 3, %r13;
            bar.warp.sync -1; elect.sync _|%p4, -1; @%p4 mbarrier.arrive.shared.b64 _, [%r6];
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 40; @%p2 bra TAKE;
            mad.wide.u32 %rd1, %r11, 4, %rd0; st.global.u32 [%rd1], %r10;
            OUT: ret; }}"
    );
    let module = device.load(&text).unwrap();
    let function = module.function("k").unwrap();
    let mut params = map.encode().to_vec();
    params.extend(out.address.to_le_bytes());
    params.resize(function.param_bytes, 0);
    let launch = Launch { block: [96, 1, 1], params: &params, ..Launch::new(&function) };
    device.launch(&launch).unwrap_or_else(|trap| panic!("{trap}"));
    let column = |x: usize| {
        (0..40).fold(0u32, |sum, y| sum.wrapping_mul(3).wrapping_add(values[y * 64 + x]))
    };
    assert_eq!(out.u32s(), (0..64).map(column).collect::<Vec<_>>());
}

/// Two blocks load half a tile each, for both.
#[test]
fn a_multicast_of_boxes() {
    let device = device();
    let values: Vec<u32> = (0..32 * 4).collect();
    let tensor = Buffer::of_u32(&device, &values);
    let map = TensorMap { address: tensor.address, ..packed(ElementType::U32, &[32, 4], &[32, 2]) };
    let out = Buffer::new(&device, 2 * 512);
    let text = format!(
        "{HEAD}.visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out, .param .align 4 .b8 k_at[32]) .reqnctapercluster 2, 1, 1 {{
            .reg .pred %p<8>; .reg .b16 %h<2>; .reg .b32 %r<16>; .reg .b64 %rd<8>, map;
            .shared .align 1024 .b8 tile[512]; .shared .align 8 .b64 bar;
            mov.b64 map, k_map; cvta.param.u64 map, map; ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;
            setp.ne.s32 %p1, %r0, 0; @%p1 bra MADE; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
            MADE: barrier.cluster.arrive.release; barrier.cluster.wait.acquire; @%p1 bra WAIT;
            mov.u32 %r2, tile; mad.lo.s32 %r2, %r1, 256, %r2; shl.b32 %r3, %r1, 1; mov.b16 %h0, 3;
            cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [map, {{0, %r3}}], [bar], %h0;
            WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
            mov.u32 %r4, tile; mad.lo.s32 %r4, %r0, 4, %r4; ld.shared.u32 %r5, [%r4]; mad.lo.s32 %r6, %r1, 128, %r0;
            mad.wide.u32 %rd1, %r6, 4, %rd0; st.global.u32 [%rd1], %r5;
            barrier.cluster.arrive; barrier.cluster.wait; ret; }}"
    );
    let module = device.load(&text).unwrap();
    let function = module.function("k").unwrap();
    let mut params = map.encode().to_vec();
    params.extend(out.address.to_le_bytes());
    params.resize(function.param_bytes, 0);
    let (grid, block) = ([2, 1, 1], [128, 1, 1]);
    let launch = Launch { grid, block, params: &params, ..Launch::new(&function) };
    device.launch(&launch).unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(out.u32s(), [values.as_slice(), &values].concat());
}
