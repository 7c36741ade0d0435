//! The heap that `malloc` and `free` of kernels work on.

use crate::memory::{FreeError, GlobalMemory};
use std::sync::atomic::{AtomicU64, Ordering};

/// The default limit of a device.
const DEFAULT_BYTES: u64 = 8 << 20;
/// What an allocation takes is a multiple of this.
const UNIT: u64 = 16;

/// How much of the device's heap may be taken, and is.
pub struct Heap {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Default for Heap {
    fn default() -> Self {
        Self { limit: AtomicU64::new(DEFAULT_BYTES), used: AtomicU64::new(0) }
    }
}

impl Heap {
    /// Bytes that all allocations together may take.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets that limit. What is allocated stays.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that live allocations take.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Allocates memory that lives until it is freed, in this kernel or a later one. 0 where the
    /// heap is spent.
    pub fn malloc(&self, memory: &GlobalMemory, bytes: u64) -> u64 {
        let Some(charge) = charge(bytes) else { return 0 };
        let limit = self.limit();
        let grown = |used: u64| used.checked_add(charge).filter(|used| *used <= limit);
        if self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            return 0;
        }
        memory.alloc_heap(bytes.max(1)).unwrap_or_else(|_| {
            self.used.fetch_sub(charge, Ordering::Relaxed);
            0
        })
    }

    /// Frees what [`Heap::malloc`] returned. Null is left alone.
    ///
    /// # Errors
    /// The address is not one of a live allocation of the heap.
    pub fn free(&self, memory: &GlobalMemory, address: u64) -> Result<(), FreeError> {
        if address == 0 {
            return Ok(());
        }
        let bytes = memory.free_heap(address)?;
        self.used.fetch_sub(charge(bytes).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }
}

fn charge(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_until_something_is_freed() {
        let (heap, memory) = (Heap::default(), GlobalMemory::new(1 << 20));
        heap.set_limit(64);
        let (first, second) = (heap.malloc(&memory, 33), heap.malloc(&memory, 16));
        assert!(first != 0 && second != 0);
        assert_eq!(heap.used(), 64);
        assert_eq!(heap.malloc(&memory, 1), 0);
        heap.free(&memory, first).unwrap();
        assert_eq!(heap.used(), 16);
        assert_ne!(heap.malloc(&memory, 48), 0);
        assert_eq!(heap.malloc(&memory, u64::MAX), 0);
    }

    #[test]
    fn only_live_allocations_of_the_heap_can_be_freed() {
        let (heap, memory) = (Heap::default(), GlobalMemory::new(1 << 20));
        let other = memory.alloc(16).unwrap();
        let own = heap.malloc(&memory, 16);
        assert!(heap.free(&memory, 0).is_ok());
        assert!(matches!(heap.free(&memory, other), Err(FreeError::OtherKind { .. })));
        assert!(matches!(heap.free(&memory, own + 4), Err(FreeError::Interior { .. })));
        assert!(matches!(memory.free(own), Err(FreeError::OtherKind { .. })));
        heap.free(&memory, own).unwrap();
        assert!(matches!(heap.free(&memory, own), Err(FreeError::AlreadyFreed { .. })));
    }
}
