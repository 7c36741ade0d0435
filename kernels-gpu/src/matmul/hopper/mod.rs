//! The fastest products on Hopper: tiles by the copy engine, multiplied by warpgroups, on a grid that stays.
//!
//! A block computes 128 × `N` of D at a time. One warp, the producer, copies tiles of 128 × 64 of A and 64 × `N` of B into
//! the [`stages`] of shared memory; two consumers multiply 64 rows each (`wgmma`), and write their sums. The producer does not wait for
//! that: while a tile is stored, the first stages of the next tile are filled.
//!
//! | `N` | for | sums go to D |
//! |---|---|---|
//! | 256 | large products | through shared memory, which the copy engine stores: `boxes.rs` |
//! | 192 | products with fewer rounds of such tiles on the device | so |
//! | 128 | products with too few tiles of 256 | so, or the blocks of a cluster add them first: `cluster_sums.rs` |
//! | 64, 16 | few columns, or the transpose of few rows: memory bounds them | from registers, or the blocks of a cluster add them first |
//!
//! | what | why |
//! |---|---|
//! | the grid has as many blocks as the device runs at once, each of which takes tile after tile | no gap between tiles |
//! | the steps of the last tiles are divided among all blocks, where whole tiles would leave many idle: `schedule.rs`, `stream_k.rs` | no round of few tiles |
//! | tiles are taken in groups of [`Schedule::group`] rows | blocks that run together share what the L2 cache has of A and B |
//! | registers move from the producer to the consumers (`setmaxnreg`) | 64 × 256 sums are 128 registers of each thread |
//! | a whole warp computes what the copies take, and one lane starts them | addresses are in the registers of the warp, which the copies take them from |
//! | operands in both orders: `wgmma` reads 16-bit elements along K or across | nothing is transposed |
//! | tensor maps are parameters of the launch ([`GridConstant`]) | no copy to the device before a launch, and graphs can have it |
//!
//! Operands that the copy engine cannot address (rows that are not a multiple of 16 bytes) are not for these kernels. D may be
//! anywhere: where the copy engine cannot store it, the threads do.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod block_scales;
mod blocks;
mod boxes;
mod cluster_sums;
mod consume;
mod doubles;
mod grouped;
mod integers;
mod produce;
mod promotion;
mod scaled;
mod schedule;
mod singles;
mod stream_k;
mod tile;

use self::boxes::BoxWriter;
use self::cluster_sums::ClusterSums;
use super::beside::Beside;
use super::form::take_turn;
use super::output;
use super::{Epilogue, Factor, Problem};
use crate::prelude::*;
use cuda_std::cluster;
use cuda_std::copy::*;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::{bf16, gpu_only, warp_specialized};

pub use self::blocks::hopper_blocks;
pub use self::doubles::hopper_double;
pub use self::grouped::hopper_grouped;
pub use self::integers::hopper_integer;
pub use self::promotion::Promotes;
pub use self::scaled::hopper_scaled;
use self::schedule::{Passes, StreamK};
pub use self::schedule::{Schedule, Work};
pub(super) use self::schedule::{divide, part};
pub use self::singles::hopper_three_tf32;
pub use self::stream_k::{MOST_STREAM_BLOCKS, Parts, STREAM_FLAGS, stream_bytes};
pub use self::tile::*;

/// Barriers: those of the stages, and of [`ClusterSums`].
const BARRIERS: usize = 32;

/// The bytes from which sums go to D: the boxes of both consumers, or the [`ClusterSums`] of a tile, or both, at different times.
const fn outgoing_bytes(columns: usize) -> usize {
    match columns {
        256 | 192 => 2 * STAGED * ROWS * SPAN,
        _ => cluster_sums::bytes(columns),
    }
}

/// Dynamic shared memory of a block, in bytes: stages, what goes out, and barriers.
#[must_use]
pub const fn shared_bytes<const N: usize>() -> usize {
    stages(N) * size_of::<Stage<N>>() + outgoing_bytes(N) + BARRIERS * size_of::<u64>()
}

/// What a kernel of the family is launched with.
///
/// # Safety
/// All threads of a block of [`BLOCK`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else
/// uses, and:
/// - `S` is [`stages`] of `N`.
/// - `maps` are those of A, B and D: boxes of [`RowsOfA`] or [`SmallBox`] as the schedule says, and of
///   [`StoredRows`] if `d_mapped`; their batches are outermost. Only of elements of 16 bits is one across.
/// - `N` is at most [`Factor::WIDEST`].
/// - `d` has every element that `problem.d` leads to, with `column == 1` where `N` is 128 or more, and no two of the same; C and the
///   vectors, of rows and of columns, are as [`Beside::new`] has it.
/// - The schedule's tiles are those of `problem`, with `problem.splits` at most the steps along K; with more than one, D has a
///   matrix for each part.
/// - `parts` has the flags and sums of all blocks, if tiles are streamed: then elements of A and B have 16 bits, `problem.splits` is 1,
///   the schedule does not `add`, and the grid has at most [`MOST_STREAM_BLOCKS`], of which each has a step.
/// - If the schedule `adds`, the launch is in clusters of at most `N / 16` blocks, a power of two, one cluster for each tile.
#[gpu_only]
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn multiply<T, D, E, const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    c: *const D,
    vectors: [*const D; 2],
    d: *mut D,
    parts: Parts,
    epilogue: E,
) where
    T: Factor,
    D: Output,
    E: Epilogue,
    Columns<N>: Promotes<T, T, N>,
{
    let (whole, vectors) = ((schedule, problem), (c, vectors));
    let streamed = StreamK { schedule, problem, parts };
    // SAFETY: the caller's promise.
    unsafe {
        if const { streams(size_of::<T>()) } {
            multiply_passes::<T, D, E, _, N, S>(maps, whole, streamed, vectors, d, epilogue);
        } else {
            multiply_passes::<T, D, E, _, N, S>(maps, whole, whole, vectors, d, epilogue);
        }
    }
}

