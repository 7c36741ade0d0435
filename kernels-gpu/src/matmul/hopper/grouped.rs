//! Products of groups of rows: the passes of [`multiply`](super::multiply) are the tiles of a [list](super::super::groups).

use super::super::Plain;
use super::super::form::{WIDE, take_turn};
use super::super::groups::{self, GroupTile};
use super::*;
use cuda_std::f16;

const _: () = assert!(groups::ROWS == ROWS_OF_TILE);

/// The passes over a list of tiles, each with some columns of tiles.
#[derive(Clone, Copy)]
struct GroupPasses<'a> {
    tiles: *const GroupTile,
    /// Tiles of the list.
    len: u32,
    /// Its groups are one row of tiles each.
    schedule: &'a Schedule,
}

impl Passes for GroupPasses<'_> {
    #[inline(always)]
    fn count(self) -> u32 {
        self.len * self.schedule.tile_columns
    }

    #[inline(always)]
    fn work(self, index: u32) -> Work {
        let (tile, column) = self.schedule.row_of_tiles(index);
        let tile = tile.min(self.len.saturating_sub(1));
        // SAFETY: the list has room for a tile, and for as many as it has.
        let &GroupTile { group, row, end, .. } = unsafe { &*self.tiles.add(1 + tile as usize) };
        Work { batch: group, output: 0, rows: (row, end), column, steps: (0, self.schedule.steps) }
    }
}

/// `D[rows of group i] = alpha · A[rows of group i] · B[i] + beta · C[rows of group i]`: B is a batch of matrices, and A, C and D are one matrix each.
/// Tiles are 128 × [`WIDE`].
///
/// # Safety
/// As [`multiply`](super::multiply), with `tiles` from [`group_tiles`](fn@super::super::groups::group_tiles), of at least two elements, in place of the tiles of a schedule.
/// K is not 0.
#[kernel(
    (bf16, bf16), (f16, f16),
    dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<WIDE>()
)]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_grouped<T, Out>(
    maps: GridConstant<[MapWords; 3]>,
    schedule: Schedule,
    problem: Problem,
    tiles: &[GroupTile],
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    mut d: DisjointSlice<Out>,
) where
    T: Factor,
    Out: Output,
    Columns<WIDE>: Promotes<T, T, WIDE>,
{
    let d = d.as_mut_ptr();
    // SAFETY: the caller's promise. (`wgmma` is an instruction of this architecture alone; the host launches this nowhere else.)
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        multiply_groups::<T, Out, WIDE, { stages(WIDE) }>(
            maps,
            &schedule,
            &problem,
            tiles.as_ptr(),
            c_from,
            d,
        );
    }
}

/// The body of [`hopper_grouped`](fn@hopper_grouped).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_groups<T, D, const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    tiles: *const GroupTile,
    c: *const D,
    d: *mut D,
) where
    T: Factor,
    D: Output,
    Columns<N>: Promotes<T, T, N>,
{
    // SAFETY: all lanes of each warp are here.
    let (group, thread) = (unsafe { warpgroup_of_warp() }, thread_in_warpgroup());
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<N, S>::new(false) };
    // The list of tiles is that of the kernel before.
    take_turn();
    // SAFETY: the list has a first element, which has the number of the others.
    let len = unsafe { (*tiles).group };
    let passes = GroupPasses { tiles, len, schedule };
    let (index, none) = (thread::block_idx_x(), [core::ptr::null(); 2]);
    let first = passes.work(index);
    // SAFETY: each part is one of whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                if thread < 32 && index < passes.count() {
                    let producer = block.pipeline.producer();
                    produce::all::<T, N, S>(producer, maps, schedule, passes, first);
                }
            },
            consumer own with 232 registers => {
                let elements = output::Output::new(problem, c, none, d, Plain);
                let beside = Beside::new(problem, c, none[0], none[1], Plain);
                let writer = BoxWriter::new(beside, problem, schedule, maps, d, block.boxes(own));
                let begun = (first, own);
                consume::all::<T, T, _, _, _, N, S>(block, writer, elements, passes, begun);
            },
        }
    }
}
