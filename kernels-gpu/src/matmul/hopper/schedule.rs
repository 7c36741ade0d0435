//! Which tile a block computes, and which of the tile's steps along K.
//!
//! Blocks take whole tiles round robin. Where that leaves most of them idle in the last round, the steps along K of the last tiles are divided
//! evenly among all blocks instead ("stream-K": M. Osama, D. Merrill, C. Cecka, M. Garland, J. Owens, PPoPP 2023): [`StreamK`].

#![cfg_attr(not(target_os = "cuda"), allow(unused_imports))]

use super::super::Problem;
use super::stream_k::Parts;
use super::tile::ROWS_OF_TILE;
use crate::divisor::Divisor;
use bytemuck::{Pod, Zeroable};
use cuda_std::{cluster, gpu_only, thread};

/// The tiles of a launch, and how the matrices lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Schedule {
    /// Tiles along the rows of D.
    pub tile_rows: u32,
    /// Tiles along the columns of D.
    pub tile_columns: u32,
    /// Steps along K: stages of [`SPAN`](super::SPAN) bytes.
    pub steps: u32,
    /// Rows of tiles in a group: tiles are taken group by group, down the columns of each.
    pub group: u32,
    /// Not 0: the blocks of a cluster divide the steps of one tile, and add their sums.
    pub adds: u32,
    /// Not 0: columns of A are contiguous, not rows.
    pub a_across: u32,
    /// Not 0: rows of B are contiguous, not columns.
    pub b_across: u32,
    /// Not 0: the copy engine stores D.
    pub d_mapped: u32,
    /// 1, or 0 if all matrices of a batch have the same A.
    pub a_batches: u32,
    /// 1, or 0 if all matrices of a batch have the same B.
    pub b_batches: u32,
    /// How many of the last tiles are streamed: their steps, one tile after the other, are divided among the blocks in their order. The other tiles are
    /// a multiple of the blocks of the grid.
    pub streamed: u32,
    /// The steps of streamed tiles that a block has, and how many of the first blocks have one more.
    pub share: u32,
    #[allow(missing_docs)]
    pub longer_shares: u32,
    /// What [`on_grid`](Self::on_grid) computes from the rest.
    pub divisors: Divisors,
}

/// The numbers by which passes are divided to find their tiles, and what a split of K has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Divisors {
    /// The tiles of a matrix, and of a group of rows of tiles.
    tiles: Divisor,
    tiles_of_group: Divisor,
    /// The rows of tiles of a group, and of the last one.
    height: Divisor,
    last_height: Divisor,
    splits: Divisor,
    steps: Divisor,
    blocks: Divisor,
    /// The steps of a split, and how many of the first splits have one more.
    split_steps: u32,
    longer_splits: u32,
}

/// What a block computes in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The matrix of the batch.
    pub batch: u32,
    /// The matrix of D: that of the batch, or one for each split of K.
    pub output: u32,
    /// The tile's first row of D, and the one after the last that belongs to it: D may end before the tile does.
    pub rows: (u32, u32),
    /// The tile's column of tiles.
    pub column: u32,
    /// The first step along K, and the one after the last, in stages.
    pub steps: (u32, u32),
}

/// The passes of all blocks of a launch: block `i` of `n` takes `i`, `i + n`, `i + 2n` and so on.
pub(super) trait Passes: Copy {
    /// How many there are.
    fn count(self) -> u32;

    /// Pass `index`. Past the end it is arbitrary, and computing it accesses nothing out of bounds.
    fn work(self, index: u32) -> Work;

    /// Where blocks store the sums of tiles that they do not finish, if there are passes over only some of a tile's steps.
    #[inline(always)]
    fn parts(self) -> Option<Parts> {
        None
    }
}

impl Passes for (&Schedule, &Problem) {
    #[inline(always)]
    fn count(self) -> u32 {
        self.0.len(self.1)
    }

    #[inline(always)]
    fn work(self, index: u32) -> Work {
        self.0.work(self.1, index)
    }
}

/// The passes of a block over whole tiles, and then over its share of the steps of the [streamed](Schedule::streamed) tiles.
///
/// A block takes the tiles of its share from the last one to the first: it first stores the sums of the beginning of a tile that another block
/// finishes, and then finishes a tile itself, for which it needs the sums of blocks with lower numbers. So no block waits for one with a higher
/// number, and blocks need not run all at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamK<'a> {
    pub schedule: &'a Schedule,
    pub problem: &'a Problem,
    /// Where blocks store the sums of tiles that they do not finish.
    pub parts: Parts,
}

