//! What may be launched for a product, each with the cycles that it takes by the model, and the fastest of these.

use kernels_gpu::matmul::hopper::{MOST_STREAM_BLOCKS, ROWS_OF_TILE, depth, stream_bytes, streams};
use kernels_gpu::matmul::{skinny, warps};

use super::{Allows, BLOCKS_LIMIT, Choice, Kernel, Machine, Tile, blocks_of_grid};

/// Cycles from one launch to the next, and what remains of them where the kernel's beginning overlaps the end of the previous one.
const LAUNCH_CYCLES: f64 = 9000.0;
const HOPPER_CYCLES: f64 = 1200.0;
/// Cycles until the blocks of a cluster run together, and to send sums to each of them.
const CLUSTER_CYCLES: f64 = 2500.0;
const PART_CYCLES: f64 = 300.0;
/// How much longer the steps of a product by stream-K take than those of whole tiles, which fewer blocks read at a time; cycles of its exchange of sums beside
/// their bytes, and of each block that gives sums of a tile.
const STREAM_MARGIN: f64 = 1.05;
const STREAM_CYCLES: f64 = 6500.0;
const GIVER_CYCLES: f64 = 1500.0;
/// How much longer memory takes for small tiles whose last round leaves some multiprocessors idle, per share of these.
const IDLE_PLACES: f64 = 0.28;
/// Larger clusters than pairs do not fit on all multiprocessors: the blocks of a cluster run on one GPC.
const PLACES_OF_CLUSTERS: f64 = 96.0 / 132.0;
/// Bytes that memory moves in a cycle, and what one block of the skinny kernel gets of it at most, by what it has on the way.
const BYTES_PER_CYCLE: f64 = 2480.0;
const BYTES_PER_BLOCK_CYCLE: f64 = 24.0;
/// Of copies and products, what takes less time overlaps the rest but for this share.
const SHARE_BESIDE: f64 = 0.3;
/// How much longer the skinny kernel, and that of warps, take where they load element by element.
const UNALIGNED: f64 = 4.0;
/// Cycles of 128 bytes along K of a tile of [`warps`]: 277 TFLOP/s at 4096³ of 16-bit elements.
const WARPS_CYCLES: f64 = 1700.0;
/// Cycles of a copy of an operand before the product begins, and the bytes that it reads and writes in one.
const PACK_CYCLES: f64 = 5000.0;
const PACKED_BYTES_PER_CYCLE: f64 = 1400.0;
/// Steps that a split has at least: shorter ones only fill the pipeline.
const MIN_STEPS: usize = 8;
/// The numbers of splits that are tried in any case, and how many passes for each multiprocessor more splits may make.
const FEW_SPLITS: usize = 4;
const PASSES_EACH: usize = 2;

/// A product as the model sees it: all sizes are at least 1.
#[derive(Clone, Copy)]
struct Sizes {
    m: usize,
    n: usize,
    k: usize,
    batches: usize,
    element_bytes: usize,
}

impl Sizes {
    /// Cycles of a step of a tile.
    fn step_cycles(&self, tile: Tile) -> f64 {
        if self.element_bytes == 1 { tile.promoted_step_cycles() } else { tile.step_cycles() }
    }

    /// The product, or its transpose, with no more columns of D than rows.
    fn with_few_columns(self) -> Self {
        let Self { m, n, .. } = self;
        Self { m: m.max(n), n: m.min(n), ..self }
    }

    /// Tiles of D, of all matrices.
    fn tiles(&self, tile: Tile) -> usize {
        self.m.div_ceil(ROWS_OF_TILE) * self.n.div_ceil(tile.columns()) * self.batches
    }

    /// Stages along K.
    fn steps(&self) -> usize {
        self.k.div_ceil(depth(self.element_bytes))
    }

    /// Cycles of all bytes on their way: from memory come A and B, and D goes there.
    fn memory_cycles(&self) -> f64 {
        let Self { m, n, k, batches, element_bytes } = *self;
        let of_d = element_bytes.max(2);
        ((element_bytes * (m * k + k * n) + of_d * m * n) * batches) as f64 / BYTES_PER_CYCLE
    }

