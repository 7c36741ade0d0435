//! Boxes on their way back.

use super::common::{Buffer, device};
use super::{TILE_BYTES, coords, kernel, launch, packed, tensor_bytes};
use emulator::fault::CopyFault;
use emulator::{ElementType, TensorMap, Trap, TrapKind};

/// Copies 0, 1, 2, … from the tile to the tensor, and returns the tensor as words.
fn stored(how: &str, dims: &[u64], box_dims: &[u32], at: &[i32], old: u32) -> Vec<u32> {
    try_stored(how, dims, box_dims, at, old).unwrap_or_else(|trap| panic!("{trap}"))
}

/// The same, or the fault.
fn try_stored(
    how: &str,
    dims: &[u64],
    box_dims: &[u32],
    at: &[i32],
    old: u32,
) -> Result<Vec<u32>, Box<Trap>> {
    let device = device();
    let map = packed(ElementType::U32, dims, box_dims);
    let count = tensor_bytes(&map) / 4;
    let tensor = Buffer::of_u32(&device, &vec![old; count]);
    let map = TensorMap { address: tensor.address, ..map };
    let body = format!(
        "mov.u32 %r5, %r0; NUMBER: shl.b32 %r6, %r5, 2; add.s32 %r6, %r6, %r1; st.shared.u32 [%r6], %r5;
         add.s32 %r5, %r5, 32; setp.lt.u32 %p3, %r5, 1024; @%p3 bra NUMBER; fence.proxy.async.shared::cta; bar.sync 0;
         @%p2 bra DONE; {how}.bulk_group [map, {}], [tile]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:",
        coords(map.rank)
    );
    let out = Buffer::new(&device, TILE_BYTES);
    let mut coords = [0; 5];
    coords[..at.len()].copy_from_slice(at);
    launch(&device, &kernel(&body), &map, coords, out.address)?;
    Ok(tensor.u32s())
}

#[test]
fn a_stored_box_begins_inside_its_tensor() {
    let how = [
        "cp.async.bulk.tensor.2d.global.shared::cta.tile",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile",
    ];
    for (how, at) in how.into_iter().zip([[-4, 0], [0, -1]]) {
        let trap = try_stored(how, &[12, 6], &[8, 3], &at, 0).expect_err("a fault");
        let at = at[0].min(at[1]);
        assert_eq!(trap.kind, TrapKind::Copy(CopyFault::Before { at }));
    }
}

#[test]
fn boxes_are_stored_and_what_is_outside_is_not_but_for_the_last_unit_of_a_row() {
    let store = "cp.async.bulk.tensor.2d.global.shared::cta.tile";
    let found = stored(store, &[10, 6], &[4, 3], &[8, 4], 99);
    let mut expected = vec![99; 72];
    // Rows end with column 9, and the unit of 16 bytes that has it with column 11.
    expected[4 * 12 + 8..5 * 12].copy_from_slice(&[0, 1, 2, 3]);
    expected[5 * 12 + 8..].copy_from_slice(&[4, 5, 6, 7]);
    assert_eq!(found, expected);
    let reduce = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile";
    let found = stored(reduce, &[10, 6], &[8, 3], &[4, 1], 100);
    let mut expected = vec![100; 72];
    for row in 0..3 {
        (0..8).for_each(|column| {
            expected[(row + 1) * 12 + column + 4] = 100 + (8 * row + column) as u32
        });
    }
    assert_eq!(found, expected);
    let largest = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.max";
    assert_eq!(stored(largest, &[8], &[8], &[0], 5), [5, 5, 5, 5, 5, 5, 6, 7]);
}