/// [`multiply`] over these passes.
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_passes<T, D, E, P, const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    (schedule, problem): (&Schedule, &Problem),
    passes: P,
    (c, vectors): (*const D, [*const D; 2]),
    d: *mut D,
    epilogue: E,
) where
    T: Factor,
    D: Output,
    E: Epilogue,
    P: Passes,
    Columns<N>: Promotes<T, T, N>,
{
    // SAFETY: all lanes of each warp are here.
    let (group, thread) = (unsafe { warpgroup_of_warp() }, thread_in_warpgroup());
    if group == 0 && thread == 0 {
        prefetch(maps);
    }
    let adds = N <= SQUARE && schedule.adds != 0;
    let first =
        if adds { schedule.first(problem, true) } else { passes.work(thread::block_idx_x()) };
    // SAFETY: the launch gives the memory; all threads together, and each one waits at the cluster's barrier once.
    let block = unsafe { Block::<N, S>::new(adds) };
    // SAFETY: as above.
    let started = adds.then(|| unsafe { cluster::arrive_relaxed() });
    // All is ready while the previous kernel still runs, for whose end each branch waits.
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers if N >= SQUARE => {
                produce::in_turn::<T, N, S>(block, maps, schedule, passes, first);
                if let Some(started) = started {
                    started.wait();
                }
            },
            consumer own with 232 registers if N >= SQUARE => {
                take_turn();
                let plain = output::Output::new(problem, c, vectors, d, epilogue);
                if let Some(started) = started {
                    let begun = (started, first);
                    consume::one_of_cluster::<T, D, E, N, S>(block, schedule, plain, begun, own);
                } else {
                    let beside = Beside::new(problem, c, vectors[0], vectors[1], epilogue);
                    let writer = BoxWriter::new(beside, problem, schedule, maps, d, block.boxes(own));
                    let begun = (first, own);
                    consume::all::<T, T, _, _, _, N, S>(block, writer, plain, passes, begun);
                }
            },
        }
    }
}

/// Whether products of elements with this many bytes may stream tiles.
#[must_use]
pub const fn streams(element_bytes: usize) -> bool {
    element_bytes == 2
}

/// Starts to load the tensor maps of A and B.
#[gpu_only]
#[inline(always)]
fn prefetch(maps: GridConstant<'_, [MapWords; 3]>) {
    // SAFETY: a prefetch reads no tile, so that their shapes do not matter.
    unsafe {
        maps.map::<SmallBox, Swizzle128>(0).prefetch();
        maps.map::<SmallBox, Swizzle128>(1).prefetch();
    }
}

/// The dynamic shared memory of a block.
#[derive(Clone, Copy)]
struct Block<const N: usize, const S: usize> {
    /// The stages with their barriers.
    pipeline: TilePipeline<Stage<N>, S>,
    /// Shared memory from which sums are copied to D.
    outgoing: *mut u8,
    /// The sums of the cluster, which are there.
    sums: ClusterSums<N>,
}

impl<const N: usize, const S: usize> Block<N, S> {
    /// # Safety
    /// All threads of the block call this together; the launch gives [`shared_bytes`], and nothing else uses them. If the block `adds`, no other block
    /// sends it sums before a barrier of the cluster.
    #[gpu_only]
    #[inline(always)]
    unsafe fn new(adds: bool) -> Self {
        // SAFETY: the caller's promise. One thread of each of two consumers releases a stage.
        unsafe { Self::released_by(2, adds) }
    }

    /// [`new`](Self::new), where this many threads release a stage.
    ///
    /// # Safety
    /// As there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn released_by(threads: u32, adds: bool) -> Self {
        let stages = DynamicSharedArray::<u8, 1024>::get();
        let outgoing = stages.wrapping_add(S * size_of::<Stage<N>>());
        let barriers = outgoing.wrapping_add(outgoing_bytes(N));
        // SAFETY: the caller's promise; one thread fills a stage.
        unsafe {
            let barriers = SharedArray::<u64, BARRIERS>::from_raw(barriers.cast());
            let sums = ClusterSums::new(outgoing.cast(), barriers, BARRIERS - 1);
            if adds {
                // The fence of the pipeline's initialisation is for this barrier, too.
                sums.init();
            }
            let stages = SharedArray::<Stage<N>, S>::from_raw(stages.cast());
            let pipeline = TilePipeline::new(stages, barriers, threads);
            if adds {
                sums.expect();
            }
            Self { pipeline, outgoing, sums }
        }
    }

    /// The boxes of a consumer.
    #[inline(always)]
    fn boxes(self, own: usize) -> *mut u8 {
        self.outgoing.wrapping_add(own * STAGED * ROWS * SPAN)
    }
}
