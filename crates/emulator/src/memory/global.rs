//! The map of live device memory.

use super::pool::{self, Pool};
use crate::fault::{self, Nearest, RegionKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Freed blocks whose addresses are not handed out again yet: so many of them,
const QUARANTINE_BLOCKS: usize = 4096;
/// holding so much memory in small ones,
const QUARANTINE_SMALL_BYTES: u64 = 64 << 20;
/// and so many addresses in large ones, whose pages are already given back.
const QUARANTINE_LARGE_BYTES: u64 = 4 << 40;
/// A region further away than this says nothing about a wrong address.
const NEAR_BYTES: u64 = 1 << 32;

/// A live range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

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
#[error("{bytes} bytes at {address:#x} are out of bounds: {}", fault::place(*address, nearest.as_ref()))]
pub struct OutOfBounds {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// What lies next to it.
    pub nearest: Option<Nearest>,
}

/// One range in the map.
#[derive(Clone, Copy)]
struct Region {
    bytes: u64,
    kind: RegionKind,
    /// From the pool, rather than registered.
    owned: bool,
}

impl Region {
    fn is_live(&self) -> bool {
        self.kind != RegionKind::Freed
    }
}

#[derive(Default)]
struct State {
    /// By base. Ranges do not overlap.
    regions: BTreeMap<u64, Region>,
    used_bytes: u64,
    pool: Pool,
    quarantine: VecDeque<u64>,
    quarantined_small_bytes: u64,
    quarantined_large_bytes: u64,
}

/// Device memory: allocations at the addresses that host code would use for the same bytes.
///
/// Bytes that were never written hold no defined value. Around each allocation lie at least 256
/// bytes that belong to none, and a freed address is not handed out again for a while; so an
/// access past an end or after a free is found to be out of bounds.
pub struct GlobalMemory {
    state: RwLock<State>,
    /// Counts the ranges that ceased to be live, which makes every cached answer stale.
    generation: AtomicU64,
    total_bytes: u64,
}

impl GlobalMemory {
    /// Memory of at most `total_bytes`. Nothing is taken from the system until it is needed.
    pub fn new(total_bytes: u64) -> Self {
        Self { state: RwLock::default(), generation: AtomicU64::new(0), total_bytes }
    }

    /// Allocates device memory, aligned to 256 bytes.
    ///
    /// # Errors
    /// More than is free was asked for, or nothing.
    pub fn alloc(&self, bytes: u64) -> Result<u64, AllocError> {
        let mut state = self.write_state();
        let free = self.total_bytes - state.used_bytes;
        let error = AllocError { requested: bytes, free, total: self.total_bytes };
        if bytes == 0 || charge(bytes) > free {
            return Err(error);
        }
        let base = state.take(bytes).ok_or(error)?;
        state.used_bytes += charge(bytes);
        state.regions.insert(base, Region { bytes, kind: RegionKind::Allocation, owned: true });
        Ok(base)
    }

    /// Allocates host memory that the device may touch; it does not count as device memory.
    ///
    /// # Errors
    /// The system has no memory left, or nothing was asked for.
    pub fn alloc_host(&self, bytes: u64) -> Result<u64, AllocError> {
        let mut state = self.write_state();
        let (free, total) = (self.total_bytes - state.used_bytes, self.total_bytes);
        let error = AllocError { requested: bytes, free, total };
        let base = if bytes == 0 { None } else { state.take(bytes) }.ok_or(error)?;
        state.regions.insert(base, Region { bytes, kind: RegionKind::Host, owned: true });
        Ok(base)
    }

    /// Frees an allocation of [`GlobalMemory::alloc`].
    ///
    /// # Errors
    /// `address` is not the base of a live one.
    pub fn free(&self, address: u64) -> Result<(), FreeError> {
        self.release(address, RegionKind::Allocation)
    }

    /// Frees an allocation of [`GlobalMemory::alloc_host`].
    ///
    /// # Errors
    /// `address` is not the base of a live one.
    pub fn free_host(&self, address: u64) -> Result<(), FreeError> {
        self.release(address, RegionKind::Host)
    }

    /// Lets kernels touch existing host memory.
    ///
    /// # Errors
    /// The range is empty, or overlaps a known one.
    ///
    /// # Safety
    /// Until [`GlobalMemory::unregister`] returns and every kernel that may use the range has
    /// ended, the bytes stay mapped for reading and writing, and the host reaches them by atomic or
    /// volatile accesses, or at times when no kernel and no copy uses them.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), RegisterError> {
        let range = RegisterError::Range { address, bytes };
        let end = address.checked_add(bytes).ok_or(range)?;
        if bytes == 0 || address == 0 {
            return Err(range);
        }
        let mut state = self.write_state();
        if let Some((&other, region)) = state.regions.range(..end).next_back()
            && other + region.bytes > address
        {
            return Err(RegisterError::Overlap { address, bytes, other });
        }
        state.regions.insert(address, Region { bytes, kind: RegionKind::Host, owned: false });
        Ok(())
    }

    /// Ends [`GlobalMemory::register`]; `address` is the one that was registered.
    ///
    /// # Errors
    /// `address` is not the base of a registered range.
    pub fn unregister(&self, address: u64) -> Result<(), FreeError> {
        let mut state = self.write_state();
        match state.regions.get(&address) {
            Some(Region { owned: false, .. }) => state.regions.remove(&address),
            _ => return Err(state.why_not_free(address)),
        };
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The live range that `address` lies in.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        self.read_state().find(address)
    }

    /// Whether all of `bytes` from `address` lie in one live range. No bytes lie anywhere.
    ///
    /// # Errors
    /// They do not; the error says what is near.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), OutOfBounds> {
        if bytes == 0 {
            return Ok(());
        }
        match self.find(address) {
            Some(found) if bytes <= found.len - (address - found.base) => Ok(()),
            _ => Err(OutOfBounds { address, bytes, nearest: self.nearest(address) }),
        }
    }

    /// The range next to an address, live or freed, for a message. `None` when none is near.
    pub fn nearest(&self, address: u64) -> Option<Nearest> {
        let state = self.read_state();
        let before = state.regions.range(..=address).next_back();
        let after = state.regions.range(address..).next();
        let nearest = |(&base, region): (&u64, &Region)| {
            let distance = match address.checked_sub(base) {
                Some(offset) => offset.saturating_sub(region.bytes),
                None => base - address,
            };
            (distance, Nearest { base, bytes: region.bytes, kind: region.kind, address })
        };
        let near =
            before.into_iter().chain(after).map(nearest).min_by_key(|(distance, _)| *distance);
        near.filter(|(distance, _)| *distance < NEAR_BYTES).map(|(_, nearest)| nearest)
    }

    /// Free and total bytes.
    pub fn info(&self) -> (u64, u64) {
        (self.total_bytes - self.read_state().used_bytes, self.total_bytes)
    }

    /// A cache of look-ups for one thread.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { memory: self, generation: 0, spans: [(0, 0); WAYS], oldest: 0 }
    }

    fn release(&self, address: u64, kind: RegionKind) -> Result<(), FreeError> {
        let mut state = self.write_state();
        match state.regions.get_mut(&address) {
            Some(region) if region.owned && region.kind == kind => region.kind = RegionKind::Freed,
            _ => return Err(state.why_not_free(address)),
        }
        if kind == RegionKind::Allocation {
            state.used_bytes -= charge(state.regions[&address].bytes);
        }
        state.quarantine(address);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The map is right between any two statements of this module, so a panic elsewhere in a
    /// thread that held the lock does no harm.
    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an allocation takes of the total: a multiple of the alignment.
fn charge(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(pool::RED_ZONE).unwrap_or(u64::MAX)
}

impl State {
    fn find(&self, address: u64) -> Option<Allocation> {
        let (&base, region) = self.regions.range(..=address).next_back()?;
        let inside = region.is_live() && address - base < region.bytes;
        inside.then_some(Allocation { base, len: region.bytes })
    }

    /// An address range; the quarantine is given up when the system has no other.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        if let Some(base) = self.pool.take(bytes) {
            return Some(base);
        }
        while let Some(base) = self.quarantine.pop_front() {
            self.recycle(base);
        }
        self.pool.take(bytes)
    }

    fn quarantine(&mut self, base: u64) {
        *self.quarantined_bytes(base) += self.regions[&base].bytes;
        self.quarantine.push_back(base);
        self.pool.discard(base);
        while self.quarantine.len() > QUARANTINE_BLOCKS
            || self.quarantined_small_bytes > QUARANTINE_SMALL_BYTES
            || self.quarantined_large_bytes > QUARANTINE_LARGE_BYTES
        {
            let Some(oldest) = self.quarantine.pop_front() else {
                break;
            };
            self.recycle(oldest);
        }
    }

    /// Forgets a freed range and lets its address be handed out again.
    fn recycle(&mut self, base: u64) {
        let bytes = self.regions[&base].bytes;
        *self.quarantined_bytes(base) -= bytes;
        self.regions.remove(&base);
        self.pool.give(base, bytes);
    }

    fn quarantined_bytes(&mut self, base: u64) -> &mut u64 {
        if pool::is_large(self.regions[&base].bytes) {
            &mut self.quarantined_large_bytes
        } else {
            &mut self.quarantined_small_bytes
        }
    }

    fn why_not_free(&self, address: u64) -> FreeError {
        match self.regions.range(..=address).next_back() {
            Some((&base, region)) if address - base < region.bytes => match region.kind {
                RegionKind::Freed => FreeError::AlreadyFreed { address },
                _ if address != base => FreeError::Interior { address, base },
                found => FreeError::OtherKind { address, found },
            },
            _ => FreeError::Unknown { address },
        }
    }
}

