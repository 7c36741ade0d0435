//! A choice in words.

use std::fmt;

use kernels_gpu::matmul::hopper::ROWS_OF_TILE;
use kernels_gpu::matmul::{skinny, warps};

use super::{Choice, Kernel};

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
