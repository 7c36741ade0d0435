//! The producer: one warp, which fills shared memory.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{Batch, Batches, Problem, Schedule, Score, Work};
use super::{Block, KeyBox, KeyTile, QueryBox, QueryTile, SPAN, rows_of_box};
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
pub(super) unsafe fn all<const R: usize, const BOXES: usize, const N: usize, const S: usize>(
    block: Block<R, BOXES, N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    (schedule, problem, pages, batches): (&Schedule, &Problem, &[u32], Batches<'_>),
    score: impl Score,
    counter: *mut u32,
) {
    let pages = Pages { problem, table: pages };
    // SAFETY: one warp fills the stages.
    let mut stages = unsafe { (block.queries.producer(), block.ring.producer()) };
    let len = schedule.len(problem);
    let (mut index, mut tiles) = (thread::block_idx_x(), block.queue.producer());
    while index < len {
        // SAFETY: the caller's promise.
        unsafe {
            let next = tiles.fetch(counter, index, len);
            let sizes = (R as u32, N as u32);
            let work = schedule.work(problem, score, index, sizes, batches);
            if work.blocks.0 < work.blocks.1 {
                fill::<R, BOXES, N, S>(&mut stages, maps, pages, &work);
            }
            tiles.give(next);
            index = next;
        }
    }
}

/// Where queries, and blocks of keys and values, go.
type Stages<const R: usize, const BOXES: usize, const N: usize, const S: usize> =
    (TileProducer<QueryTile<R, BOXES>, 1>, TileProducer<KeyTile<N, BOXES>, S>);

/// Copies what a tile needs, of which there is a block of keys.
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
unsafe fn fill<const R: usize, const BOXES: usize, const N: usize, const S: usize>(
    (queries, ring): &mut Stages<R, BOXES, N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    pages: Pages<'_>,
    work: &Work,
) {
    let problem = pages.problem;
    let kv_head = problem.kv_head(work.head << problem.pack) as i32;
    let Batch { queries: of_queries, keys: of_keys, .. } = work.batch;
    let (is_packed, query) = (problem.has_packed_queries(), work.row >> problem.pack);
    let [batch, query] = of_queries.coordinates(query, problem.queries, is_packed);
    // SAFETY: every byte of a stage is filled, once, by boxes that are its parts.
    unsafe {
        queries.fill_by_warp(|slot| {
            let map = maps.map::<QueryBox<R>, Swizzle128>(0);
            for part in 0..BOXES {
                let to = slot.as_mut_ptr().cast::<Tile<QueryBox<R>, Swizzle128>>().add(part);
                let at = [batch, work.head as i32, query, 0, 64 * part as i32];
                map.load(to, at, slot.barrier());
            }
        });
        let mut fill = |map: usize, index: u32| {
            ring.fill_by_warp(|slot| {
                let (map, first) = (maps.map::<KeyBox<N>, Swizzle128>(map), index * N as u32);
                if problem.pages == 0 {
                    let is_packed = problem.has_packed_keys();
                    let [batch, first] = of_keys.coordinates(first, problem.keys, is_packed);
                    for part in 0..BOXES {
                        let to = slot.as_mut_ptr().cast::<Tile<KeyBox<N>, Swizzle128>>().add(part);
                        let at = [batch, kv_head, first, 64 * part as i32];
                        map.load(to, at, slot.barrier());
                    }
                } else {
                    pages.load::<BOXES, N>(map, slot, (work, kv_head, first));
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

/// Keys and values in pages.
#[derive(Clone, Copy)]
struct Pages<'a> {
    problem: &'a Problem,
    /// `[batches, problem.pages]`.
    table: &'a [u32],
}

impl Pages<'_> {
    /// Starts to copy a block of keys, or values, from key `first` of a batch on, page by page; what is behind the keys of the batch is zero.
    ///
    /// # Safety
    /// The slot is one of the ring, and the map's boxes have [`rows_of_box`] keys.
    #[gpu_only]
    #[inline(always)]
    unsafe fn load<const BOXES: usize, const N: usize>(
        self,
        map: &TensorMap<KeyBox<N>, Swizzle128>,
        slot: &Slot<KeyTile<N, BOXES>>,
        (work, kv_head, first): (&Work, i32, u32),
    ) {
        let Self { problem, table } = self;
        let rows = rows_of_box(N as u32, problem.page);
        let mut row = 0;
        while row < N as u32 {
            let key = first + row;
            let entry =
                work.batch.index as usize * problem.pages as usize + (key >> problem.page) as usize;
            // A page behind all others is outside of the tensor: zeros.
            let is_inside = key < work.batch.keys.len;
            // SAFETY: the table has an entry for each page of the batch's keys.
            let page =
                if is_inside { unsafe { *table.get_unchecked(entry) } } else { problem.page_count };
            let page = page.min(problem.page_count);
            let in_page = (key & ((1 << problem.page) - 1)) as i32;
            for part in 0..BOXES {
                let bytes = (part * N + row as usize) * SPAN;
                let to = slot.as_mut_ptr().cast::<u8>().wrapping_add(bytes).cast();
                let at = [page as i32, kv_head, in_page, 64 * part as i32];
                // SAFETY: the box is a part of the stage, and of one page.
                unsafe { map.load(to, at, slot.barrier()) };
            }
            row += rows;
        }
    }
}