impl StreamK<'_> {
    /// Passes over whole tiles, of all blocks.
    #[inline(always)]
    const fn whole(&self) -> u32 {
        self.schedule.len(self.problem) - self.schedule.streamed
    }

    /// One more than the last pass of block `block` of `blocks`.
    #[inline(always)]
    const fn end(&self, block: u32, blocks: u32) -> u32 {
        let (first, end) = self.schedule.share_of(block);
        let steps = self.schedule.divisors.steps;
        let (first_tile, _) = steps.divide(first);
        let (last_tile, _) = steps.divide(end.saturating_sub(1));
        let tiles = if first < end { last_tile - first_tile + 1 } else { 0 };
        self.whole() + tiles * blocks
    }

    /// Pass `index` of block `block`.
    #[inline(always)]
    const fn pass(&self, index: u32, block: u32) -> Work {
        let (mut tile, mut steps) = (index, (0, 0));
        let is_streamed = self.schedule.streamed != 0 && index >= self.whole();
        if is_streamed {
            let (first, end) = self.schedule.share_of(block);
            let Divisors { steps: of_tile, blocks, .. } = self.schedule.divisors;
            let (last_tile, _) = of_tile.divide(end.saturating_sub(1));
            let (after, _) = blocks.divide(index - self.whole());
            tile = last_tile.saturating_sub(after);
            let begin = tile * self.schedule.steps;
            steps = (first.saturating_sub(begin), end.saturating_sub(begin));
            tile += self.whole();
        }
        let work = self.schedule.work(self.problem, tile);
        if !is_streamed {
            return work;
        }
        let end = if steps.1 < work.steps.1 { steps.1 } else { work.steps.1 };
        Work { steps: (steps.0, end), ..work }
    }
}

impl Passes for StreamK<'_> {
    #[inline(always)]
    fn count(self) -> u32 {
        if self.schedule.streamed == 0 {
            return self.schedule.len(self.problem);
        }
        self.end(thread::block_idx_x(), thread::grid_dim_x())
    }

    #[inline(always)]
    fn work(self, index: u32) -> Work {
        self.pass(index, thread::block_idx_x())
    }

    #[inline(always)]
    fn parts(self) -> Option<Parts> {
        if self.schedule.streamed == 0 { None } else { Some(self.parts) }
    }
}

impl Schedule {
    /// This schedule of a product on a grid of `blocks`, with its last `streamed` tiles streamed: the last step of making one.
    #[must_use]
    pub const fn on_grid(self, problem: &Problem, streamed: u32, blocks: u32) -> Self {
        let Self { tile_rows, tile_columns, steps, group, .. } = self;
        let (share, longer_shares) = divide(streamed * steps, blocks);
        let (split_steps, longer_splits) = divide(steps, problem.splits);
        let (_, last_height) = divide(tile_rows, group);
        let divisors = Divisors {
            tiles: Divisor::new(tile_rows * tile_columns),
            tiles_of_group: Divisor::new(group * tile_columns),
            height: Divisor::new(group),
            last_height: Divisor::new(last_height),
            splits: Divisor::new(problem.splits),
            steps: Divisor::new(steps),
            blocks: Divisor::new(blocks),
            split_steps,
            longer_splits,
        };
        Self { streamed, share, longer_shares, divisors, ..self }
    }

    /// The first step of the share of `block`, and the one after the last, counted over all streamed tiles.
    #[inline(always)]
    const fn share_of(&self, block: u32) -> (u32, u32) {
        let longer = self.longer_shares;
        let (more, is_longer) = if block < longer { (block, 1) } else { (longer, 0) };
        let begin = block * self.share + more;
        (begin, begin + self.share + is_longer)
    }

    /// How many blocks have steps of a tile before those of `block`, which begin at `first` in the tile. They are the blocks with the next lower
    /// numbers.
    #[inline(always)]
    pub(super) const fn blocks_before(&self, block: u32, first: u32) -> u32 {
        if first == 0 {
            return 0;
        }
        let (begin, _) = self.share_of(block);
        block - self.block_of(begin - first)
    }

