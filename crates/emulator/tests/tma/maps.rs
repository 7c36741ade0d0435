//! Maps that are changed in memory, and what does not fit a map.

use super::common::{Buffer, device};
use super::{TILE_BYTES, kernel, launch, load, packed, random};
use emulator::fault::CopyFault;
use emulator::{
    ElementType, Im2col, OutOfBoundsFill, Swizzle, TensorMap, TensorMapError, TrapKind,
};

#[test]
fn maps_can_be_changed_in_memory() {
    let device = device();
    let first = random(64 * 64);
    let (a, b) = (Buffer::of(&device, &vec![7; 64 * 64]), Buffer::of(&device, &first));
    let map = TensorMap { address: a.address, ..packed(ElementType::U8, &[64, 64], &[16, 8]) };
    let place = Buffer::new(&device, 128);
    let wanted = TensorMap {
        address: b.address,
        element: ElementType::Bf16,
        dims: [20, 30, 1, 1, 1],
        strides: [128, 0, 0, 0],
        box_dims: [16, 4, 0, 0, 0],
        element_strides: [1, 2, 1, 1, 1],
        swizzle: Swizzle::Bytes32,
        fill: OutOfBoundsFill::Nan,
        ..map
    };
    // The map is copied to shared memory, changed there, and copied to device memory.
    let body = format!(
        "shl.b32 %r5, %r0, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd6, map, %rd5; ld.u32 %r6, [%rd6]; add.s32 %r7, %r1, %r5;
         st.shared.u32 [%r7], %r6; bar.sync 0; mov.u64 %rd7, {}; mov.u64 %rd8, {}; @%p2 bra COPY;
         tensormap.replace.tile.global_address.shared::cta.b1024.b64 [tile], %rd7;
         tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [tile], 10;
         tensormap.replace.tile.rank.shared::cta.b1024.b32 [tile], 1;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [tile], 0, 20;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [tile], 1, 30;
         tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [tile], 0, 128;
         tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [tile], 1, 4;
         tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [tile], 1, 2;
         tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [tile], 1;
         tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [tile], 0;
         tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [tile], 1;
         COPY: bar.warp.sync -1;
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd8], [tile], 128;
         fence.proxy.tensormap::generic.acquire.gpu [%rd8], 128; mov.u64 map, %rd8;",
        b.address, place.address
    );
    let out = Buffer::new(&device, TILE_BYTES);
    launch(&device, &kernel(&body), &map, [0; 5], out.address)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let changed: [u8; 128] = place.bytes().try_into().unwrap();
    assert_eq!(TensorMap::decode(&changed), Some(wanted));
    let text = kernel(&format!("{body} {}", load(&wanted, 1024, [0; 3])));
    launch(&device, &text, &map, [8, 3, 0, 0, 0], out.address)
        .unwrap_or_else(|trap| panic!("{trap}"));
    // Row 3 of the tensor from element 8 on: 12 elements inside.
    let row = &out.bytes()[1024..1056];
    assert_eq!(row[..24], first[3 * 128 + 16..3 * 128 + 40]);
    assert_eq!(row[24..], [0xf7, 0x7f].repeat(4));
}

#[test]
fn what_does_not_fit_is_a_fault() {
    let device = device();
    let tensor = Buffer::of(&device, &random(64 * 64));
    let map = TensorMap { address: tensor.address, ..packed(ElementType::U8, &[64, 64], &[16, 8]) };
    let out = Buffer::new(&device, TILE_BYTES);
    let trap = |text: &str, map: &TensorMap, at: [i32; 5]| {
        launch(&device, text, map, at, out.address).expect_err("a fault").kind
    };
    let body = load(&map, 0, [0; 3]);
    let none = trap(
        &kernel(&format!("mov.u64 map, {}; {body}", tensor.address.next_multiple_of(64))),
        &map,
        [0; 5],
    );
    assert!(matches!(none, TrapKind::Copy(CopyFault::NoTensorMap { .. })), "{none}");
    let cube = TensorMap { rank: 3, strides: [64, 4096, 0, 0], box_dims: [16, 8, 1, 0, 0], ..map };
    let rank = trap(&kernel(&body), &cube, [0; 5]);
    assert_eq!(rank, TrapKind::Copy(CopyFault::Rank { map: 3, instruction: 2 }));
    let image = TensorMap {
        im2col: Some(Im2col { channels_per_pixel: 16, pixels_per_column: 8, ..Im2col::default() }),
        ..cube
    };
    let mode = trap(&kernel(&load(&cube, 0, [0; 3])), &image, [0; 5]);
    assert_eq!(mode, TrapKind::Copy(CopyFault::Mode { map: "im2col" }));
    let align = trap(&kernel(&load(&map, 64, [0; 3])), &map, [0; 5]);
    assert!(matches!(align, TrapKind::Copy(CopyFault::Align { align: 128, .. })), "{align}");
    let first = trap(&kernel(&body), &map, [8, 0, 0, 0, 0]);
    assert!(matches!(first, TrapKind::Copy(CopyFault::Align { align: 16, .. })), "{first}");
    let invalid = trap(&kernel(&body), &TensorMap { box_dims: [10, 8, 0, 0, 0], ..map }, [0; 5]);
    assert!(
        matches!(invalid, TrapKind::Copy(CopyFault::Map(TensorMapError::Row { .. }))),
        "{invalid}"
    );
    let tall = TensorMap { dims: [64, 100, 1, 1, 1], ..map };
    let outside = trap(&kernel(&body), &tall, [0, 60, 0, 0, 0]);
    assert!(matches!(outside, TrapKind::OutOfBounds { .. }), "{outside}");
    assert!(
        trap(&kernel(&load(&map, TILE_BYTES as u32, [0; 3])), &map, [0; 5])
            .to_string()
            .contains("out-of-bounds")
    );
    let reduce = kernel(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [map, {%c0, %c1}], [tile];",
    );
    let none = trap(&reduce, &map, [0; 5]);
    assert!(
        matches!(none, TrapKind::Copy(CopyFault::Reduction { operation: "add", .. })),
        "{none}"
    );
}
