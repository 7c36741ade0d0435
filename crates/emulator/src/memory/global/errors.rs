//! What is refused.

use crate::fault::{Nearest, RegionKind, place};

/// There is not so much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {requested} bytes: {free} of {total} are free")]
pub struct AllocError {
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes free.
    pub free: u64,
    /// Bytes the device has.
    pub total: u64,
}

/// Not an address that can be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// Freed before, and not allocated again.
    #[error("{address:#x} has already been freed")]
    AlreadyFreed {
        /// The address.
        address: u64,
    },
    /// Inside an allocation, behind its first byte.
    #[error("{address:#x} is {} bytes into the allocation at {base:#x}", address - base)]
    Interior {
        /// The address.
        address: u64,
        /// Base of the allocation it lies in.
        base: u64,
    },
    /// Of the other kind: device memory for host memory, or host memory for device memory.
    #[error("{address:#x} is of another kind: {found}")]
    OtherKind {
        /// The address.
        address: u64,
        /// What it is.
        found: RegionKind,
    },
    /// Never allocated here.
    #[error("{address:#x} was not allocated")]
    Unknown {
        /// The address.
        address: u64,
    },
}

/// Host memory cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The range is empty or runs past the address space.
    #[error("{bytes} bytes at {address:#x} are no range of memory")]
    Range {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// Part of it is registered or allocated already.
    #[error("{bytes} bytes at {address:#x} overlap the range at {other:#x}")]
    Overlap {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// Base of the other range.
        other: u64,
    },
}

/// An access by the host outside every live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {address:#x} are out of bounds: {}", place(*address, nearest.as_ref()))]
pub struct OutOfBounds {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// What lies next to it.
    pub nearest: Option<Nearest>,
}
