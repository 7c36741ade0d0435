//! Gradients of queries on their way to the sums in global memory: the consumers leave them in shared memory, from where warps add them.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BackwardProblem, Operands};
use super::block::Block;
use super::block::barriers::{FREE, FULL, OF_SUMS};
use super::tile::Tile;
use super::{ELEMENTS, Scratch, rounds};
use crate::attention::Score;
use crate::prelude::*;
use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::vector::Vec4;
use cuda_std::warp::lane_id;
use cuda_std::{gpu_only, unrolled};

/// Bytes of a consumer's sums of a round.
const BYTES: u32 = (ELEMENTS / 2 * size_of::<f32>()) as u32;

/// Leaves a consumer's sums for the warp that adds them: those of one tile and round after the other, `number` by `number`.
///
/// # Safety
/// All threads of a consumer call this together, for every number in order; the products are done.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn store<
    const KEYS: usize,
    const BOXES: usize,
    const M: usize,
    const O: usize,
>(
    block: Block<KEYS, BOXES, M, O>,
    (own, thread): (usize, usize),
    number: u32,
    sums: &Accumulator<f32, 64>,
) {
    let (stages, round) = (block.stages_of_sums() as u32, number as usize % rounds(64 * BOXES));
    let stage = number % stages;
    let barrier = 2 * stage + own as u32;
    let to = block.sums(stage, own).cast::<Vec4<f32>>().wrapping_add(thread);
    // SAFETY: the caller's promise.
    unsafe {
        if number >= stages {
            // The earlier sums of the stage have been read.
            sync_at_barrier(FREE + barrier, OF_SUMS);
        }
        if block.gives(round, own) {
            unrolled!(8, |eight| {
                let ([a, b], [c, d]) = (sums.pair(4 * eight), sums.pair(4 * eight + 2));
                to.wrapping_add(WARPGROUP * eight).write(Vec4::new(a, b, c, d));
            });
            fence_proxy_async_shared();
        }
        arrive_at_barrier(FULL + barrier, OF_SUMS);
    }
}

/// Adds the sums of every tile of a stage.
///
/// # Safety
/// One whole warp of the block calls this for each stage, with what the consumers go by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn add<
    T,
    const KEYS: usize,
    const BOXES: usize,
    const M: usize,
    const O: usize,
>(
    block: Block<KEYS, BOXES, M, O>,
    problem: &BackwardProblem,
    tile: &Tile<KEYS, M>,
    operands: Operands<'_, T>,
    score: impl Score,
    stage: u32,
) {
    let (len, scratch) = (tile.len(), Scratch::of(problem));
    let (stages, rounds) = (block.stages_of_sums() as u32, rounds(64 * BOXES));
    let is_first = lane_id() == 0;
    let (mut place, mut at) = (tile.first(), 0);
    // SAFETY: the caller's promise. Both consumers come to the barriers of a stage once for each round of each of its tiles.
    unsafe {
        let sums = operands.delta.add(scratch.sums());
        let turns = operands.delta.add(scratch.turns()).cast::<u32>();
        while at < len {
            if at % stages == stage {
                let first = scratch.first_tile(problem, &tile.batch, place.head);
                let index = first + place.index as usize;
                let turn = turns.add(index);
                let mut own = 0;
                if problem.in_turns > 0 {
                    own = tile.turn(score, place);
                    if is_first {
                        wait_for_turn(turn, own);
                    }
                }
                converge();
                unrolled!(2, |round| {
                    if round < rounds {
                        let to = sums.add((index * rounds + round) * ELEMENTS);
                        // No consumer waits for the last sums of a stage.
                        let is_last = round + 1 == rounds && at + stages >= len;
                        add_round(block, stage, round, to, is_last);
                    }
                });
                if is_first && problem.in_turns > 0 {
                    wait_bulk_groups::<0>();
                    atomic::store(turn, own + 1, Ordering::Release, Scope::Device);
                }
                converge();
            }
            place = tile.after(place);
            at += 1;
        }
        if is_first {
            // The shared memory is read, and the sums are there for the next kernel.
            wait_bulk_groups::<0>();
        }
    }
}

/// Waits for the sums of both consumers, starts to add them to those at `to`, and waits until they have been read. Then the consumers may write the next ones, if
/// not `is_last`.
///
/// # Safety
/// As [`add`].
#[gpu_only]
#[inline(always)]
unsafe fn add_round<const KEYS: usize, const BOXES: usize, const M: usize, const O: usize>(
    block: Block<KEYS, BOXES, M, O>,
    stage: u32,
    round: usize,
    to: *mut f32,
    is_last: bool,
) {
    let (is_first, free) = (lane_id() == 0, FREE + 2 * stage);
    // SAFETY: the caller's promise.
    unsafe {
        for consumer in 0..2 {
            sync_at_barrier(FULL + 2 * stage + consumer, OF_SUMS);
            if is_first && block.gives(round, consumer as usize) {
                let from = block.sums(stage, consumer as usize).cast_const();
                let to = to.add(consumer as usize * ELEMENTS / 2);
                bulk_reduce(to, from, BYTES, Reduction::Add);
                commit_bulk_group();
            }
            converge();
        }
        if is_first {
            wait_bulk_groups_read::<0>();
        }
        converge();
        if !is_last {
            arrive_at_barrier(free, OF_SUMS);
            arrive_at_barrier(free + 1, OF_SUMS);
        }
    }
}

/// Waits until `own` blocks have added to a tile.
///
/// # Safety
/// The turn is one of the scratch memory, and blocks that add before are there.
#[gpu_only]
#[inline(always)]
unsafe fn wait_for_turn(turn: *mut u32, own: u32) {
    // SAFETY: the caller's promise.
    unsafe { while atomic::load(turn.cast_const(), Ordering::Acquire, Scope::Device) != own {} }
}
