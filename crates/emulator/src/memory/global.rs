//! The map of live device memory.

use super::pool::{self, Pool};
use super::validity::Records;
use crate::fault::{self, Nearest, RegionKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Freed blocks whose addresses are not handed out again yet: so many of them,
const QUARANTINE_BLOCKS: usize = 4096;
/// holding so much memory in small ones,
const QUARANTINE_SMALL_BYTES: u64 = 64 << 20;
/// and so many addresses in large ones, whose pages are already given back.
const QUARANTINE_LARGE_BYTES: u64 = 4 << 40;
/// The device of pages that belong to none as a whole.
const NOWHERE: u32 = 31;
/// The most devices that share a process.
pub const MAX_DEVICES: usize = 16;
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

/// Which device looks, and which ones' memory it reaches: bit by bit.
#[derive(Clone, Copy)]
struct Viewer {
    own: u32,
    reach: u32,
}

/// One range in the map.
#[derive(Clone, Copy)]
struct Region {
    bytes: u64,
    kind: RegionKind,
    /// From the pool, rather than registered.
    owned: bool,
    /// The device whose memory it takes.
    device: u32,
    /// Bit by bit the devices that were given it, beside those that reach all of its device's.
    given: u32,
}

impl Region {
    fn is_live(&self) -> bool {
        !matches!(self.kind, RegionKind::Freed | RegionKind::FreedHeap)
    }

    /// Whether kernels of this device may touch it.
    fn is_visible(&self, to: Viewer) -> bool {
        self.is_live() && (self.given & to.own != 0 || to.reach >> self.device & 1 != 0)
    }
}

#[derive(Default)]
pub(super) struct State {
    /// By base. Ranges do not overlap.
    regions: BTreeMap<u64, Region>,
    /// By device.
    used_bytes: [u64; MAX_DEVICES],
    pool: Pool,
    quarantine: VecDeque<u64>,
    quarantined_small_bytes: u64,
    quarantined_large_bytes: u64,
    /// Which bytes were written, where that is kept.
    pub(super) records: Records,
}

/// Device memory: allocations at the addresses that host code would use for the same bytes.
///
/// Bytes that were never written hold no defined value. Around each allocation lie at least 256
/// bytes that belong to none, and a freed address is not handed out again for a while; so an
/// access past an end or after a free is found to be out of bounds.
///
/// Several devices have one map: the host sees all of it, and a device's kernels see their own
/// memory, the host's, and that of the peers that were opened to them.
pub struct GlobalMemory {
    map: Arc<Map>,
    device: u32,
    /// Bit by bit the devices whose memory this one's kernels may touch.
    reach: AtomicU32,
    total_bytes: u64,
}

/// What the devices of a process share.
#[derive(Default)]
struct Map {
    state: RwLock<State>,
    /// Counts the ranges that ceased to be live, which makes every cached answer stale.
    generation: AtomicU64,
    /// Who wants to know of ranges that become live.
    births: OnceLock<Box<Births>>,
}

/// Is told the first byte and the length of a range that becomes live.
type Births = dyn Fn(u64, u64) + Send + Sync;

impl GlobalMemory {
    /// Memory of at most `total_bytes`. Nothing is taken from the system until it is needed.
    pub fn new(total_bytes: u64) -> Self {
        Self::on(Arc::default(), 0, total_bytes)
    }

    /// The memories of several devices, at most [`MAX_DEVICES`], each of `total_bytes`.
    pub fn several(total_bytes: u64, devices: usize) -> Vec<Self> {
        let map: Arc<Map> = Arc::default();
        let devices = devices.min(MAX_DEVICES) as u32;
        (0..devices).map(|device| Self::on(map.clone(), device, total_bytes)).collect()
    }

    /// Tells `births` of each range that becomes live, in the memory of all devices; the first who asks is
    /// the only one.
    pub(crate) fn tell_births(&self, births: Box<Births>) {
        let _ = self.map.births.set(births);
    }

    fn born(&self, base: u64, bytes: u64) {
        if let Some(births) = self.map.births.get() {
            births(base, bytes);
        }
    }

    fn viewer(&self) -> Viewer {
        Viewer { own: 1 << self.device, reach: self.reach.load(Ordering::Acquire) }
    }

    /// Lets another device's kernels touch one allocation, or no longer; `address` is its base.
    pub fn give(&self, address: u64, other: &Self, open: bool) {
        if let Some(region) = self.write_state().regions.get_mut(&address) {
            match open {
                true => region.given |= 1 << other.device,
                false => region.given &= !(1 << other.device),
            }
        }
        self.map.generation.fetch_add(1, Ordering::SeqCst);
    }

    fn on(map: Arc<Map>, device: u32, total_bytes: u64) -> Self {
        Self { map, device, reach: AtomicU32::new(1 << device), total_bytes }
    }

    /// Lets this device's kernels touch another one's memory, or no longer.
    pub fn reach(&self, other: &Self, open: bool) {
        match open {
            true => self.reach.fetch_or(1 << other.device, Ordering::SeqCst),
            false => self.reach.fetch_and(!(1 << other.device), Ordering::SeqCst),
        };
        self.map.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Allocates device memory, aligned to 256 bytes.
    ///
    /// # Errors
    /// More than is free was asked for, or nothing.
    pub fn alloc(&self, bytes: u64) -> Result<u64, AllocError> {
        self.allocate(bytes, 0)
    }

    /// Allocates memory of this device that kernels of every device may touch.
    ///
    /// # Errors
    /// More than is free was asked for, or nothing.
    pub fn alloc_shared(&self, bytes: u64) -> Result<u64, AllocError> {
        self.allocate(bytes, u32::MAX)
    }

    fn allocate(&self, bytes: u64, given: u32) -> Result<u64, AllocError> {
        let mut state = self.write_state();
        let error = self.full(&state, bytes);
        if bytes == 0 || charge(bytes) > error.free {
            return Err(error);
        }
        let base = state.take(bytes).ok_or(error)?;
        state.used_bytes[self.device as usize] += charge(bytes);
        let (kind, device) = (RegionKind::Allocation, self.device);
        state.regions.insert(base, Region { bytes, kind, owned: true, device, given });
        // What every device may touch, the host writes without asking.
        if given == 0 {
            state.records.begin(base, bytes);
        }
        drop(state);
        self.born(base, bytes);
        Ok(base)
    }

    fn full(&self, state: &State, requested: u64) -> AllocError {
        let free = self.total_bytes - state.used_bytes[self.device as usize];
        AllocError { requested, free, total: self.total_bytes }
    }

    /// Allocates host memory that the device may touch; it does not count as device memory.
    ///
    /// # Errors
    /// The system has no memory left, or nothing was asked for.
    pub fn alloc_host(&self, bytes: u64) -> Result<u64, AllocError> {
        self.take_uncharged(bytes, RegionKind::Host)
    }

    /// Allocates device memory of the heap that kernels have; it does not count as the host's.
    ///
    /// # Errors
    /// The system has no memory left, or nothing was asked for.
    pub fn alloc_heap(&self, bytes: u64) -> Result<u64, AllocError> {
        self.take_uncharged(bytes, RegionKind::Heap)
    }

    /// Frees an allocation of [`GlobalMemory::alloc_heap`]. Returns its length.
    ///
    /// # Errors
    /// `address` is not the base of a live one.
    pub fn free_heap(&self, address: u64) -> Result<u64, FreeError> {
        let bytes = self.find(address).map_or(0, |found| found.len);
        self.release(address, RegionKind::Heap).map(|()| bytes)
    }

    fn take_uncharged(&self, bytes: u64, kind: RegionKind) -> Result<u64, AllocError> {
        let mut state = self.write_state();
        let error = self.full(&state, bytes);
        let base = if bytes == 0 { None } else { state.take(bytes) }.ok_or(error)?;
        let region = match kind {
            RegionKind::Host => self.host_region(bytes, true),
            _ => Region { bytes, kind, owned: true, device: self.device, given: 0 },
        };
        state.regions.insert(base, region);
        if kind != RegionKind::Host {
            state.records.begin(base, bytes);
        }
        drop(state);
        self.born(base, bytes);
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
        state.regions.insert(address, self.host_region(bytes, false));
        drop(state);
        self.born(address, bytes);
        Ok(())
    }

    fn host_region(&self, bytes: u64, owned: bool) -> Region {
        Region { bytes, kind: RegionKind::Host, owned, device: self.device, given: u32::MAX }
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
        self.map.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The live range that `address` lies in.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        self.read_state().find(address)
    }

    /// Whether all of `bytes` from `address` lie in one live range, or in several without a gap, as
    /// mapped pages may. No bytes lie anywhere.
    ///
    /// # Errors
    /// They do not; the error says what is near.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let (mut at, mut left) = (address, bytes);
        while left > 0 {
            let Some(found) = self.find(at) else {
                return Err(OutOfBounds { address, bytes, nearest: self.nearest(address) });
            };
            let there = found.len - (at - found.base);
            (at, left) = (at + there.min(left), left.saturating_sub(there));
        }
        Ok(())
    }

    /// Makes mapped pages device memory, for no device yet; see [`GlobalMemory::give`].
    pub fn show(&self, address: u64, bytes: u64) {
        let (kind, device) = (RegionKind::Allocation, NOWHERE);
        let region = Region { bytes, kind, owned: false, device, given: 0 };
        self.write_state().regions.insert(address, region);
        self.born(address, bytes);
    }

    /// Makes mapped pages no device memory any more.
    pub fn hide(&self, address: u64) {
        self.write_state().regions.remove(&address);
        self.map.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes what is used of this device.
    pub(super) fn change_used(&self, bytes: u64, more: bool) -> Result<(), AllocError> {
        let mut state = self.write_state();
        let error = self.full(&state, bytes);
        let used = &mut state.used_bytes[self.device as usize];
        match more {
            true if bytes > error.free => return Err(error),
            true => *used += bytes,
            false => *used = used.saturating_sub(bytes),
        }
        Ok(())
    }

    /// The range next to an address, live or freed, for a message. `None` when none is near.
    pub fn nearest(&self, address: u64) -> Option<Nearest> {
        let state = self.read_state();
        let viewer = self.viewer();
        let before = state.regions.range(..=address).next_back();
        let after = state.regions.range(address..).next();
        let nearest = |(&base, region): (&u64, &Region)| {
            let distance = match address.checked_sub(base) {
                Some(offset) => offset.saturating_sub(region.bytes),
                None => base - address,
            };
            let kind = match region.is_live() && !region.is_visible(viewer) {
                true => RegionKind::Peer,
                false => region.kind,
            };
            (distance, Nearest { base, bytes: region.bytes, kind, address })
        };
        let near =
            before.into_iter().chain(after).map(nearest).min_by_key(|(distance, _)| *distance);
        near.filter(|(distance, _)| *distance < NEAR_BYTES).map(|(_, nearest)| nearest)
    }

    /// Free and total bytes.
    pub fn info(&self) -> (u64, u64) {
        (self.full(&self.read_state(), 0).free, self.total_bytes)
    }

    /// Changes whenever a range ceases to be live.
    pub(crate) fn generation(&self) -> u64 {
        self.map.generation.load(Ordering::Acquire)
    }

    /// A cache of look-ups for one thread.
    pub fn cursor(&self) -> Cursor<'_> {
        let generation = &self.map.generation;
        Cursor { memory: self, live: generation, generation: 0, spans: [(0, 0); WAYS], oldest: 0 }
    }

    fn release(&self, address: u64, kind: RegionKind) -> Result<(), FreeError> {
        let mut state = self.write_state();
        match state.regions.get_mut(&address) {
            Some(region) if region.owned && region.kind == kind => region.kind = kind.freed(),
            _ => return Err(state.why_not_free(address)),
        }
        if kind == RegionKind::Allocation {
            let Region { bytes, device, .. } = state.regions[&address];
            state.used_bytes[device as usize] -= charge(bytes);
        }
        state.quarantine(address);
        state.records.end(address);
        self.map.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The map is right between any two statements of this module, so a panic elsewhere in a
    /// thread that held the lock does no harm.
    pub(super) fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.map.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.map.state.write().unwrap_or_else(PoisonError::into_inner)
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

    /// The same, for kernels of a device.
    fn find_for(&self, viewer: Viewer, address: u64) -> Option<Allocation> {
        let (&base, region) = self.regions.range(..=address).next_back()?;
        let inside = region.is_visible(viewer) && address - base < region.bytes;
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
                RegionKind::Freed | RegionKind::FreedHeap => FreeError::AlreadyFreed { address },
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
    live: &'m AtomicU64,
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
        if self.live.load(Ordering::Acquire) == self.generation {
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
        let generation = self.live.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.spans = [(0, 0); WAYS];
        }
        let found = state.find_for(self.memory.viewer(), address)?;
        self.spans[self.oldest] = (found.base, found.len);
        self.oldest = (self.oldest + 1) % WAYS;
        Some((found.base, found.base + found.len))
    }
}
