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

mod candidates;
mod display;
#[cfg(test)]
mod tests;
mod tile;

use bytemuck::Pod;
use kernels_gpu::matmul::form;
use kernels_gpu::matmul::hopper::stream_bytes;

pub use tile::Tile;
pub(super) use tile::blocks_of_grid;

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

impl Choice {
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
