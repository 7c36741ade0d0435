//! Look-ups that remember.

use super::GlobalMemory;
use std::sync::atomic::{AtomicU64, Ordering};

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

impl GlobalMemory {
    /// A cache of look-ups for one thread.
    pub fn cursor(&self) -> Cursor<'_> {
        let generation = &self.map.generation;
        Cursor { memory: self, live: generation, generation: 0, spans: [(0, 0); WAYS], oldest: 0 }
    }
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

    /// The range that `address` lies in, if it is cached: no look-up is made.
    #[inline]
    pub fn remembered(&self, address: u64) -> Option<(u64, u64)> {
        let is_live = self.live.load(Ordering::Acquire) == self.generation;
        let own = self.spans.iter().find(|(base, bytes)| address.wrapping_sub(*base) < *bytes);
        own.filter(|_| is_live).map(|(base, bytes)| (*base, base + bytes))
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
