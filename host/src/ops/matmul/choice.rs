//! Which kernel, and with which tiles: a cost model.
//!
//! The time of a product is that of the multiprocessor that has most to do. A pass over a tile costs its steps along K, each as
//! long as the tensor cores or the copies into shared memory take, and what happens once a tile: the pipeline fills, and the sums are
//! written. Splitting K gives more passes of fewer steps, and adds the time to write, read and add the partial sums.

use std::fmt;

use kernels_gpu::matmul::form;
use kernels_gpu::matmul::hopper::{DEPTH, ROWS_OF_TILE};

use super::{OPERATION, PARTIAL_ALIGN};
use crate::device::DeviceInfo;
use crate::error::{GpuError, GpuResult};

/// What the model knows of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    pub multiprocessors: u32,
    pub compute_capability: (u32, u32),
}

impl Machine {
    pub fn of(info: &DeviceInfo) -> Self {
        Self { multiprocessors: info.multiprocessors, compute_capability: info.compute_capability }
    }

    /// An error on devices for which there is no kernel.
    pub fn check(&self) -> GpuResult<()> {
        if self.compute_capability == (9, 0) {
            return Ok(());
        }
        let (major, minor) = self.compute_capability;
        let reason = format!(
            "the tensor-core kernels are for compute capability 9.0, and this device has {major}.{minor}"
        );
        Err(GpuError::InvalidArgument { operation: OPERATION, reason })
    }
}

/// The tile that a block computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 128 × 256.
    Wide,
    /// 128 × 128.
    Square,
}

impl Tile {
    const ALL: [Self; 2] = [Self::Wide, Self::Square];

    pub(super) const fn form(self) -> usize {
        match self {
            Self::Wide => form::WIDE,
            Self::Square => form::SQUARE,
        }
    }

    /// Columns of D.
    #[must_use]
    pub const fn columns(self) -> usize {
        self.form()
    }

    /// Cycles of a step of [`DEPTH`] along K: two consumers' 64 rows at 4,096 operations a cycle for the wide tile; the square one also
    /// waits for its copies, which are two thirds of the wide one's bytes for half of its products.
    const fn step_cycles(self) -> f64 {
        match self {
            Self::Wide => 1024.0,
            Self::Square => 600.0,
        }
    }

    /// Cycles of a pass beside its steps: the first copies, and the sums' way to memory.
    const fn pass_cycles(self) -> f64 {
        match self {
            Self::Wide => 3000.0,
            Self::Square => 2000.0,
        }
    }
}

/// Cycles to start the kernel that adds partial sums, after the one before.
const FINISH_CYCLES: f64 = 6000.0;
/// Bytes that all multiprocessors together move in a cycle, to and from memory.
const BYTES_PER_CYCLE: f64 = 2000.0;
/// The most parts of K.
const MAX_SPLITS: u32 = 32;
/// Steps that a part has at least: shorter ones only fill the pipeline.
const MIN_STEPS: u32 = 8;

/// What [`matmul_into`](super::matmul_into) launches. `Display` says it in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The tile.
    pub tile: Tile,
    /// Parts of K that blocks add on their own; 0 where K is 0 and nothing is multiplied.
    pub splits: u32,
    /// Rows of tiles that blocks take together, for the L2 cache.
    pub group: u32,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Passes over tiles, of all blocks together.
    pub passes: usize,
    /// What the model expects, in cycles of a multiprocessor.
    pub cycles: f64,
}

impl Choice {
    /// For `[m, n, k]` and D in row-major order. Without `can_split`, K stays whole.
    pub(super) fn new(
        machine: &Machine,
        sizes: [usize; 3],
        batches: usize,
        can_split: bool,
    ) -> Self {
        let [m, n, k] = sizes;
        let steps = k.div_ceil(DEPTH) as u32;
        if steps == 0 || m == 0 || n == 0 || batches == 0 {
            return Self {
                tile: Tile::Square,
                splits: 0,
                group: 1,
                blocks: 0,
                passes: 0,
                cycles: FINISH_CYCLES,
            };
        }
        let most = if can_split { (steps / MIN_STEPS).clamp(1, MAX_SPLITS) } else { 1 };
        Tile::ALL
            .into_iter()
            .flat_map(|tile| (1..=most).map(move |splits| (tile, splits)))
            .map(|(tile, splits)| Self::of(machine, sizes, batches, tile, splits))
            .min_by(|x, y| x.cycles.total_cmp(&y.cycles))
            .expect("there are tiles")
    }

