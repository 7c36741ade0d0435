//! Launch configurations: how many blocks of how many threads.

/// Threads in a block of [`LaunchConfig::for_num_elems`].
const LINEAR_BLOCK: u32 = 256;
/// Threads in a block of [`LaunchConfig::for_grid`]: a warp wide, so that a row's accesses coalesce.
const PLANAR_BLOCK: (u32, u32) = (32, 8);

/// Threads in a block of [`LaunchConfig::for_volume`].
const SPATIAL_BLOCK: (u32, u32, u32) = (32, 4, 2);

/// A grid of up to three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid: (u32, u32, u32),
    /// Threads in a block along x, y and z.
    pub block: (u32, u32, u32),
    /// Dynamic shared memory of each block.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// At least `n` threads in one dimension, 256 to a block. `n = 0` gives an empty grid.
    ///
    /// Past 2^40 threads the grid is `u32::MAX` blocks, which stands for "that many or more": no device
    /// accepts it, so the launch fails instead of covering a part.
    ///
    /// [`Linear::block_size`] chooses another number of threads in a block:
    ///
    /// ```
    /// use cuda_std::launch::{LaunchConfig, Linear};
    ///
    /// assert_eq!(LaunchConfig::for_num_elems(1000).block_size(128), Linear::new(8, 128));
    /// ```
    pub fn for_num_elems(n: usize) -> Linear {
        Linear { elements: n, ..Linear::new(0, 0) }.block_size(LINEAR_BLOCK)
    }

    /// At least `width * height` threads in two dimensions, 32 × 8 to a block. A `width` or `height`
    /// of 0 gives an empty grid.
    pub fn for_grid(width: usize, height: usize) -> Planar {
        let grid = (blocks(width, PLANAR_BLOCK.0), blocks(height, PLANAR_BLOCK.1));
        Planar::new(grid, PLANAR_BLOCK)
    }

    /// At least `width * height * depth` threads in three dimensions, 32 × 4 × 2 to a block. An extent
    /// of 0 gives an empty grid.
    pub fn for_volume(width: usize, height: usize, depth: usize) -> Spatial {
        let (x, y, z) = SPATIAL_BLOCK;
        let grid = (blocks(width, x), blocks(height, y), blocks(depth, z));
        Spatial::new(grid, SPATIAL_BLOCK)
    }

    /// Whether the grid has no block.
    pub fn is_empty(&self) -> bool {
        self.grid.0 == 0 || self.grid.1 == 0 || self.grid.2 == 0
    }
}

/// Blocks of `block` threads that cover `elements`; `u32::MAX` if they are more than can be counted.
pub(super) const fn blocks(elements: usize, block: u32) -> u32 {
    let blocks = elements.div_ceil(block as usize);
    if blocks > u32::MAX as usize { u32::MAX } else { blocks as u32 }
}

/// A one-dimensional grid: what a kernel with a `ThreadIndex` runs on.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// Blocks.
    pub grid: u32,
    /// Threads in a block.
    pub block: u32,
    /// Dynamic shared memory of each block.
    pub shared_mem_bytes: u32,
    /// What [`block_size`](Self::block_size) covers.
    elements: usize,
}

/// Two grids are equal if they launch the same threads with the same memory.
impl PartialEq for Linear {
    fn eq(&self, other: &Self) -> bool {
        LaunchConfig::from(*self) == LaunchConfig::from(*other)
    }
}

impl Eq for Linear {}

impl Linear {
    /// `grid` blocks of `block` threads.
    pub const fn new(grid: u32, block: u32) -> Self {
        let elements = (grid as usize).saturating_mul(block as usize);
        Self { grid, block, shared_mem_bytes: 0, elements }
    }

