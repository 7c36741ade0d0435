//! Which kernel, and with which tiles: a cost model.
//!
//! The time of a product is that of the multiprocessor that has most to do, or that of its matrices on their way from memory, whichever is
//! longer. A pass over a tile costs its steps along K, each as long as the tensor cores or the copies into shared memory take, and what
//! happens once a tile: the pipeline fills, and the sums are written. Dividing K gives more passes of fewer steps. The blocks of a cluster
//! add their sums themselves; the sums of more splits than a cluster has blocks are written to memory, and a second kernel adds them. Where the last round would
//! leave many multiprocessors idle, the steps of its tiles, and of those of the previous round, are divided evenly among all blocks (stream-K), which
//! exchange their sums through memory.
//!
//! The constants are fitted to 170 measurements on an H200, those of stream-K and of small clusters to 700 later ones, in cycles of 1.75 GHz. Of the 40 row-major
//! shapes among the latter, the model takes the fastest choice, within 1%, for 36, and one that is at most 2.3% slower for the rest.

use std::fmt;

use bytemuck::Pod;
use kernels_gpu::matmul::hopper::{
    MOST_STREAM_BLOCKS, ROWS_OF_TILE, blocks_at_once, depth, stream_bytes, streams,
};
use kernels_gpu::matmul::{form, skinny, warps};

use super::tuning::Tuning;
use super::{Options, PARTIAL_ALIGN};
use crate::device::DeviceInfo;
use crate::error::GpuResult;

/// What the model knows of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub multiprocessors: u32,
    pub compute_capability: (u32, u32),
    /// What was measured on such a device, which counts more than the model.
    pub tuning: Option<&'static Tuning>,
}

impl Machine {
    /// An error if the environment names a file of measurements that is none.
    pub fn of(info: &DeviceInfo) -> GpuResult<Self> {
        Ok(Self { tuning: Tuning::of_device(&info.name)?, ..Self::untuned(info) })
    }

    /// As [`of`](Self::of), without what was measured.
    pub const fn untuned(info: &DeviceInfo) -> Self {
        let &DeviceInfo { multiprocessors, compute_capability, .. } = info;
        Self { multiprocessors, compute_capability, tuning: None }
    }

    /// As far as `options` allow it. What was measured on all of its multiprocessors does not hold for fewer.
    pub fn limited<D: Pod, E>(self, options: &Options<'_, D, E>) -> Self {
        match options.most_multiprocessors.max(1) {
            most if most < self.multiprocessors => {
                Self { multiprocessors: most, tuning: None, ..self }
            }
            _ => self,
        }
    }

    /// Whether the device has `wgmma`, which is an instruction of one architecture.
    pub(super) const fn has_warpgroups(&self) -> bool {
        matches!(self.compute_capability, (9, 0))
    }
}

/// What a product allows, beside its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allows {
    /// The kernels are there that are not the epilogue's: of partial sums, and of copies.
    pub splits: bool,
    /// A and B begin, and have rows (or columns), at multiples of 16 bytes: the copy engine addresses them.
    pub copy_engine: bool,
    /// Where D has fewer rows than columns, rows of A, or of its copy, are contiguous along K, else columns of B.
    pub few_along_k: bool,
    /// Elements of the copies of A and of B without which warpgroups do not multiply them.
    pub packed: [usize; 2],
    /// Bytes of an element of A and B.
    pub element_bytes: usize,
    /// Columns of the widest tile.
    pub widest: usize,
    /// The kernel for few rows is there.
    pub skinny: bool,
}

impl Allows {
    /// Everything, of elements of 16 bits.
    pub const ALL: Self = Self {
        splits: true,
        copy_engine: true,
        few_along_k: true,
        packed: [0; 2],
        element_bytes: 2,
        widest: form::WIDE,
        skinny: true,
    };

    /// Whether a product by warpgroups begins with copies.
    fn packs(&self) -> bool {
        self.packed != [0; 2]
    }

    /// Whether a small tile is for products with `few` rows or columns of D.
    fn has_small(&self, tile: Tile, few: usize) -> bool {
        few <= tile.most() && (tile != Tile::Slim || self.few_along_k)
    }

    /// Cycles of the copies.
    fn pack_cycles(&self) -> f64 {
        let copies = self.packed.iter().filter(|elements| **elements > 0);
        let of_one = |elements: &usize| {
            PACK_CYCLES + (2 * elements * self.element_bytes) as f64 / PACKED_BYTES_PER_CYCLE
        };
        copies.map(of_one).sum()
    }
}

