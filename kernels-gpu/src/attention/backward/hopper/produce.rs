//! The producer: one warp, which fills shared memory.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BackwardProblem, Operands};
use super::Scratch;
use super::block::Block;
use super::tile::{Place, Tile};
use crate::attention::hopper::{KeyBox, KeyTile};
use crate::prelude::*;
use cuda_std::copy::{Tile as Box, *};
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};

/// Copies the keys and values, and then tile by tile the queries, the gradients of their results, and their numbers.
///
/// # Safety
/// One whole warp of the block calls this; maps and operands are those of the kernel.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<
    T,
    const KEYS: usize,
    const BOXES: usize,
    const M: usize,
    const O: usize,
>(
    block: Block<KEYS, BOXES, M, O>,
    maps: GridConstant<'_, [MapWords; 4]>,
    problem: &BackwardProblem,
    tile: &Tile<KEYS, M>,
    operands: Operands<'_, T>,
) {
    let scratch = Scratch::of(problem);
    let (forward, lses) = (&problem.forward, operands.delta.cast_const());
    let deltas = lses.wrapping_add(scratch.deltas());
    let numbers_of = |place: Place| {
        (scratch.first_tile(problem, &tile.batch, place.head) + place.index as usize) * M
    };
    // SAFETY: one warp fills the stages, and every byte once.
    unsafe {
        let (mut keys, mut queries, mut results) =
            (block.keys.producer(), block.queries.producer(), block.results.producer());
        let mut fill_keys = |map: usize| {
            keys.fill_by_warp(|slot| {
                let map = maps.map::<KeyBox<KEYS>, Swizzle128>(map);
                load(map, slot, tile.coordinates(forward));
            });
        };
        let mut fill_queries = |place: Place, at: u32| {
            queries.fill_by_warp(|slot| {
                load_numbers::<_, M>(block.numbers(at), lses.add(numbers_of(place)), slot);
                let map = maps.map::<KeyBox<M>, Swizzle128>(0);
                load(map, slot, place.coordinates(forward, tile));
            });
        };
        let mut fill_results = |place: Place, at: u32| {
            results.fill_by_warp(|slot| {
                let to = block.numbers(at).add(M);
                load_numbers::<_, M>(to, deltas.add(numbers_of(place)), slot);
                let map = maps.map::<KeyBox<M>, Swizzle128>(3);
                load(map, slot, place.coordinates(forward, tile));
            });
        };
        let (mut place, mut at) = (tile.first(), 0);
        while at < tile.len() {
            // In the order in which the consumers take them.
            if at == 0 {
                fill_keys(1);
            }
            fill_queries(place, at);
            if at == 0 {
                fill_keys(2);
            }
            fill_results(place, at);
            place = tile.after(place);
            at += 1;
        }
    }
}

/// Starts to copy a number of each query of a tile, beside what else fills the slot.
///
/// # Safety
/// The numbers are there, and their place belongs to the slot's stage.
#[gpu_only]
#[inline(always)]
unsafe fn load_numbers<T, const M: usize>(to: *mut f32, from: *const f32, slot: &Slot<T>) {
    let bytes = (M * size_of::<f32>()) as u32;
    // SAFETY: the caller's promise; the phase has not ended, since the bytes of the stage are still to come.
    unsafe {
        slot.barrier().expect(bytes);
        bulk_load(to, from, bytes, slot.barrier());
    }
}

/// Starts to fill a stage with rows from `[batch, head, row]` on.
///
/// # Safety
/// The slot is one of the pipeline.
#[gpu_only]
#[inline(always)]
unsafe fn load<const N: usize, const BOXES: usize>(
    map: &TensorMap<KeyBox<N>, Swizzle128>,
    slot: &Slot<KeyTile<N, BOXES>>,
    [batch, head, row]: [i32; 3],
) {
    for part in 0..BOXES {
        // SAFETY: the caller's promise; the box is a part of the stage.
        unsafe {
            let to = slot.as_mut_ptr().cast::<Box<KeyBox<N>, Swizzle128>>().add(part);
            map.load(to, [batch, head, row, 64 * part as i32], slot.barrier());
        }
    }
}
