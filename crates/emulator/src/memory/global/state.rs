//! The ranges of the map, and the quarantine of freed ones.

use super::errors::FreeError;
use crate::fault::RegionKind;
use crate::memory::pool::{self, Pool};
use crate::memory::validity::Records;
use std::collections::{BTreeMap, VecDeque};

/// The most devices that share a process.
pub const MAX_DEVICES: usize = 16;
/// Freed blocks whose addresses are not handed out again yet: so many of them,
const QUARANTINE_BLOCKS: usize = 4096;
/// holding so much memory in small ones,
const QUARANTINE_SMALL_BYTES: u64 = 64 << 20;
/// and so many addresses in large ones, whose pages are already given back.
const QUARANTINE_LARGE_BYTES: u64 = 4 << 40;

/// A live range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Which device looks, and which ones' memory it reaches: bit by bit.
#[derive(Clone, Copy)]
pub(super) struct Viewer {
    pub(super) own: u32,
    pub(super) reach: u32,
}

/// One range in the map.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) bytes: u64,
    pub(super) kind: RegionKind,
    /// From the pool, rather than registered.
    pub(super) owned: bool,
    /// The device whose memory it takes.
    pub(super) device: u32,
    /// Bit by bit the devices that were given it, beside those that reach all of its device's.
    pub(super) given: u32,
}

impl Region {
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.kind, RegionKind::Freed | RegionKind::FreedHeap)
    }

    /// Whether kernels of this device may touch it.
    pub(super) fn is_visible(&self, to: Viewer) -> bool {
        self.is_live() && (self.given & to.own != 0 || to.reach >> self.device & 1 != 0)
    }
}

#[derive(Default)]
pub(in crate::memory) struct State {
    /// By base. Ranges do not overlap.
    pub(super) regions: BTreeMap<u64, Region>,
    /// By device.
    pub(super) used_bytes: [u64; MAX_DEVICES],
    pool: Pool,
    quarantine: VecDeque<u64>,
    quarantined_small_bytes: u64,
    quarantined_large_bytes: u64,
    /// Which bytes were written, where that is kept.
    pub(in crate::memory) records: Records,
}

impl State {
    pub(super) fn find(&self, address: u64) -> Option<Allocation> {
        let (&base, region) = self.regions.range(..=address).next_back()?;
        let inside = region.is_live() && address - base < region.bytes;
        inside.then_some(Allocation { base, len: region.bytes })
    }

    /// The same, for kernels of a device.
    pub(super) fn find_for(&self, viewer: Viewer, address: u64) -> Option<Allocation> {
        let (&base, region) = self.regions.range(..=address).next_back()?;
        let inside = region.is_visible(viewer) && address - base < region.bytes;
        inside.then_some(Allocation { base, len: region.bytes })
    }

    /// An address range; the quarantine is given up when the system has no other.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        if let Some(base) = self.pool.take(bytes) {
            return Some(base);
        }
        while let Some(base) = self.quarantine.pop_front() {
            self.recycle(base);
        }
        self.pool.take(bytes)
    }

    pub(super) fn quarantine(&mut self, base: u64) {
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

    pub(super) fn why_not_free(&self, address: u64) -> FreeError {
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
