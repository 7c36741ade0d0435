//! The producer: one warp, which fills shared memory.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{Batch, Batches, Problem, Schedule, Score, Work};
use super::{
    Block, KeyBox, KeyTile, QueryBox, QueryTile, SPAN, SPAN_OF_VALUES, ValueBox, rows_of_box,
};
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};

/// Copies what the tiles of this block need: of elements of 16 bits or, if it `HAS_BYTES`, of 8 bits. The map of the values is then one of values whose keys are neighbours.
///
/// # Safety
/// One whole warp of the block calls this, and the maps are those of the kernel.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn all<
    C: Score,
    const R: usize,
    const BOXES: usize,
    const N: usize,
    const S: usize,
    const HAS_BYTES: bool,
>(
    block: Block<R, BOXES, N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    (schedule, problem, pages, batches): (&Schedule, &Problem, &[u32], Batches<'_>),
    score: C,
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
                let block_of = |at| work.block::<C>(batches.lists, at).0;
                fill::<R, BOXES, N, S, HAS_BYTES>(&mut stages, maps, pages, (&work, block_of));
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
unsafe fn fill<
    const R: usize,
    const BOXES: usize,
    const N: usize,
    const S: usize,
    const HAS_BYTES: bool,
>(
    (queries, ring): &mut Stages<R, BOXES, N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    pages: Pages<'_>,
    (work, block_of): (&Work, impl Fn(u32) -> u32),
) {
    let elements = if HAS_BYTES { SPAN } else { SPAN / 2 };
    let problem = pages.problem;
    let kv_head = problem.kv_head(work.head << problem.pack) as i32;
    let Batch { queries: of_queries, keys: of_keys, .. } = work.batch;
    let (query, is_packed) = (work.row >> problem.pack, problem.has_packed_queries());
    let [batch, query] = of_queries.coordinates(query, problem.queries, is_packed);
    // SAFETY: every byte of a stage is filled, once, by the boxes that make it up.
    unsafe {
        queries.fill_by_warp(|slot| {
            let map = maps.map::<QueryBox<R>, Swizzle128>(0);
            for part in 0..BOXES {
                let to = slot.as_mut_ptr().cast::<Tile<QueryBox<R>, Swizzle128>>().add(part);
                let at = [batch, work.head as i32, query, 0, (elements * part) as i32];
                map.load(to, at, slot.barrier());
            }
        });
        let mut fill = |map: usize, index: u32| {
            ring.fill_by_warp(|slot| {
                let first = block_of(index) * N as u32;
                if HAS_BYTES && map == 2 {
                    let map = maps.map::<ValueBox, Swizzle64>(map);
                    load_values::<BOXES, N>(
                        map,
                        slot,
                        [of_keys.batch as i32, kv_head, first as i32],
                    );
                    return;
                }
                let map = maps.map::<KeyBox<N>, Swizzle128>(map);
                if problem.pages == 0 {
                    let [batch, first] =
                        of_keys.coordinates(first, problem.keys, problem.has_packed_keys());
                    load_rows::<BOXES, N>(map, slot, [batch, kv_head, first], elements);
                } else {
                    pages.load::<BOXES, N>(map, slot, (work, kv_head, first));
                }
            });
        };
        // From the last keys to the first ones, as the consumers take them.
        let (first, end) = work.blocks;
        fill(1, end - 1);
        for index in (first + 1..end).rev() {
            fill(1, index - 1);
            fill(2, index);
        }
        fill(2, first);
    }
}

/// Starts to copy a block of keys, or values, from a row of a head of a batch on, in boxes of this many elements.
///
/// # Safety
/// The slot is one of the ring.
#[gpu_only]
#[inline(always)]
unsafe fn load_rows<const BOXES: usize, const N: usize>(
    map: &TensorMap<KeyBox<N>, Swizzle128>,
    slot: &Slot<KeyTile<N, BOXES>>,
    [batch, kv_head, first]: [i32; 3],
    elements: usize,
) {
    for part in 0..BOXES {
        let at = [batch, kv_head, first, (elements * part) as i32];
        // SAFETY: the box is within the stage.
        unsafe {
            let to = slot.as_mut_ptr().cast::<Tile<KeyBox<N>, Swizzle128>>().add(part);
            map.load(to, at, slot.barrier());
        }
    }
}

/// Starts to copy a block of values whose keys are neighbours, from a key of a head of a batch on: for each 64 keys the boxes of all elements.
///
/// # Safety
/// The slot is one of the ring.
#[gpu_only]
#[inline(always)]
unsafe fn load_values<const BOXES: usize, const N: usize>(
    map: &TensorMap<ValueBox, Swizzle64>,
    slot: &Slot<KeyTile<N, BOXES>>,
    [batch, kv_head, first]: [i32; 3],
) {
    for part in 0..BOXES * N / SPAN_OF_VALUES {
        let key = first + (part / BOXES * SPAN_OF_VALUES) as i32;
        let at = [batch, kv_head, (part % BOXES * SPAN) as i32, key];
        // SAFETY: the box is within the stage.
        unsafe {
            let to = slot.as_mut_ptr().cast::<Tile<ValueBox, Swizzle64>>().add(part);
            map.load(to, at, slot.barrier());
        }
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
    /// Starts to copy a block of keys, or values, from key `first` of a batch on, page by page; rows after the keys of the batch are zero.
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
            // A page past the last one is outside of the tensor: zeros.
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
                // SAFETY: the box is within the stage, and within one page.
                unsafe { map.load(to, at, slot.barrier()) };
            }
            row += rows;
        }
    }
}