    /// This grid in blocks of `threads` threads: as many as cover the elements of [`LaunchConfig::for_num_elems`], or
    /// else the threads that [`Linear::new`] was given.
    ///
    /// A device limits `threads`, to 1,024 so far, and a kernel's contract may limit it too: a launch beyond either is an
    /// error. With `threads = 0` the grid keeps its blocks, and the launch fails.
    pub const fn block_size(self, threads: u32) -> Self {
        let grid = if threads == 0 { self.grid } else { blocks(self.elements, threads) };
        Self { grid, block: threads, ..self }
    }

    /// This grid, with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

/// A two-dimensional grid: what a kernel with a `ThreadIndex2` runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planar {
    /// Blocks along x and y.
    pub grid: (u32, u32),
    /// Threads in a block along x and y.
    pub block: (u32, u32),
    /// Dynamic shared memory of each block.
    pub shared_mem_bytes: u32,
}

impl Planar {
    /// `grid` blocks of `block` threads, each along x and y.
    pub const fn new(grid: (u32, u32), block: (u32, u32)) -> Self {
        Self { grid, block, shared_mem_bytes: 0 }
    }

    /// This grid, with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

/// A three-dimensional grid: what a kernel with a `ThreadIndex3` runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spatial {
    /// Blocks along x, y and z.
    pub grid: (u32, u32, u32),
    /// Threads in a block along x, y and z.
    pub block: (u32, u32, u32),
    /// Dynamic shared memory of each block.
    pub shared_mem_bytes: u32,
}

impl Spatial {
    /// `grid` blocks of `block` threads, each along x, y and z.
    pub const fn new(grid: (u32, u32, u32), block: (u32, u32, u32)) -> Self {
        Self { grid, block, shared_mem_bytes: 0 }
    }

    /// This grid, with `bytes` of dynamic shared memory in each block.
    pub const fn shared_mem(self, bytes: u32) -> Self {
        Self { shared_mem_bytes: bytes, ..self }
    }
}

impl From<Spatial> for LaunchConfig {
    fn from(spatial: Spatial) -> Self {
        let Spatial { grid, block, shared_mem_bytes } = spatial;
        Self { grid, block, shared_mem_bytes }
    }
}

impl From<Linear> for LaunchConfig {
    fn from(linear: Linear) -> Self {
        let Linear { grid, block, shared_mem_bytes, .. } = linear;
        Self { grid: (grid, 1, 1), block: (block, 1, 1), shared_mem_bytes }
    }
}

impl From<Planar> for LaunchConfig {
    fn from(planar: Planar) -> Self {
        let Planar { grid, block, shared_mem_bytes } = planar;
        Self { grid: (grid.0, grid.1, 1), block: (block.0, block.1, 1), shared_mem_bytes }
    }
}

/// A configuration for a kernel that takes a `ThreadIndex`: [`Linear`] alone.
#[diagnostic::on_unimplemented(
    message = "this kernel takes a `ThreadIndex`, so its launch has one dimension",
    label = "expected `Linear`, found `{Self}`",
    note = "pass `LaunchConfig::for_num_elems(n)` or `Linear::new(blocks, threads_per_block)`",
    note = "in a grid with more dimensions two threads would share one `ThreadIndex`"
)]
pub trait OneDimensional: sealed::Sealed {
    /// The configuration.
    fn linear(self) -> Linear;
}

impl OneDimensional for Linear {
    fn linear(self) -> Linear {
        self
    }
}

/// A configuration for a kernel that takes a `ThreadIndex2`: [`Planar`] alone.
#[diagnostic::on_unimplemented(
    message = "this kernel takes a `ThreadIndex2`, so its launch has two dimensions",
    label = "expected `Planar`, found `{Self}`",
    note = "pass `LaunchConfig::for_grid(width, height)` or `Planar::new((blocks_x, blocks_y), (threads_x, threads_y))`"
)]
pub trait TwoDimensional: sealed::Sealed {
    /// The configuration.
    fn planar(self) -> Planar;
}

impl TwoDimensional for Planar {
    fn planar(self) -> Planar {
        self
    }
}