/// The tile that a block of the Hopper kernel computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 128 × 256.
    Wide,
    /// 128 × 192.
    Middle,
    /// 128 × 128.
    Square,
    /// 128 × 64: of products with few columns, or with few rows, whose transpose the kernel computes; and of those that larger tiles would
    /// leave without work for many multiprocessors.
    Narrow,
    /// 128 × 16, likewise.
    Slim,
}

impl Tile {
    const LARGE: [Self; 3] = [Self::Square, Self::Middle, Self::Wide];
    const SMALL: [Self; 2] = [Self::Slim, Self::Narrow];

    const fn form(self) -> usize {
        match self {
            Self::Wide => form::WIDE,
            Self::Middle => form::MIDDLE,
            Self::Square => form::SQUARE,
            Self::Narrow => form::NARROW,
            Self::Slim => form::SLIM,
        }
    }

    /// The most rows or columns of D for which the small tiles are: one or two tiles.
    const fn most(self) -> usize {
        if matches!(self, Self::Narrow) { 2 * form::NARROW } else { self.columns() }
    }

    /// Columns of D.
    #[must_use]
    pub const fn columns(self) -> usize {
        self.form()
    }

    /// The tile with this many columns.
    pub(super) fn of_columns(columns: usize) -> Option<Self> {
        let mut all = Self::SMALL.into_iter().chain(Self::LARGE);
        all.find(|tile| tile.columns() == columns)
    }

    /// Cycles of a step of 128 bytes along K: of the large tiles those of the tensor cores, two consumers' 64 rows at 4,096 operations a
    /// cycle (of 16-bit elements; the rate of others is as their bytes); of the small ones what the copies into shared memory take.
    const fn step_cycles(self) -> f64 {
        match self {
            Self::Wide => 1025.0,
            Self::Middle => 785.0,
            Self::Square => 520.0,
            Self::Narrow => 385.0,
            Self::Slim => 330.0,
        }
    }

    /// [`step_cycles`](Self::step_cycles) of elements of 8 bits. Tiles of 128 columns are bound by shared memory there.
    const fn promoted_step_cycles(self) -> f64 {
        match self {
            Self::Middle => 850.0,
            Self::Square => 680.0,
            _ => self.step_cycles(),
        }
    }

    /// Cycles of a pass of a block of a cluster of `blocks` beside its steps: each writes its share of the sums.
    fn shared_pass_cycles(self, blocks: usize) -> f64 {
        let written = match self {
            Self::Narrow => 4000.0,
            Self::Slim => 2700.0,
            _ => 0.0,
        };
        self.pass_cycles() - written * (1.0 - 1.0 / blocks as f64)
    }

    /// Cycles of a pass beside its steps: the first copies, and the sums' way to memory.
    const fn pass_cycles(self) -> f64 {
        match self {
            Self::Wide => 7800.0,
            Self::Middle => 5800.0,
            Self::Square => 6000.0,
            Self::Narrow => 4500.0,
            Self::Slim => 3100.0,
        }
    }
}

/// The kernel that multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// None: K is 0, and D is the epilogue of `beta · C`.
    None,
    /// Tiles by the copy engine, multiplied by warpgroups.
    Hopper {
        /// The tile.
        tile: Tile,
        /// Whether the kernel computes `Dᵀ = Bᵀ·Aᵀ`: of small tiles, where rows of D are few.
        is_exchanged: bool,
    },
    /// At most 16 rows of D; or columns, where the kernel computes `Dᵀ = Bᵀ·Aᵀ`.
    Skinny {
        /// Whether it is columns that are few.
        is_exchanged: bool,
    },
    /// Tiles by `cp.async`, multiplied by warps: where there is no copy engine, or it cannot address A or B.
    Warps,
}

impl Kernel {
    pub(super) const fn form(self) -> usize {
        match self {
            Self::None => form::FINISH,
            Self::Hopper { tile, .. } => tile.form(),
            Self::Skinny { .. } => form::SKINNY,
            Self::Warps => form::WARPS,
        }
    }
}

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
/// Blocks of a grid are fewer than this.
pub(super) const BLOCKS_LIMIT: usize = 1 << 31;

