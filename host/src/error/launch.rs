//! Limits and bounds of launches, in errors.

use std::fmt;

/// A limit of a launch. `Display` names it with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchLimit {
    /// Threads in one block.
    BlockThreads,
    /// Threads in one block of this kernel, which its registers limit.
    KernelThreads,
    /// The block's extent in one dimension (0, 1, 2).
    BlockDim(u8),
    /// The grid's extent in one dimension (0, 1, 2).
    GridDim(u8),
    /// Static and dynamic shared memory of one block.
    SharedMemory,
    /// Blocks that run at the same time, of a cooperative kernel.
    CooperativeBlocks,
    /// Blocks of one cluster.
    ClusterBlocks,
}

impl fmt::Display for LaunchLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = |dim: u8| char::from(b'x' + dim);
        match *self {
            Self::BlockThreads => f.write_str("threads a block"),
            Self::KernelThreads => f.write_str("threads a block of this kernel"),
            Self::BlockDim(dim) => write!(f, "threads a block in {}", axis(dim)),
            Self::GridDim(dim) => write!(f, "blocks in {}", axis(dim)),
            Self::SharedMemory => f.write_str("bytes of shared memory a block"),
            Self::CooperativeBlocks => f.write_str("blocks that all run at the same time"),
            Self::ClusterBlocks => f.write_str("blocks a cluster"),
        }
    }
}

/// What a kernel requires of its launch. `Display` is for use in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchBound {
    /// Blocks of any shape.
    AnyBlock,
    /// Blocks of this many threads along x, y and z.
    Block(u32, u32, u32),
    /// Blocks of at most this many threads.
    Threads(u32),
    /// No clusters.
    NoCluster,
    /// Clusters of this many blocks along x, y and z.
    Cluster(u32, u32, u32),
    /// Grids and blocks of any number of dimensions.
    AnyDimensions,
    /// Grids and blocks of at most this many dimensions.
    Dimensions(u32),
    /// A dynamic shared array with elements of this many bytes.
    DynamicArray(usize),
    /// No dynamic shared array.
    NoDynamicArray,
    /// Launches from safe code.
    SafeLaunch,
    /// Launches in `unsafe` code, whose author keeps what the kernel's documentation demands.
    UnsafeLaunch,
}

impl fmt::Display for LaunchBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AnyBlock => f.write_str("blocks of any shape"),
            Self::Block(x, y, z) => write!(f, "blocks of {x} × {y} × {z} threads"),
            Self::Threads(n) => write!(f, "blocks of at most {n} threads"),
            Self::NoCluster => f.write_str("no clusters"),
            Self::Cluster(x, y, z) => write!(f, "clusters of {x} × {y} × {z} blocks"),
            Self::AnyDimensions => f.write_str("grids of any number of dimensions"),
            Self::Dimensions(1) => f.write_str("grids of one dimension"),
            Self::Dimensions(n) => write!(f, "grids of at most {n} dimensions"),
            Self::DynamicArray(1) => f.write_str("a dynamic shared array of bytes"),
            Self::DynamicArray(n) => write!(f, "a dynamic shared array with elements of {n} bytes"),
            Self::NoDynamicArray => f.write_str("no dynamic shared array"),
            Self::SafeLaunch => f.write_str("launches from safe code"),
            Self::UnsafeLaunch => f.write_str("launches in `unsafe` code"),
        }
    }
}