    /// The block whose share has this step, counted over all streamed tiles.
    #[inline(always)]
    const fn block_of(&self, step: u32) -> u32 {
        let in_longer = self.longer_shares * (self.share + 1);
        if step < in_longer {
            divide(step, self.share + 1).0
        } else {
            self.longer_shares + divide(step - in_longer, self.share).0
        }
    }

    /// The row and the column of a tile of a matrix: groups of rows of tiles, down the columns of a group, so that neighbours share rows and columns of tiles.
    /// (`cuda_std::matrix::TileGrid` is this order for kernels that divide by themselves.)
    #[inline(always)]
    const fn place(&self, tile: u32) -> (u32, u32) {
        let (group, inside) = self.divisors.tiles_of_group.divide(tile);
        let first = group * self.group;
        let is_last = self.tile_rows.wrapping_sub(first) < self.group;
        let height = if is_last { self.divisors.last_height } else { self.divisors.height };
        let (column, row) = height.divide(inside);
        (first + row, column)
    }

    /// The row and the column of tile `index` of any number of rows of tiles, each of which is a group.
    #[inline(always)]
    pub(super) const fn row_of_tiles(&self, index: u32) -> (u32, u32) {
        self.divisors.tiles_of_group.divide(index)
    }

    /// The first step of a split of K.
    #[inline(always)]
    const fn first_step(&self, split: u32) -> u32 {
        let Divisors { split_steps, longer_splits, .. } = self.divisors;
        split * split_steps + if split < longer_splits { split } else { longer_splits }
    }

    /// All passes: the tiles of all matrices, for each split of K.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self, problem: &Problem) -> u32 {
        self.tile_rows * self.tile_columns * problem.batches * problem.splits
    }

    /// The first pass of this block; if it `adds`, this block's steps of the only pass of its cluster.
    #[gpu_only]
    #[inline(always)]
    pub(super) fn first(&self, problem: &Problem, adds: bool) -> Work {
        if adds {
            self.work(problem, cluster::idx_x()).part_of(cluster::rank(), cluster::size())
        } else {
            self.work(problem, thread::block_idx_x())
        }
    }

    /// Pass `index` of them.
    #[inline(always)]
    #[must_use]
    pub const fn work(&self, problem: &Problem, index: u32) -> Work {
        let (output, tile) = self.divisors.tiles.divide(index);
        let (batch, split) = self.divisors.splits.divide(output);
        let (row, column) = self.place(tile);
        Work {
            batch,
            output,
            rows: (row * ROWS_OF_TILE as u32, problem.m),
            column,
            steps: (self.first_step(split), self.first_step(split + 1)),
        }
    }
}

impl Work {
    /// The steps of block `own` of the `parts` blocks in a cluster that adds its blocks' sums.
    #[inline(always)]
    #[must_use]
    pub const fn part_of(self, own: u32, parts: u32) -> Self {
        let (first, end) = self.steps;
        let all = end - first;
        Self { steps: (first + part(all, own, parts), first + part(all, own + 1, parts)), ..self }
    }
}

/// Quotient and remainder, 0 for a divisor of 0: a kernel that cannot panic has no calls, across which `wgmma` would not
/// be asynchronous.
#[inline(always)]
pub(in super::super) const fn divide(a: u32, b: u32) -> (u32, u32) {
    match (a.checked_div(b), a.checked_rem(b)) {
        (Some(quotient), Some(remainder)) => (quotient, remainder),
        _ => (0, 0),
    }
}