    /// Cycles to write, read and add partial sums, which takes twice as long as their bytes alone.
    fn finish_cycles(&self, splits: usize) -> f64 {
        if splits < 2 {
            return 0.0;
        }
        let moved = 2 * self.m * self.n * self.batches * splits * size_of::<f32>();
        LAUNCH_CYCLES + 2.0 * moved as f64 / BYTES_PER_CYCLE
    }
}

impl Allows {
    /// Cycles of the copies.
    fn pack_cycles(&self) -> f64 {
        let copies = self.packed.iter().filter(|elements| **elements > 0);
        let of_one = |elements: &usize| {
            PACK_CYCLES + (2 * elements * self.element_bytes) as f64 / PACKED_BYTES_PER_CYCLE
        };
        copies.map(of_one).sum()
    }
}

impl Choice {
    /// The fastest one by the model, for `[m, n, k]` and D in row-major order.
    pub(in crate::ops::matmul) fn new(
        machine: &Machine,
        sizes: [usize; 3],
        batches: usize,
        allows: Allows,
    ) -> Self {
        let mut best = Self::NONE;
        best.cycles = f64::INFINITY;
        Self::for_each(machine, sizes, batches, allows, |choice| {
            if choice.cycles < best.cycles {
                best = choice;
            }
        });
        best
    }

    /// Calls `f` with every choice that is worth a try.
    pub(in crate::ops::matmul) fn for_each(
        machine: &Machine,
        [m, n, k]: [usize; 3],
        batches: usize,
        allows: Allows,
        mut f: impl FnMut(Self),
    ) {
        if m == 0 || n == 0 || k == 0 || batches == 0 {
            return f(Self::NONE);
        }
        let sizes = Sizes { m, n, k, batches, element_bytes: allows.element_bytes };
        let has_tiles = machine.has_warpgroups() && !allows.packs();
        let has_skinny = allows.skinny && m.min(n) <= skinny::ROWS;
        if has_skinny && !(has_tiles && allows.few_along_k) {
            let tiles = m.max(n).div_ceil(skinny::COLUMNS) * batches;
            let steps = k.div_ceil(skinny::DEPTH) / 2;
            splits(machine, tiles, steps, allows)
                .filter(|splits| tiles * splits < BLOCKS_LIMIT)
                .for_each(|splits| f(Self::skinny(sizes, splits, allows)));
        }
        if machine.has_warpgroups() && (allows.splits || !allows.packs()) {
            Self::for_each_tile(machine, sizes, allows, |choice| {
                f(Self {
                    packs: allows.packs(),
                    cycles: choice.cycles + allows.pack_cycles(),
                    ..choice
                });
            });
        }
        if !has_tiles {
            f(Self::warps(machine, [m, n, k], batches, allows));
        }
    }

    /// Calls `f` with every choice of tiles for warpgroups.
    fn for_each_tile(machine: &Machine, sizes: Sizes, allows: Allows, mut f: impl FnMut(Self)) {
        for tile in Tile::LARGE.into_iter().filter(|tile| tile.columns() <= allows.widest) {
            let splits = splits(machine, sizes.tiles(tile), sizes.steps(), allows);
            splits.for_each(|splits| f(Self::hopper(machine, sizes, tile, splits)));
        }
        Tile::SMALL
            .into_iter()
            .chain(Tile::LARGE)
            .filter(|tile| tile.columns() <= allows.widest)
            .filter_map(|tile| Self::stream_k(machine, sizes, tile, allows))
            .for_each(&mut f);
        clusters()
            .filter_map(|(tile, parts)| Self::in_clusters(machine, sizes, tile, parts, allows))
            .for_each(f);
    }

    /// No products.
    pub(in crate::ops::matmul) const NONE: Self = Self {
        kernel: Kernel::None,
        splits: 0,
        group: 1,
        parts: 1,
        streamed: 0,
        packs: false,
        blocks: 0,
        passes: 0,
        cycles: LAUNCH_CYCLES,
        is_measured: false,
    };