/// Ranges that a [`Cursor`] remembers: as many as a kernel commonly streams at once.
const WAYS: usize = 4;

/// Remembers the ranges a thread last touched, so that a look-up is a few compares.
///
/// A range that is freed is forgotten at the next look-up.
pub struct Cursor<'m> {
    memory: &'m GlobalMemory,
    generation: u64,
    /// First byte and length; length 0 for none.
    spans: [(u64, u64); WAYS],
    oldest: usize,
}

impl Cursor<'_> {
    /// First byte of the live range that `address` lies in, and the byte after its last.
    ///
    /// A warp whose lowest and highest addresses lie in the span needs no further check.
    #[inline]
    pub fn span(&mut self, address: u64) -> Option<(u64, u64)> {
        if self.memory.generation.load(Ordering::Acquire) == self.generation {
            for (base, bytes) in self.spans {
                if address.wrapping_sub(base) < bytes {
                    return Some((base, base + bytes));
                }
            }
        }
        self.look_up(address)
    }

    /// The memory that this looks into.
    pub fn memory(&self) -> &GlobalMemory {
        self.memory
    }

    #[cold]
    fn look_up(&mut self, address: u64) -> Option<(u64, u64)> {
        let state = self.memory.read_state();
        let generation = self.memory.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.spans = [(0, 0); WAYS];
        }
        let found = state.find(address)?;
        self.spans[self.oldest] = (found.base, found.len);
        self.oldest = (self.oldest + 1) % WAYS;
        Some((found.base, found.base + found.len))
    }
}