/// Where range `index` begins, if `all` is divided into `parts` ranges: the first ones are one longer, where they are not all equal.
#[inline(always)]
pub(in super::super) const fn part(all: u32, index: u32, parts: u32) -> u32 {
    let (each, more) = divide(all, parts);
    index * each + if index < more { index } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::hopper::ROWS_OF_TILE;

    /// A generator of numbers below a limit: a linear congruential one, of which the upper half is taken.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 32) % u64::from(limit)) as u32
        }
    }

    /// The passes of each block, in its order.
    fn passes(schedule: &Schedule, problem: &Problem, blocks: u32) -> Vec<Vec<Work>> {
        let nowhere = Parts { flags: core::ptr::null_mut(), sums: core::ptr::null_mut() };
        let all = StreamK { schedule, problem, parts: nowhere };
        let of_block = |block| {
            let indices = (block..all.end(block, blocks)).step_by(blocks as usize);
            indices.map(|index| all.pass(index, block)).collect()
        };
        (0..blocks).map(of_block).collect()
    }

    /// Every step of every tile is in one pass, whole tiles come first, and a block that finishes a tile finds exactly the blocks that have the
    /// preceding steps, each of which stores its sums before it waits.
    fn check(schedule: &Schedule, problem: &Problem, blocks: u32) {
        let what = format!("{schedule:?} on {blocks} blocks");
        let all = passes(schedule, problem, blocks);
        let tiles = schedule.len(problem);
        let tile_of = |work: &Work| {
            let row = work.rows.0 / ROWS_OF_TILE as u32;
            (work.output, row, work.column)
        };
        let mut taken = std::collections::HashMap::new();
        for (block, works) in all.iter().enumerate() {
            let whole = (tiles - schedule.streamed) / blocks;
            let is_whole = |work: &Work| work.steps == (0, schedule.steps);
            assert!(works.iter().take(whole as usize).all(is_whole), "{what}");
            for work in works {
                assert!(work.steps.0 < work.steps.1 && work.steps.1 <= schedule.steps, "{what}");
                taken.entry(tile_of(work)).or_insert_with(Vec::new).push((work.steps, block));
            }
            // A block leaves at most one tile unfinished, and stores its sums before it finishes one with other blocks' sums.
            let unfinished = |work: &&Work| work.steps.1 < schedule.steps;
            assert!(works.iter().filter(unfinished).count() <= 1, "{what}");
            let waits = works.iter().position(|work| work.steps.0 > 0 && !unfinished(&work));
            let stores = works.iter().position(|work| unfinished(&work));
            assert!(stores.is_none_or(|at| waits.is_none_or(|wait| at < wait)), "{what}");
        }
        assert_eq!(taken.len(), tiles as usize, "{what}");
        for parts in taken.values_mut() {
            parts.sort_unstable();
            assert_eq!((parts[0].0.0, parts.last().unwrap().0.1), (0, schedule.steps), "{what}");
            assert!(parts.windows(2).all(|two| two[0].0.1 == two[1].0.0), "{what}");
            let ((first, _), last) = *parts.last().unwrap();
            let before = schedule.blocks_before(last as u32, first) as usize;
            let givers: Vec<_> = parts.iter().map(|part| part.1).filter(|b| *b != last).collect();
            assert_eq!((last - before..last).collect::<Vec<_>>(), givers, "{what}");
        }
    }

    #[test]
    fn blocks_take_every_step_of_every_tile_once() {
        let mut numbers = Numbers(25);
        for _ in 0..2000 {
            let blocks = 1 + numbers.below(20);
            let (rows, columns) = (1 + numbers.below(6), 1 + numbers.below(9));
            let (steps, batches) = (1 + numbers.below(12), 1 + numbers.below(3));
            let tiles = rows * columns * batches;
            let schedule = Schedule {
                tile_rows: rows,
                tile_columns: columns,
                steps,
                group: 1 + numbers.below(rows),
                ..Schedule::default()
            };
            let problem = Problem { m: rows * 128, batches, splits: 1, ..Problem::default() };
            // Nothing but whole rounds, the last one too, all, and nothing at all.
            let last = tiles % blocks;
            let streamed = [last, (last + blocks).min(tiles), tiles, 0][numbers.below(4) as usize];
            let streamed = if (tiles - streamed).is_multiple_of(blocks) { streamed } else { tiles };
            check(&schedule.on_grid(&problem, streamed, blocks), &problem, blocks);
        }
    }

    #[test]
    fn blocks_without_a_step_have_no_pass() {
        let schedule =
            Schedule { tile_rows: 1, tile_columns: 2, steps: 3, group: 1, ..Schedule::default() };
        let problem = Problem { m: 128, batches: 1, splits: 1, ..Problem::default() };
        let schedule = schedule.on_grid(&problem, 2, 9);
        let all = passes(&schedule, &problem, 9);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 0, 0, 0]);
        check(&schedule, &problem, 9);
        // The pass that the producer has in any case is one of no step.
        let nowhere = Parts { flags: core::ptr::null_mut(), sums: core::ptr::null_mut() };
        let stream = StreamK { schedule: &schedule, problem: &problem, parts: nowhere };
        let Work { steps, .. } = stream.pass(8, 8);
        assert_eq!(steps.0, steps.1);
    }
}