    fn of(
        machine: &Machine,
        [m, n, k]: [usize; 3],
        batches: usize,
        tile: Tile,
        splits: u32,
    ) -> Self {
        let (rows, columns) = (m.div_ceil(ROWS_OF_TILE), n.div_ceil(tile.columns()));
        let passes = rows * columns * batches * splits as usize;
        let multiprocessors = machine.multiprocessors as usize;
        let steps = k.div_ceil(DEPTH).div_ceil(splits as usize) as f64;
        let rounds = passes.div_ceil(multiprocessors) as f64;
        let mut cycles = rounds * (steps * tile.step_cycles() + tile.pass_cycles());
        if splits > 1 {
            let moved = 2 * m * n * batches * splits as usize * size_of::<f32>();
            cycles += FINISH_CYCLES + moved as f64 / BYTES_PER_CYCLE;
        }
        Self {
            tile,
            splits,
            group: group(multiprocessors, tile).min(rows) as u32,
            blocks: passes.min(multiprocessors) as u32,
            passes,
            cycles,
        }
    }

    /// The bytes of the partial sums: `[batches, splits, m, n]`, rows padded.
    pub(super) const fn partial_bytes(&self, m: usize, n: usize, batches: usize) -> usize {
        if self.splits < 2 {
            return 0;
        }
        batches * self.splits as usize * m * n.next_multiple_of(PARTIAL_ALIGN) * size_of::<f32>()
    }
}

/// Rows of tiles in a group such that the tiles which all multiprocessors work on at a time are about as high as wide: then they
/// read the fewest different rows of A and columns of B.
fn group(multiprocessors: usize, tile: Tile) -> usize {
    let side = (multiprocessors * tile.columns()) as f64 / ROWS_OF_TILE as f64;
    (side.sqrt().round() as usize).max(1)
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tile, splits, group, blocks, passes, cycles } = *self;
        if splits == 0 {
            return write!(f, "no products: D is the epilogue of beta · C alone");
        }
        write!(
            f,
            "Hopper kernel (TMA, wgmma), tiles of {ROWS_OF_TILE} × {}, {passes} passes on {blocks} blocks in groups of {group} rows of tiles",
            tile.columns()
        )?;
        if splits > 1 {
            write!(f, ", K in {splits} parts whose sums a second kernel adds in order")?;
        }
        write!(f, "; about {:.0} thousand cycles by the cost model", cycles / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };

    fn choice(m: usize, n: usize, k: usize) -> Choice {
        Choice::new(&H200, [m, n, k], 1, true)
    }

    #[test]
    fn large_products_take_wide_tiles_and_whole_sums() {
        for n in [2048, 4096, 8192, 16384] {
            assert_eq!((choice(n, n, n).tile, choice(n, n, n).splits), (Tile::Wide, 1), "{n}");
        }
    }

    #[test]
    fn few_tiles_are_split_along_k() {
        let long = choice(128, 128, 1 << 20);
        assert!(long.splits > 16 && long.passes <= 132, "{long}");
        assert_eq!(choice(128, 128, 256).splits, 1);
        assert_eq!(Choice::new(&H200, [128, 128, 1 << 20], 1, false).splits, 1);
        assert!(choice(1024, 1024, 16384).splits > 1);
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
        assert!(choice(64, 64, 0).to_string().contains("no products"));
        let old = Machine { compute_capability: (8, 0), ..H200 };
        assert!(old.check().unwrap_err().to_string().contains("this device has 8.0"));
    }
}
