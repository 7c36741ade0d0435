//! How a breach of a contract is worded.

use std::fmt;

/// Why a launch breaks its kernel's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContractError {
    /// The kernel fixes another block.
    Block {
        /// Threads of a block along x, y and z as the kernel fixes them.
        expected: (u32, u32, u32),
        /// Those of the launch.
        found: (u32, u32, u32),
    },
    /// The block has more threads than the kernel allows.
    Threads {
        /// Most threads of a block.
        most: u32,
        /// Those of the launch.
        found: u64,
    },
    /// The grid is not a whole number of clusters.
    Cluster {
        /// Blocks of a cluster along x, y and z.
        cluster: (u32, u32, u32),
        /// Blocks of the grid.
        grid: (u32, u32, u32),
    },
    /// Too little dynamic shared memory, in bytes.
    SharedTooLittle {
        /// What the kernel needs.
        least: u32,
        /// What the launch gives.
        found: u32,
    },
    /// Too much dynamic shared memory, in bytes.
    SharedTooMuch {
        /// What the kernel allows.
        most: u32,
        /// What the launch gives.
        found: u32,
    },
    /// The dynamic shared memory is not a whole number of elements.
    SharedNotWhole {
        /// Bytes of an element.
        unit: u32,
        /// What the launch gives, in bytes.
        found: u32,
    },
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Block { expected: (x, y, z), found } => {
                let (a, b, c) = found;
                write!(f, "its block is {x} × {y} × {z} threads, not {a} × {b} × {c}")
            }
            Self::Threads { most, found } => {
                write!(f, "its block has at most {most} threads, not {found}")
            }
            Self::Cluster { cluster: (x, y, z), grid: (a, b, c) } => write!(
                f,
                "its clusters are {x} × {y} × {z} blocks, \
                 and a grid of {a} × {b} × {c} is not a whole number of them"
            ),
            Self::SharedTooLittle { least, found } => {
                write!(f, "it needs {least} bytes of dynamic shared memory, and got {found}")
            }
            Self::SharedTooMuch { most, found } => {
                write!(f, "it takes at most {most} bytes of dynamic shared memory, not {found}")
            }
            Self::SharedNotWhole { unit, found } => write!(
                f,
                "its dynamic shared memory is a whole number of elements of {unit} bytes, \
                 and {found} bytes are not"
            ),
        }
    }
}

impl std::error::Error for ContractError {}
