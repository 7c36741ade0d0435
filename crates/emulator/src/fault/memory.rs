//! Memory, and accesses to it, as faults name them.

use super::SourceLocation;
use std::fmt;

/// What an instruction did to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Access {
    /// Read.
    Load,
    /// Written.
    Store,
    /// Read and written in one step.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Atomic => "atomic operation",
        })
    }
}

/// A state space of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Space {
    /// Any of the others, told apart by the address.
    Generic,
    /// Device memory.
    Global,
    /// A block's own memory.
    Shared,
    /// A thread's own memory.
    Local,
    /// Constants.
    Const,
    /// Parameters.
    Param,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generic => "generic",
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Const => "constant",
            Self::Param => "parameter",
        })
    }
}

/// What a piece of memory is, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// A live allocation of device memory.
    Allocation,
    /// One that has been freed.
    Freed,
    /// A live allocation of another device, which is not open to this one.
    Peer,
    /// Host memory that the device may touch.
    Host,
    /// What a kernel allocated.
    Heap,
    /// What a kernel allocated and one freed.
    FreedHeap,
    /// The shared memory of a block.
    Shared,
    /// The local memory of a thread.
    Local,
    /// The constant bank of a module.
    Const,
    /// The parameters of a kernel or function.
    Param,
}

impl RegionKind {
    /// What it is once it has been freed.
    pub fn freed(self) -> Self {
        match self {
            Self::Heap | Self::FreedHeap => Self::FreedHeap,
            _ => Self::Freed,
        }
    }
}

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allocation => "allocation",
            Self::Freed => "freed allocation",
            Self::Peer => "allocation of another device",
            Self::Host => "host range",
            Self::Heap => "device-heap allocation",
            Self::FreedHeap => "freed device-heap allocation",
            Self::Shared => "shared memory of the block",
            Self::Local => "local memory of the thread",
            Self::Const => "constant memory of the module",
            Self::Param => "parameter memory",
        })
    }
}

/// The region next to a wrong address, and how the two lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// First byte of the region.
    pub base: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: RegionKind,
    /// The wrong address.
    pub address: u64,
}

impl Nearest {
    /// The same, of something that has a name.
    pub(super) fn beside(&self, what: &str) -> String {
        let end = self.base.saturating_add(self.bytes);
        let relation = if self.address < self.base {
            format!("{} before the start of", Bytes(self.base - self.address))
        } else if self.address >= end {
            format!("{} past the end of", Bytes(self.address - end))
        } else {
            format!("{} into", Bytes(self.address - self.base))
        };
        format!("{relation} the {}-byte {what} at {:#x}", self.bytes, self.base)
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.beside(&self.kind.to_string()))
    }
}

/// A thread that touched memory, and where it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accessor {
    /// Block index.
    pub block: [u32; 3],
    /// Thread index.
    pub thread: [u32; 3],
    /// PTX line of the instruction.
    pub ptx_line: u32,
    /// Source line of the instruction.
    pub source: Option<SourceLocation>,
}

impl fmt::Display for Accessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "block ({bx},{by},{bz}), thread ({tx},{ty},{tz}), at ")?;
        match &self.source {
            Some(source) => write!(f, "{source}"),
            None => write!(f, "PTX line {}", self.ptx_line),
        }
    }
}

/// Addresses below this one are null pointers, perhaps with the offset of a field.
pub(crate) const FIRST_PAGE: u64 = 4096;

/// Where a wrong address lies, as the tail of a sentence.
pub(crate) fn place(address: u64, nearest: Option<&Nearest>) -> String {
    match nearest {
        Some(nearest) => nearest.to_string(),
        None if address < FIRST_PAGE => "a null pointer".to_owned(),
        None => "no allocation is near".to_owned(),
    }
}

/// A count of bytes, with its plural.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// What a value without meaning was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To decide where threads go on.
    Branch,
    /// In an address.
    Address,
    /// In an atomic operation.
    Atomic,
    /// A result computed with it was stored.
    Stored,
    /// As a mask of lanes, or the number or count of a barrier.
    Mask,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Branch => "decides a branch",
            Self::Address => "used in an address",
            Self::Atomic => "used in an atomic operation",
            Self::Stored => "used in a computation whose result is stored",
            Self::Mask => "used as a mask or a barrier's operand",
        })
    }
}

/// ` in shared memory`; nothing for global, which is what one expects.
pub(super) struct In(pub(super) Space);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Space::Global | Space::Generic => Ok(()),
            space => write!(f, " of {space} memory"),
        }
    }
}
