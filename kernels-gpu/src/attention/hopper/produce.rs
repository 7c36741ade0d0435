//! The producer: one warp, which fills shared memory.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::scores::lengths_of;
use super::super::{Problem, Schedule, Score};
use super::{Block, KeyBox, QueryBox, ROWS_OF_TILE};
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};

/// Copies what the tiles of this block need.
///
/// # Safety
/// One whole warp of the block calls this, and the maps are those of the kernel.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<const BOXES: usize, const N: usize, const S: usize>(
    block: Block<BOXES, N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    (schedule, problem, lengths): (&Schedule, &Problem, &[u32]),
    score: impl Score,
) {
    // SAFETY: one warp fills the stages.
    let (mut queries, mut ring) = unsafe { (block.queries.producer(), block.ring.producer()) };
    let len = schedule.len(problem);
    let mut index = thread::block_idx_x();
    while index < len {
        let sizes = (ROWS_OF_TILE as u32, N as u32);
        let lengths = |batch| lengths_of(problem, lengths, batch);
        let work = schedule.work(problem, score, index, sizes, lengths);
        index += thread::grid_dim_x();
        let (batch, head) = (work.batch as i32, work.head as i32);
        let kv_head = problem.kv_head(work.head << problem.pack) as i32;
        let query = (work.row >> problem.pack) as i32;
        if work.blocks.0 >= work.blocks.1 {
            continue;
        }
        // SAFETY: every byte of a stage is filled, once, by boxes that are its parts.
        unsafe {
            queries.fill_by_warp(|slot| {
                let map = maps.map::<QueryBox, Swizzle128>(0);
                for part in 0..BOXES {
                    let to = slot.as_mut_ptr().cast::<Tile<QueryBox, Swizzle128>>().add(part);
                    let at = [batch, head, query, 0, 64 * part as i32];
                    map.load(to, at, slot.barrier());
                }
            });
            let mut fill = |map: usize, index: u32| {
                ring.fill_by_warp(|slot| {
                    let map = maps.map::<KeyBox<N>, Swizzle128>(map);
                    for part in 0..BOXES {
                        let to = slot.as_mut_ptr().cast::<Tile<KeyBox<N>, Swizzle128>>().add(part);
                        let at = [batch, kv_head, (index * N as u32) as i32, 64 * part as i32];
                        map.load(to, at, slot.barrier());
                    }
                });
            };
            // From the last keys to the first ones, as the consumers take them.
            let mut index = work.blocks.1 - 1;
            fill(1, index);
            while index > work.blocks.0 {
                fill(1, index - 1);
                fill(2, index);
                index -= 1;
            }
            fill(2, index);
        }
    }
}