    fn hopper(machine: &Machine, sizes: Sizes, tile: Tile, splits: usize) -> Self {
        let (rows, passes) = (sizes.m.div_ceil(ROWS_OF_TILE), sizes.tiles(tile) * splits);
        let multiprocessors = machine.multiprocessors as usize;
        let steps = sizes.steps().div_ceil(splits) as f64;
        let rounds = passes.div_ceil(multiprocessors) as f64;
        let multiplied = rounds * (steps * sizes.step_cycles(tile) + tile.pass_cycles());
        let cycles = beside(multiplied, sizes.memory_cycles()) + sizes.finish_cycles(splits);
        Self {
            kernel: Kernel::Hopper { tile, is_exchanged: false },
            splits: splits as u32,
            group: group(multiprocessors, tile).min(rows) as u32,
            parts: 1,
            streamed: 0,
            packs: false,
            blocks: passes.min(multiprocessors),
            passes,
            cycles: HOPPER_CYCLES + cycles,
            is_measured: false,
        }
    }

    /// With the last tiles streamed, those of the last two rounds of blocks: each block has the steps of about one tile or more.
    /// `None` where the last round is full, and for products that are not for that.
    fn stream_k(machine: &Machine, sizes: Sizes, tile: Tile, allows: Allows) -> Option<Self> {
        let whole = Self::in_clusters(machine, sizes, tile, 1, allows)?;
        let blocks = places(machine, tile, 1);
        let (tiles, steps) = (whole.passes, sizes.steps());
        let streamed = match tiles % blocks {
            0 => return None,
            last => (last + blocks).min(tiles),
        };
        let all = streamed * steps;
        let can_stream = streams(sizes.element_bytes)
            && (blocks..=u32::MAX as usize).contains(&all)
            && blocks <= MOST_STREAM_BLOCKS;
        if !can_stream {
            return None;
        }
        let (pass, step) = (tile.pass_cycles(), sizes.step_cycles(tile));
        let rounds = ((tiles - streamed) / blocks) as f64;
        let share = all.div_ceil(blocks);
        // A block stores the sums of one tile, and adds those of as many others as have steps of its own.
        let givers = steps.div_ceil(share);
        let moved = stream_bytes(blocks, tile.columns()) * (1 + givers);
        let exchanged = moved as f64 / BYTES_PER_CYCLE + GIVER_CYCLES * givers as f64;
        // It passes over the end of a tile and the beginning of another one.
        let multiplied = rounds * (steps as f64 * step + pass) + share as f64 * step + 2.0 * pass;
        let cycles = beside(STREAM_MARGIN * multiplied + exchanged, sizes.memory_cycles());
        Some(Self {
            streamed: streamed as u32,
            blocks,
            cycles: HOPPER_CYCLES + STREAM_CYCLES + cycles,
            ..whole
        })
    }

    /// Of a small tile, or of a tile whose steps the blocks of a cluster divide; `None` where the product is not for that.
    fn in_clusters(
        machine: &Machine,
        sizes: Sizes,
        tile: Tile,
        parts: usize,
        allows: Allows,
    ) -> Option<Self> {
        let few = sizes.m.min(sizes.n);
        let is_few = Tile::SMALL.contains(&tile) && allows.has_small(tile, few);
        // Narrow tiles are for any product; only the slim ones are not worth a try where neither rows nor columns are few.
        if tile == Tile::Slim && !is_few {
            return None;
        }
        let this = if is_few { sizes.with_few_columns() } else { sizes };
        let multiprocessors = machine.multiprocessors as usize;
        let (rows, passes) = (this.m.div_ceil(ROWS_OF_TILE), this.tiles(tile) * parts);
        let (places, steps) = (places(machine, tile, parts), sizes.steps());
        // Blocks of a cluster make one pass: a second round of them would begin with nothing on the way.
        if parts > 1 && (passes > places || parts > steps) {
            return None;
        }
        let rounds = passes.div_ceil(places) as f64;
        let steps = steps.div_ceil(parts) as f64;
        let pass = tile.shared_pass_cycles(parts);
        let multiplied = rounds * (steps * sizes.step_cycles(tile) + pass);
        let added = if parts > 1 { CLUSTER_CYCLES + PART_CYCLES * parts as f64 } else { 0.0 };
        let idle = 1.0 - passes as f64 / (rounds * places as f64);
        let has_two = is_few && passes > multiprocessors;
        let slower = if has_two { 1.0 + IDLE_PLACES * idle } else { 1.0 };
        Some(Self {
            kernel: Kernel::Hopper { tile, is_exchanged: is_few && sizes.m < sizes.n },
            splits: 1,
            group: if is_few { 1 } else { group(multiprocessors, tile).min(rows) as u32 },
            parts: parts as u32,
            streamed: 0,
            packs: false,
            blocks: passes.min(places),
            passes,
            cycles: HOPPER_CYCLES + beside(multiplied, slower * sizes.memory_cycles()) + added,
            is_measured: false,
        })
    }

