//! Grids of kernels that fix their block: a number of blocks, and nothing else.

use super::LaunchConfig;
use super::config::blocks;
use crate::contract::Contract;

/// Blocks along x, for a kernel with a fixed block that takes a `ThreadIndex` or no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid1 {
    /// Blocks.
    pub blocks: u32,
    /// Dynamic shared memory of each block; 0 for what the kernel fixes.
    pub shared_mem_bytes: u32,
}

/// Blocks along x and y, for a kernel with a fixed block that takes a `ThreadIndex2` or no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid2 {
    /// Blocks along x and y.
    pub blocks: (u32, u32),
    /// Dynamic shared memory of each block; 0 for what the kernel fixes.
    pub shared_mem_bytes: u32,
}

/// Blocks along x, y and z, for a kernel with a fixed block that takes a `ThreadIndex3` or no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid3 {
    /// Blocks along x, y and z.
    pub blocks: (u32, u32, u32),
    /// Dynamic shared memory of each block; 0 for what the kernel fixes.
    pub shared_mem_bytes: u32,
}

impl Grid1 {
    /// That many blocks.
    pub const fn new(blocks: u32) -> Self {
        Self { blocks, shared_mem_bytes: 0 }
    }

    /// Enough blocks of `contract` for `n` threads. Prefer the `grid_for` beside the kernel.
    pub const fn covering(contract: &Contract, n: usize) -> Self {
        Self::new(blocks(n, block_of(contract).0))
    }

    /// The same grid with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

impl Grid2 {
    /// That many blocks along x and y.
    pub const fn new(x: u32, y: u32) -> Self {
        Self { blocks: (x, y), shared_mem_bytes: 0 }
    }

    /// Enough blocks of `contract` for `width * height` threads. Prefer the `grid_for` beside the
    /// kernel.
    pub const fn covering(contract: &Contract, width: usize, height: usize) -> Self {
        let (x, y, _) = block_of(contract);
        Self::new(blocks(width, x), blocks(height, y))
    }

    /// The same grid with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

impl Grid3 {
    /// That many blocks along x, y and z.
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { blocks: (x, y, z), shared_mem_bytes: 0 }
    }

    /// Enough blocks of `contract` for `width * height * depth` threads. Prefer the `grid_for` beside
    /// the kernel.
    pub const fn covering(contract: &Contract, width: usize, height: usize, depth: usize) -> Self {
        let (x, y, z) = block_of(contract);
        Self::new(blocks(width, x), blocks(height, y), blocks(depth, z))
    }

    /// The same grid with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

/// The fixed block; a kernel without one is covered by blocks of one thread.
const fn block_of(contract: &Contract) -> (u32, u32, u32) {
    match contract.block {
        Some(block) => block,
        None => (1, 1, 1),
    }
}

impl From<Grid1> for Grid3 {
    fn from(grid: Grid1) -> Self {
        Self { blocks: (grid.blocks, 1, 1), shared_mem_bytes: grid.shared_mem_bytes }
    }
}

impl From<Grid2> for Grid3 {
    fn from(grid: Grid2) -> Self {
        let (x, y) = grid.blocks;
        Self { blocks: (x, y, 1), shared_mem_bytes: grid.shared_mem_bytes }
    }
}

/// A grid of `D` dimensions, for a kernel that fixes its block and takes a thread index of `D`
/// dimensions.
#[diagnostic::on_unimplemented(
    message = "this kernel fixes its block, so it is launched with a number of blocks in {D} dimension(s)",
    label = "expected `Grid{D}`, found `{Self}`",
    note = "pass the kernel's `grid_for(…)`, or `Grid{D}::new(…)`"
)]
pub trait FixedBlock<const D: usize>: AnyGrid {}

impl FixedBlock<1> for Grid1 {}
impl FixedBlock<2> for Grid2 {}
impl FixedBlock<3> for Grid3 {}

/// A grid of one to three dimensions, for a kernel that fixes its block and takes no thread index.
#[diagnostic::on_unimplemented(
    message = "this kernel fixes its block, so it is launched with a number of blocks",
    label = "expected `Grid1`, `Grid2` or `Grid3`, found `{Self}`",
    note = "pass the kernel's `grid_for(…)`, or `Grid1::new(blocks)`"
)]
pub trait AnyGrid: sealed::Sealed + Into<Grid3> {
    /// The launch of a kernel with that contract.
    #[doc(hidden)]
    fn with_block_of(self, contract: &Contract) -> LaunchConfig {
        let Grid3 { blocks, shared_mem_bytes } = self.into();
        LaunchConfig { grid: blocks, block: block_of(contract), shared_mem_bytes }
    }
}

impl AnyGrid for Grid1 {}
impl AnyGrid for Grid2 {}
impl AnyGrid for Grid3 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Grid1 {}
    impl Sealed for super::Grid2 {}
    impl Sealed for super::Grid3 {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Contract = Contract::NONE.with_block([32, 8, 2]);

    #[test]
    fn a_grid_covers_its_elements() {
        for (n, blocks) in [(0, 0), (1, 1), (32, 1), (33, 2)] {
            assert_eq!(Grid1::covering(&FIXED, n), Grid1::new(blocks), "{n} elements");
        }
        assert_eq!(Grid2::covering(&FIXED, 33, 16), Grid2::new(2, 2));
        assert_eq!(Grid3::covering(&FIXED, 1, 9, 3), Grid3::new(1, 2, 2));
        assert_eq!(Grid1::covering(&FIXED, usize::MAX).blocks, u32::MAX);
    }

    #[test]
    fn the_block_is_the_contracts() {
        let config = Grid2::new(3, 5).shared_mem(64).with_block_of(&FIXED);
        let expected = LaunchConfig { grid: (3, 5, 1), block: (32, 8, 2), shared_mem_bytes: 64 };
        assert_eq!(config, expected);
        assert_eq!(Grid1::new(7).shared_mem(4).with_block_of(&FIXED).grid, (7, 1, 1));
        assert_eq!(Grid3::new(7, 6, 5).shared_mem(8).with_block_of(&FIXED).grid, (7, 6, 5));
    }
}
