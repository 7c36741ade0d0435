//! Device memory: allocations, and the copies and fills of the host.

use super::super::pool;
use super::errors::{AllocError, FreeError, OutOfBounds, RegisterError};
use super::state::{Allocation, MAX_DEVICES, Region, State, Viewer};
use crate::fault::{FIRST_PAGE, Nearest, RegionKind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The device of pages that belong to none as a whole.
const NOWHERE: u32 = 31;
/// A region further away than this says nothing about a wrong address.
const NEAR_BYTES: u64 = 1 << 32;

/// Device memory: allocations at the addresses that host code would use for the same bytes.
///
/// Bytes that were never written hold no defined value. Around each allocation lie at least 256
/// bytes that belong to none, and a freed address is not handed out again for a while; so an
/// access past an end or after a free is found to be out of bounds.
///
/// Several devices have one map: the host sees all of it, and a device's kernels see their own
/// memory, the host's, and that of the peers that were opened to them.
pub struct GlobalMemory {
    pub(super) map: Arc<Map>,
    pub(super) device: u32,
    /// Bit by bit the devices whose memory this one's kernels may touch.
    pub(super) reach: AtomicU32,
    pub(super) total_bytes: u64,
}

/// What the devices of a process share.
#[derive(Default)]
pub(super) struct Map {
    pub(super) state: RwLock<State>,
    /// Counts the ranges that ceased to be live, which makes every cached answer stale.
    pub(super) generation: AtomicU64,
    /// Who wants to know of ranges that become live.
    pub(super) births: OnceLock<Box<Births>>,
}

/// Is told the first byte and the length of a range that becomes live.
pub(super) type Births = dyn Fn(u64, u64) + Send + Sync;

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

    /// Tells `births` of each range that becomes live, in the memory of all devices; the first who
    /// asks is the only one.
    pub(crate) fn tell_births(&self, births: Box<Births>) {
        let _ = self.map.births.set(births);
    }

    fn born(&self, base: u64, bytes: u64) {
        if let Some(births) = self.map.births.get() {
            births(base, bytes);
        }
    }

    pub(super) fn viewer(&self) -> Viewer {
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
    pub(in crate::memory) fn change_used(&self, bytes: u64, more: bool) -> Result<(), AllocError> {
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

    /// The range next to an address, live or freed, for a message. `None` when none is near, and for a null pointer:
    /// some systems have allocations not far from it.
    pub fn nearest(&self, address: u64) -> Option<Nearest> {
        if address < FIRST_PAGE {
            return None;
        }
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

    /// The live range around an address that only this device's kernels and the host's copies and
    /// fills can change: its first byte, and the one behind its last. `None` for memory that the
    /// host writes by itself, as it does managed memory, and for what other devices' kernels were
    /// given.
    pub(crate) fn own_span(&self, address: u64) -> Option<(u64, u64)> {
        let state = self.read_state();
        let (&base, region) = state.regions.range(..=address).next_back()?;
        let kinds = [RegionKind::Allocation, RegionKind::Heap, RegionKind::Const];
        let is_own =
            kinds.contains(&region.kind) && region.given == 0 && region.device == self.device;
        (is_own && address - base < region.bytes).then_some((base, base + region.bytes))
    }

    /// Free and total bytes.
    pub fn info(&self) -> (u64, u64) {
        (self.full(&self.read_state(), 0).free, self.total_bytes)
    }

    /// Changes whenever a range ceases to be live.
    pub(crate) fn generation(&self) -> u64 {
        self.map.generation.load(Ordering::Acquire)
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
    pub(in crate::memory) fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.map.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::memory) fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.map.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an allocation takes of the total: a multiple of the alignment.
fn charge(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(pool::RED_ZONE).unwrap_or(u64::MAX)
}