    fn skinny(sizes: Sizes, splits: usize, allows: Allows) -> Self {
        let Sizes { m, n, k, batches, .. } = sizes;
        let is_exchanged = m > skinny::ROWS;
        let blocks = m.max(n).div_ceil(skinny::COLUMNS) * batches * splits;
        let slower = if allows.copy_engine { 1.0 } else { UNALIGNED };
        let of_block = 2 * (skinny::COLUMNS + m.min(n)) * k.div_ceil(splits);
        let moved = sizes.memory_cycles().max(of_block as f64 / BYTES_PER_BLOCK_CYCLE);
        let cycles = slower * moved + sizes.finish_cycles(splits);
        Self {
            kernel: Kernel::Skinny { is_exchanged },
            splits: splits as u32,
            group: 1,
            parts: 1,
            streamed: 0,
            packs: false,
            blocks,
            passes: blocks,
            cycles: LAUNCH_CYCLES + cycles,
            is_measured: false,
        }
    }

    /// The kernel of warps.
    pub(in crate::ops::matmul) fn warps(
        machine: &Machine,
        [m, n, k]: [usize; 3],
        batches: usize,
        allows: Allows,
    ) -> Self {
        let sizes = Sizes { m, n, k, batches, element_bytes: allows.element_bytes };
        let passes = m.div_ceil(warps::SIDE) * n.div_ceil(warps::SIDE) * batches;
        let rounds = passes.div_ceil(machine.multiprocessors as usize) as f64;
        let slower = if allows.copy_engine { 1.0 } else { UNALIGNED };
        let multiplied = rounds * sizes.steps() as f64 * WARPS_CYCLES * slower;
        Self {
            kernel: Kernel::Warps,
            splits: 1,
            group: 1,
            parts: 1,
            streamed: 0,
            packs: false,
            blocks: passes,
            passes,
            cycles: LAUNCH_CYCLES + multiplied.max(sizes.memory_cycles()),
            is_measured: false,
        }
    }
}

/// The time of two things that go on beside one another.
fn beside(one: f64, other: f64) -> f64 {
    one.max(other) + SHARE_BESIDE * one.min(other)
}

/// Blocks that the device runs at a time, in clusters of `parts`.
fn places(machine: &Machine, tile: Tile, parts: usize) -> usize {
    match parts {
        1 | 2 => blocks_of_grid(machine.multiprocessors, tile),
        _ => (f64::from(machine.multiprocessors) * PLACES_OF_CLUSTERS) as usize,
    }
}

/// Tiles, and among how many blocks of a cluster their steps are divided.
fn clusters() -> impl Iterator<Item = (Tile, usize)> {
    let of = |tile, parts: &'static [usize]| parts.iter().map(move |parts| (tile, *parts));
    Tile::SMALL
        .into_iter()
        .flat_map(move |tile| of(tile, &[1, 2, 4, 8]))
        .chain(of(Tile::Square, &[2, 4, 8]))
}

/// The numbers of splits that are worth a try: few in any case, and more where there are few tiles.
fn splits(
    machine: &Machine,
    tiles: usize,
    steps: usize,
    allows: Allows,
) -> impl Iterator<Item = usize> + use<> {
    let multiprocessors = machine.multiprocessors as usize;
    let useful = (PASSES_EACH * multiprocessors / tiles).clamp(FEW_SPLITS, multiprocessors.max(4));
    let most = if allows.splits { (steps / MIN_STEPS).clamp(1, useful) } else { 1 };
    1..=most
}

/// Rows of tiles in a group such that the tiles which all multiprocessors work on at a time are about as high as wide: then they
/// read the fewest different rows of A and columns of B.
pub(super) fn group(multiprocessors: usize, tile: Tile) -> usize {
    let side = (multiprocessors * tile.columns()) as f64 / ROWS_OF_TILE as f64;
    (side.sqrt().round() as usize).max(1)
}