/// A configuration for a kernel that takes a `ThreadIndex3`: [`Spatial`] alone.
#[diagnostic::on_unimplemented(
    message = "this kernel takes a `ThreadIndex3`, so its launch has three dimensions",
    label = "expected `Spatial`, found `{Self}`",
    note = "pass `LaunchConfig::for_volume(width, height, depth)` or `Spatial::new((blocks_x, blocks_y, blocks_z), (threads_x, threads_y, threads_z))`"
)]
pub trait ThreeDimensional: sealed::Sealed {
    /// The configuration.
    fn spatial(self) -> Spatial;
}

impl ThreeDimensional for Spatial {
    fn spatial(self) -> Spatial {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Spatial {}
    impl Sealed for super::Linear {}
    impl Sealed for super::Planar {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_grid_covers_the_elements() {
        for (n, grid) in [(0, 0), (1, 1), (255, 1), (256, 1), (257, 2), (1 << 20, 1 << 12)] {
            assert_eq!(LaunchConfig::for_num_elems(n), Linear::new(grid, 256), "{n} elements");
        }
        assert_eq!(LaunchConfig::for_num_elems(usize::MAX).grid, u32::MAX);
    }

    #[test]
    fn blocks_of_another_size_cover_the_elements() {
        for (n, threads, grid) in
            [(1000, 128, 8), (1000, 1024, 1), (257, 64, 5), (0, 32, 0), (9, 1, 9)]
        {
            let config = LaunchConfig::for_num_elems(n).shared_mem(64).block_size(threads);
            assert_eq!(config, Linear::new(grid, threads).shared_mem(64), "{n} elements");
        }
        assert_eq!(Linear::new(3, 100).block_size(64), Linear::new(5, 64));
        // The second choice counts from the elements, not from the threads of the first one.
        assert_eq!(LaunchConfig::for_num_elems(65).block_size(1024).block_size(32).grid, 3);
        assert_eq!(LaunchConfig::for_num_elems(usize::MAX).block_size(1).grid, u32::MAX);
        assert_eq!(LaunchConfig::for_num_elems(1000).block_size(0), Linear::new(4, 0));
    }

    #[test]
    fn a_planar_grid_covers_the_elements() {
        assert_eq!(LaunchConfig::for_grid(33, 8), Planar::new((2, 1), (32, 8)));
        assert_eq!(LaunchConfig::for_grid(1, 9), Planar::new((1, 2), (32, 8)));
        assert!(LaunchConfig::from(LaunchConfig::for_grid(0, 9)).is_empty());
        assert!(LaunchConfig::from(LaunchConfig::for_grid(9, 0)).is_empty());
    }

    #[test]
    fn a_spatial_grid_covers_the_elements() {
        let expected = Spatial::new((2, 3, 1), (32, 4, 2));
        assert_eq!(LaunchConfig::for_volume(33, 9, 2), expected);
        let config = LaunchConfig::from(expected.shared_mem(8));
        assert_eq!((config.grid, config.block), ((2, 3, 1), (32, 4, 2)));
        assert_eq!(config.shared_mem_bytes, 8);
        assert!(LaunchConfig::from(LaunchConfig::for_volume(9, 9, 0)).is_empty());
    }

    #[test]
    fn other_dimensions_are_one() {
        let linear = LaunchConfig::from(Linear::new(7, 64).shared_mem(128));
        let expected = LaunchConfig { grid: (7, 1, 1), block: (64, 1, 1), shared_mem_bytes: 128 };
        assert_eq!(linear, expected);
        let planar = LaunchConfig::from(Planar::new((7, 5), (64, 2)).shared_mem(16));
        let expected = LaunchConfig { grid: (7, 5, 1), block: (64, 2, 1), shared_mem_bytes: 16 };
        assert_eq!(planar, expected);
        assert!(!planar.is_empty());
    }
}