/// What [`matmul_into`](super::matmul_into) launches. `Display` says it in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The kernel, and its tile.
    pub kernel: Kernel,
    /// Parts of K that blocks add on their own; 0 where K is 0 and nothing is multiplied.
    pub splits: u32,
    /// Rows of tiles that blocks take together, for the L2 cache.
    pub group: u32,
    /// Blocks of a cluster, which divide the steps of one tile and add their sums.
    pub parts: u32,
    /// How many tiles, the last ones, have their steps along K divided evenly among all blocks (stream-K).
    pub streamed: u32,
    /// Whether A, or B, or both are copied first, so that warpgroups multiply them.
    pub packs: bool,
    /// Blocks of the grid.
    pub blocks: usize,
    /// Passes over tiles, of all blocks together.
    pub passes: usize,
    /// What the model expects, in cycles of a multiprocessor.
    pub cycles: f64,
    /// Whether it is taken for a measurement's sake, and not the model's: see [`Tuning`].
    pub is_measured: bool,
}

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

impl Choice {
    /// The fastest one by the model, for `[m, n, k]` and D in row-major order.
    pub(super) fn new(
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
    pub(super) fn for_each(
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
    pub(super) const NONE: Self = Self {
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
    pub(super) fn warps(
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

    /// Whether the kernel computes the transpose of D.
    pub(super) const fn is_exchanged(&self) -> bool {
        matches!(
            self.kernel,
            Kernel::Skinny { is_exchanged: true } | Kernel::Hopper { is_exchanged: true, .. }
        )
    }

    /// The bytes of the partial sums of D, `m × n` as the kernel sees it: `[batches, splits, m, n]`, rows padded; or of the sums that blocks exchange.
    pub(super) const fn partial_bytes(&self, m: usize, n: usize, batches: usize) -> usize {
        if self.streamed > 0 {
            return stream_bytes(self.blocks, self.kernel.form());
        }
        if self.splits < 2 {
            return 0;
        }
        let (m, n) = if self.is_exchanged() { (n, m) } else { (m, n) };
        batches * self.splits as usize * m * n.next_multiple_of(PARTIAL_ALIGN) * size_of::<f32>()
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

/// Blocks that a device with this many multiprocessors runs at a time.
pub(super) const fn blocks_of_grid(multiprocessors: u32, tile: Tile) -> usize {
    multiprocessors as usize * blocks_at_once(tile.columns())
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
fn group(multiprocessors: usize, tile: Tile) -> usize {
    let side = (multiprocessors * tile.columns()) as f64 / ROWS_OF_TILE as f64;
    (side.sqrt().round() as usize).max(1)
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, splits, group, parts, packs, blocks, passes, cycles, .. } = *self;
        if packs {
            write!(f, "operands are copied first, for their order or their alignment, then the ")?;
        }
        match kernel {
            Kernel::None => {
                return write!(f, "no products: D is the epilogue of beta · C alone");
            }
            Kernel::Hopper { tile, is_exchanged } => {
                write!(
                    f,
                    "Hopper kernel (TMA, wgmma), tiles of {ROWS_OF_TILE} × {}{}, {passes} passes on {blocks} blocks in groups of {group} rows of tiles",
                    tile.columns(),
                    if is_exchanged { " of the transpose" } else { "" },
                )?;
                if parts > 1 {
                    write!(
                        f,
                        ", K in {parts} parts, each of a block of a cluster, which adds the sums in order"
                    )?;
                }
            }
            Kernel::Skinny { is_exchanged } => write!(
                f,
                "skinny kernel (mma, bound by memory), {} at most {}, {blocks} blocks of {} {}",
                if is_exchanged { "columns" } else { "rows" },
                skinny::ROWS,
                skinny::COLUMNS,
                if is_exchanged { "rows" } else { "columns" },
            )?,
            Kernel::Warps => write!(
                f,
                "warp kernel (mma, cp.async), which takes any device since sm_80 and any alignment, {blocks} blocks of {0} × {0}",
                warps::SIDE
            )?,
        }
        if splits > 1 {
            write!(f, ", K in {splits} parts whose sums a second kernel adds in order")?;
        }
        if self.streamed > 0 {
            write!(
                f,
                ", the steps of the last {} tiles divided evenly among the blocks (stream-K), which add their sums in order",
                self.streamed
            )?;
        }
        if self.is_measured {
            return write!(f, "; the fastest that was measured");
        }
        write!(f, "; about {:.0} thousand cycles by the cost model", cycles / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Machine =
        Machine { multiprocessors: 132, compute_capability: (9, 0), tuning: None };
    const A100: Machine =
        Machine { multiprocessors: 108, compute_capability: (8, 0), tuning: None };
    const WIDE: Kernel = Kernel::Hopper { tile: Tile::Wide, is_exchanged: false };
    const WHOLE: Allows = Allows { splits: false, ..Allows::ALL };

    fn choice(m: usize, n: usize, k: usize) -> Choice {
        Choice::new(&H200, [m, n, k], 1, Allows::ALL)
    }

    #[test]
    fn large_products_take_wide_tiles_and_whole_sums() {
        for n in [2048, 4096, 8192, 16384] {
            let found = choice(n, n, n);
            assert_eq!((found.kernel, found.splits), (WIDE, 1), "{n}");
        }
    }

    #[test]
    fn multiprocessors_are_left_to_others() {
        let limited = |most| H200.limited(&Options::<f32>::new().most_multiprocessors(most));
        let blocks = |most| Choice::new(&limited(most), [8192; 3], 1, Allows::ALL).blocks;
        assert_eq!([blocks(116), blocks(132), blocks(500), blocks(0)], [116, 132, 132, 1]);
        let least = Options::<f32>::new().most_multiprocessors(9).most_multiprocessors(20);
        assert_eq!(H200.limited(&least).multiprocessors, 9);
    }

    #[test]
    fn few_tiles_are_split_along_k() {
        // One tile: enough blocks for all of the memory's bandwidth.
        let long = choice(128, 128, 1 << 20);
        assert!((96..=132).contains(&long.splits) && long.passes <= 132, "{long}");
        assert_eq!((choice(128, 128, 128).splits, choice(128, 128, 128).parts), (1, 1));
        assert_eq!(Choice::new(&H200, [128, 128, 1 << 20], 1, WHOLE).splits, 1);
        // A few more blocks: those of a cluster add their sums themselves.
        let layer = choice(128, 8192, 8192);
        assert!(layer.splits == 1 && layer.parts == 2, "{layer}");
    }

    #[test]
    fn a_last_round_of_few_tiles_is_streamed() {
        // 16 × 11 tiles of 192 columns are a round and a third: each block has the steps of a tile and a third.
        let found = choice(2048, 2112, 7168);
        let middle = Kernel::Hopper { tile: Tile::Middle, is_exchanged: false };
        assert_eq!((found.kernel, found.streamed, found.splits, found.parts), (middle, 176, 1, 1));
        assert_eq!((found.blocks, found.passes), (132, 176));
        assert_eq!(found.partial_bytes(2048, 2112, 1), 132 * 128 * 192 * 4);
        // Rounds of whole tiles come first: of the 16 × 17 of these, two rounds less what the last 140 tiles are.
        let mut streamed = Vec::new();
        Choice::for_each(&H200, [2048, 4352, 7168], 1, Allows::ALL, |choice| {
            if choice.kernel == WIDE && choice.streamed > 0 {
                streamed.push((choice.streamed, choice.passes));
            }
        });
        assert_eq!(streamed, [(140, 272)]);
        // Elements of other sizes have no such kernels, and a full last round has no use for them.
        for (sizes, element_bytes) in [([2048, 2112, 7168], 4), ([1536, 2816, 4096], 2)] {
            let allows = Allows { element_bytes, ..Allows::ALL };
            Choice::for_each(&H200, sizes, 1, allows, |choice| {
                let is_full = choice.passes.is_multiple_of(132);
                assert!(choice.streamed == 0 || element_bytes == 2 && !is_full, "{choice}");
            });
        }
        let small = Machine { multiprocessors: 300, ..H200 };
        assert_eq!(Choice::new(&small, [2048, 2112, 7168], 1, Allows::ALL).streamed, 0);
    }

    #[test]
    fn small_tiles_are_streamed_where_some_multiprocessors_would_have_two() {
        // 224 tiles: of the slim ones 264 run at a time, of the narrow ones 132.
        for (m, tile, blocks) in
            [(1, Tile::Slim, 264), (16, Tile::Slim, 264), (64, Tile::Narrow, 132)]
        {
            for [m, n] in [[m, 28_672], [28_672, m]] {
                let found = choice(m, n, 8192);
                let kernel = Kernel::Hopper { tile, is_exchanged: m < n };
                assert_eq!((found.kernel, found.streamed, found.blocks), (kernel, 224, blocks));
                assert_eq!(found.partial_bytes(m, n, 1), blocks * 128 * tile.columns() * 4);
            }
        }
        // One tile at most for each multiprocessor, and parts of clusters for all of them.
        for [n, k] in [[14_336, 4096], [8192, 8192]] {
            assert_eq!(choice(16, n, k).streamed, 0);
        }
    }

    #[test]
    fn what_is_fast_already_is_not_streamed() {
        // Shapes that reach 0.97 of the peer or more on an H200 without.
        let layers = [[4096, 4096], [14_336, 4096], [4096, 14_336], [8192, 8192], [28_672, 8192]];
        let rows = |[n, k]: [usize; 2]| [512, 2048, 8192].map(|m| [m, n, k]);
        let squares = [1024, 2048, 4096, 8192, 16_384].map(|n| [n; 3]);
        for [m, n, k] in layers.into_iter().flat_map(rows).chain(squares) {
            let found = choice(m, n, k);
            assert_eq!(found.streamed, 0, "{m} {n} {k}: {found}");
        }
    }

    #[test]
    fn narrow_tiles_keep_more_multiprocessors_at_work() {
        // 132 tiles, 4 × 33, of which each multiprocessor has one; 128; 32 instead of 16, and 8, whose steps clusters divide.
        let narrow = Kernel::Hopper { tile: Tile::Narrow, is_exchanged: false };
        for ([m, n, k], parts) in
            [([512, 2112, 7168], 1), ([1024; 3], 1), ([512; 3], 2), ([256; 3], 4)]
        {
            let found = choice(m, n, k);
            assert_eq!((found.kernel, found.splits, found.parts), (narrow, 1, parts), "{found}");
        }
        assert_eq!(choice(512, 2112, 7168).blocks, 132);
        // A second round of them is longer than one of larger tiles.
        assert_ne!(choice(1024, 2112, 7168).kernel, narrow);
    }

    #[test]
    fn few_rows_or_columns_are_bound_by_memory() {
        for [n, k] in [[4096, 4096], [14_336, 4096], [8192, 28_672], [128_256, 4096], [2112, 7168]]
        {
            for (m, tile) in [(1, Tile::Slim), (16, Tile::Slim), (17, Tile::Narrow)] {
                let [rows, columns] = [choice(m, n, k), choice(n, m, k)];
                assert_eq!(rows.kernel, Kernel::Hopper { tile, is_exchanged: true }, "{rows}");
                assert_eq!(
                    columns.kernel,
                    Kernel::Hopper { tile, is_exchanged: false },
                    "{columns}"
                );
                assert_eq!((rows.parts, rows.cycles), (columns.parts, columns.cycles));
            }
            for m in [1, 8, 16] {
                let of = |m, n| Choice::new(&A100, [m, n, k], 1, Allows::ALL);
                let [rows, columns] = [of(m, n), of(n, m)];
                assert_eq!(rows.kernel, Kernel::Skinny { is_exchanged: false }, "{rows}");
                assert_eq!(columns.kernel, Kernel::Skinny { is_exchanged: true }, "{columns}");
                assert_eq!(rows.partial_bytes(m, n, 1), columns.partial_bytes(n, m, 1));
            }
        }
        let long = choice(16, 256, 1 << 16);
        assert!(long.splits * long.parts > 8, "{long}");
    }

    /// Of matrices whose rows the copy engine does not address.
    fn unaligned(machine: &Machine, [m, n, k]: [usize; 3]) -> Choice {
        let allows = Allows { copy_engine: false, packed: [m * k, k * n], ..Allows::ALL };
        Choice::new(machine, [m, n, k], 1, allows)
    }

    #[test]
    fn what_the_copy_engine_cannot_address_is_copied_where_that_pays() {
        for sizes in [[1000; 3], [4095, 4097, 4099], [130, 8000, 4000]] {
            let choice = unaligned(&H200, sizes);
            assert!(choice.packs && matches!(choice.kernel, Kernel::Hopper { .. }), "{choice}");
            assert_eq!(unaligned(&A100, sizes).kernel, Kernel::Warps);
        }
        assert_eq!(unaligned(&H200, [100, 100, 50]).kernel, Kernel::Warps);
        let own = Allows { copy_engine: false, packed: [1000 * 1000; 2], ..WHOLE };
        assert_eq!(Choice::new(&H200, [1000; 3], 1, own).kernel, Kernel::Warps);
        let few = unaligned(&A100, [16, 1000, 1000]);
        assert_eq!(few.kernel, Kernel::Skinny { is_exchanged: false }, "{few}");
        assert_eq!(Choice::new(&A100, [1000; 3], 1, Allows::ALL).kernel, Kernel::Warps);
    }

    #[test]
    fn elements_of_other_sizes_take_their_tiles() {
        // As fast as 16-bit elements by their bytes, but for D.
        let tf32 = Allows { element_bytes: 4, skinny: false, ..Allows::ALL };
        let cycles = |k, allows| Choice::new(&H200, [4096, 4096, k], 1, allows).cycles;
        let ratio = cycles(4096, tf32) / cycles(8192, Allows::ALL);
        assert!((1.0..1.02).contains(&ratio), "{ratio}");
        let fp8 = Allows { element_bytes: 1, widest: 192, skinny: false, ..Allows::ALL };
        let choice = Choice::new(&H200, [8192; 3], 1, fp8);
        let middle = Kernel::Hopper { tile: Tile::Middle, is_exchanged: false };
        assert_eq!(choice.kernel, middle, "{choice}");
        let few = Choice::new(&A100, [16, 4096, 4096], 1, tf32);
        assert_eq!(few.kernel, Kernel::Warps, "{few}");
    }

    #[test]
    fn the_model_is_near_what_was_measured() {
        // Microseconds on an H200, of 1750 cycles.
        let measured = [
            ([512; 3], 5.3),
            ([1024; 3], 9.2),
            ([2048; 3], 25.3),
            ([4096; 3], 181.0),
            ([8192; 3], 1394.0),
            ([16, 8192, 8192], 34.1),
            ([64, 4096, 14_336], 33.6),
            ([128, 14_336, 4096], 36.1),
            ([512, 4096, 14_336], 82.2),
            ([2048, 2112, 7168], 94.1),
            ([64, 28_672, 8192], 121.4),
        ];
        for ([m, n, k], time) in measured {
            let expected = choice(m, n, k).cycles / 1750.0;
            assert!((0.75..1.25).contains(&(expected / time)), "{m} {n} {k}: {expected} µs");
        }
    }

    #[test]
    fn more_work_never_takes_less_time() {
        let sizes = [1, 64, 128, 129, 500, 1024, 2048, 4096, 10000];
        for m in sizes {
            for k in sizes {
                let at = |n: usize| choice(m, n, k).cycles;
                assert!(sizes.windows(2).all(|n| at(n[0]) <= at(n[1])), "{m} {k}");
            }
        }
    }

    #[test]
    fn the_scratch_holds_the_parts() {
        let split = choice(128, 126, 1 << 20);
        assert_eq!(split.partial_bytes(128, 126, 1), split.splits as usize * 128 * 128 * 4);
        assert_eq!(choice(4096, 4096, 4096).partial_bytes(4096, 4096, 1), 0);
    }

    #[test]
    fn groups_are_about_square() {
        assert_eq!(
            (group(132, Tile::Wide), group(132, Tile::Square), group(1, Tile::Square)),
            (16, 11, 1)
        );
    }

    #[test]
    fn a_choice_explains_itself() {
        let text = choice(4096, 4096, 4096).to_string();
        assert!(text.contains("tiles of 128 × 256, 512 passes on 132 blocks"), "{text}");
        let text = choice(16, 4096, 4096).to_string();
        assert!(
            text.contains("tiles of 128 × 16 of the transpose, 64 passes on 64 blocks"),
            "{text}"
        );
        assert!(text.contains("K in 2 parts, each of a block of a cluster"), "{text}");
        let text = Choice::new(&A100, [4096, 16, 4096], 1, Allows::ALL).to_string();
        assert!(text.contains("columns at most 16, 128 blocks of 32 rows"), "{text}");
        assert!(choice(64, 64, 0).to_string().contains("no products"));
        let text = choice(2048, 2112, 7168).to_string();
        assert!(
            text.contains("the steps of the last 176 tiles divided evenly among the blocks"),
            "{text}"
        );
        let text = unaligned(&H200, [4095; 3]).to_string();
        assert!(text.starts_with("operands are copied first, for their order"), "{text}");
        let old = Choice::new(&A100, [1000; 3], 1, Allows::ALL).to_string();
        assert!(old.contains("warp kernel (mma, cp.async)"), "{old}");
    }
}
