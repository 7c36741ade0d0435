//! The tiles of the Hopper kernel, and what they cost.

use kernels_gpu::matmul::form;
use kernels_gpu::matmul::hopper::blocks_at_once;

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
    pub(super) const LARGE: [Self; 3] = [Self::Square, Self::Middle, Self::Wide];
    pub(super) const SMALL: [Self; 2] = [Self::Slim, Self::Narrow];

    pub(super) const fn form(self) -> usize {
        match self {
            Self::Wide => form::WIDE,
            Self::Middle => form::MIDDLE,
            Self::Square => form::SQUARE,
            Self::Narrow => form::NARROW,
            Self::Slim => form::SLIM,
        }
    }

    /// The most rows or columns of D for which the small tiles are: one or two tiles.
    pub(super) const fn most(self) -> usize {
        if matches!(self, Self::Narrow) { 2 * form::NARROW } else { self.columns() }
    }

    /// Columns of D.
    #[must_use]
    pub const fn columns(self) -> usize {
        self.form()
    }

    /// The tile with this many columns.
    pub(crate) fn of_columns(columns: usize) -> Option<Self> {
        let mut all = Self::SMALL.into_iter().chain(Self::LARGE);
        all.find(|tile| tile.columns() == columns)
    }

    /// Cycles of a step of 128 bytes along K: of the large tiles those of the tensor cores, two consumers' 64 rows at 4,096 operations a
    /// cycle (of 16-bit elements; the rate of others is as their bytes); of the small ones what the copies into shared memory take.
    pub(super) const fn step_cycles(self) -> f64 {
        match self {
            Self::Wide => 1025.0,
            Self::Middle => 785.0,
            Self::Square => 520.0,
            Self::Narrow => 385.0,
            Self::Slim => 330.0,
        }
    }

    /// [`step_cycles`](Self::step_cycles) of elements of 8 bits. Tiles of 128 columns are bound by shared memory there.
    pub(super) const fn promoted_step_cycles(self) -> f64 {
        match self {
            Self::Middle => 850.0,
            Self::Square => 680.0,
            _ => self.step_cycles(),
        }
    }

    /// Cycles of a pass of a block of a cluster of `blocks` beside its steps: each writes its share of the sums.
    pub(super) fn shared_pass_cycles(self, blocks: usize) -> f64 {
        let written = match self {
            Self::Narrow => 4000.0,
            Self::Slim => 2700.0,
            _ => 0.0,
        };
        self.pass_cycles() - written * (1.0 - 1.0 / blocks as f64)
    }

    /// Cycles of a pass beside its steps: the first copies, and the sums' way to memory.
    pub(super) const fn pass_cycles(self) -> f64 {
        match self {
            Self::Wide => 7800.0,
            Self::Middle => 5800.0,
            Self::Square => 6000.0,
            Self::Narrow => 4500.0,
            Self::Slim => 3100.0,
        }
    }
}

/// Blocks that a device with this many multiprocessors runs at a time.
pub(crate) const fn blocks_of_grid(multiprocessors: u32, tile: Tile) -> usize {
    multiprocessors as usize * blocks_at_once(tile.columns())
}
